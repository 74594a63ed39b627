// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/work"
)

// Every protocol, connection and operation against a healthy server.
func TestHealthy(t *testing.T) {
	for _, proto := range []load.Protocol{load.HTTP1, load.H2C} {
		for _, conns := range []load.Conns{load.New, load.Reused} {
			for _, op := range []load.Op{load.Get, load.Slow, load.Chunked, load.Upload, load.Continue} {
				p := load.Profile{Protocol: proto, Conns: conns, Op: op}
				if op != load.Get {
					p.Takes = 250 * time.Millisecond
				}
				t.Run(string(proto)+"/"+string(conns)+"/"+string(op), func(t *testing.T) {
					noLeaks(t)
					addr, _ := serve(t, backend)
					samples := record(t, testStream(addr, p), 60)
					ids := map[string]bool{}
					reused := 0
					for _, s := range samples {
						if s.Outcome != timeline.OK || s.Phase != timeline.PhaseDone || s.Err != "" {
							t.Fatalf("not ok: %s", text(s))
						}
						want := int64(work.SlowBytes)
						if op == load.Get {
							want = work.SmallBytes
						}
						if s.Got != want || s.Want != want || s.Status != 200 || s.Server != "pod-1" {
							t.Errorf("wrong: %s", text(s))
						}
						if ids[s.ID] {
							t.Errorf("ID twice: %s", s.ID)
						}
						ids[s.ID] = true
						if s.Conn == 0 || s.Nth == 0 || s.Local == "" || s.Addr != addr {
							t.Errorf("connection: %s", text(s))
						}
						if s.Nth > 1 {
							reused++
						}
						if (s.Nth == 1) != (s.Dial != 0) {
							t.Errorf("dial: %s", text(s))
						}
						inOrder := s.Due <= s.Start && s.Start <= s.Sent && s.Sent <= s.First && s.First <= s.End && s.Dial <= s.Sent
						if !inOrder {
							t.Errorf("times: %s", text(s))
						}
						if took := s.End - s.Start; took < p.Takes {
							t.Errorf("took %v: %s", took, text(s))
						}
						if s.LastOnConn || s.Saturated {
							t.Errorf("last or saturated: %s", text(s))
						}
					}
					if conns == load.New && reused > 0 || conns == load.Reused && reused == 0 {
						t.Errorf("%d of %d samples on a reused connection", reused, len(samples))
					}
				})
			}
		}
	}
}

func TestRefused(t *testing.T) {
	for _, conns := range []load.Conns{load.New, load.Reused} {
		noLeaks(t)
		l := listen(t)
		addr := l.Addr().String()
		_ = l.Close()
		for _, s := range record(t, testStream(addr, load.Profile{Protocol: load.HTTP1, Conns: conns, Op: load.Get}), 10) {
			want{outcome: timeline.Refused, phase: timeline.PhaseDial}.check(t, s)
			if s.Conn != 0 || s.Nth != 0 || s.Dial != 0 || s.Sent != 0 || s.First != 0 {
				t.Errorf("never connected: %s", text(s))
			}
		}
	}
}

// An address that this machine has no route to: nothing is sent.
func TestNoRoute(t *testing.T) {
	noLeaks(t)
	for _, addr := range []string{"[100::1]:9", "[2001:db8::1]:9", "198.51.100.1:9"} {
		// Connecting a UDP socket looks the route up, and sends nothing.
		c, err := net.Dial("udp", addr)
		if err == nil {
			_ = c.Close()
			continue
		}
		for _, s := range record(t, testStream(addr, load.Profile{Protocol: load.H2C, Conns: load.New, Op: load.Get}), 5) {
			want{outcome: timeline.NoRoute, phase: timeline.PhaseDial}.check(t, s)
		}
		return
	}
	t.Skip("this machine has a route to everywhere")
}

func TestOutcome(t *testing.T) {
	for _, c := range []struct {
		err  error
		want timeline.Outcome
	}{
		{&net.OpError{Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, timeline.Refused},
		{&net.OpError{Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}, timeline.NoRoute},
		{&net.OpError{Err: os.NewSyscallError("connect", syscall.ENETUNREACH)}, timeline.NoRoute},
		{&net.OpError{Err: os.NewSyscallError("read", syscall.ECONNRESET)}, timeline.Reset},
		{&net.OpError{Err: os.NewSyscallError("write", syscall.EPIPE)}, timeline.Reset},
		{&net.OpError{Err: os.NewSyscallError("read", syscall.ETIMEDOUT)}, timeline.Timeout},
		{&net.OpError{Err: os.NewSyscallError("connect", syscall.EADDRNOTAVAIL)}, timeline.Cancelled},
		{fmt.Errorf("read: %w", os.ErrDeadlineExceeded), timeline.Timeout},
		{fmt.Errorf("dial: %w", context.DeadlineExceeded), timeline.Timeout},
		{fmt.Errorf("dial: %w", context.Canceled), timeline.Cancelled},
		{net.ErrClosed, timeline.Cancelled},
		{io.EOF, timeline.Closed},
		{io.ErrUnexpectedEOF, timeline.Truncated},
		{errors.New("reset by peer, refused, EOF"), timeline.Malformed},
	} {
		if got := outcome(c.err); got != c.want {
			t.Errorf("outcome(%v) = %s, want %s", c.err, got, c.want)
		}
	}
	if got := dialOutcome(errors.New("what?")); got != timeline.Cancelled {
		t.Errorf("a dial's unknown error is %s, want %s", got, timeline.Cancelled)
	}
}

// A server that never answers gets as many requests as one that does.
func TestStalledServerDoesNotSlowTheSchedule(t *testing.T) {
	for _, proto := range []load.Protocol{load.HTTP1, load.H2C} {
		for _, conns := range []load.Conns{load.New, load.Reused} {
			t.Run(string(proto)+"/"+string(conns), func(t *testing.T) {
				noLeaks(t)
				stalled := make(chan struct{})
				addr, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) {
					select {
					case <-stalled:
					case <-r.Context().Done():
					}
				})
				defer close(stalled)
				s := testStream(addr, load.Profile{Protocol: proto, Conns: conns, Op: load.Get, Rate: 200})
				s.Timeout = 500 * time.Millisecond
				samples := record(t, s, 300)
				onSchedule(t, s, samples)
				for _, s := range samples {
					if s.Outcome != timeline.Timeout {
						t.Fatalf("not a timeout: %s", text(s))
					}
				}
			})
		}
	}
}

// onSchedule says whether each slot of 1/Rate has exactly one due time.
func onSchedule(t *testing.T, s load.Stream, samples []timeline.Sample) {
	t.Helper()
	slices.SortFunc(samples, func(a, b timeline.Sample) int { return cmp.Compare(a.Due, b.Due) })
	slot := time.Duration(float64(time.Second) / s.Profile.Rate)
	// The first due time is up to a slot behind the start.
	first := samples[0].Due
	for i, x := range samples {
		at := x.Due - first - time.Duration(i)*slot
		if at <= -slot || at >= slot {
			t.Fatalf("sample %d is %v off its slot of %v", i, at, slot)
		}
	}
}

func TestScheduleIsRepeatableAndRandom(t *testing.T) {
	noLeaks(t)
	addr, _ := serve(t, backend)
	gaps := func(name string, seed uint64) []time.Duration {
		s := testStream(addr, load.Profile{Protocol: load.HTTP1, Conns: load.New, Op: load.Get, Rate: 200})
		s.Name, s.Seed = name, seed
		samples := record(t, s, 60)
		onSchedule(t, s, samples)
		var out []time.Duration
		for i := 1; i < 50; i++ {
			out = append(out, samples[i].Due-samples[i-1].Due)
		}
		return out
	}
	a, b, c, d := gaps("a", 1), gaps("a", 1), gaps("a", 2), gaps("b", 1)
	for i := range a {
		// Both ends of a gap are rounded to nanoseconds.
		if diff := a[i] - b[i]; diff < -2 || diff > 2 {
			t.Errorf("gap %d: %v, and %v with the same seed", i, a[i], b[i])
		}
	}
	if slices.Equal(a, c) || slices.Equal(a, d) {
		t.Error("another seed or another stream has the same schedule")
	}
}

// What was frozen doesn't answer with a flood, and marks the gap.
func TestFrozenGeneratorLeavesTheGap(t *testing.T) {
	noLeaks(t)
	addr, _ := serve(t, backend)
	s := testStream(addr, load.Profile{Protocol: load.HTTP1, Conns: load.New, Op: load.Get, Rate: 100})
	s.Tolerance = 20 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	st := &stream{Stream: s, ctx: ctx, pacing: ctx, done: make(chan struct{})}
	st.addr, _ = check(s)
	st.dest, st.form, st.stop = s.Addr, newForm(s, s.Addr), cancel
	var r recording
	st.emit = r.emit
	// As if it had begun 3 s ago.
	go func() { defer close(st.done); st.pace(timeline.Monotonic() - 3*time.Second); st.attempts.Wait() }()
	<-time.After(500 * time.Millisecond)
	cancel()
	<-st.done
	late := r.count(func(s timeline.Sample) bool { return s.Start-s.Due > time.Second })
	all := len(r.all())
	if late != 1 || all > 150 {
		t.Errorf("%d samples, %d of them over a second late: want some 50, and 1", all, late)
	}
	if r.count(func(s timeline.Sample) bool { return s.Start-s.Due > time.Second && !s.Saturated }) != 0 {
		t.Error("the late one isn't saturated")
	}
}

// Stop ends the pacing and lets everything in flight end well.
func TestStopDrains(t *testing.T) {
	for _, proto := range []load.Protocol{load.HTTP1, load.H2C} {
		for _, op := range []load.Op{load.Slow, load.Upload} {
			noLeaks(t)
			addr, _ := serve(t, backend)
			var r recording
			s := testStream(addr, load.Profile{Protocol: proto, Conns: load.Reused, Op: op, Rate: 100, Takes: time.Second})
			var started atomic.Int64
			h, err := Generator{}.Start(t.Context(), s, r.emit)
			if err != nil {
				t.Fatal(err)
			}
			<-time.After(500 * time.Millisecond)
			h.Stop()
			h.Stop()
			started.Store(int64(timeline.Monotonic()))
			select {
			case <-h.Done():
				t.Error("done, with requests of 1 s in flight")
			default:
			}
			<-h.Done()
			samples := r.all()
			if len(samples) < 10 {
				t.Errorf("%d samples in half a second at 100/s", len(samples))
			}
			for _, s := range samples {
				if s.Outcome != timeline.OK {
					t.Errorf("cut by Stop: %s", text(s))
				}
				// The pacer may just have been waking up.
				if s.Start > time.Duration(started.Load())+100*time.Millisecond {
					t.Errorf("begun after Stop: %s", text(s))
				}
			}
		}
	}
}

// The end of the context kills, and what was in flight is no evidence.
func TestCancelKills(t *testing.T) {
	for _, proto := range []load.Protocol{load.HTTP1, load.H2C} {
		for _, op := range []load.Op{load.Get, load.Slow, load.Upload, load.Continue} {
			t.Run(string(proto)+"/"+string(op), func(t *testing.T) {
				noLeaks(t)
				quit := make(chan struct{})
				addr, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
					if op == load.Slow {
						backend(w, r)
						return
					}
					select {
					case <-quit:
					case <-r.Context().Done():
					}
				})
				defer close(quit)
				p := load.Profile{Protocol: proto, Conns: load.New, Op: op, Rate: 100}
				if op != load.Get {
					p.Takes = 30 * time.Second
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var r recording
				h, err := Generator{}.Start(ctx, testStream(addr, p), r.emit)
				if err != nil {
					t.Fatal(err)
				}
				<-time.After(300 * time.Millisecond)
				cancel()
				select {
				case <-h.Done():
				case <-time.After(5 * time.Second):
					t.Fatal("5 s after the cancel it still runs")
				}
				if n := len(r.all()); n < 5 {
					t.Errorf("%d samples", n)
				}
				for _, s := range r.all() {
					if s.Outcome != timeline.Cancelled {
						t.Errorf("not cancelled: %s", text(s))
					}
				}
			})
		}
	}
}

func asLookup(s *load.Stream) {
	s.Profile.Protocol, s.Profile.Op, s.Query = load.DNS, load.Lookup, "echo."
}

func TestStartSaysWhatIsWrong(t *testing.T) {
	good := testStream("127.0.0.1:80", load.Profile{Protocol: load.HTTP1, Conns: load.New, Op: load.Get})
	for _, c := range []struct {
		change func(*load.Stream)
		say    string
	}{
		{func(s *load.Stream) { s.Name = "" }, "no name"},
		{func(s *load.Stream) { s.Addr = "echo:80" }, "want an IP and a port"},
		{func(s *load.Stream) { s.Addr = "127.0.0.1:0" }, "want an IP and a port"},
		{func(s *load.Stream) { s.Profile.Protocol = "http3" }, `want one of ["http1" "h2c"]`},
		{func(s *load.Stream) { s.Profile.Conns = "" }, `want one of ["new" "reused"]`},
		{func(s *load.Stream) { s.Profile.Op = "put" }, `want one of ["get" "slow" "chunked" "upload" "continue" "lookup" "check"]`},
		{func(s *load.Stream) { s.Profile.Protocol = load.DNS }, `want one of ["http1" "h2c"]`},
		{func(s *load.Stream) { s.Profile.Op = load.Check; s.Profile.Conns = load.Reused }, `want one of ["new"]`},
		{func(s *load.Stream) { s.Profile.Op = load.Check; s.Profile.Protocol = load.H2C }, `want one of ["http1"]`},
		{func(s *load.Stream) { s.Profile.Op = load.Check; s.Profile.Takes = time.Second }, "takes no time of its own"},
		{func(s *load.Stream) { s.Query = "echo." }, "asks for no name"},
		{func(s *load.Stream) { s.IPv6 = true }, "asks for no name"},
		{func(s *load.Stream) { s.Profile.Op = load.Lookup; s.Query = "echo." }, `want one of ["dns"]`},
		{func(s *load.Stream) { asLookup(s); s.Profile.Conns = load.Reused }, `want one of ["new"]`},
		{func(s *load.Stream) { asLookup(s); s.Query = "" }, "with its final dot"},
		{func(s *load.Stream) { asLookup(s); s.Query = "echo" }, "with its final dot"},
		{func(s *load.Stream) { asLookup(s); s.Query = "a..b." }, "with its final dot"},
		{func(s *load.Stream) { asLookup(s); s.Query = strings.Repeat("a", 64) + "." }, "with its final dot"},
		{func(s *load.Stream) { asLookup(s); s.Query = strings.Repeat("a.", 200) }, "with its final dot"},
		{func(s *load.Stream) { asLookup(s); s.Profile.Delay = time.Millisecond }, "there is none"},
		{func(s *load.Stream) { s.Profile.Delay = -time.Millisecond }, "want 0 or above"},
		{func(s *load.Stream) { s.Profile.Delay = s.Timeout/4 + 1 }, "must fit into the timeout"},
		{func(s *load.Stream) { s.Profile.Takes = time.Second }, "takes no time of its own"},
		{func(s *load.Stream) { s.Profile.Op = load.Slow }, "want 1ms at least"},
		{func(s *load.Stream) { s.Profile.Rate = 0 }, "rate 0"},
		{func(s *load.Stream) { s.Profile.Rate = math.NaN() }, "rate NaN"},
		{func(s *load.Stream) { s.Profile.Rate = 1e9 }, "up to 20000"},
		{func(s *load.Stream) { s.Tolerance = 0 }, "tolerance 0s"},
		{func(s *load.Stream) { s.Timeout = -1 }, "timeout -1ns"},
	} {
		s := good
		c.change(&s)
		h, err := Generator{}.Start(t.Context(), s, func(timeline.Sample) {})
		if err == nil || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%+v: error %v, want %q in it", s, err, c.say)
		}
		if h != nil {
			t.Error("a handle beside an error")
		}
	}
	if _, err := (Generator{}).Start(t.Context(), good, nil); err == nil {
		t.Error("no error without emit")
	}
	// All that is wrong is said at once.
	_, err := Generator{}.Start(t.Context(), load.Stream{}, func(timeline.Sample) {})
	for _, say := range []string{"no name", "IP and a port", "protocol", "conns", "op", "rate", "tolerance", "timeout"} {
		if err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("error %v, want %q in it", err, say)
		}
	}
}
