// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"slices"
	"time"
)

// sharedConns is how many connections carry all requests of a stream that shares
// them, while both are well. A gRPC channel and a browser have one: with a second
// one a peer that ends one of them can be told from a peer that ends all.
const sharedConns = 2

// shared is the keeper of connections that carry many requests at once. Nobody
// waits for a connection that another request is opening: while there is none, each
// opens its own, and what is too many has nothing to do and goes.
type shared struct {
	stock     // its links are the oldest first, and may be in use
	short int // requests that came while one was missing
	next  int // which of the oldest is used next
}

var _ keeper = (*shared)(nil)

func newShared(leave func(*link, fate), end func(l *link, why string)) *shared {
	p := &shared{stock: stock{leave: leave, end: end}}
	p.sweep()
	return p
}

// take gives one of the oldest connections, in turn. Where one of them is missing,
// every other request opens it, and the rest goes on over what is there.
func (p *shared) take() *link {
	l, over := p.choose()
	p.part(over)
	return l
}

// choose is take, and returns what is over and not in use.
func (p *shared) choose() (l *link, over []*link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	over = p.sort()
	if p.open < sharedConns {
		p.short++
	}
	if p.open >= sharedConns || p.short%2 == 0 {
		l = p.pick()
	}
	if l == nil {
		p.open++
		return nil, over
	}
	l.uses++
	return l, over
}

// pick is the next of the oldest connections that has room for a stream, or else any
// that has.
func (p *shared) pick() *link {
	n := min(sharedConns, len(p.links))
	p.next++
	for i := range p.links {
		if i < n {
			i = (p.next + i) % n
		}
		if p.links[i].reserve() {
			return p.links[i]
		}
	}
	return nil
}

func (p *shared) add(l *link) {
	if l == nil {
		p.lost()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l.uses = 1
	l.reserve()
	p.links = append(p.links, l)
}

func (p *shared) put(l *link, f fate) {
	if p.last(l, f) {
		if f == keep {
			f = unsent
		}
		p.leave(l, f)
	}
}

// last notes the end of a request, and says whether it was the last one of a
// connection that takes no more.
func (p *shared) last(l *link, f fate) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.uses--
	l.since = time.Now()
	i := slices.Index(p.links, l)
	if i >= 0 && f != keep {
		p.links = slices.Delete(p.links, i, i+1)
		p.open--
		i = -1
	}
	return i < 0 && l.uses == 0
}
