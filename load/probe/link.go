// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
)

// How long the peer has to end a connection that it has said it would end,
// before this client does: a server that says close has nothing to wait for,
// and one that says GOAWAY may have other streams in mind.
const (
	lastWords   = 2 * time.Second
	afterGoAway = 15 * time.Second
)

// conn carries requests: one at a time, unless it is an h2 one.
type conn interface {
	// try makes the attempt over this connection, and fills in its sample.
	try(ctx context.Context, a *attempt) fate
	// drain sees to it that what comes is read from here on, up to the
	// connection's end. It says whether it can.
	drain() bool
	close()
}

// link is a connection of a stream.
type link struct {
	conn
	ear   *ear
	wire  wire   // of ear, or in TLS over it
	num   uint64 // counts the stream's connections from 1
	local string
	nth   atomic.Int32 // requests so far

	// The keeper's own.
	since time.Time // idle since
	uses  int       // requests that are under way
}

// reserve takes the place of a stream, where the peer says how many there may be at
// once (RFC 9113 section 5.1.2), and says whether there was one.
func (l *link) reserve() bool {
	c, multiplexed := l.conn.(interface{ reserve() bool })
	return !multiplexed || c.reserve()
}

// state looks at an idle connection, without waiting.
func (l *link) state() state {
	st := l.wire.peek()
	if done(l.ear.stale) {
		return stale
	}
	return st
}

// newLink counts a connection that was just opened.
func (s *stream) newLink(w wire) *link {
	num := s.opened.Add(1)
	e := newEar(w, &teller{emit: s.emit, stream: s.Name, conn: num})
	return &link{ear: e, wire: e, num: num, local: w.LocalAddr().String()}
}

// take says which connection the attempt is made over.
func (a *attempt) take(l *link) {
	a.Conn, a.Nth, a.Local = l.num, int(l.nth.Add(1)), l.local
}

// dial opens a connection of the stream's protocol for an attempt, or ends the
// attempt.
func (s *stream) dial(ctx context.Context, a *attempt) *link {
	w, err := s.connect(ctx)
	if err != nil {
		a.fail(dialOutcome(err), err)
		return nil
	}
	a.Dial = timeline.Monotonic()
	l := s.newLink(w)
	a.take(l)
	if err := s.speak(ctx, a, l); err != nil {
		a.fail(outcome(err), err)
		l.conn = silent{l.ear}
		s.leave(l, drop)
		return nil
	}
	return l
}

// speak begins the stream's protocol.
func (s *stream) speak(ctx context.Context, a *attempt, l *link) error {
	if open := s.client.open; open != nil {
		l.conn = open(s, l)
		return nil
	}
	if s.tls != nil {
		a.Phase = timeline.PhaseTLS
		tls, err := newSecure(ctx, l.ear, s.tls, s.pumps.Go)
		if err != nil {
			return fmt.Errorf("the TLS handshake: %w", err)
		}
		l.wire = tls
		if s.Profile.Protocol.Tunnels() {
			l.ear.tell(timeline.FrameCertificate, "for", time.Until(tls.ConnectionState().PeerCertificates[0].NotAfter).String())
		}
	}
	switch p := s.Profile.Protocol; {
	case p.Tunnels():
		l.conn = tunnel{newH2(l.wire, l.ear)}
	case p.HTTP() == 2:
		l.conn = newH2(l.wire, l.ear)
	default:
		l.conn = newH1(s.ctx, l.wire, l.ear, s.keeps())
	}
	return nil
}

// silent is a connection that carries nothing: its handshake has failed.
type silent struct{ ear *ear }

func (c silent) try(context.Context, *attempt) fate { return drop }
func (c silent) drain() bool                        { return true }
func (c silent) close()                             { _ = c.ear.Close() }

// keeps says whether connections outlive their attempts, and holds whether they
// do so without being used again.
func (s *stream) keeps() bool { return s.keeper != nil || s.holds() }
func (s *stream) holds() bool { return s.Profile.Op.Holds() }

// settle sees to a connection after an attempt.
func (s *stream) settle(l *link, f fate) {
	switch {
	case s.keeper != nil:
		s.keeper.put(l, f)
	case f == keep && s.holds():
		s.room.take()
		s.held.Go(func() {
			defer s.room.give()
			s.hold(l)
		})
	default:
		s.leave(l, f)
	}
}

// hold keeps an idle connection until its time is over, the peer ends it, or
// the pacing stops.
func (s *stream) hold(l *link) {
	t := time.NewTimer(s.Profile.Takes)
	defer t.Stop()
	select {
	case <-l.ear.stale:
		s.leave(l, unsent)
	case <-t.C:
		s.end(l, whyIdle)
	case <-s.pacing.Done():
		s.end(l, whyStop)
	}
}

// leave closes a connection, once the peer has ended it if it is about to.
func (s *stream) leave(l *link, f fate) {
	why, within := whyBroken, time.Duration(0)
	switch {
	case s.ctx.Err() != nil:
		why = whyStop
	case s.keeps() && l.ear.has(timeline.FrameGoAway):
		why, within = whyGoAway, afterGoAway
	case f == closing:
		why, within = whyAnswered, lastWords
	case f == unsent, l.ear.has(timeline.FrameCloseNotify, timeline.FrameAlert):
		within = lastWords
	}
	if within == 0 || done(l.ear.ended) || !l.drain() {
		s.end(l, why)
		return
	}
	s.room.take()
	s.parting.Go(func() {
		defer s.room.give()
		t := time.NewTimer(within)
		defer t.Stop()
		var ending chan struct{}
		if why == whyGoAway {
			ending = s.ending
		}
		select {
		case <-l.ear.ended:
		case <-t.C:
		case <-ending:
			why = whyStop
		case <-s.ctx.Done():
			why = whyStop
		}
		s.end(l, why)
	})
}

// end closes a connection. A new one that has had its reply is closed as a
// matter of course, and nobody is told, unless it was the peer's to close.
func (s *stream) end(l *link, why string) {
	if s.keeps() || why == whyAnswered {
		l.ear.tell(timeline.FrameClose, "why", why)
	}
	l.ear.hush()
	l.close()
}
