// SPDX-License-Identifier: Apache-2.0

package probe

import (
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

// stock are the connections that a keeper has, and what becomes of those that nobody
// uses.
type stock struct {
	// leave takes a connection that is over, and end one that is not.
	leave func(l *link, f fate)
	end   func(l *link, why string)

	quit, swept chan struct{} // of sweep; nil: it was not begun

	mu    sync.Mutex
	links []*link // that can take a request
	open  int     // these, and what is being dialled; of a pool, what is in use too
}

// sweep begins to look, every sweepEvery.
func (s *stock) sweep() {
	s.quit, s.swept = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(s.swept)
		tick := time.NewTicker(sweepEvery)
		defer tick.Stop()
		for {
			select {
			case <-s.quit:
				return
			case now := <-tick.C:
				s.look(now)
			}
		}
	}()
}

// look takes out what is over, or has been idle for too long, so that the peer
// hears of it.
func (s *stock) look(now time.Time) {
	s.mu.Lock()
	over := s.sort()
	old := s.remove(func(l *link) bool { return l.uses == 0 && now.Sub(l.since) > maxIdle })
	s.mu.Unlock()
	s.part(over)
	for _, l := range old {
		s.end(l, whyIdle)
	}
}

// sort takes out what is over, and returns what of it is not in use: of the rest its
// last request takes care. What has come and is not read yet has a reader. mu is held.
func (s *stock) sort() []*link {
	over := s.remove(func(l *link) bool { return l.state() == stale })
	return slices.DeleteFunc(over, func(l *link) bool { return l.uses > 0 })
}

// remove takes out the connections of a kind. mu is held.
func (s *stock) remove(of func(*link) bool) (out []*link) {
	s.links = slices.DeleteFunc(s.links, func(l *link) bool {
		if !of(l) {
			return false
		}
		out = append(out, l)
		s.open--
		return true
	})
	return out
}

// part leaves connections that can carry nothing more.
func (s *stock) part(over []*link) {
	for _, l := range over {
		s.leave(l, unsent)
	}
}

// lost says that a connection is no more, or never was.
func (s *stock) lost() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
}

// close implements keeper.
func (s *stock) close() {
	if s.quit != nil {
		close(s.quit)
		<-s.swept
	}
	for _, l := range s.links {
		s.end(l, whyStop)
	}
}
