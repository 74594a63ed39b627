// SPDX-License-Identifier: Apache-2.0

// Package probe is the open-loop client, the only source of verdict samples.
//
// Each stream has one schedule, and each attempt its own goroutine, so that a
// stalled request never delays the next one. Every attempt is one sample,
// also when it never connected, and nothing is ever tried twice.
package probe

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
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
)

// MaxRate bounds a stream, in requests per second: more than a probe can pace.
const MaxRate = 20000

// maxLate is how far behind its schedule a stream may fall and still send
// what is overdue. A generator that was frozen for longer sends one attempt,
// which is saturated and marks the gap, and leaves the rest out: the flood
// would be a disturbance of its own.
const maxLate = time.Second

// Generator makes open-loop streams. It implements load.Generator.
type Generator struct{}

var _ load.Generator = Generator{}

// Start begins a stream. Samples reach emit from the goroutines of their
// attempts, each as soon as its outcome is known.
func (Generator) Start(ctx context.Context, s load.Stream, emit func(timeline.Sample)) (load.Handle, error) {
	addr, err := check(s)
	if err != nil {
		return nil, fmt.Errorf("stream %q: %w", s.Name, err)
	}
	if emit == nil {
		return nil, fmt.Errorf("stream %q: emit is nil: samples must go somewhere", s.Name)
	}
	st := &stream{
		Stream: s,
		addr:   addr,
		dest:   addr.String(),
		emit:   emit,
		ctx:    ctx,
		prefix: newPrefix(s.Name),
		done:   make(chan struct{}),
	}
	if s.Profile.Op == load.Lookup {
		if st.inquiry, err = newInquiry(s); err != nil {
			return nil, fmt.Errorf("stream %q: %w", s.Name, err)
		}
	}
	st.pacing, st.stop = context.WithCancel(ctx)
	st.form = newForm(s, st.dest)
	if s.Profile.Conns == load.Reused {
		st.pool = newPool(s.Profile.Rate)
	}
	go st.run()
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
	addr netip.AddrPort
	dest string // addr, as samples give it
	emit func(timeline.Sample)
	form form
	// inquiry is what a lookup asks, and form what anything else does.
	inquiry *inquiry

	ctx    context.Context // ends: everything is killed
	pacing context.Context // ends: nothing new begins
	stop   context.CancelFunc
	done   chan struct{}

	prefix   string
	opened   atomic.Uint64 // connections
	pool     *pool         // nil: a connection for each request
	attempts sync.WaitGroup
	pumps    sync.WaitGroup // of far connections
}

// Stop implements load.Handle.
func (s *stream) Stop() { s.stop() }

// Done implements load.Handle.
func (s *stream) Done() <-chan struct{} { return s.done }

func (s *stream) run() {
	defer close(s.done)
	defer s.stop()
	defer s.pumps.Wait()
	if s.pool != nil {
		defer s.pool.close()
	}
	pace(s.pacing, s.Stream, timeline.Monotonic, timeline.Monotonic(), func(due time.Duration, seq int64) {
		s.attempts.Go(func() { s.attempt(due, seq) })
	})
	s.attempts.Wait()
}

// pace begins an attempt in each slot of 1/Rate, at a random instant of the
// slot, so that neither clients nor the periodic work of a server lock on to
// its phase. The first slot begins at start, by the clock now. Nothing begins
// once ctx has ended.
func pace(ctx context.Context, s load.Stream, now func() time.Duration, start time.Duration, begin func(due time.Duration, seq int64)) {
	name := fnv.New64a()
	name.Write([]byte(s.Name))
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

// budget bounds an attempt, from its start.
func (s *stream) budget() time.Duration { return s.Timeout + s.Profile.Takes }

func (s *stream) attempt(due time.Duration, seq int64) {
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
	a.Saturated = a.Start-a.Due > s.Tolerance
	ctx, cancel := context.WithTimeout(s.ctx, s.budget())
	defer cancel()
	if s.inquiry != nil {
		s.lookup(ctx, a)
	} else {
		s.carry(ctx, a)
	}
	s.emit(a.Sample)
}

// carry takes the attempt over one connection.
func (s *stream) carry(ctx context.Context, a *attempt) {
	for {
		a.Conn, a.Nth, a.Local, a.Phase = 0, 0, "", timeline.PhaseDial
		var l *link
		if s.pool != nil {
			l = s.pool.take()
		}
		if l == nil {
			var err error
			if l, err = s.dial(ctx); err != nil {
				a.fail(dialOutcome(err), err)
				if s.pool != nil {
					s.pool.lost()
				}
				return
			}
			a.Dial = timeline.Monotonic()
		}
		l.nth++
		a.Conn, a.Nth, a.Local = l.num, l.nth, l.local
		a.Phase = timeline.PhaseWrite
		fate := l.try(ctx, a, l.nth)
		switch {
		case fate == keep && s.pool != nil:
			s.pool.put(l)
		default:
			l.close()
			if s.pool != nil {
				s.pool.lost()
			}
		}
		// A pooled connection that turned out to be gone before a byte of the
		// request was written is no attempt: another one is taken.
		if fate != unsent || l.nth == 1 {
			return
		}
	}
}
