// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"strings"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// crowded is healthy with as many requests as NothingTwice asks for.
func crowded() *scene {
	s := healthy()
	s.stream("service/h2c/new/get", 1250, func(x *timeline.Sample) { x.Server = "uid-b" })
	return s
}

// again makes all requests ones of a method, of which one that was begun at
// 12 s was done again 80 ms later, in these steps.
func (s *scene) again(method string, steps ...timeline.Step) {
	for i := range s.tl.Ledger {
		s.tl.Ledger[i].Method = method
	}
	for _, e := range s.tl.Ledger {
		if e.Step == timeline.Begin && e.At == 12*sec && strings.HasPrefix(e.ID, "service/h2c") {
			for _, step := range steps {
				e.At, e.Step, e.Whole = 12*sec+80*time.Millisecond, step, step == timeline.Done
				s.tl.Ledger = append(s.tl.Ledger, e)
			}
		}
	}
}

func TestTwice(t *testing.T) {
	build := once(crowded)
	for _, row := range []struct {
		name   string
		method string
		steps  []timeline.Step
		want   spec.Verdict
		says   string
	}{
		{"once", "POST", nil, spec.Pass, ""},
		{"a POST", "POST", []timeline.Step{timeline.Begin, timeline.Done}, spec.Fail, "POST begun 2 times, ended whole 2 times"},
		{"a POST that ended again", "POST", []timeline.Step{timeline.Done}, spec.Fail, "POST begun 1 time, ended whole 2 times"},
		{"a GET", "GET", []timeline.Step{timeline.Begin, timeline.Done}, spec.Pass, "1 was done more than once"},
		{"nobody says what it was", "", []timeline.Step{timeline.Begin}, spec.Fail, "begun 2 times, ended whole 1 time"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := build()
			s.again(row.method, row.steps...)
			f := s.run(NothingTwice())
			if f.Verdict != row.want {
				t.Fatalf("verdict %v, want %v: %s", f.Verdict, row.want, f.Actual)
			}
			said := f.Actual
			for _, c := range f.Culprits {
				said += "\n" + c.Text
				if c.At != 12*sec+80*time.Millisecond || !f.Window.Contains(c.At) {
					t.Errorf("dated at %s", c.At)
				}
			}
			if !strings.Contains(said, row.says) {
				t.Errorf("%q does not say %q", said, row.says)
			}
		})
	}
}

// A system without keep-alive opens a connection for each request: then nothing
// was offered on reused ones, whatever the stream is called.
func TestReusedIsNotAName(t *testing.T) {
	for _, row := range []struct {
		name  string
		build func() *scene
		check Check
	}{
		{"zero failed", func() *scene {
			s := healthy()
			s.stream("service/h2c/new/get", 2000, func(x *timeline.Sample) { x.Server = "uid-b" })
			return s
		}, ZeroFailed()},
		{"prefers ready", healthy, PrefersReady()},
		{"outage", outageScene, DrainsThroughOutage(12 * sec)},
		{"push", pushed, PushDrainsNothing()},
		{"local rollout", behindBalancer, LocalRollout(sec, 2)},
	} {
		t.Run(row.name, func(t *testing.T) {
			build := once(row.build)
			if f := build().run(row.check); f.Verdict != spec.Pass {
				t.Fatalf("with keep-alive: %v: %s", f.Verdict, f.Actual)
			}
			s := build()
			s.each(func(x *timeline.Sample) { x.Nth = min(x.Nth, 1) })
			if f := s.run(row.check); f.Verdict != spec.Inconclusive || !strings.Contains(f.Actual, "reused connections") {
				t.Errorf("without: %v: %s", f.Verdict, f.Actual)
			}
		})
	}
}

func TestPlural(t *testing.T) {
	for n, want := range map[int]string{0: "0 pods", 1: "1 pod", 2: "2 pods"} {
		if got := plural(n, "pod", "pods"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What a client cuts by design no backend has whole, and nobody misses it.
func TestAbandonedIsNotMissed(t *testing.T) {
	s := healthy()
	s.stream("direct/http1/new/abandoned/1s", 20, func(x *timeline.Sample) { x.Server = "uid-b" })
	for i, e := range s.tl.Ledger {
		if strings.Contains(e.ID, "abandoned") {
			s.tl.Ledger[i].Whole = false
		}
	}
	r := Reconcile(&s.tl)
	if !r.Agrees() || r.Answered >= r.Attempts {
		t.Errorf("%d of %d answered, %d unaccounted, %d strange", r.Answered, r.Attempts, len(r.Unaccounted), len(r.Strange))
	}
}
