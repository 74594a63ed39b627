// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"math"
	"slices"
	"sync"
	"time"
)

// The pool's clockwork: what has been idle for maxIdle is closed, as a decent
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
	keep                // it goes back to the pool, or is held
	closing             // the peer has said that it closes
	unsent              // it was gone before a byte of the request was written
)

// pool holds the idle connections of a stream, used in turn.
type pool struct {
	least int // while fewer are open, the next attempt opens one
	// part takes a connection that is over, and end one that is not.
	part  func(*link)
	end   func(l *link, why string)
	quit  chan struct{}
	swept chan struct{}

	mu   sync.Mutex
	idle []*link // the longest idle first
	open int     // idle, in use, or being dialled
}

// newPool begins a pool. It is filled so far only that each connection is
// used every two seconds or more often.
func newPool(rate float64, part func(*link), end func(l *link, why string)) *pool {
	p := &pool{
		least: int(min(maxLeast, math.Ceil(2*rate))),
		part:  part,
		end:   end,
		quit:  make(chan struct{}),
		swept: make(chan struct{}),
	}
	go p.sweep()
	return p
}

// take returns the connection that has been idle longest, or nil: then the
// caller opens one, and ends it by put or lost.
func (p *pool) take() *link {
	l, over := p.choose()
	for _, l := range over {
		p.part(l)
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

// put gives a connection back after a whole reply.
func (p *pool) put(l *link) {
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

// sweep takes out idle connections that are over, so that the peer hears of it.
func (p *pool) sweep() {
	defer close(p.swept)
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.quit:
			return
		case now := <-tick.C:
			p.look(now)
		}
	}
}

// look takes out what is over, or has been idle for too long.
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
		p.part(l)
	}
	for _, l := range old {
		p.end(l, whyIdle)
	}
}

// close ends the pool when nothing is in use any more.
func (p *pool) close() {
	close(p.quit)
	<-p.swept
	for _, l := range p.idle {
		p.end(l, whyStop)
	}
}
