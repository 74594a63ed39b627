// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onsi/gomega"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// still is a server that takes connections, and neither reads nor says a word.
func still(t testing.TB) (addr string, taken *atomic.Int64) {
	t.Helper()
	l := listen(t)
	taken = new(atomic.Int64)
	var all sync.WaitGroup
	var held []net.Conn
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			held = append(held, c)
			taken.Add(1)
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
		for _, c := range held {
			_ = c.Close()
		}
	})
	return l.Addr().String(), taken
}

func leftOut(s timeline.Sample) bool { return s.Unsent() }

// Behind a server that stands still no more is in flight than there is room for,
// whatever the schedule wants, and each attempt that is left out is a sample.
func TestStandingStill(t *testing.T) {
	const room, most = 5, 3
	for _, p := range []load.Profile{
		{Flow: flow.Flow{Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 100},
		{Flow: flow.Flow{Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Get}, Rate: 100},
		{Flow: flow.Flow{Protocol: flow.H2C, Conns: flow.New, Op: flow.Get}, Rate: 100},
		{Flow: flow.Flow{Protocol: flow.TCP, Conns: flow.New, Op: flow.Talk, Takes: time.Millisecond}, Rate: 100},
		// The attempt is over, and its connection is held.
		{Flow: flow.Flow{Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Mute, Takes: patience}, Rate: 100},
	} {
		for _, bound := range []string{"of all", "of a stream"} {
			if p.Op == flow.Mute && bound != "of all" {
				continue
			}
			t.Run(strings.ReplaceAll(testStream("", p).Name.String(), "/", " ")+", "+bound, func(t *testing.T) {
				t.Parallel()
				addr, taken := still(t)
				ctx, kill := context.WithCancel(t.Context())
				defer kill()
				g := Generator{Room: NewRoom(room)}
				limit := int64(room)
				if bound == "of a stream" {
					g.Room, limit = nil, 2*most
				}
				var r recording
				var streams []*stream
				for i := range 2 {
					s := testStream(addr, p)
					s.Name = flow.To(s.Name.Flow(), fmt.Sprint(i))
					at, err := check(s)
					if err != nil {
						t.Fatal(err)
					}
					st, err := g.stream(ctx, s, at, r.emit)
					if err != nil {
						t.Fatal(err)
					}
					if g.Room == nil {
						st.most = most
					}
					streams = append(streams, st)
				}
				for _, st := range streams {
					go st.run()
				}
				gomega.NewWithT(t).Eventually(func() int { return r.count(leftOut) }).WithTimeout(patience).Should(gomega.BeNumerically(">=", 40))
				if n := taken.Load(); n > limit {
					t.Errorf("%d connections are open, and there is room for %d", n, limit)
				}
				kill()
				for _, st := range streams {
					<-st.Done()
				}
				for _, st := range streams {
					accounted(t, st, r.all())
				}
			})
		}
	}
}

// accounted looks whether each number of a stream's schedule has its sample, and what those
// are that were not sent.
func accounted(t *testing.T, st *stream, all []timeline.Sample) {
	t.Helper()
	of := map[string]timeline.Sample{}
	for _, s := range all {
		if s.Stream == st.Name {
			of[s.ID] = s
		}
	}
	var last timeline.Sample
	for i, found := 0, 0; found < len(of); i++ {
		s, ok := of[fmt.Sprint(st.prefix, i)]
		switch {
		case !ok && (last.Start-last.Due <= maxLate || i > 1e6):
			t.Fatalf("%s: nothing tells of number %d, before the end of %d", st.Name, i, len(of))
		case !ok:
			continue // this machine stood still
		case s.Unsent() && (s.Outcome != timeline.Cancelled || !s.Saturated || s.Due == 0 || s.End != s.Start || s.Conn != 0 || !strings.HasPrefix(s.Err, "not sent: ")):
			t.Errorf("not sent, and recorded as %+v", s)
		}
		last = s
		found++
	}
}

// A place that was given back is there for the next.
func TestRoomAgain(t *testing.T) {
	t.Parallel()
	r := NewRoom(2)
	for range 3 {
		for n := 1; n <= 3; n++ {
			if got := r.enter(); got != (n <= 2) {
				t.Fatalf("room for number %d: %v", n, got)
			}
		}
		r.take() // what can't be left out is one too many
		r.give()
		if r.enter() {
			t.Fatal("there is room for three")
		}
		r.give()
		r.give()
	}
	var none *Room
	if none.take(); !none.enter() {
		t.Error("without a bound there is no room")
	}
	none.give()
}

// A system that answers nothing is not what a stream's bound is for: as long as each
// attempt ends with its budget, none is left out.
func TestBoundIsAboveAStandstill(t *testing.T) {
	for _, x := range []struct {
		rate   float64
		budget time.Duration
	}{{0.2, 10 * time.Second}, {5, 10 * time.Second}, {30, 12 * time.Second}, {500, 10 * time.Second}, {3, 40 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			now := func() time.Duration { return time.Since(start) }
			ctx, cancel := context.WithTimeout(t.Context(), 5*x.budget)
			defer cancel()
			var begun []time.Duration
			worst := 0
			s := load.Stream{Name: flow.Named("x"), Profile: load.Profile{Rate: x.rate}, Seed: 7}
			pace(ctx, s, now, 0, func(due time.Duration, _ int64) {
				begun = append(begun, due)
				from, _ := slices.BinarySearch(begun, due-x.budget)
				worst = max(worst, len(begun)-from)
			})
			if most := mostOf(x.rate, x.budget); len(begun) == 0 || int64(worst) > most/2+1 {
				t.Errorf("%v/s for %s: %d in flight at most, and the bound is %d", x.rate, x.budget, worst, most)
			}
		})
	}
}

// BenchmarkInFlight is what an attempt takes, in bytes, that waits for an answer:
// MaxInFlight of them must fit into an agent.
func BenchmarkInFlight(b *testing.B) {
	const n = 500
	for _, p := range []load.Profile{
		{Flow: flow.Flow{Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}},
		{Flow: flow.Flow{Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get, Delay: 20 * time.Millisecond}},
		{Flow: flow.Flow{Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Upload, Takes: time.Second}},
		{Flow: flow.Flow{Protocol: flow.H2C, Conns: flow.Reused, Op: flow.Get}},
		{Flow: flow.Flow{Protocol: flow.H2C, Conns: flow.Reused, Op: flow.Get, Delay: 20 * time.Millisecond}},
		{Flow: flow.Flow{Protocol: flow.H2C, Conns: flow.Shared, Op: flow.Bidi, Takes: time.Second}},
	} {
		b.Run(strings.ReplaceAll(testStream("", p).Name.String(), "/", " "), func(b *testing.B) {
			for b.Loop() {
				addr, _ := still(b)
				s := testStream(addr, p)
				at, err := check(s)
				if err != nil {
					b.Fatal(err)
				}
				ctx, kill := context.WithCancel(b.Context())
				st, err := Generator{}.stream(ctx, s, at, func(timeline.Record) {})
				if err != nil {
					b.Fatal(err)
				}
				before := inUse()
				for i := range int64(n) {
					st.attempts.Go(func() { st.attempt(timeline.Monotonic(), i) })
				}
				// Until all of them wait: there is nothing to see of that from outside.
				<-time.After(3 * time.Second)
				b.ReportMetric(float64(inUse()-before)/n, "B/attempt")
				kill()
				st.stop()
				st.finish()
			}
		})
	}
}

// inUse is the memory that lives, in bytes: heap and stacks.
func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
