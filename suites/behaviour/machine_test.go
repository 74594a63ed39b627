// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestABusyRecording(t *testing.T) {
	late := func(n int) recording {
		tl := &timeline.Timeline{}
		for i := range 100 {
			tl.Samples = append(tl.Samples, timeline.Sample{Saturated: i < n})
		}
		return recording{scene: assertions.Case{Timeline: tl}}
	}
	for name, tc := range map[string]struct {
		meta Meta
		late int
		want []string
	}{
		"calm":            {meta: Meta{Stolen: busyStolen, Waited: busyWaited}, late: 5},
		"stolen":          {meta: Meta{Stolen: 0.35}, want: []string{"took 35%", "limit 20%"}},
		"waited":          {meta: Meta{Waited: 0.99}, want: []string{"99% of the time"}},
		"late":            {late: 6, want: []string{"6% of the requests", "limit 5%"}},
		"late and waited": {meta: Meta{Waited: 0.99}, late: 50, want: []string{"50% of the requests", "99% of the time"}},
	} {
		r := late(tc.late)
		r.meta = tc.meta
		got := r.busy()
		if (got == "") != (len(tc.want) == 0) {
			t.Errorf("%s: %q", name, got)
		}
		for _, want := range tc.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q has no %q", name, got, want)
			}
		}
	}
}

// TestAControlIsRecordedAgain: one that proved nothing on a busy machine is put aside, and
// one that did prove something, or nothing on a calm machine, is left.
func TestAControlIsRecordedAgain(t *testing.T) {
	s := Scenario{Name: "kill-1", Control: true, Disrupt: disrupt.Disruption{Kind: disrupt.Kill}, Traffic: []load.Profile{{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 1}}}
	unseen := func(emit func(timeline.Record), _ *Meta) {
		emit(timeline.Record{Sample: &timeline.Sample{Stream: flow.Named("service/h2c/new/get"), ID: "x", Start: 2 * time.Second, End: 2*time.Second + 1, Outcome: timeline.OK, Phase: timeline.PhaseDone}})
	}
	for name, tc := range map[string]struct {
		edit  func(func(timeline.Record), *Meta)
		busy  bool
		again bool
	}{
		"it proved all, on a busy machine": {busy: true},
		"a stream saw nothing, busy":       {edit: unseen, busy: true, again: true},
		"a stream saw nothing, calm":       {edit: unseen},
		"it broke":                         {edit: func(_ func(timeline.Record), m *Meta) { m.Error = "no such image" }, busy: true},
		"its gate never opened, busy":      {edit: func(_ func(timeline.Record), m *Meta) { m.Doubt = "the steady gate never opened" }, busy: true, again: true},
	} {
		dir := t.TempDir()
		tape(t, dir, s, func(emit func(timeline.Record), m *Meta) {
			if tc.edit != nil {
				tc.edit(emit, m)
			}
			if tc.busy {
				m.Waited = 1
			}
		})
		r := &Recorder{cfg: Config{Dir: dir, Report: v1alpha1.ConformanceReport{Settings: v1alpha1.Settings{P: v1alpha1.Duration(3 * time.Second)}}}}
		r.run.Report = r.cfg.Report
		a, again, err := r.provedNothing(s, 1)
		if err != nil || again != tc.again {
			t.Errorf("%s: again %v, %v", name, again, err)
			continue
		}
		if _, err := os.Stat(filepath.Join(historyDir(dir, "kill-1.busy-1"), scenarioFile)); (err == nil) != tc.again {
			t.Errorf("%s: what was recorded before is kept: %v", name, err)
		}
		if tc.again && (a.Why == "" || a.Busy == "" || a.History != "kill-1.busy-1") {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// What fails while a node has no CPU for what runs there proves nothing, and what passes then has passed.
func TestStarvedNode(t *testing.T) {
	for name, tc := range map[string]struct {
		late   string // of the 50 turns of the second behind the disruption, which is half of what is recorded from there on
		fails  bool
		err    string
		want   spec.Verdict
		reason string
	}{
		"it fails as no lack of CPU makes it": {late: "40", fails: true, err: certain, want: spec.Fail},
		"it fails, and the nodes are on time": {fails: true, want: spec.Fail},
		"it fails, on a node that is late":    {late: "25", fails: true, want: spec.Fail},
		"it fails, on a node without CPU":     {late: "40", fails: true, want: spec.Inconclusive, reason: "one failed: that proves nothing, because what was to run on the node worker came late in 40% of the time (limit 30%)"},
		"it passes, on a node without CPU":    {late: "40", want: spec.Pass},
	} {
		verdict, reason := judged(t, func(emit func(timeline.Record), _ *Meta) {
			if tc.late != "" {
				emit(timeline.Record{Event: &timeline.Event{At: 5 * time.Second, Err: time.Second, Source: "witness", Kind: timeline.NodeStarved, Node: "worker", Attrs: map[string]string{"late": tc.late, "of": "50"}}})
			}
			if tc.fails {
				emit(timeline.Record{Sample: &timeline.Sample{
					Stream: flow.Named("service/http1/new/get"), ID: "x", Start: 6 * time.Second, End: 6*time.Second + 1, Outcome: timeline.Reset, Phase: timeline.PhaseFirstByte, Err: tc.err,
				}})
			}
		}, nil)
		if verdict != tc.want || reason != tc.reason {
			t.Errorf("%s: %v (%s), want %v (%s)", name, verdict, reason, tc.want, tc.reason)
		}
	}
}

// A recording that was stopped has no tail: it lasts as long as anything is told of it, and not as long as somebody is late.
func TestStarvedNodeOfStopped(t *testing.T) {
	const second = time.Second
	late := timeline.Event{At: 5 * second, Err: second, Kind: timeline.NodeStarved, Node: "worker", Attrs: map[string]string{"late": "50", "of": "50"}}
	for end, starved := range map[time.Duration]bool{7 * second: true, 100 * second: false} {
		tl := &timeline.Timeline{Events: []timeline.Event{late}, Samples: []timeline.Sample{{Start: end - 1, End: end}}}
		r := recording{scene: assertions.Case{Timeline: tl, Disturbed: 5 * second}}
		if got := r.starvedNode(); (got != "") != starved {
			t.Errorf("stopped at %v: %q", end, got)
		}
	}
}

func TestMedian(t *testing.T) {
	tl := &timeline.Timeline{}
	add := func(stream string, start, took time.Duration) {
		tl.Samples = append(tl.Samples, timeline.Sample{Stream: flow.Named(stream), Start: start, End: start + took, Outcome: timeline.OK})
	}
	const get = "service/http1/new/get"
	add(get, 500*time.Millisecond, 90*time.Millisecond) // before the gate
	for i, took := range []time.Duration{3, 1, 8} {
		add(get, time.Second+time.Duration(i), took*time.Millisecond)
	}
	add(get+"/delay=20ms", time.Second, 44*time.Millisecond)
	add("service/http1/new/slow/2s", time.Second, 2*time.Second)
	add(get, 6*time.Second, 70*time.Millisecond) // after the disruption
	r := recording{scene: assertions.Case{Timeline: tl, Steady: time.Second, Disturbed: 5 * time.Second}}
	if got := r.median(); got != 3*time.Millisecond {
		t.Errorf("%v, want 3ms", got)
	}
	if s, slow := r.slowest(); slow {
		t.Errorf("%s was slow", s.ID)
	}
	add(get, 2*time.Second, 1500*time.Millisecond)
	if s, slow := r.slowest(); !slow || s.End-s.Start != 1500*time.Millisecond {
		t.Errorf("the slow answer is not told: %+v", s)
	}
}

// TestLookSays: what is found of a machine is told, and waiting for a calm one ends.
func TestLookSays(t *testing.T) {
	if _, _, all := cpuTime(); all == 0 {
		t.Skip("nobody says how much of this machine is in use")
	}
	var said []string
	r := &Recorder{cfg: Config{Progress: func(p Progress) { said = append(said, p.Step) }}}
	r.run.Plan, r.beside = []Scenario{{Cost: 0.7}}, []*Recorder{r}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r.look(ctx)
	if len(said) != 1 || !strings.Contains(said[0], "in use; one recording takes up to 0.7") {
		t.Errorf("%q", said)
	}
}

// TestASplitControl: what each part saw counts for its own streams, and the verdict on the
// control is that of the worst part, once.
func TestASplitControl(t *testing.T) {
	dir := t.TempDir()
	stream := func(p flow.Protocol) load.Profile {
		return load.Profile{Flow: flow.Flow{Path: flow.Service, Protocol: p, Conns: flow.New, Op: flow.Get}, Rate: 1}
	}
	var parts []Scenario
	for i, p := range []flow.Protocol{flow.HTTP1, flow.H2C} {
		s := Scenario{
			Name: "kill-" + string(p), Part: i + 1, Control: true, Disrupt: disrupt.Disruption{Kind: disrupt.Kill}, Behaviours: []string{"a.kill"},
			Traffic: []load.Profile{stream(p)},
		}
		tape(t, dir, s, nil)
		parts = append(parts, s)
	}
	blind := recorded(t, dir, parts...).blind()
	for _, p := range []flow.Protocol{flow.HTTP1, flow.H2C} {
		if why := blind("", stream(p).Flow); why != "" {
			t.Error(why)
		}
	}
	if why := blind("", stream(flow.TLS1).Flow); why == "" {
		t.Error("a stream that no part of the control had sees deaths")
	}
	got := merged([]v1alpha1.Behaviour{
		{ID: "b", Verdict: spec.Pass}, {ID: "a.kill", Verdict: spec.Pass, Scenario: "one", Recorded: true, Findings: v1alpha1.Findings{{Check: "x"}}},
		{ID: "a.kill", Verdict: spec.Fail, Scenario: "two", Recorded: true, Findings: v1alpha1.Findings{{Check: "y"}}},
	})
	if len(got) != 2 || got[0].Verdict != spec.Fail || got[0].Scenario != "two" || len(got[0].Findings) != 2 || !got[0].Recorded {
		t.Errorf("%+v", got)
	}
}
