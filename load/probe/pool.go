// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/lastcall-dev/lastcall/load"
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
	drop   fate = iota // it is closed
	keep               // it goes back to the pool
	unsent             // it was gone before a byte of the request was written
)

// conn carries one request at a time.
type conn interface {
	// try makes the attempt over this connection, its nth request, and
	// fills in its sample.
	try(ctx context.Context, a *attempt, nth int) fate
	// state looks at an idle connection, without waiting.
	state() state
	close()
}

// link is a connection of a stream.
type link struct {
	conn
	num   uint64 // counts the stream's connections from 1
	nth   int    // requests so far
	local string
	since time.Time // idle since
}

// dial opens a connection of the stream's protocol.
func (s *stream) dial(ctx context.Context) (*link, error) {
	w, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	l := &link{num: s.opened.Add(1), local: w.LocalAddr().String()}
	if s.Profile.Protocol == load.H2C {
		l.conn = newH2(w)
	} else {
		l.conn = newH1(s.ctx, w)
	}
	return l, nil
}

// pool holds the idle connections of a stream, used in turn.
type pool struct {
	least int // while fewer are open, the next attempt opens one
	quit  chan struct{}
	swept chan struct{}

	mu   sync.Mutex
	idle []*link // the longest idle first
	open int     // idle, in use, or being dialled
}

// newPool begins a pool. It is filled so far only that each connection is
// used every two seconds or more often.
func newPool(rate float64) *pool {
	p := &pool{
		least: int(min(maxLeast, math.Ceil(2*rate))),
		quit:  make(chan struct{}),
		swept: make(chan struct{}),
	}
	go p.sweep()
	return p
}

// take returns the connection that has been idle longest, or nil: then the
// caller opens one, and ends it by put or lost.
func (p *pool) take() *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open >= p.least {
		for range len(p.idle) {
			l := p.idle[0]
			p.idle = p.idle[1:]
			switch l.state() {
			case fresh:
				return l
			case unread:
				// Its own reader has not seen yet what may be a GOAWAY.
				p.idle = append(p.idle, l)
			case stale:
				l.close()
				p.open--
			}
		}
	}
	p.open++
	return nil
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

// sweep closes idle connections that are over, so that the peer hears of it.
func (p *pool) sweep() {
	defer close(p.swept)
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.quit:
			return
		case now := <-tick.C:
			p.mu.Lock()
			p.idle = slices.DeleteFunc(p.idle, func(l *link) bool {
				over := l.state() == stale || now.Sub(l.since) > maxIdle
				if over {
					l.close()
					p.open--
				}
				return over
			})
			p.mu.Unlock()
		}
	}
}

// close ends the pool when nothing is in use any more.
func (p *pool) close() {
	close(p.quit)
	<-p.swept
	for _, l := range p.idle {
		l.close()
	}
}
