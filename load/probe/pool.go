// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"math"
	"slices"
	"sync"
	"time"
)

// The clockwork of keepers: what has been idle for maxIdle is closed, as a decent
// client does, and connections that the peer has ended are looked for every
// sweepEvery (and once more before each use).
const (
	maxIdle    = 10 * time.Second
	sweepEvery = 250 * time.Millisecond
)

// maxLeast is the size to which a pool is filled, if the rate allows. Behind a
// Service of three pods, 16 connections leave one of them without any in
// 3·(2/3)^16 = 0.5% of all runs.
const maxLeast = 16

// fate is what becomes of a connection after an attempt.
type fate int

const (
	drop    fate = iota // it is closed
	keep                // it is kept, or held
	closing             // the peer has said that it closes
	unsent              // it was gone before a byte of the request was written
)

// keeper keeps a stream's connections for more requests.
type keeper interface {
	// take gives a connection for one more request. After nil the caller opens
	// one, and adds it.
	take() *link
	// add takes in a connection that its caller has opened and uses; nil: it
	// could not be opened.
	add(l *link)
	// put says what a request that a connection was taken or added for has made
	// of it.
	put(l *link, f fate)
	// close closes what is kept, when nothing is in use any more.
	close()
}

// sweeper looks after connections that nobody uses.
type sweeper struct{ quit, swept chan struct{} }

// sweep begins to look, every sweepEvery.
func sweep(look func(now time.Time)) sweeper {
	w := sweeper{quit: make(chan struct{}), swept: make(chan struct{})}
	go func() {
		defer close(w.swept)
		tick := time.NewTicker(sweepEvery)
		defer tick.Stop()
		for {
			select {
			case <-w.quit:
				return
			case now := <-tick.C:
				look(now)
			}
		}
	}()
	return w
}

// stop returns when it looks no more. The zero value never does.
func (w sweeper) stop() {
	if w.quit != nil {
		close(w.quit)
		<-w.swept
	}
}

// pool is the keeper of connections that carry one request at a time. They are
// used in turn.
type pool struct {
	least int // while fewer are open, the next attempt opens one
	// leave takes a connection that is over, and end one that is not.
	leave func(l *link, f fate)
	end   func(l *link, why string)
	sweeper

	mu   sync.Mutex
	idle []*link // the longest idle first
	open int     // idle, in use, or being dialled
}

var _ keeper = (*pool)(nil)

// newPool begins a pool. It is filled so far only that each connection is
// used every two seconds or more often.
func newPool(rate float64, leave func(*link, fate), end func(l *link, why string)) *pool {
	p := &pool{least: int(min(maxLeast, math.Ceil(2*rate))), leave: leave, end: end}
	p.sweeper = sweep(p.look)
	return p
}

// take gives the connection that has been idle longest.
func (p *pool) take() *link {
	l, over := p.choose()
	for _, l := range over {
		p.leave(l, unsent)
	}
	return l
}

// choose is take, and returns what is no longer in the pool: it is over.
func (p *pool) choose() (l *link, over []*link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open >= p.least {
		for range len(p.idle) {
			l := p.idle[0]
			p.idle = p.idle[1:]
			switch l.state() {
			case fresh:
				return l, over
			case unread:
				// Its own reader has not seen yet what may be a GOAWAY.
				p.idle = append(p.idle, l)
			case stale:
				over = append(over, l)
				p.open--
			}
		}
	}
	p.open++
	return nil, over
}

func (p *pool) add(l *link) {
	if l == nil {
		p.lost()
	}
}

func (p *pool) put(l *link, f fate) {
	if f != keep {
		p.lost()
		p.leave(l, f)
		return
	}
	l.since = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, l)
}

// lost says that a connection is no more, or never was.
func (p *pool) lost() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
}

// look takes out what is over, or has been idle for too long, so that the peer
// hears of it.
func (p *pool) look(now time.Time) {
	var over, old []*link
	p.mu.Lock()
	p.idle = slices.DeleteFunc(p.idle, func(l *link) bool {
		switch {
		case l.state() == stale:
			over = append(over, l)
		case now.Sub(l.since) > maxIdle:
			old = append(old, l)
		default:
			return false
		}
		p.open--
		return true
	})
	p.mu.Unlock()
	for _, l := range over {
		p.leave(l, unsent)
	}
	for _, l := range old {
		p.end(l, whyIdle)
	}
}

func (p *pool) close() {
	p.stop()
	for _, l := range p.idle {
		p.end(l, whyStop)
	}
}
