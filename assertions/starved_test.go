// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// A generator at 50/s that stood still: what it caught up with is saturated,
// and what it left out is missing from the numbers.
func TestStarved(t *testing.T) {
	const slot = 20 * time.Millisecond
	tests := map[string]struct {
		still  time.Duration // from 20 s on
		leaves bool          // overdue requests out
		want   bool
	}{
		"never":                        {0, false, false},
		"for 0.2 s":                    {200 * time.Millisecond, false, false},
		"for 0.9 s, and caught up":     {900 * time.Millisecond, false, true},
		"for 2.5 s, and left them out": {2500 * time.Millisecond, true, true},
		"for 5 s, and left them out":   {5 * time.Second, true, true},
		"for 20 s: no sample is near":  {20 * time.Second, true, true},
	}
	for name, x := range tests {
		t.Run(name, func(t *testing.T) {
			tl := &timeline.Timeline{}
			for k := range 60 * int(time.Second/slot) {
				due := time.Duration(k) * slot
				s := timeline.Sample{Stream: flow.Named("service/http1/new/get"), ID: fmt.Sprintf("00ff-%d", k), Due: due, Start: due}
				if due >= 20*sec && due < 20*sec+x.still {
					if x.leaves {
						continue
					}
					s.Start, s.Saturated = 20*sec+x.still, true
				}
				tl.Samples = append(tl.Samples, s)
			}
			tl.Sort()
			c := Case{Timeline: tl, P: 3 * sec}
			at := 20*sec + x.still/2
			if got := new(gather).starved(c, at, at); (got != "") != x.want {
				t.Errorf("starved: %q, want it: %v", got, x.want)
			}
			if got := new(gather).starved(c, 50*sec, 50*sec); got != "" {
				t.Errorf("starved long after: %q", got)
			}
		})
	}
}

// What was due and never sent is no sample, and is missed all the same.
func TestUnsentIsMissed(t *testing.T) {
	for _, x := range []struct {
		unsent, of int
		want       string
	}{
		{0, 100, ""},
		{9, 100, ""},
		{20, 100, "the machine was starved of CPU: 20 of 100 requests around then were sent late"},
	} {
		tl := &timeline.Timeline{}
		for k := range x.of {
			at := 20*sec + time.Duration(k)*10*time.Millisecond
			s := timeline.Sample{Stream: flow.Named("service/http1/new/get"), ID: fmt.Sprintf("00ff-%d", k), Due: at, Start: at, End: at, Outcome: timeline.OK, Phase: timeline.PhaseDone}
			if k > 10 && k <= 10+x.unsent {
				s.Outcome, s.Phase, s.Saturated = timeline.Cancelled, timeline.PhaseDue, true
			}
			tl.Samples = append(tl.Samples, s)
		}
		c := NewCase(tl, 3*sec)
		if len(c.Unsent) != x.unsent || c.Cancelled != 0 || len(c.Timeline.Samples) != x.of-x.unsent {
			t.Errorf("%d of %d: %d unsent, %d given up, %d samples", x.unsent, x.of, len(c.Unsent), c.Cancelled, len(c.Timeline.Samples))
		}
		if got := new(gather).starved(c, 20*sec, 20*sec); got != x.want {
			t.Errorf("%d of %d: starved: %q, want %q", x.unsent, x.of, got, x.want)
		}
	}
}

// A pod that never comes back has every request through its Service lost, and
// each of them asks whether the machine was starved.
func BenchmarkLate(b *testing.B) {
	const samples, lost, streams = 20_000, 5000, 8
	tl := &timeline.Timeline{}
	for k := range samples {
		at := time.Duration(k) * 100 * sec / samples
		tl.Samples = append(tl.Samples, timeline.Sample{
			Stream: flow.Named(fmt.Sprintf("service/http1/new/get/delay=%dms", k%streams)), ID: fmt.Sprintf("00ff-%d", k/streams),
			Due: at, Start: at, Saturated: k%5 == 0,
		})
	}
	c := Case{Timeline: tl, P: 3 * sec}
	for b.Loop() {
		var g gather
		for k := range lost {
			s := tl.Samples[k*samples/lost]
			g.late(c, s.Start, "uid-a", s.ID, "lost")
		}
		if g.excused != lost {
			b.Fatal(g.excused)
		}
	}
}

// On a starved machine no answer in time is a doubt, and a refusal is a loss.
func TestLost(t *testing.T) {
	tests := map[string]struct {
		outcome timeline.Outcome
		starved bool
		want    spec.Verdict
	}{
		"no answer in time":                       {timeline.Timeout, false, spec.Fail},
		"no answer in time, on a starved machine": {timeline.Timeout, true, spec.Inconclusive},
		"refused":                       {timeline.Refused, false, spec.Fail},
		"refused, on a starved machine": {timeline.Refused, true, spec.Fail},
		"reset, on a starved machine":   {timeline.Reset, true, spec.Fail},
	}
	for name, x := range tests {
		t.Run(name, func(t *testing.T) {
			tl := &timeline.Timeline{}
			for k := range 100 {
				at := time.Duration(k) * sec / 10
				tl.Samples = append(tl.Samples, timeline.Sample{Stream: flow.Named("service/http1/new/get"), ID: fmt.Sprintf("00ff-%d", k), Due: at, Start: at, Saturated: x.starved && k%2 == 0})
			}
			c := Case{Timeline: tl, P: 3 * sec, Terminations: []Ending{{UID: "uid-a", Drain: Instant{At: 3 * sec}}}}
			for _, at := range []int{40, 50} {
				var g gather
				s := tl.Samples[at]
				s.Outcome = x.outcome
				g.lost(c, s, "uid-a", "%s", describe(s))
				if f := g.conclude("", ""); f.Verdict != x.want {
					t.Errorf("D + %v: %s (%s), want %s", s.Start-3*sec, f.Verdict, f.Actual, x.want)
				}
			}
			// More than P after D, a refusal through the Service is its lateness.
			var g gather
			s := tl.Samples[80]
			s.Outcome = x.outcome
			g.lost(c, s, "uid-a", "%s", describe(s))
			want := x.want
			if x.starved && x.outcome == timeline.Refused {
				want = spec.Inconclusive
			}
			if f := g.conclude("", ""); f.Verdict != want {
				t.Errorf("D + 5s: %s (%s), want %s", f.Verdict, f.Actual, want)
			}
		})
	}
}

// What was overdue when it failed could only meet its end because it was late: on a starved
// machine that is a doubt. What failed in time, or brought other bytes, is a loss on any.
func TestOverdue(t *testing.T) {
	tests := map[string]struct {
		takes   time.Duration
		outcome timeline.Outcome
		first   bool // something of the answer had come
		starved bool
		want    spec.Verdict
	}{
		"overdue":                       {5 * sec, timeline.Reset, false, false, spec.Fail},
		"overdue, on a starved machine": {5 * sec, timeline.Reset, false, true, spec.Inconclusive},
		"overdue, with a status, on a starved machine":         {5 * sec, timeline.Status, true, true, spec.Inconclusive},
		"in time, on a starved machine":                        {sec / 2, timeline.Reset, false, true, spec.Fail},
		"overdue, and other bytes, on a starved machine":       {5 * sec, timeline.Corrupt, true, true, spec.Fail},
		"overdue, and a broken protocol, on a starved machine": {5 * sec, timeline.Malformed, true, true, spec.Fail},
	}
	for name, x := range tests {
		t.Run(name, func(t *testing.T) {
			tl := &timeline.Timeline{}
			for k := range 100 {
				at := time.Duration(k) * sec / 10
				tl.Samples = append(tl.Samples, timeline.Sample{Stream: flow.Named("direct/http1/new/get@uid-a"), ID: fmt.Sprintf("00ff-%d", k), Due: at, Start: at, Saturated: x.starved && k%2 == 0})
			}
			s := tl.Samples[40]
			s.Outcome, s.End = x.outcome, s.Start+x.takes
			if x.first {
				s.First = s.End - 1
			}
			c := Case{Timeline: tl, P: 3 * sec, Terminations: []Ending{{UID: "uid-a", Drain: Instant{At: 3 * sec}}}}
			for by, lost := range map[string]func(*gather){
				"lost":   func(g *gather) { g.lost(c, s, "uid-a", "%s", describe(s)) },
				"failed": func(g *gather) { g.failed(c, s, s.End, "uid-a", "%s", describe(s)) },
				"ended":  func(g *gather) { g.ended(c, c.Terminations[0], s, s.End, "%s", describe(s)) },
			} {
				var g gather
				lost(&g)
				if f := g.conclude("", ""); f.Verdict != x.want {
					t.Errorf("%s: %s (%s), want %s", by, f.Verdict, f.Actual, x.want)
				}
			}
		})
	}
}

// What was begun well before the listener's end and failed behind it may have met that end because it
// was late; what failed before it was refused by who accepts.
func TestOutlived(t *testing.T) {
	const shut = 8 * sec
	for name, x := range map[string]struct {
		begun, failed time.Duration
		starved       bool
		want          spec.Verdict
	}{
		"behind the end":                         {shut - 600*time.Millisecond, shut + 100*time.Millisecond, false, spec.Fail},
		"behind the end, on a starved machine":   {shut - 600*time.Millisecond, shut + 100*time.Millisecond, true, spec.Inconclusive},
		"before the end, on a starved machine":   {shut - 600*time.Millisecond, shut - 500*time.Millisecond, true, spec.Fail},
		"at the listener, on a starved machine ": {shut - 400*time.Millisecond, shut + 100*time.Millisecond, true, spec.Fail},
	} {
		tl := &timeline.Timeline{Events: []timeline.Event{{At: shut, Kind: timeline.DrainListenerClosed, Subject: "uid-a"}}}
		for k := range 200 {
			at := time.Duration(k) * sec / 20
			tl.Samples = append(tl.Samples, timeline.Sample{
				Stream: flow.Named("direct/http1/new/get@uid-a"), ID: fmt.Sprintf("00ff-%d", k), Nth: 1, Due: at, Start: at, End: at + sec/100,
				Outcome: timeline.OK, Phase: timeline.PhaseDone, Saturated: x.starved && k%2 == 0,
			})
			if s := &tl.Samples[k]; at == x.begun {
				s.Outcome, s.End = timeline.Reset, x.failed
			}
		}
		var g gather
		d := Instant{At: 3 * sec, Source: "test"}
		g.accepts(Case{Timeline: tl, P: 3 * sec}, Ending{UID: "uid-a", Drain: d}, d, "D", shut)
		if f := g.conclude("", ""); f.Verdict != x.want {
			t.Errorf("%s: %s (%s), want %s", name, f.Verdict, f.Actual, x.want)
		}
	}
}

// Where all readiness probes were late at once, nobody serves, and a reset
// through the Service is nobody's: the balancer has nowhere to send it.
func TestLostWhereNobodyServes(t *testing.T) {
	serving := func(at time.Duration, uid, is string) timeline.Event {
		return timeline.Event{At: at, Kind: timeline.Endpoint, Subject: uid, Attrs: map[string]string{"service": "echo", "serving": is}}
	}
	both := []timeline.Event{serving(0, "uid-a", "true"), serving(0, "uid-b", "true")}
	out := append(both[:2:2], serving(4*sec, "uid-a", "false"), serving(4*sec+1, "uid-b", "false"))
	back := append(out[:4:4], serving(6*sec, "uid-b", "true"))
	ending := timeline.Event{At: 4*sec + 1, Kind: timeline.Endpoint, Subject: "uid-b", Attrs: map[string]string{"service": "echo", "serving": "true", "terminating": "true"}}
	last := append(both[:2:2], serving(4*sec, "uid-a", "false"), ending)
	all := append(both[:1:1], ending)
	all[0].Attrs = map[string]string{"service": "echo", "serving": "false", "terminating": "true"}
	gone := append(both[:2:2], serving(4*sec, "uid-a", "false"), timeline.Event{At: 4*sec + 1, Kind: timeline.EndpointGone, Subject: "uid-b", Attrs: map[string]string{"service": "echo"}})
	behind := serving(0, "uid-c", "true")
	behind.Attrs["service"] = "backend"
	beside := append([]timeline.Event{behind}, out...)
	for name, x := range map[string]struct {
		events  []timeline.Event
		starved bool
		answers time.Duration
		want    spec.Verdict
	}{
		"one serves":               {both, true, 0, spec.Fail},
		"nobody":                   {out, true, 0, spec.Inconclusive},
		"nobody but a backend":     {beside, true, 0, spec.Inconclusive},
		"nobody, and not starved":  {out, false, 0, spec.Fail},
		"nobody, and half answer":  {out, true, 1, spec.Fail},
		"nobody, on a kept one":    {out, true, -1, spec.Fail},
		"nobody until just before": {back, true, 0, spec.Inconclusive},
		"the other is gone":        {gone, true, 0, spec.Inconclusive},
		"the other terminates":     {last, true, 0, spec.Inconclusive},
		"both terminate":           {all, true, 0, spec.Fail},
	} {
		t.Run(name, func(t *testing.T) {
			tl := &timeline.Timeline{Events: x.events}
			for k := range 100 {
				at := time.Duration(k) * sec / 10
				tl.Samples = append(tl.Samples, timeline.Sample{Stream: flow.Named("service/http1/new/get"), ID: fmt.Sprintf("00ff-%d", k), Due: at, Start: at, End: at + sec/10, Saturated: x.starved && k%2 == 0})
			}
			s := tl.Samples[70]
			s.Outcome, s.First = timeline.Closed, x.answers
			if x.answers < 0 {
				s.First, s.Nth = 0, 2
			}
			var g gather
			g.lost(Case{Timeline: tl, P: 3 * sec}, s, "uid-a", "%s", describe(s))
			if f := g.conclude("", ""); f.Verdict != x.want {
				t.Errorf("%s (%s), want %s", f.Verdict, f.Actual, x.want)
			}
		})
	}
	// Long after, they are all back.
	var g gather
	s := timeline.Sample{Stream: flow.Named("service/http1/new/get"), Start: 20 * sec, End: 20 * sec, Outcome: timeline.Reset}
	if g.lost(Case{Timeline: &timeline.Timeline{Events: back}, P: 3 * sec}, s, "uid-a", "lost"); len(g.finding.Culprits) != 1 {
		t.Error("a reset while somebody served was excused")
	}
}

// A node on which what was to run came late for three tenths of the time excuses what was late then, on whichever node the clients are;
// one that is late for less, or at another time, does not.
func TestStarvedNode(t *testing.T) {
	starved := func(node string, at time.Duration, late int) timeline.Event {
		return timeline.Event{At: at, Err: sec, Kind: timeline.NodeStarved, Node: node, Attrs: map[string]string{"late": strconv.Itoa(late), "of": "50"}}
	}
	long := func(node string, from time.Duration, late int) (out []timeline.Event) {
		for k := range 3 {
			out = append(out, starved(node, from+time.Duration(k)*sec, late))
		}
		return out
	}
	for name, tc := range map[string]struct {
		told []timeline.Event
		want string
	}{
		"nobody":                    {},
		"one, for a second":         {told: []timeline.Event{starved("b", 20*sec, 50)}},
		"one, for most of three":    {told: long("b", 19*sec, 45), want: "the node b was starved of CPU: what was to run there came late in 2.7s of the 6s around then"},
		"one, for half of three":    {told: long("b", 19*sec, 25)},
		"two, for too little each":  {told: slices.Concat(long("a", 19*sec, 25), long("b", 19*sec, 25))},
		"one, in all of six":        {told: slices.Concat(long("a", 18*sec, 20), long("a", 21*sec, 20)), want: "the node a was starved of CPU: what was to run there came late in 2.2s of the 6s around then"},
		"one, long before":          {told: long("b", 10*sec, 50)},
		"one, for most, half of it": {told: long("b", 15*sec+sec/2, 50)},
	} {
		tl := &timeline.Timeline{Events: tc.told}
		c, at := Case{Timeline: tl, P: 3 * sec}, 20*sec+sec/2
		if got := new(gather).starved(c, at, at); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
		// What happens on one node has nothing to do with the others.
		if got := new(gather).starvedOn(c, "c", at, at); got != "" {
			t.Errorf("%s: %q of a node of which nothing is told", name, got)
		}
		var node string
		if n, _ := fmt.Sscanf(tc.want, "the node %s ", &node); n == 1 {
			if got := new(gather).starvedOn(c, node, at, at); got != tc.want {
				t.Errorf("%s: %q of the node %s, want %q", name, got, node, tc.want)
			}
		}
	}
}
