// SPDX-License-Identifier: Apache-2.0

// Package probe is the open-loop client, the only source of verdict samples.
//
// Each stream has one schedule, and each attempt a goroutine that does nothing
// else meanwhile, so that a stalled request never delays the next one. Every attempt is one sample,
// also when it never connected, and nothing is ever tried twice. What is in flight is
// bounded (Room): an attempt that is left out for that is a sample too.
//
// What a peer says besides answers is told as frames: there is always somebody
// who reads from an idle connection, and a peer that has said that it ends a
// connection is given the time to do so.
package probe

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	mathrand "math/rand/v2"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// MaxRate bounds a stream, in requests per second: more than a probe can pace.
const MaxRate = 20000

// maxLate is how far behind its schedule a stream may fall and still send
// what is overdue. A generator that was frozen for longer sends one attempt,
// which is saturated and marks the gap, and leaves the rest out: the flood
// would be a disturbance of its own.
const maxLate = time.Second

// Generator makes open-loop streams. It implements load.Generator.
type Generator struct {
	// Room is what all of its streams may have in flight together (optional): each has
	// a bound of its own besides.
	Room *Room
}

var _ load.Generator = Generator{}

// Start begins a stream. Samples reach emit from the goroutines of their
// attempts, each as soon as its outcome is known, and frames from those that
// read from the connections.
func (g Generator) Start(ctx context.Context, s load.Stream, emit func(timeline.Record)) (load.Handle, error) {
	addr, err := check(s)
	if err != nil {
		return nil, fmt.Errorf("stream %q: %w", s.Name, err)
	}
	if emit == nil {
		return nil, fmt.Errorf("stream %q: emit is nil: samples must go somewhere", s.Name)
	}
	st, err := g.stream(ctx, s, addr, emit)
	if err != nil {
		return nil, fmt.Errorf("stream %q: %w", s.Name, err)
	}
	go st.run()
	return st, nil
}

// stream makes a stream that does not run yet.
func (g Generator) stream(ctx context.Context, s load.Stream, addr netip.AddrPort, emit func(timeline.Record)) (*stream, error) {
	st, err := newStream(ctx, s, addr, emit)
	if err != nil {
		return nil, err
	}
	st.room = g.Room
	switch s.Profile.Conns {
	case flow.Reused:
		st.keeper = newPool(s.Profile.Rate, st.leave, st.end)
	case flow.Shared:
		st.keeper = newShared(st.leave, st.end)
	}
	return st, nil
}

// newStream makes a stream without its keeper.
func newStream(ctx context.Context, s load.Stream, addr netip.AddrPort, emit func(timeline.Record)) (*stream, error) {
	st := &stream{
		Stream: s,
		client: clients[s.Profile.Op],
		addr:   addr,
		from:   from(s),
		dest:   addr.String(),
		emit:   emit,
		ctx:    ctx,
		prefix: newPrefix(s.Name.String()),
		ending: make(chan struct{}),
		done:   make(chan struct{}),
	}
	var err error
	if s.Profile.Op == flow.Lookup {
		if st.inquiry, err = newInquiry(s); err != nil {
			return nil, err
		}
	}
	if st.tls, err = newTLS(s); err != nil {
		return nil, err
	}
	st.pacing, st.stop = context.WithCancel(ctx)
	host := st.dest
	if s.Profile.Protocol.Tunnels() {
		host = s.Tunnel.To
	}
	st.form = newForm(s, host, st.client)
	for _, p := range s.Pages {
		page, err := newPage(s, host, p)
		if err != nil {
			return nil, err
		}
		st.pages = append(st.pages, page)
	}
	st.most = mostOf(s.Profile.Rate, st.budget())
	if o := st.client.other; o != nil {
		st.other = newForm(s, host, *o)
	}
	return st, nil
}

// newPrefix begins the request IDs of one running stream: 24 bits of its
// name's hash, for people, and 40 random bits, so that no two streams of any
// agents or runs share an ID.
func newPrefix(name string) string {
	h := fnv.New32a()
	h.Write([]byte(name))
	var b [8]byte
	binary.BigEndian.PutUint32(b[:], h.Sum32()<<8)
	// crypto/rand.Read never fails.
	_, _ = rand.Read(b[3:])
	return hex.EncodeToString(b[:]) + "-"
}

// stream is a running one. It is its own handle.
type stream struct {
	load.Stream
	client client // of its operation
	addr   netip.AddrPort
	from   netip.Prefix  // the zero value: the kernel's choice
	dials  atomic.Uint32 // counts those from it
	dest   string        // addr, as samples give it
	emit   func(timeline.Record)
	form   form
	// inquiry is what a lookup asks, and form what anything else does; other is what client.other
	// asks for.
	inquiry *inquiry
	other   form
	pages   []form      // that are asked for in turn instead of form; none: form is
	tls     *tls.Config // nil: in plaintext

	ctx    context.Context // ends: everything is killed
	pacing context.Context // ends: nothing new begins
	stop   context.CancelFunc
	ending chan struct{} // closed: nothing is in flight any more
	done   chan struct{}

	room     *Room
	most     int64        // attempts in flight
	inFlight atomic.Int64 // attempts

	prefix   string
	opened   atomic.Uint64 // connections
	keeper   keeper        // nil: a connection for each request
	attempts sync.WaitGroup
	free     atomic.Int32   // goroutines that wait for a turn
	held     sync.WaitGroup // idle connections that no keeper has
	parting  sync.WaitGroup // connections that the peer is to end
	pumps    sync.WaitGroup // of far connections, and what reads their rest
}

// Stop implements load.Handle.
func (s *stream) Stop() { s.stop() }

// Done implements load.Handle.
func (s *stream) Done() <-chan struct{} { return s.done }

func (s *stream) run() {
	defer close(s.done)
	defer s.stop()
	defer s.finish()
	turns := make(chan turn)
	defer close(turns)
	pace(s.pacing, s.Stream, timeline.Monotonic, timeline.Monotonic(), func(due time.Duration, seq int64) {
		if why := s.admit(); why != nil {
			s.leaveOut(due, seq, why)
			return
		}
		t := turn{due, seq}
		select {
		case turns <- t: // somebody is free
		default:
			s.attempts.Go(func() { s.hand(t, turns) })
		}
	})
}

// turn is one of the schedule's.
type turn struct {
	due time.Duration
	seq int64
}

// maxFree is how many goroutines wait for a turn: what a stall of the system has
// brought forth beyond them goes.
const maxFree = 64

// hand makes the attempt of a turn, and of those that come when it is free. A
// goroutine of its own for each attempt begins with a small stack, and to let it
// grow is a tenth of what an attempt costs.
func (s *stream) hand(t turn, turns <-chan turn) {
	for more := true; more; {
		s.attempt(t.due, t.seq)
		s.inFlight.Add(-1)
		s.room.give()
		if s.free.Add(1) > maxFree {
			more = false
		} else {
			t, more = <-turns
		}
		s.free.Add(-1)
	}
}

// finish waits for what is in flight, and closes what is left. The pacing has
// ended.
func (s *stream) finish() {
	s.attempts.Wait()
	s.held.Wait()
	if s.keeper != nil {
		s.keeper.close()
	}
	close(s.ending)
	s.parting.Wait()
	s.pumps.Wait()
}

// pace begins an attempt in each slot of 1/Rate, at a random instant of the
// slot, so that neither clients nor the periodic work of a server lock on to
// its phase. The first slot begins at start, by the clock now. Nothing begins
// once ctx has ended.
func pace(ctx context.Context, s load.Stream, now func() time.Duration, start time.Duration, begin func(due time.Duration, seq int64)) {
	name := fnv.New64a()
	name.Write([]byte(s.Name.String()))
	rng := mathrand.New(mathrand.NewPCG(s.Seed, name.Sum64()))
	slot := float64(time.Second) / s.Profile.Rate
	timer := time.NewTimer(0)
	defer timer.Stop()
	for k := int64(0); ; k++ {
		due := start + time.Duration((float64(k)+rng.Float64())*slot)
		late := now() - due
		if late < 0 {
			timer.Reset(-late)
			select {
			case <-ctx.Done():
			case <-timer.C:
			}
		}
		// Here for both cases: where both have come, select takes either.
		if ctx.Err() != nil {
			return
		}
		begin(due, k)
		if late > maxLate {
			k = max(k, int64(float64(now()-start)/slot)-1)
		}
	}
}

// budget bounds an attempt that takes its flow's time, from its start.
func (s *stream) budget() time.Duration {
	if s.holds() {
		return s.Timeout
	}
	return s.Timeout + s.takes()
}

// takes is how long all that an attempt asks for takes by its flow.
func (s *stream) takes() time.Duration {
	return time.Duration(max(1, s.client.turns)) * s.Profile.Takes
}

// owed is how long an attempt takes by its flow, from its start.
func (s *stream) owed() time.Duration {
	if s.client.deferred {
		return 0
	}
	return s.takes()
}

// givenUp says whether everything was killed by who can wait no longer.
func (s *stream) givenUp() bool { return errors.Is(context.Cause(s.ctx), load.ErrGivenUp) }

func (s *stream) attempt(due time.Duration, seq int64) {
	if s.client.deferred {
		due += s.Profile.Takes
		select {
		case <-time.After(due - timeline.Monotonic()):
		case <-s.ctx.Done():
			if !s.givenUp() {
				s.leaveOut(due, seq, context.Cause(s.ctx))
			}
			return
		}
	}
	a := &attempt{
		stream: s,
		Sample: timeline.Sample{
			Stream: s.Name,
			ID:     s.prefix + strconv.FormatInt(seq, 10),
			Addr:   s.dest,
			Due:    due,
			Start:  timeline.Monotonic(),
		},
	}
	if n := int64(len(s.pages)); n > 0 {
		a.page = &s.pages[seq%n]
	}
	if n := s.client.every; n > 0 && seq%n > 0 {
		a.other, a.Brief = true, true
	}
	a.Saturated = a.Start-a.Due > s.Tolerance
	ctx, cancel := context.WithTimeout(s.ctx, a.budget())
	defer cancel()
	if alone := s.client.alone; alone != nil {
		alone(s, ctx, a)
	} else {
		s.carry(ctx, a)
	}
	if a.Outcome == timeline.Cancelled && s.givenUp() {
		return // an answer may take so long: what would have become of it nobody knows
	}
	s.emit(timeline.Record{Sample: &a.Sample})
	if a.second != nil {
		s.emit(timeline.Record{Sample: &a.second.Sample})
	}
}

// carry takes the attempt over one connection.
func (s *stream) carry(ctx context.Context, a *attempt) {
	for {
		a.Conn, a.Nth, a.Local, a.Phase = 0, 0, "", timeline.PhaseDial
		var l *link
		if s.keeper != nil {
			l = s.keeper.take()
		}
		if l != nil {
			a.take(l)
		} else {
			l = s.dial(ctx, a)
			if s.keeper != nil {
				s.keeper.add(l)
			}
			if l == nil {
				return
			}
		}
		a.Phase = timeline.PhaseWrite
		fate := l.try(ctx, a)
		s.settle(l, fate)
		// A kept connection that turned out to be gone before a byte of the
		// request was written is no attempt: another one is taken.
		if fate != unsent {
			return
		}
	}
}
