// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"math"
	"time"
)

// maxLeast is the size to which a pool is filled, if the rate allows. Behind a
// Service of three pods, 16 connections leave one of them without any in
// 3·(2/3)^16 = 0.5% of all runs.
const maxLeast = 16

// pool is the keeper of connections that carry one request at a time. They are
// used in turn.
type pool struct {
	stock     // its links are idle, the longest first
	least int // while fewer are open, the next attempt opens one

	// Once it was full only every other attempt does: a server that ends each new
	// connection with its first answer would have it open new ones for ever, and use
	// none of those that it has.
	filled, opened bool
}

var _ keeper = (*pool)(nil)

// newPool begins a pool. It is filled so far only that each connection is
// used every 1.25 s or more often: servers that close idle ones after 2 s are many, and a
// request that meets such a close is a loss that nobody's end has made.
func newPool(rate float64, leave func(*link, fate), end func(l *link, why string)) *pool {
	p := &pool{stock: stock{leave: leave, end: end}, least: int(min(maxLeast, math.Ceil(1.25*rate)))}
	p.sweep()
	return p
}

// take gives the connection that has been idle longest.
func (p *pool) take() *link {
	l, over := p.choose()
	p.part(over)
	return l
}

// choose is take, and returns what is no longer in the pool: it is over.
func (p *pool) choose() (l *link, over []*link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open >= p.least || p.filled && p.opened {
		p.opened = false
		for range len(p.links) {
			l := p.links[0]
			p.links = p.links[1:]
			switch l.state() {
			case fresh:
				return l, over
			case unread:
				// Its own reader has not seen yet what may be a GOAWAY.
				p.links = append(p.links, l)
			case stale:
				over = append(over, l)
				p.open--
			}
		}
	}
	p.open++
	p.opened, p.filled = true, p.filled || p.open >= p.least
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
	p.links = append(p.links, l)
}
