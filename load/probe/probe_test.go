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
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onsi/gomega"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/load/work"
)

// Every protocol, connection and operation against a healthy server.
func TestHealthy(t *testing.T) {
	noLeaks(t)
	for _, proto := range flow.Get.Protocols() {
		for _, conns := range flow.Get.Conns() {
			if conns == flow.Shared && proto.HTTP() != 2 {
				continue
			}
			for _, op := range []flow.Op{flow.Get, flow.Slow, flow.Chunked, flow.Upload, flow.Post, flow.Continue} {
				if proto.Secure() && op != flow.Get && op != flow.Upload {
					continue // TLS makes no difference to what a body is
				}
				p := load.Profile{Flow: flow.Flow{Protocol: proto, Conns: conns, Op: op}}
				if op != flow.Get {
					p.Takes = 250 * time.Millisecond
				}
				t.Run(string(proto)+"/"+string(conns)+"/"+string(op), func(t *testing.T) {
					t.Parallel()
					addr, _ := serve(t, proto, backend)
					// The first ones may all be in flight at once.
					samples := recordUntil(t, testStream(addr, p), func(all []timeline.Sample) bool {
						return len(all) >= 12 && (conns == flow.New || slices.ContainsFunc(all, func(s timeline.Sample) bool { return s.Nth > 1 }))
					})
					ids := map[string]bool{}
					reused := 0
					for _, s := range samples {
						if s.Outcome != timeline.OK || s.Phase != timeline.PhaseDone || s.Err != "" {
							t.Fatalf("not ok: %s", text(s))
						}
						if via := map[bool]string{false: "", true: proxy}[op == flow.Get || op == flow.Slow || op == flow.Chunked]; s.Via != via {
							t.Errorf("via %q, want %q: %s", s.Via, via, text(s))
						}
						want := int64(work.SlowBytes)
						if op == flow.Get || op == flow.Post {
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
						if (proto.HTTP() == 2) != (s.StreamID%2 == 1) || conns != flow.Shared && proto.HTTP() == 2 && s.StreamID != uint32(2*s.Nth-1) {
							t.Errorf("stream: %s", text(s))
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
					if conns == flow.New && reused > 0 || conns != flow.New && reused == 0 {
						t.Errorf("%d of %d samples on a reused connection", reused, len(samples))
					}
				})
			}
		}
	}
}

func TestRefused(t *testing.T) {
	for _, conns := range []flow.Conns{flow.New, flow.Reused} {
		noLeaks(t)
		l := listen(t)
		addr := l.Addr().String()
		_ = l.Close()
		for _, s := range record(t, testStream(addr, load.Profile{Flow: flow.Flow{Protocol: flow.HTTP1, Conns: conns, Op: flow.Get}}), 10) {
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
		for _, s := range record(t, testStream(addr, load.Profile{Flow: flow.Flow{Protocol: flow.H2C, Conns: flow.New, Op: flow.Get}}), 5) {
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
	for _, proto := range []flow.Protocol{flow.HTTP1, flow.H2C} {
		for _, conns := range []flow.Conns{flow.New, flow.Reused} {
			t.Run(string(proto)+"/"+string(conns), func(t *testing.T) {
				g := noLeaks(t)
				addr, held, release := holding(t, proto)
				s := testStream(addr, load.Profile{Flow: flow.Flow{Protocol: proto, Conns: conns, Op: flow.Get}, Rate: 200})
				var r recording
				h, err := Generator{}.Start(t.Context(), s, r.emit)
				if err != nil {
					t.Fatal(err)
				}
				// Far more than any pool has.
				g.Eventually(held.Load).WithTimeout(patience).Should(gomega.BeNumerically(">=", 100))
				if n := len(r.all()); n > 0 {
					t.Errorf("%d samples of a server that has not answered", n)
				}
				h.Stop()
				release()
				ended(t, h)
				onSchedule(t, s, r.all())
				for _, s := range r.all() {
					if s.Outcome != timeline.OK {
						t.Fatalf("not ok: %s", text(s))
					}
				}
			})
		}
	}
}

// holding is a backend that holds all requests until it is released.
func holding(t *testing.T, proto flow.Protocol) (addr string, held *atomic.Int64, release func()) {
	t.Helper()
	held = new(atomic.Int64)
	gate := make(chan struct{})
	release = sync.OnceFunc(func() { close(gate) })
	addr, _ = serve(t, proto, func(w http.ResponseWriter, r *http.Request) {
		held.Add(1)
		select {
		case <-gate:
			backend(w, r)
		case <-r.Context().Done():
		}
	})
	t.Cleanup(release)
	return addr, held, release
}

// onSchedule says whether each slot of 1/Rate has exactly one due time, but for
// slots that a frozen generator left out behind an attempt that marks it.
func onSchedule(t *testing.T, s load.Stream, samples []timeline.Sample) {
	t.Helper()
	slices.SortFunc(samples, func(a, b timeline.Sample) int { return cmp.Compare(a.Due, b.Due) })
	slot := time.Duration(float64(time.Second) / s.Profile.Rate)
	next := 0
	var frozen bool
	// The first slot began between these.
	var from, to time.Duration = math.MinInt64, math.MaxInt64
	for i, x := range samples {
		_, number, _ := strings.Cut(x.ID, "-")
		n, err := strconv.Atoi(number)
		if err != nil || n < next || n > next && !frozen {
			t.Fatalf("sample %d is of slot %s, want %d: %s", i, number, next, text(x))
		}
		from, to = max(from, x.Due-time.Duration(n+1)*slot), min(to, x.Due-time.Duration(n)*slot)
		next, frozen = n+1, x.Start-x.Due > maxLate
	}
	if from > to {
		t.Errorf("the due times are up to %v off their slots of %v", from-to, slot)
	}
}

// begun is what pace has begun.
type begun struct {
	due, at time.Duration
	seq     int64
}

// schedule runs pace by a bubble's clock until lasts, as if it had begun late ago.
func schedule(t *testing.T, s load.Stream, late, lasts time.Duration) []begun {
	t.Helper()
	var out []begun
	synctest.Test(t, func(t *testing.T) {
		zero := time.Now()
		now := func() time.Duration { return time.Since(zero) }
		ctx, cancel := context.WithTimeout(t.Context(), lasts)
		defer cancel()
		pace(ctx, s, now, -late, func(due time.Duration, seq int64) { out = append(out, begun{due, now(), seq}) })
		if now() != lasts {
			t.Errorf("it stopped after %v, want %v", now(), lasts)
		}
	})
	return out
}

func pacedStream(name string, seed uint64) load.Stream {
	s := testStream("127.0.0.1:80", load.Profile{Flow: flow.Flow{Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 200})
	s.Name, s.Seed = flow.Named(name), seed
	return s
}

func TestScheduleIsRepeatableAndRandom(t *testing.T) {
	const slot = 5 * time.Millisecond
	a, b := schedule(t, pacedStream("a", 1), 0, time.Second), schedule(t, pacedStream("a", 1), 0, time.Second)
	c, d := schedule(t, pacedStream("a", 2), 0, time.Second), schedule(t, pacedStream("b", 1), 0, time.Second)
	// The last one may be due in the instant of the end.
	if len(a) < 199 || len(a) > 200 {
		t.Errorf("%d in a second at 200/s", len(a))
	}
	for i, x := range a {
		if x.seq != int64(i) || x.due < time.Duration(i)*slot || x.due > time.Duration(i+1)*slot || x.at != x.due {
			t.Errorf("in slot %d: %+v", i, x)
		}
	}
	if !slices.Equal(a, b) {
		t.Error("the same seed has another schedule")
	}
	if slices.Equal(a, c) || slices.Equal(a, d) {
		t.Error("another seed or another stream has the same schedule")
	}
}

// What was frozen doesn't answer with a flood, and marks the gap.
func TestFrozenGeneratorLeavesTheGap(t *testing.T) {
	all := schedule(t, pacedStream("a", 1), 3*time.Second, 500*time.Millisecond)
	if len(all) < 100 || len(all) > 102 {
		t.Errorf("%d begun in half a second at 200/s", len(all))
	}
	for i, x := range all {
		// The first tells of 3 s; the next slots are those of now.
		if i == 0 && (x.seq != 0 || x.at-x.due < 2*time.Second) || i > 0 && (x.seq != 599+int64(i) || x.at-x.due > 5*time.Millisecond) {
			t.Errorf("number %d: %+v", i, x)
		}
	}
	// What is less behind is caught up with, all of it.
	for i, x := range schedule(t, pacedStream("a", 1), maxLate, 500*time.Millisecond) {
		if x.seq != int64(i) {
			t.Errorf("number %d: %+v", i, x)
		}
	}
}

// An attempt that begins later than is tolerated says so.
func TestSaturated(t *testing.T) {
	noLeaks(t)
	addr, _ := serve(t, flow.HTTP1, backend)
	s := testStream(addr, load.Profile{Flow: flow.Flow{Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}})
	st, r := idleStream(t, s, 0)
	for i, late := range []time.Duration{0, s.Tolerance / 2, s.Tolerance + 1} {
		st.attempt(timeline.Monotonic()-late, int64(i))
	}
	for i, want := range []bool{false, false, true} {
		if x := r.all()[i]; x.Saturated != want || x.Outcome != timeline.OK {
			t.Errorf("want saturated %v: %s", want, text(x))
		}
	}
}

// Stop ends the pacing and lets everything in flight end well.
func TestStopDrains(t *testing.T) {
	for _, proto := range []flow.Protocol{flow.HTTP1, flow.H2C} {
		for _, op := range []flow.Op{flow.Slow, flow.Upload} {
			g := noLeaks(t)
			addr, held, release := holding(t, proto)
			var r recording
			s := testStream(addr, load.Profile{Flow: flow.Flow{Protocol: proto, Conns: flow.Reused, Op: op, Takes: 300 * time.Millisecond}, Rate: 100})
			h, err := Generator{}.Start(t.Context(), s, r.emit)
			if err != nil {
				t.Fatal(err)
			}
			g.Eventually(held.Load).WithTimeout(patience).Should(gomega.BeNumerically(">=", 20))
			h.Stop()
			h.Stop()
			stopped := timeline.Monotonic()
			select {
			case <-h.Done():
				t.Error("done, with requests in flight")
			default:
			}
			// The bodies go on from here.
			release()
			ended(t, h)
			samples := r.all()
			if len(samples) < 20 {
				t.Errorf("%d samples of 20 requests at least", len(samples))
			}
			for _, s := range samples {
				if s.Outcome != timeline.OK {
					t.Errorf("cut by Stop: %s", text(s))
				}
				if s.Due > stopped {
					t.Errorf("begun after Stop: %s", text(s))
				}
			}
		}
	}
}

// The end of the context kills, and what was in flight is no evidence.
func TestCancelKills(t *testing.T) {
	for _, proto := range []flow.Protocol{flow.HTTP1, flow.H2C} {
		for _, op := range []flow.Op{flow.Get, flow.Slow, flow.Upload, flow.Continue} {
			t.Run(string(proto)+"/"+string(op), func(t *testing.T) {
				g := noLeaks(t)
				quit := make(chan struct{})
				var came atomic.Int64
				addr, _ := serve(t, proto, func(w http.ResponseWriter, r *http.Request) {
					came.Add(1)
					if op == flow.Slow {
						backend(w, r)
						return
					}
					select {
					case <-quit:
					case <-r.Context().Done():
					}
				})
				defer close(quit)
				p := load.Profile{Flow: flow.Flow{Protocol: proto, Conns: flow.New, Op: op}, Rate: 100}
				if op != flow.Get {
					p.Takes = work.MaxTakes // far longer than this test is patient
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var r recording
				h, err := Generator{}.Start(ctx, testStream(addr, p), r.emit)
				if err != nil {
					t.Fatal(err)
				}
				g.Eventually(came.Load).WithTimeout(patience).Should(gomega.BeNumerically(">=", 5))
				cancel()
				ended(t, h)
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
	s.Profile.Protocol, s.Profile.Op, s.Query = flow.DNS, flow.Lookup, "echo."
}

func asTLS(s *load.Stream) {
	s.Profile.Protocol, s.CA, s.ServerName = flow.H2, string(identity().ca), serverName
}

func TestStartSaysWhatIsWrong(t *testing.T) {
	good := testStream("127.0.0.1:80", load.Profile{Flow: flow.Flow{Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}})
	for _, c := range []struct {
		change func(*load.Stream)
		say    string
	}{
		{func(s *load.Stream) { s.Name = flow.Stream{} }, "no name"},
		{func(s *load.Stream) { s.Addr = "echo:80" }, "want an IP and a port"},
		{func(s *load.Stream) { s.Addr = "127.0.0.1:0" }, "want an IP and a port"},
		{func(s *load.Stream) { s.Profile.Protocol = "http3" }, `want one of ["http1" "h2c" "https1" "h2" "http1-backendtls" "hbone"]`},
		{func(s *load.Stream) { s.Profile.Conns = "" }, `want one of ["new" "reused" "shared"]`},
		{func(s *load.Stream) { s.Profile.Conns = flow.Shared }, `want one of ["h2c" "h2" "hbone"]`},
		{func(s *load.Stream) { s.Profile.Op = "put" }, fmt.Sprintf("want one of %q", flow.Ops())},
		{func(s *load.Stream) { s.Profile.Protocol = flow.DNS }, `want one of ["http1" "h2c" "https1" "h2" "http1-backendtls" "hbone"]`},
		{func(s *load.Stream) { s.Profile.Op = flow.Check; s.Profile.Conns = flow.Reused }, `want one of ["new"]`},
		{func(s *load.Stream) { s.Profile.Op = flow.Check; s.Profile.Protocol = flow.H2C }, `want one of ["http1"]`},
		{func(s *load.Stream) { s.Profile.Op = flow.Check; s.Profile.Takes = time.Second }, "takes no time of its own"},
		{func(s *load.Stream) { s.Query = "echo." }, "asks for no name"},
		{func(s *load.Stream) { s.IPv6 = true }, "asks for no name"},
		{func(s *load.Stream) { s.Profile.Op = flow.Lookup; s.Query = "echo." }, `want one of ["dns"]`},
		{func(s *load.Stream) { asLookup(s); s.Profile.Conns = flow.Reused }, `want one of ["new"]`},
		{func(s *load.Stream) { asLookup(s); s.Query = "" }, "with its final dot"},
		{func(s *load.Stream) { asLookup(s); s.Query = "echo" }, "with its final dot"},
		{func(s *load.Stream) { asLookup(s); s.Query = "a..b." }, "with its final dot"},
		{func(s *load.Stream) { asLookup(s); s.Query = strings.Repeat("a", 64) + "." }, "with its final dot"},
		{func(s *load.Stream) { asLookup(s); s.Query = strings.Repeat("a.", 200) }, "with its final dot"},
		{func(s *load.Stream) { asLookup(s); s.Profile.Delay = time.Millisecond }, "there is none"},
		{func(s *load.Stream) { s.Profile.Delay = -time.Millisecond }, "want 0 or above"},
		{func(s *load.Stream) { s.Profile.Delay = s.Timeout/4 + 1 }, "must fit into the timeout"},
		{func(s *load.Stream) { s.Profile.Takes = time.Second }, "takes no time of its own"},
		{func(s *load.Stream) { s.Profile.Op = flow.Slow }, "want 1ms at least"},
		{func(s *load.Stream) { s.Profile.Rate = 0 }, "rate 0"},
		{func(s *load.Stream) { s.Profile.Rate = math.NaN() }, "rate NaN"},
		{func(s *load.Stream) { s.Profile.Rate = 1e9 }, "up to 20000"},
		{func(s *load.Stream) { s.Profile.Op = flow.Idle }, "want 1ms at least"},
		{func(s *load.Stream) { s.Profile = idleFor(flow.HTTP1, time.Second); s.Profile.Conns = flow.Reused }, `want one of ["new"]`},
		{func(s *load.Stream) { s.Profile = talking(); s.Profile.Protocol = flow.HTTP1 }, `want one of ["tcp"]`},
		{func(s *load.Stream) { s.Profile = talking(); s.Profile.Conns = flow.Reused }, `want one of ["new"]`},
		{func(s *load.Stream) { s.Profile = talking(); s.Profile.Takes = 0 }, "want 1ms at least"},
		{func(s *load.Stream) { s.Profile.Protocol = flow.TCP }, `want one of ["http1" "h2c" "https1" "h2" "http1-backendtls" "hbone"]`},
		{func(s *load.Stream) {
			s.Profile.Op, s.Profile.Protocol, s.Profile.Takes = flow.Mute, flow.H2C, time.Second
		}, `want one of ["http1" "https1" "http1-backendtls" "hbone"]`},
		{func(s *load.Stream) { s.From = "127.0.0.1" }, "range of IPv4"},
		{func(s *load.Stream) { s.CA = string(identity().ca) }, "has no TLS"},
		{func(s *load.Stream) { s.ServerName = serverName }, "has no TLS"},
		{func(s *load.Stream) { asTLS(s); s.CA = "" }, "has no certificate"},
		{func(s *load.Stream) { asTLS(s); s.CA = "no PEM" }, "has no certificate"},
		{func(s *load.Stream) { asTLS(s); s.ServerName = "" }, "no server name"},
		{func(s *load.Stream) { asTLS(s); s.Profile.Delay = s.Timeout/8 + 1 }, "8 times that must fit"},
		{func(s *load.Stream) { s.Tolerance = 0 }, "tolerance 0s"},
		{func(s *load.Stream) { s.Timeout = -1 }, "timeout -1ns"},
	} {
		s := good
		c.change(&s)
		h, err := Generator{}.Start(t.Context(), s, func(timeline.Record) {})
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
	_, err := Generator{}.Start(t.Context(), load.Stream{}, func(timeline.Record) {})
	for _, say := range []string{"no name", "IP and a port", "protocol", "conns", "op", "rate", "tolerance", "timeout"} {
		if err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("error %v, want %q in it", err, say)
		}
	}
}
