// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"golang.org/x/net/http2"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/load/work"
)

func reused(proto flow.Protocol) load.Profile {
	return load.Profile{Flow: flow.Flow{Protocol: proto, Conns: flow.Reused, Op: flow.Get}}
}

// The pool is filled first, and then used in turn.
func TestPoolGoesRound(t *testing.T) {
	for _, proto := range []flow.Protocol{flow.HTTP1, flow.H2C} {
		noLeaks(t)
		addr, opened := serve(t, proto, backend)
		for i, s := range inTurn(t, testStream(addr, reused(proto)), maxLeast, 100, func(p *pool) { awaitIdle(t, p, fresh) }) {
			conn, nth := uint64(i%maxLeast+1), i/maxLeast+1
			if s.Outcome != timeline.OK || s.Conn != conn || s.Nth != nth {
				t.Fatalf("attempt %d: want connection %d for the %d. time: %s", i, conn, nth, text(s))
			}
		}
		if n := opened.Load(); n != maxLeast {
			t.Errorf("%d connections opened, want %d", n, maxLeast)
		}
	}
}

// Where each new connection ends with its first answer, those that the pool has are
// used as well.
func TestPoolUsesWhatItHas(t *testing.T) {
	p := &pool{least: 3, stock: stock{leave: func(*link, fate) {}}}
	for range p.least {
		if p.take() != nil {
			t.Fatal("there was none")
		}
	}
	for range p.least {
		e := newEar(quiet{}, &teller{})
		p.put(&link{ear: e, wire: e}, keep)
	}
	p.lost()
	p.links = p.links[1:]
	var used int
	for range 4 {
		if p.take() != nil {
			used++
		}
		p.lost()
	}
	if used != 2 || p.open != 0 {
		t.Errorf("of 2 that it had %d were used, and %d are open", used, p.open)
	}
}

// What is in use is not waited for: another connection is opened.
func TestPoolGrows(t *testing.T) {
	p := &pool{least: 1}
	for range 2 {
		if c := p.take(); c != nil {
			t.Errorf("took %v, want a new one", c)
		}
	}
	if p.open != 2 {
		t.Errorf("%d connections are open, want two new ones", p.open)
	}
}

// At a low rate the pool stays so small that its connections are used.
func TestPoolSizeFollowsRate(t *testing.T) {
	for rate, least := range map[float64]int{0.1: 1, 1: 2, 5: 7, 8: 10, 1000: 16} {
		p := newPool(rate, nil, nil)
		if p.least != least {
			t.Errorf("at %v/s at least %d connections, want %d", rate, p.least, least)
		}
		p.close()
	}
}

// Connection: close and GOAWAY, announced in a reply, retire a connection.
func TestRetired(t *testing.T) {
	for _, proto := range []flow.Protocol{flow.HTTP1, flow.H2C} {
		noLeaks(t)
		addr, _ := serve(t, proto, func(w http.ResponseWriter, r *http.Request) {
			// In h2, it makes a GOAWAY.
			w.Header().Set("Connection", "close")
			backend(w, r)
		})
		samples := inTurn(t, testStream(addr, reused(proto)), 1, 30, func(p *pool) { awaitIdle(t, p, stale) })
		last := 0
		for _, s := range samples {
			if s.Outcome != timeline.OK || s.Nth != 1 {
				t.Fatalf("not ok, or reused: %s", text(s))
			}
			if s.LastOnConn {
				last++
			}
		}
		// An h2 server sends the GOAWAY besides the reply: it may come later.
		if proto == flow.HTTP1 && last != len(samples) {
			t.Errorf("%d of %d replies said that the connection ends", last, len(samples))
		}
	}
}

// A FIN that has arrived on an idle connection is noticed before the
// connection is used.
func TestIdleFIN(t *testing.T) {
	noLeaks(t)
	addr := accept(t, func(_ int, c *net.TCPConn) {
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err == nil {
			fmt.Fprint(c, answer(req.Header.Get(work.HeaderID), 256, "200 OK", "Content-Length: 256"))
		}
	})
	for _, s := range inTurn(t, testStream(addr, reused(flow.HTTP1)), 1, 30, func(p *pool) { awaitIdle(t, p, stale) }) {
		if s.Outcome != timeline.OK || s.Nth != 1 {
			t.Errorf("not ok, or reused: %s", text(s))
		}
	}
}

// An answer that nobody asked for (here a 408) makes a connection useless.
func TestIdleData(t *testing.T) {
	noLeaks(t)
	idle := make(chan struct{})
	defer close(idle)
	addr := accept(t, func(_ int, c *net.TCPConn) {
		br := bufio.NewReader(c)
		req, err := http.ReadRequest(br)
		if err == nil {
			fmt.Fprint(c, answer(req.Header.Get(work.HeaderID), 256, "200 OK", "Content-Length: 256"))
			<-idle
			fmt.Fprint(c, "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
			_, _ = br.ReadByte()
		}
	})
	for _, s := range inTurn(t, testStream(addr, reused(flow.HTTP1)), 1, 20, func(p *pool) {
		idle <- struct{}{}
		awaitIdle(t, p, stale)
	}) {
		if s.Outcome != timeline.OK || s.Nth != 1 {
			t.Errorf("not ok, or reused: %s", text(s))
		}
	}
}

// So is a GOAWAY, and the connection is closed from this side.
func TestIdleGoAway(t *testing.T) {
	g := noLeaks(t)
	idle := make(chan struct{})
	defer close(idle)
	var closed atomic.Int64
	addr := accept(t, func(_ int, c *net.TCPConn) {
		p, err := newPeer(c)
		if err != nil {
			return
		}
		s, id, err := p.request()
		if err != nil {
			return
		}
		p.header(s, 200, 256, false)
		p.body(s, id, 256, true)
		<-idle
		_ = p.WriteGoAway(s, http2.ErrCodeNo, nil)
		p.fin()
		closed.Add(1)
	})
	samples := inTurn(t, testStream(addr, reused(flow.H2C)), 1, 20, func(p *pool) {
		idle <- struct{}{}
		awaitIdle(t, p, stale)
	})
	for _, s := range samples {
		if s.Outcome != timeline.OK || s.Nth != 1 {
			t.Errorf("not ok, or reused: %s", text(s))
		}
	}
	// All but the last, which is idle still.
	g.Eventually(closed.Load).WithTimeout(patience).Should(gomega.BeEquivalentTo(len(samples) - 1))
}

// Idle connections that the peer has ended are closed soon, used or not.
func TestSweep(t *testing.T) {
	for _, proto := range []flow.Protocol{flow.HTTP1, flow.H2C} {
		g := noLeaks(t)
		var left atomic.Int64
		addr := accept(t, func(_ int, c *net.TCPConn) {
			_ = c.CloseWrite()
			// Only the client's FIN ends this.
			for b := make([]byte, 100); ; {
				if _, err := c.Read(b); err != nil {
					left.Add(1)
					return
				}
			}
		})
		s, r := unpaced(t, testStream(addr, reused(proto)))
		p := newPool(0.1, s.leave, s.end)
		s.keeper = p
		l := s.dial(t.Context(), &attempt{stream: s})
		if l == nil {
			t.Fatal("no connection")
		}
		if p.take() != nil {
			t.Error("a connection out of nothing")
		}
		p.put(l, keep)
		g.Eventually(left.Load).WithTimeout(patience).Should(gomega.BeEquivalentTo(1))
		g.Eventually(func() int { p.mu.Lock(); defer p.mu.Unlock(); return p.open }).WithTimeout(patience).Should(gomega.Equal(0))
		s.stop()
		s.finish()
		if got, want := r.told(1), []string{"fin", "close why=broken"}; !slices.Equal(got, want) {
			t.Errorf("told %q, want %q", got, want)
		}
	}
}

// A server that goes away and comes back: broken connections are dropped and
// replaced, and no failure is carried on.
func TestPoolRecovers(t *testing.T) {
	for _, proto := range []flow.Protocol{flow.HTTP1, flow.H2C} {
		g := noLeaks(t)
		var broken atomic.Bool
		addr, _ := serve(t, proto, func(w http.ResponseWriter, r *http.Request) {
			if broken.Load() {
				panic(http.ErrAbortHandler)
			}
			backend(w, r)
		})
		var r recording
		h, err := Generator{}.Start(t.Context(), testStream(addr, reused(proto)), r.emit)
		if err != nil {
			t.Fatal(err)
		}
		await := func(what string, is func(timeline.Sample) bool) {
			g.Eventually(func() int { return r.count(is) }).WithTimeout(patience).Should(gomega.BeNumerically(">=", 20), what)
		}
		await("well", func(s timeline.Sample) bool { return s.Outcome == timeline.OK })
		broken.Store(true)
		await("broken", func(s timeline.Sample) bool {
			return s.Outcome == timeline.Closed || s.Outcome == timeline.Reset || s.Outcome == timeline.StreamReset
		})
		broken.Store(false)
		mended := timeline.Monotonic()
		await("well again", func(s timeline.Sample) bool { return s.Start > mended && s.Outcome == timeline.OK })
		h.Stop()
		ended(t, h)
		for _, s := range r.all() {
			if s.Start > mended && s.Failed() {
				t.Errorf("failed after the server was whole again: %s", text(s))
			}
		}
	}
}

// lostInRace is a pooled connection that is gone between the look at it and
// the request.
type lostInRace struct{ closed bool }

func (c *lostInRace) try(context.Context, *attempt) fate { return unsent }
func (c *lostInRace) drain() bool                        { return false }
func (c *lostInRace) close()                             { c.closed = true }

// quiet is a wire that nothing comes over.
type quiet struct{ wire }

func (quiet) peek() state { return fresh }

// A connection that was gone before the request was written is no attempt: the
// sample is that of the connection that carried it, or could not be opened.
func TestUnsentTakesAnother(t *testing.T) {
	noLeaks(t)
	up, _ := serve(t, flow.HTTP1, backend)
	l := listen(t)
	down := l.Addr().String()
	_ = l.Close()
	for addr, w := range map[string]want{
		up:   {timeline.OK, timeline.PhaseDone, 200, work.SmallBytes, false},
		down: {outcome: timeline.Refused, phase: timeline.PhaseDial},
	} {
		s, r := idleStream(t, testStream(addr, reused(flow.HTTP1)), 1)
		gone := []*lostInRace{{}, {}}
		kept := s.keeper.(*pool)
		for i, c := range gone {
			kept.open++
			e := newEar(quiet{}, &teller{emit: r.emit})
			l := &link{conn: c, ear: e, wire: e, num: uint64(100 + i), local: "x"}
			l.nth.Store(5)
			kept.links = append(kept.links, l)
		}
		s.opened.Store(200)
		s.attempt(timeline.Monotonic(), 1)
		samples := r.all()
		if len(samples) != 1 {
			t.Fatalf("%d samples of one attempt", len(samples))
		}
		w.check(t, samples[0])
		if x := samples[0]; addr == up && (x.Conn != 201 || x.Nth != 1) || addr == down && (x.Conn != 0 || x.Nth != 0 || x.Local != "") {
			t.Errorf("connection: %s", text(x))
		}
		if !gone[0].closed || !gone[1].closed {
			t.Error("what was gone stays in the pool")
		}
		if n := kept.open; addr == up && n != 1 || addr == down && n != 0 {
			t.Errorf("%d connections counted as open", n)
		}
	}
}

// A timeout that came late says that this process stood still.
func TestLateTimeoutIsSaturated(t *testing.T) {
	s := testStream("127.0.0.1:80", reused(flow.HTTP1))
	for late, saturated := range map[time.Duration]bool{0: false, s.Tolerance / 2: false, s.Tolerance + 1: true} {
		a := &attempt{stream: &stream{Stream: s, ctx: t.Context()}}
		a.Start = timeline.Monotonic() - s.Timeout - late
		a.fail(timeline.Timeout, os.ErrDeadlineExceeded)
		if a.Saturated != saturated {
			t.Errorf("%v late: saturated is %v", late, a.Saturated)
		}
		a.Saturated = false
		a.fail(timeline.Reset, syscall.ECONNRESET)
		if a.Saturated {
			t.Error("a late reset is no sign of saturation")
		}
	}
}
