// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// The window reaches to the last exit, whoever's D was the last.
func TestWindow(t *testing.T) {
	at := func(d time.Duration) Instant { return Instant{At: d, Source: "t"} }
	w := window(Case{P: 3 * sec, Terminations: []Ending{
		{Drain: Instant{At: 10 * sec, Err: sec, Source: "t"}, Exit: at(40 * sec)},
		{Drain: at(20 * sec), Exit: at(25 * sec)},
	}})
	if w.From != 9*sec || w.To != 43*sec {
		t.Errorf("from %s to %s, want from 9s to 43s", w.From, w.To)
	}
}

// What no request failed in is a pass only where the load went on to the last exit + P,
// which somebody saw.
func TestZeroFailedNeedsAnEnd(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(*scene)
		want  spec.Verdict
		says  string
	}{
		{"it goes on", func(*scene) {}, spec.Pass, ""},
		{"the load ends before exit + P", func(s *scene) {
			s.drop(func(e timeline.Event) bool { return e.Attrs["what"] == MarkTail })
			s.saw(24*sec, timeline.Marker, "", map[string]string{"what": MarkTail})
		}, spec.Inconclusive, "the load ended 1.2s before"},
		{"nobody saw the exit", func(s *scene) {
			s.drop(func(e timeline.Event) bool { return e.Kind == timeline.ProcExit || e.Kind == timeline.PodGone })
		}, spec.Inconclusive, "nobody saw pod-a exit"},
		{"what fails after the last exit + P", func(s *scene) {
			s.each(func(x *timeline.Sample) {
				if throughService(*x) && x.Start > 25*sec+300*time.Millisecond {
					fail(x, timeline.Refused)
				}
			})
		}, spec.Pass, ""},
	} {
		s := healthy()
		s.stream("service/h2c/new/get", 2000, func(x *timeline.Sample) { x.Server = "uid-b" })
		tc.spoil(s)
		if f := s.run(ZeroFailed()); f.Verdict != tc.want || !strings.Contains(f.Actual, tc.says) {
			t.Errorf("%s: %v (%s), want %v (%s)", tc.name, f.Verdict, f.Actual, tc.want, tc.says)
		}
	}
}

// One backend's word that a request may be done once only is enough; and few entries
// prove nothing.
func TestReconcileByOneWord(t *testing.T) {
	for _, methods := range [][]string{{"GET", "POST"}, {"POST", "GET"}} {
		tl := &timeline.Timeline{}
		for i, m := range methods {
			tl.Ledger = append(tl.Ledger, timeline.Entry{At: time.Duration(i), ID: "x", Step: timeline.Begin, Pod: "p", Method: m})
		}
		if r := Reconcile(tl); len(r.Duplicated) != 1 || r.Repeated != 0 {
			t.Errorf("%v: %d duplicated, %d repeated", methods, len(r.Duplicated), r.Repeated)
		}
	}
	if f := healthy().run(NothingTwice()); f.Verdict != spec.Inconclusive || !strings.Contains(f.Actual, "ledger entries begun") {
		t.Errorf("with few entries: %v (%s)", f.Verdict, f.Actual)
	}
}

// A request that breaks where D may have been is a doubt, and one that ends well is not.
func TestInflightWithinTheUncertaintyOfD(t *testing.T) {
	for _, outcome := range []timeline.Outcome{timeline.OK, timeline.Truncated} {
		s := healthy()
		s.blurD(500 * time.Millisecond)
		x := timeline.Sample{
			Stream: flow.Named("direct/http1/reused/slow/2s@" + uid), ID: "x", Nth: 2, Start: 9700 * time.Millisecond, End: 11700 * time.Millisecond,
			Outcome: outcome, Phase: timeline.PhaseBody, Server: uid,
		}
		s.add(x)
		want := map[timeline.Outcome]spec.Verdict{timeline.OK: spec.Pass, timeline.Truncated: spec.Inconclusive}[outcome]
		if f := s.run(CompletesInflight()); f.Verdict != want {
			t.Errorf("%s: %v (%s), want %v", outcome, f.Verdict, f.Actual, want)
		}
	}
}

// A rolling update of two pods is whole where two were there at its begin and left, and
// two came.
func TestRollingUpdateIsWhole(t *testing.T) {
	for _, tc := range []struct {
		name              string
		old, left, came   int
		leftBefore, after int
		whole             bool
	}{
		{name: "whole", old: 2, left: 2, came: 2, whole: true},
		{name: "one was not there", old: 1, left: 1, came: 2},
		{name: "one did not leave", old: 2, left: 1, came: 2},
		{name: "one did not come", old: 2, left: 2, came: 1},
		{name: "one had left before", old: 1, left: 1, came: 2, leftBefore: 1},
		{name: "one left when the recording was over", old: 2, left: 1, came: 2, after: 1},
	} {
		s := &scene{}
		s.saw(20*sec, timeline.Marker, "", map[string]string{"what": MarkTail})
		s.tl.Events = append(s.tl.Events, timeline.Event{At: 10 * sec, Kind: timeline.Disruption, Subject: "dep", Name: "echo", Attrs: map[string]string{"what": "rollout"}})
		s.saw(sec, timeline.Deployment, "dep", map[string]string{"replicas": "2", "maxUnavailable": "1", "minReadySeconds": "0"})
		for i := range tc.old + tc.leftBefore {
			uid := fmt.Sprint("old-", i)
			s.pod(uid, sec)
			switch {
			case i >= tc.old:
				s.saw(5*sec, timeline.PodDeletion, uid, nil)
			case i < tc.left:
				s.saw(11*sec, timeline.PodDeletion, uid, nil)
			case i < tc.left+tc.after:
				s.saw(21*sec, timeline.PodDeletion, uid, nil)
			}
		}
		for i := range tc.came {
			s.pod(fmt.Sprint("new-", i), 12*sec)
		}
		s.tl.Sort()
		var g gather
		if _, ok := g.rollingUpdate(NewCase(&s.tl, 3*sec)); !ok || tc.whole != (len(g.doubts) == 0) {
			t.Errorf("%s: doubts %q", tc.name, g.doubts)
		}
	}
}

// A pod is ready since it was first said, until it is said not to be.
func TestReadySince(t *testing.T) {
	p := replica{left: 30, ready: []readiness{{at: 2, is: true}, {at: 5, is: true}, {at: 8}, {at: 10, is: true}}}
	for at, want := range map[time.Duration]time.Duration{1: -1, 2: 2, 6: 2, 8: -1, 9: -1, 12: 10, 29: 10, 30: -1} {
		since, ok := p.readySince(at)
		if ok != (want >= 0) || ok && since != want {
			t.Errorf("at %d: ready since %d, %t, want %d", at, since, ok, want)
		}
	}
}
