// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func sample(id string) Behaviour {
	return Behaviour{
		ID: id, Title: "t", Level: spec.Must, Why: "w", Causes: "c", Fix: "f",
		Refs: []spec.Ref{{Doc: "project", Quote: "q"}}, Labels: []string{"core"},
		Topology: SlowDrain, Disrupt: DeleteEach,
		Traffic: []load.Profile{{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 20}},
		Checks:  []assertions.Check{assertions.LegalConditions()}, BrokenBy: []spec.Fault{"x"},
		Resolution: 60 * time.Millisecond,
	}
}

// says is a check that says the same of everything.
func says(f spec.Finding) []assertions.Check {
	return []assertions.Check{{Name: "c", Judge: func(assertions.Case) spec.Finding { return f }}}
}

func TestFoldJoinsWhatIsRecordedOnce(t *testing.T) {
	a, b, c, kill := sample("a.a"), sample("a.b"), sample("a.c"), sample("a.kill")
	b.Traffic = []load.Profile{
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 50},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 10},
	}
	b.Resolution = 20 * time.Millisecond
	c.Disrupt = RollingUpdate
	c.Traffic[0].Rate = 500
	kill.Disrupt, kill.Level = KillEach, spec.Control

	got := Fold([]Behaviour{a, b, c, kill}, "", false)
	if len(got) != 3 {
		t.Fatalf("%d scenarios, want 3", len(got))
	}
	control, shared := got[0], got[1]
	if !control.Control {
		t.Error("the control must be recorded first")
	}
	if len(control.Traffic) != 2 {
		t.Errorf("the control needs everybody's streams, it has %v", control.Traffic)
	}
	for _, p := range control.Traffic {
		if p.Rate > 60 {
			t.Errorf("the control runs %s at %v/s", p.Flow.String(), p.Rate)
		}
	}
	if diff := cmp.Diff([]string{"a.a", "a.b"}, shared.Behaviours); diff != "" {
		t.Error(diff)
	}
	want := []load.Profile{b.Traffic[1], b.Traffic[0]}
	if diff := cmp.Diff(want, shared.Traffic); diff != "" {
		t.Errorf("the union of the traffic, at the larger rate: %s", diff)
	}
	if shared.Resolution != 20*time.Millisecond || shared.Cost <= a.Cost() {
		t.Errorf("resolution %v, cost %v", shared.Resolution, shared.Cost)
	}
	if n := len(Fold([]Behaviour{a, b, c, kill}, "", true)); n != 4 {
		t.Errorf("isolated: %d scenarios, want 4", n)
	}
	if x, y := Fold([]Behaviour{a}, "", false), Fold([]Behaviour{a}, "f", false); x[0].Name == y[0].Name {
		t.Error("a fault must make another scenario")
	}
	for _, fault := range []spec.Fault{"", "f"} {
		if first := Fold([]Behaviour{a, b, c, kill}, fault, false)[0]; !first.Control {
			t.Errorf("under fault %q the first is %s, and not the control", fault, first.Name)
		}
	}
}

// Each role that behaviours are about has a control of its own: it kills what they end, under
// their traffic and no other's.
func TestAControlForEachRole(t *testing.T) {
	app, gate, kill := sample("a.app"), sample("a.gate"), sample("a.kill")
	kill.Disrupt, kill.Level = KillEach, spec.Control
	gate.Topology.Role = system.Gateway
	gate.Traffic = []load.Profile{{Flow: flow.Flow{Path: flow.Service, Protocol: flow.H2C, Conns: flow.New, Op: flow.Get}, Rate: 5}}
	controls := func(of ...Behaviour) (out []Scenario) {
		for _, s := range Fold(append(of, kill), "", false) {
			if s.Control {
				out = append(out, s)
			}
		}
		return out
	}
	has := func(s Scenario) bool {
		return slices.ContainsFunc(s.Traffic, func(p load.Profile) bool { return p.Flow.String() == gate.Traffic[0].Flow.String() })
	}
	both := controls(app, gate)
	if len(both) != 2 || both[0].Name == both[1].Name {
		t.Fatalf("%+v", both)
	}
	for _, s := range both {
		if has(s) != (s.Topology.Role == system.Gateway) || !slices.Equal(s.Behaviours, []string{"a.kill"}) {
			t.Errorf("%+v", s)
		}
	}
	if only := controls(gate); len(only) != 1 || only[0].Topology.Role != system.Gateway {
		t.Errorf("of a gateway alone: %+v", only)
	}
	if none := controls(); len(none) != 1 || none[0].Topology.Role != kill.Topology.Role {
		t.Errorf("alone: %+v", none)
	}
}

// Every gRPC client has one in the control whose calls are in flight at a kill.
func TestControlOfCalls(t *testing.T) {
	a, kill := sample("a.a"), sample("a.kill")
	kill.Disrupt, kill.Level, kill.Traffic = KillEach, spec.Control, nil
	call := func(op flow.Op, takes time.Duration, rate float64) load.Profile {
		return load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2C, Conns: flow.Reused, Op: op, Takes: takes}, Rate: rate}
	}
	a.Traffic = []load.Profile{call(flow.Unary, 0, 10), call(flow.ServerStream, 3*time.Second, 3), call(flow.Bidi, 3*time.Second, 3)}
	want := []load.Profile{call(flow.Bidi, 2*time.Second, 2), call(flow.ServerStream, 2*time.Second, 2), call(flow.Unary, 0, 5)}
	if diff := cmp.Diff(want, Fold([]Behaviour{a, kill}, "", false)[0].Traffic); diff != "" {
		t.Error(diff)
	}
	for _, p := range a.Traffic {
		in := assertions.StandIn(p.Flow)
		if !slices.ContainsFunc(want, func(p load.Profile) bool { return p.Flow == in }) {
			t.Errorf("%s stands in for %s, and is not in the control", in, p.Flow)
		}
	}
}

func TestPlanOfTheKillMatrix(t *testing.T) {
	a, b, c, alone, kill := sample("a.a"), sample("a.b"), sample("a.c"), sample("a.alone"), sample("a.kill")
	a.BrokenBy, b.BrokenBy, c.BrokenBy = []spec.Fault{"x", "y"}, []spec.Fault{"z"}, []spec.Fault{"x"}
	c.Disrupt = RollingUpdate
	alone.Disrupt, alone.BrokenBy = EveryWay, []spec.Fault{"x"}
	kill.Disrupt, kill.Level, kill.BrokenBy = KillEach, spec.Control, []spec.Fault{"k"}
	all := []Behaviour{alone, a, b, c, kill}

	told := func(plan []Scenario) []string {
		var out []string
		for _, s := range plan {
			out = append(out, strings.Join(append([]string{string(s.Disrupt.Kind), string(s.Fault)}, s.Behaviours...), " "))
		}
		// What runs side by side stands in any order.
		slices.Sort(out[1 : len(out)-1])
		return out
	}
	// The healthy control first, what runs alone last.
	if diff := cmp.Diff([]string{
		"kill  a.kill", "delete x a.a", "delete z a.b", "kill k a.kill", "rollout x a.c", "every-way x a.alone",
	}, told(Plan(all, How{Matrix: Diagonal}))); diff != "" {
		t.Errorf("each behaviour under its first fault: %s", diff)
	}
	if diff := cmp.Diff([]string{
		"kill  a.kill", "delete x a.a a.b", "delete y a.a a.b", "delete z a.a a.b", "kill k a.kill", "rollout x a.c", "every-way x a.alone",
	}, told(Plan(all, How{Matrix: Whole}))); diff != "" {
		t.Errorf("each fault in the scenarios of who names it: %s", diff)
	}
	// One broken end is enough, except where a client may stick to another instance, or each instance has a reason of its own.
	sticks := a
	sticks.Traffic = []load.Profile{{Flow: flow.Flow{Path: flow.Sticky, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 1}}
	atZero := a
	atZero.Topology, atZero.Disrupt = BesideAtZero, DeleteUncounted
	for n, want := range map[int]Behaviour{1: a, SlowDrain.Replicas: sticks, BesideAtZero.Replicas: atZero} {
		for _, s := range Plan([]Behaviour{want, kill}, How{Matrix: Diagonal}) {
			if s.Fault == "x" && s.Disrupt.Targets != n {
				t.Errorf("%d instances end, want %d: %s", s.Disrupt.Targets, n, s.Name)
			}
		}
	}
	for _, s := range Plan(all, How{Matrix: Whole}) {
		if s.Disrupt.Kind == a.Disrupt.Kind && s.Disrupt.Targets != a.Disrupt.Targets {
			t.Errorf("the whole matrix records what a run does: %s", s.Name)
		}
	}
}

func TestPredictCountsWhatRunsSideBySide(t *testing.T) {
	s := Scenario{Topology: SlowDrain, Disrupt: DeleteEach, Cost: OnCluster.cores()/2 - OnCluster.Own}
	one, four := OnCluster.predict([]Scenario{s}), OnCluster.predict([]Scenario{s, s, s, s})
	if one != OnCluster.Estimate(s) || four != 2*one {
		t.Errorf("one takes %v of %v, four at half of the machine each %v", one, OnCluster.Estimate(s), four)
	}
	apart := s
	apart.Disrupt = EveryWay
	if got := OnCluster.predict([]Scenario{s, apart}); got != OnCluster.Estimate(s)+OnCluster.Estimate(apart) {
		t.Errorf("what runs alone comes on top: %v", got)
	}
}

// The rest of a run is told by the clock: it shrinks while a recording goes on, and grows
// once more time lies behind than was predicted of all.
func TestLeft(t *testing.T) {
	s := Scenario{Name: "a", Topology: SlowDrain, Disrupt: DeleteEach, Cost: OnHost.cores()}
	other := s
	other.Name = "b"
	one := OnHost.Estimate(s)
	began := time.Now()
	for _, c := range []struct {
		name  string
		begun map[string]time.Duration // after the first
		ended []string
		after time.Duration
		want  time.Duration
	}{
		{"nothing has begun", nil, nil, 0, 2 * one},
		{"in the middle of the first", map[string]time.Duration{"a": 0}, nil, one / 2, one + one/2},
		{"after the first", map[string]time.Duration{"a": 0}, []string{"a"}, one, one},
		{"the first took twice as long", map[string]time.Duration{"a": 0}, []string{"a"}, 2 * one, one},
		{"the first took four times as long", map[string]time.Duration{"a": 0}, []string{"a"}, 4 * one, 2 * one},
		{"the first took half as long", map[string]time.Duration{"a": 0}, []string{"a"}, one / 2, one},
		{"both are over", map[string]time.Duration{"a": 0, "b": one}, []string{"a", "b"}, 3 * one, 0},
	} {
		r := &Recorder{cfg: Config{Price: OnHost}, run: Run{Plan: []Scenario{s, other}}, begun: map[string]time.Time{}, ended: map[string]bool{}}
		for name, at := range c.begun {
			r.begun[name] = began.Add(at)
		}
		for _, name := range c.ended {
			r.ended[name] = true
		}
		if got := left([]*Recorder{r}, began.Add(c.after)); got.Round(time.Millisecond) != c.want.Round(time.Millisecond) {
			t.Errorf("%s: %v left, want %v", c.name, got, c.want)
		}
	}
}

// A kill may be what a behaviour is about: its scenario is no control, and runs beside others.
func TestAKillIsNoControlByItself(t *testing.T) {
	kill, crash := sample("a.kill"), sample("a.crash")
	kill.Disrupt, kill.Level = KillEach, spec.Control
	crash.Disrupt = KillEach
	plan := Fold([]Behaviour{crash, kill}, "", false)
	if len(plan) != 2 {
		t.Fatalf("%d scenarios, want 2", len(plan))
	}
	for i, want := range []struct {
		of      string
		control bool
		tail    time.Duration
	}{{"a.kill", true, time.Second}, {"a.crash", false, time.Second + tailFor}} {
		s := plan[i]
		if s.Behaviours[0] != want.of || s.Control != want.control || alone(s, "") != want.control || s.tail(time.Second) != want.tail {
			t.Errorf("%v: control %t, alone %t, a tail of %s", s.Behaviours, s.Control, alone(s, ""), s.tail(time.Second))
		}
		if !s.killsLedger() {
			t.Errorf("%v: who is killed writes no more", s.Behaviours)
		}
	}
}

// Recordings and plans that are older than FormatControl don't name their control.
func TestInOldFormatsAKillIsTheControl(t *testing.T) {
	old := Fold([]Behaviour{sample("a.a")}, "", false)[0]
	old.Disrupt = KillEach
	for format, want := range map[int]bool{0: true, FormatPressure: true, FormatControl: false} {
		dir := t.TempDir()
		if err := writeJSON(filepath.Join(dir, scenarioFile), Meta{Format: format, Scenario: old}); err != nil {
			t.Fatal(err)
		}
		if m, err := readMeta(dir); err != nil || m.Scenario.Control != want {
			t.Errorf("format %d: control %t, %v", format, m.Scenario.Control, err)
		}
	}
	other := old
	other.Name, other.Disrupt = "other", DeleteEach
	named := other
	named.Name, named.Control = "named", true
	for i, tc := range []struct{ plan, want []Scenario }{
		{[]Scenario{old, other}, []Scenario{func() Scenario { s := old; s.Control = true; return s }(), other}},
		{[]Scenario{old, named}, []Scenario{old, named}},
	} {
		dir := t.TempDir()
		if err := writeJSON(filepath.Join(dir, runFile), Run{Plan: tc.plan}); err != nil {
			t.Fatal(err)
		}
		got, err := readRun(dir)
		if d := cmp.Diff(tc.want, got.Plan); err != nil || d != "" {
			t.Errorf("plan %d: %v\n%s", i, err, d)
		}
	}
}

func TestValidateListsAllBugsAtOnce(t *testing.T) {
	bad := Behaviour{ID: "Nonsense"}
	twice, harmless := sample("a.a"), sample("a.control")
	harmless.Level = spec.Control
	one := assertions.Floor{Name: "n", N: 1}
	harmless.Checks = []assertions.Check{{Name: "c", Floors: []assertions.Floor{one, one}}}
	err := Validate([]Behaviour{bad, twice, twice, harmless})
	if err == nil {
		t.Fatal("a broken catalogue passes")
	}
	for _, want := range []string{"not of the form", "taken", "no reference", "no check", "no fault", "no traffic", "Title is empty", "a control kills", `two floors for "n"`, `the profile is "", and its area belongs to "gateway"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not reported in: %v", want, err)
		}
	}
}

func TestSelect(t *testing.T) {
	all := []Behaviour{sample("a.a"), sample("a.b")}
	all[1].Labels = nil
	for _, tc := range []struct {
		name        string
		labels, ids []string
		want        int
		err         string
	}{
		{"all", nil, nil, 2, ""},
		{"label", []string{"core"}, nil, 1, ""},
		{"id", nil, []string{"a.b"}, 1, ""},
		{"both", []string{"core"}, []string{"a.b"}, 2, ""},
		{"no such label", []string{"cor"}, nil, 0, `label "cor"`},
		{"no such id", nil, []string{"a.c"}, 0, `called "a.c"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Select(all, tc.labels, tc.ids)
			if (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("error %v, want %q", err, tc.err)
			}
			if len(got) != tc.want {
				t.Errorf("%d selected, want %d", len(got), tc.want)
			}
		})
	}
}
