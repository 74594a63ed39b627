// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// tape is a small recording: two clean streams before the disruption, and
// whatever a test adds. The check passes unless a sample after it failed.
func tape(t *testing.T, dir string, s Scenario, edit func(emit func(timeline.Record), meta *Meta)) {
	t.Helper()
	h := historyDir(dir, s.Name)
	if err := os.MkdirAll(h, 0o755); err != nil {
		t.Fatal(err)
	}
	rec, err := timeline.NewRecorder(h, 0)
	if err != nil {
		t.Fatal(err)
	}
	emit := func(r timeline.Record) {
		if err := rec.Record(r); err != nil {
			t.Fatal(err)
		}
	}
	mark := func(at time.Duration, kind timeline.EventKind, attrs map[string]string) {
		emit(timeline.Record{Event: &timeline.Event{At: at, Source: "runner", Kind: kind, Subject: "uid", Attrs: attrs}})
	}
	stream := s.Traffic[0].Flow.String()
	mark(1*time.Second, timeline.Marker, map[string]string{"what": assertions.MarkSteady})
	for i := range 20 {
		at := time.Second + time.Duration(i+1)*100*time.Millisecond
		emit(timeline.Record{Sample: &timeline.Sample{Stream: flow.Named(stream), ID: stream + at.String(), Start: at, End: at + 1, Outcome: timeline.OK, Phase: timeline.PhaseDone}})
	}
	attrs := map[string]string{"what": "delete", "step": "asked"}
	if s.Control {
		attrs = map[string]string{"what": "kill", "signal": "KILL"}
	}
	mark(5*time.Second, timeline.Disruption, attrs)
	if s.Control {
		mark(5*time.Second+1, timeline.ProcExit, nil)
	} else {
		mark(5*time.Second+1, timeline.PodDeletion, nil)
	}
	meta := Meta{Scenario: s, Ended: true}
	if s.Control {
		emit(timeline.Record{Sample: &timeline.Sample{Stream: flow.Named(stream), ID: "dead", Start: 5 * time.Second, End: 5*time.Second + 1, Outcome: timeline.Reset, Phase: timeline.PhaseFirstByte}})
	}
	if edit != nil {
		edit(emit, &meta)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	meta.Lines = rec.Lines()
	if err := writeJSON(filepath.Join(h, scenarioFile), meta); err != nil {
		t.Fatal(err)
	}
}

// recorded is what a judge starts from: the recordings, read back.
func recorded(t *testing.T, dir string, scenarios ...Scenario) *judgement {
	t.Helper()
	j := &judgement{}
	for _, s := range scenarios {
		r, err := readRecording(dir, s, 3*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		j.recs = append(j.recs, r)
	}
	return j
}

// While anything is recorded, only what a behaviour is judged on is read; and one history
// that can't be read is nobody else's affair.
func TestReadFor(t *testing.T) {
	kill, first, second, third := sample("a.kill"), sample("a.a"), sample("b.b"), sample("c.c")
	kill.Disrupt, kill.Level = KillEach, spec.Control
	second.Topology.Replicas, third.Topology.Replicas = 7, 8
	plan := Fold([]Behaviour{kill, first, second, third}, "", false)
	dir := t.TempDir()
	var broken string
	over := map[string]bool{}
	for _, s := range plan {
		tape(t, dir, s, nil)
		over[s.Name] = s.Control || slices.Contains(s.Behaviours, "a.a") || slices.Contains(s.Behaviours, "b.b")
		if slices.Contains(s.Behaviours, "c.c") {
			broken = s.Name
		}
	}
	if err := os.WriteFile(filepath.Join(historyDir(dir, broken), scenarioFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	k := &Judge{dir: dir, plan: func() []Scenario { return plan }, over: func(name string) bool { return over[name] }, read: map[string]reading{}}
	about := func(id string) func(Scenario) bool {
		return func(s Scenario) bool { return slices.Contains(s.Behaviours, id) }
	}
	if k.readFor(about("c.c")); len(k.read) != 1 {
		t.Errorf("read before it was over: %d histories, want the control's", len(k.read))
	}
	if k.readFor(about("a.a")); len(k.read) != 2 {
		t.Errorf("%d histories were read while one is recorded, want the control's and its own", len(k.read))
	}
	over[broken] = true
	if k.readFor(about("a.a")); len(k.read) != len(plan) {
		t.Errorf("%d histories of %d were read at the end", len(k.read), len(plan))
	}
	for name, r := range k.read {
		if (r.err != nil) != (name == broken) || r.recorded != (name != broken) {
			t.Errorf("%s: recorded %t, %v", name, r.recorded, r.err)
		}
	}
}

func TestWhatCarriesAPass(t *testing.T) {
	// The check of this behaviour fails on any failed sample after 6 s.
	b := sample("a.a")
	b.Checks = []assertions.Check{{
		Name: "no failure", Expected: "none", Floors: []assertions.Floor{{Name: "n", N: 1}},
		Judge: func(c assertions.Case) spec.Finding {
			for _, s := range c.Timeline.Samples {
				if s.Failed() && s.Start > 6*time.Second {
					return spec.Finding{Verdict: spec.Fail, Actual: "one", Culprits: []spec.Culprit{{Text: "x"}}}
				}
			}
			return spec.Finding{Verdict: spec.Pass, Actual: "none", Evidence: []spec.Count{{Name: "n", N: 1, Floor: 1}}}
		},
	}}
	kill := sample("a.kill")
	kill.Disrupt, kill.Level = KillEach, spec.Control
	scenarios := Fold([]Behaviour{b, kill}, "", false)
	control, own := scenarios[0], scenarios[1]
	own.Pressure = &Pressure{Conns: 100, QPS: 100}
	failAt := func(at time.Duration) func(func(timeline.Record), *Meta) {
		return func(emit func(timeline.Record), _ *Meta) {
			emit(timeline.Record{Sample: &timeline.Sample{Stream: flow.To(own.Traffic[0].Flow, ""), ID: "bad at " + at.String(), Start: at, End: at + 1, Outcome: timeline.Refused, Phase: timeline.PhaseDial}})
		}
	}
	both := func(fs ...func(func(timeline.Record), *Meta)) func(func(timeline.Record), *Meta) {
		return func(emit func(timeline.Record), m *Meta) {
			for _, f := range fs {
				f(emit, m)
			}
		}
	}
	behind := func(emit func(timeline.Record), _ *Meta) {
		emit(timeline.Record{Sample: &timeline.Sample{Stream: flow.Named("direct/http1/new/ahead/1s@uid"), ID: "behind", Nth: 2, Start: 2 * time.Second, End: 2*time.Second + 1, Outcome: timeline.Closed, Phase: timeline.PhaseFirstByte}})
	}
	beside := func(emit func(timeline.Record), _ *Meta) {
		emit(timeline.Record{Sample: &timeline.Sample{Stream: flow.Named("peer-hears/http1/new/abandoned/500ms@uid"), ID: "beside", Start: 2 * time.Second, End: 2*time.Second + 1, Outcome: timeline.Reset, Phase: timeline.PhaseWrite}})
	}
	unended := func(_ func(timeline.Record), m *Meta) { m.Ended = false }
	mark := func(what string) func(time.Duration) func(func(timeline.Record), *Meta) {
		return func(at time.Duration) func(func(timeline.Record), *Meta) {
			return func(emit func(timeline.Record), _ *Meta) {
				emit(timeline.Record{Event: &timeline.Event{At: at, Source: "t", Kind: timeline.Marker, Attrs: map[string]string{"what": what}}})
			}
		}
	}
	tail, steady := mark(assertions.MarkTail), mark(assertions.MarkSteady)
	silent := tail(20 * time.Second)
	broken := func(_ func(timeline.Record), m *Meta) { m.Error = "kaput" }
	doubted := func(_ func(timeline.Record), m *Meta) { m.Doubt = "who knows" }
	hanging := func(emit func(timeline.Record), _ *Meta) {
		emit(timeline.Record{Sample: &timeline.Sample{Stream: flow.To(own.Traffic[0].Flow, ""), ID: "hung", Start: 2 * time.Second, End: 12 * time.Second, Outcome: timeline.Timeout, Phase: timeline.PhaseFirstByte}})
	}
	// Each began before the steady gate, at 1 s; the disturbance is at 5 s.
	since := func(stream string, end time.Duration, outcome timeline.Outcome) func(func(timeline.Record), *Meta) {
		return func(emit func(timeline.Record), _ *Meta) {
			emit(timeline.Record{Sample: &timeline.Sample{Stream: flow.Named(stream), ID: "early", Start: 500 * time.Millisecond, End: end, Outcome: outcome, Phase: timeline.PhaseDial}})
		}
	}
	gap := func(of string) func(func(timeline.Record), *Meta) {
		return func(emit func(timeline.Record), _ *Meta) {
			emit(timeline.Record{Event: &timeline.Event{At: 6 * time.Second, Source: "t", Kind: timeline.WatchGap, Subject: of, Attrs: map[string]string{"why": "410"}}})
		}
	}
	unseen := func(emit func(timeline.Record), _ *Meta) {
		emit(timeline.Record{Event: &timeline.Event{At: 6 * time.Second, Source: "t", Kind: timeline.Disruption, Subject: "other", Name: "other", Attrs: map[string]string{"what": "delete"}}})
	}
	stranger := func(emit func(timeline.Record), _ *Meta) {
		emit(timeline.Record{Sample: &timeline.Sample{Stream: flow.Named("direct/http1/new/get@uid"), ID: "x", Start: 6 * time.Second, End: 6 * time.Second, Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: "other"}})
	}
	gaveUp := func(emit func(timeline.Record), _ *Meta) {
		emit(timeline.Record{Sample: &timeline.Sample{Stream: flow.To(own.Traffic[0].Flow, ""), ID: "c", Start: 7 * time.Second, End: 7 * time.Second, Outcome: timeline.Cancelled, Phase: timeline.PhaseDial}})
	}
	lost := func(emit func(timeline.Record), _ *Meta) {
		emit(timeline.Record{Event: &timeline.Event{At: 7 * time.Second, Source: "t", Kind: timeline.AgentLost, Attrs: map[string]string{"agent": "probe", "why": "gone"}}})
	}
	pressed := func(attrs map[string]string) func(func(timeline.Record), *Meta) {
		return func(emit func(timeline.Record), m *Meta) {
			m.Format = FormatPressure
			if attrs != nil {
				emit(timeline.Record{Event: &timeline.Event{At: 9 * time.Second, Source: "t", Kind: timeline.Pressure, Attrs: attrs}})
			}
		}
	}
	tests := []struct {
		name         string
		own, control func(func(timeline.Record), *Meta)
		noControl    bool
		want         spec.Verdict
		reason       string
	}{
		{name: "clean", want: spec.Pass},
		{name: "violated", own: failAt(7 * time.Second), want: spec.Fail},
		{name: "the baseline was dirty", own: failAt(2 * time.Second), want: spec.Inconclusive, reason: "baseline"},
		{name: "a dirty baseline proves nothing against anybody", own: both(failAt(2*time.Second), failAt(7*time.Second)), want: spec.Inconclusive, reason: "baseline"},
		{name: "the baseline has a request that was left behind a close", own: behind, want: spec.Pass},
		{name: "the baseline has a connection that failed beside those that its own client cut", own: beside, want: spec.Pass},
		{name: "stopped before its end", own: unended, want: spec.Inconclusive, reason: "stopped"},
		{name: "stopped after the mark of its tail", own: both(tail(5100*time.Millisecond), unended), want: spec.Inconclusive, reason: "stopped"},
		{name: "a violation stands when the run was stopped later", own: both(failAt(7*time.Second), unended), want: spec.Fail},
		{name: "a stream fell silent", own: silent, want: spec.Inconclusive, reason: "nothing was sent"},
		{name: "the baseline hung", own: hanging, want: spec.Inconclusive, reason: "failed"},
		{name: "the baseline was slow, and whole", own: since(own.Traffic[0].Flow.String(), 4*time.Second+990*time.Millisecond, timeline.OK), want: spec.Pass},
		{name: "an answer hung over the disruption, and was whole", own: since(own.Traffic[0].Flow.String(), 11*time.Second, timeline.OK), want: spec.Pass},
		{
			name: "what hung since before the gate is no violation", own: both(since(own.Traffic[0].Flow.String(), 11*time.Second, timeline.Timeout), failAt(7*time.Second)),
			want: spec.Inconclusive, reason: "failed",
		},
		{name: "what failed before the gate is over", own: since(own.Traffic[0].Flow.String(), 4*time.Second, timeline.Timeout), want: spec.Pass},
		{name: "the scout's own dial hung", own: since("scout/service/http1/new/get", 10500*time.Millisecond, timeline.Timeout), want: spec.Pass},
		{name: "long work from before the gate", own: since("service/http1/reused/slow/20s", 20500*time.Millisecond, timeline.OK), want: spec.Pass},
		{name: "a gap in the watch", own: gap("pods"), want: spec.Inconclusive, reason: "gap"},
		{name: "a gap in what nobody judges by", own: both(gap("nodes"), gap("events")), want: spec.Pass},
		{name: "a violation stands beside a gap", own: both(failAt(7*time.Second), gap("pods")), want: spec.Fail},
		{name: "the recorder has a doubt", own: doubted, want: spec.Inconclusive, reason: "who knows"},
		{name: "a violation, and the recorder has a doubt", own: both(failAt(7*time.Second), doubted), want: spec.Inconclusive, reason: "one: that proves nothing, because who knows"},
		{name: "the baseline was short", own: steady(2 * time.Second), want: spec.Inconclusive, reason: "too short"},
		{name: "a violation stands on a short baseline", own: both(failAt(7*time.Second), steady(2*time.Second)), want: spec.Fail},
		{name: "a violation without a baseline", own: both(failAt(7*time.Second), steady(4*time.Second)), want: spec.Inconclusive, reason: "one: that proves nothing, because the baseline is too short: 0 of"},
		{name: "a deletion that nobody saw", own: unseen, want: spec.Inconclusive, reason: "never seen"},
		{name: "another pod answered", own: stranger, want: spec.Inconclusive, reason: "answered by pod other"},
		{name: "the generator gave up", own: gaveUp, want: spec.Inconclusive, reason: "gave up"},
		{name: "an agent was lost", own: lost, want: spec.Inconclusive, reason: "lost"},
		{name: "the pressure has its summary", own: pressed(map[string]string{"requests": "7"}), want: spec.Pass},
		{name: "the pressure has no summary", own: pressed(nil), want: spec.Inconclusive, reason: "closed-loop load"},
		{name: "the summary was lost", own: pressed(map[string]string{"error": "kaput"}), want: spec.Inconclusive, reason: "closed-loop load beside it did: kaput"},
		{name: "a violation stands without the summary", own: both(failAt(7*time.Second), pressed(nil)), want: spec.Fail},
		{name: "no control", noControl: true, want: spec.Inconclusive, reason: "no control"},
		{name: "no control, and a violation", noControl: true, own: failAt(7 * time.Second), want: spec.Fail},
		{name: "the control was dirty", control: failAt(2 * time.Second), want: spec.Inconclusive, reason: "control proves nothing"},
		{name: "the recording broke", own: broken, want: spec.Error, reason: "kaput"},
		{name: "a violation stands when the recording broke later", own: both(failAt(7*time.Second), broken), want: spec.Fail},
		{name: "it does not on a dirty baseline", own: both(failAt(2*time.Second), failAt(7*time.Second), broken), want: spec.Error, reason: "kaput"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			tape(t, dir, own, tc.own)
			j := &judgement{}
			if !tc.noControl {
				tape(t, dir, control, tc.control)
				r, err := readRecording(dir, control, 3*time.Second)
				if err != nil {
					t.Fatal(err)
				}
				j.recs = append(j.recs, r)
			}
			r, err := readRecording(dir, own, 3*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			j.recs = append(j.recs, r)
			got := r.judge(b, j.blind())
			if got.Verdict != tc.want || !strings.Contains(got.Reason, tc.reason) {
				t.Errorf("%v (%s), want %v (%s)", got.Verdict, got.Reason, tc.want, tc.reason)
			}
		})
	}
}

func TestABlindStreamPassesNothing(t *testing.T) {
	b := sample("a.a")
	b.Checks = says(spec.Finding{Verdict: spec.Pass})
	kill := sample("a.kill")
	kill.Disrupt, kill.Level = KillEach, spec.Control
	scenarios := Fold([]Behaviour{b, kill}, "", false)
	dir := t.TempDir()
	tape(t, dir, scenarios[1], nil)
	j := &judgement{}
	// A control in which the stream failed only before the kill.
	blindControl := scenarios[0]
	tape(t, dir, blindControl, nil)
	ctl, err := readRecording(dir, blindControl, 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for i := range ctl.scene.Timeline.Samples {
		ctl.scene.Timeline.Samples[i].Outcome = timeline.OK
	}
	own, err := readRecording(dir, scenarios[1], 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	j.recs = append(j.recs, ctl, own)
	if got := own.judge(b, j.blind()); got.Verdict != spec.Inconclusive || !strings.Contains(got.Reason, "did not see it") {
		t.Errorf("%v: %s", got.Verdict, got.Reason)
	}
}

// controlled is a control that was recorded, and a stream that sees deaths in it.
func controlled(t *testing.T) (_ recording, of flow.Flow) {
	t.Helper()
	kill := sample("a.kill")
	kill.Disrupt, kill.Level = KillEach, spec.Control
	dir := t.TempDir()
	control := Fold([]Behaviour{kill}, "", false)[0]
	tape(t, dir, control, nil)
	r, err := readRecording(dir, control, 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return r, kill.Traffic[0].Flow
}

// What a control saw of who it killed says nothing of another role's streams, but where a run
// has no other: before 2026-11-25 one control was for all.
func TestAControlIsOfItsRole(t *testing.T) {
	app, stream := controlled(t)
	gate := app
	gate.meta.Scenario.Topology.Role = system.Gateway
	gate.recorded = false
	both := (&judgement{recs: []recording{app, gate}}).blind()
	if why := both("", stream); why != "" {
		t.Error(why)
	}
	if why := both(system.Gateway, stream); !strings.Contains(why, "no control was recorded") {
		t.Errorf("a gateway's: %q", why)
	}
	if why := (&judgement{recs: []recording{app}}).blind()(system.Gateway, stream); why != "" {
		t.Errorf("the only one: %s", why)
	}
}

// The control of a matrix's row is of a broken component, and shows nothing of the run's own
// clients.
func TestAControlOfTheMatrixIsNone(t *testing.T) {
	r, stream := controlled(t)
	if why := (&judgement{recs: []recording{r}}).blind()("", stream); why != "" {
		t.Errorf("the run's own control: %s", why)
	}
	// A short request has to have been there, beside what stands in for it.
	slow := timeline.Sample{Stream: flow.Named("service/http1/reused/slow/2s"), ID: "slow", Start: 5 * time.Second, End: 5*time.Second + 1, Outcome: timeline.Reset, Phase: timeline.PhaseBody}
	r.scene.Timeline.Samples = append(r.scene.Timeline.Samples, slow)
	if why := (&judgement{recs: []recording{r}}).blind()("", flow.Parse("service/http1/reused/get")); why == "" {
		t.Error("a stream that was not there is not blind")
	}
	r.meta.Scenario.Fault = DeafClients
	if why := (&judgement{recs: []recording{r}}).blind()("", stream); !strings.Contains(why, "no control was recorded") {
		t.Errorf("a control under a fault: %q", why)
	}
}

// A control has shorter talks than the behaviours, for the eyes of all; and what
// is mute need see nothing.
func TestShorterTalksSeeForLongOnes(t *testing.T) {
	b := sample("a.a")
	b.Traffic = []load.Profile{
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.TCP, Conns: flow.New, Op: flow.Talk, Takes: 12 * time.Second}, Rate: 5},
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Mute, Takes: 20 * time.Second}, Rate: 2},
	}
	b.Checks = says(spec.Finding{Verdict: spec.Pass})
	kill := sample("a.kill")
	kill.Disrupt, kill.Level, kill.Traffic = KillEach, spec.Control, nil
	scenarios := Fold([]Behaviour{b, kill}, "", false)
	if got := scenarios[0].Traffic; len(got) != 1 || got[0].Flow.String() != "service/tcp/new/talk/2s" {
		t.Fatalf("the control has %+v", got)
	}
	dir := t.TempDir()
	for _, s := range scenarios {
		tape(t, dir, s, nil)
	}
	j := recorded(t, dir, scenarios...)
	if got := j.recs[1].judge(b, j.blind()); got.Verdict != spec.Pass {
		t.Errorf("%v: %s", got.Verdict, got.Reason)
	}
}

// Where nothing else is ready a terminating endpoint is used by the rule
// itself, and that is no propagation.
func TestPropagationTakesOthers(t *testing.T) {
	known := func(at time.Duration) assertions.Instant { return assertions.Instant{At: at, Source: "t"} }
	went := assertions.Ending{UID: "went", Endpoint: known(5 * time.Second), LastNew: known(7 * time.Second), ExitCode: -1}
	other := timeline.Event{At: time.Second, Kind: timeline.Endpoint, Subject: "other", Attrs: map[string]string{"service": "echo", "ready": "true"}}
	for _, tc := range []struct {
		name   string
		events []timeline.Event
		last   time.Duration
		want   time.Duration // -1: there is none
	}{
		{"with another", []timeline.Event{other}, 7 * time.Second, 2 * time.Second},
		{"with another, and nothing came late", []timeline.Event{other}, 4 * time.Second, 0},
		{"with none", nil, 7 * time.Second, -1},
	} {
		went.LastNew.At = tc.last
		r := recording{scene: assertions.Case{Timeline: &timeline.Timeline{Events: tc.events}, Terminations: []assertions.Ending{went}}}
		got := time.Duration(-1)
		if p := r.describeTermination(went).Propagation; p != nil {
			got = p.D()
		}
		if got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

// A rolling update ends each of its pods, and somebody sees it.
func TestARollOutEndsAll(t *testing.T) {
	for n, want := range map[int]string{1: "a rolling update of 2 pods ended 1", 2: "", 3: ""} {
		r := recording{meta: Meta{Scenario: Scenario{Disrupt: RollingUpdate, Topology: Topology{Replicas: 2}}}}
		r.scene = assertions.Case{Timeline: &timeline.Timeline{}, Terminations: make([]assertions.Ending, n)}
		if got := r.unseen(); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%d ended: %q, want %q", n, got, want)
		}
	}
}

// What takes more than the system has says so first.
func TestTooFewToJudge(t *testing.T) {
	ends := func(n int) []assertions.Ending { return make([]assertions.Ending, n) }
	asked := func(at time.Duration, pods ...string) (out []timeline.Entry) {
		for _, p := range pods {
			out = append(out, timeline.Entry{At: at, ID: p, Step: timeline.Begin, Pod: p})
		}
		return out
	}
	behind := Topology{Behind: true, Replicas: 2}
	for _, tc := range []struct {
		name     string
		scenario Scenario
		ended    int
		ledger   []timeline.Entry
		want     string
	}{
		{"all ended", Scenario{Disrupt: EndBoth}, 2, nil, ""},
		{"one ended", Scenario{Disrupt: EndBoth}, 1, nil, "this takes the end of 2 instances, and 1 ended; "},
		{"both backends", Scenario{Disrupt: RollingUpdate, Topology: behind}, 2, asked(time.Second, "a", "b", "a"), ""},
		{"one backend", Scenario{Disrupt: RollingUpdate, Topology: behind}, 2, asked(time.Second, "a", "a"), "this takes 2 backends, and the system sent requests to 1 of them; "},
		{"the other one when that is away", Scenario{Disrupt: RollingUpdate, Topology: behind}, 2, append(asked(time.Second, "a"), asked(11*time.Second, "b")...), "this takes 2 backends"},
		{"one backend is enough", Scenario{Disrupt: EndBoth}, 2, asked(time.Second, "a"), ""},
	} {
		r := recording{recorded: true, meta: Meta{Scenario: tc.scenario, Ended: true}}
		r.scene = assertions.Case{Timeline: &timeline.Timeline{Ledger: tc.ledger}, Disturbed: 10 * time.Second, Steady: 1, Terminations: ends(tc.ended)}
		for i := range 20 {
			r.scene.Timeline.Samples = append(r.scene.Timeline.Samples, timeline.Sample{Stream: flow.Named("service/http1/new/get"), ID: fmt.Sprint(i), Start: time.Second, End: time.Second, Outcome: timeline.OK})
		}
		for _, verdict := range []spec.Verdict{spec.Inconclusive, spec.Pass} {
			b := sample("a.a")
			b.Checks = says(spec.Finding{Verdict: verdict, Actual: "too little"})
			got := r.judge(b, func(system.Role, flow.Flow) string { return "" }).Reason
			if want := tc.want != "" && verdict == spec.Inconclusive; want != strings.HasPrefix(got, tc.want) && want || !want && strings.Contains(got, "this takes") {
				t.Errorf("%s, %s: %q, want %q", tc.name, verdict, got, tc.want)
			}
		}
	}
}

// A behaviour is judged by the traffic that its stage carried, while it is recorded
// and afterwards.
func TestJudgedByTheTrafficThatWas(t *testing.T) {
	b := sample("a.a")
	carried := []load.Profile{{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2, Conns: flow.Reused, Op: flow.Get}, Rate: 5}}
	s := Scenario{Fitted: map[string][]load.Profile{"a.a": carried}}
	if got := s.recorded(b, CI).Traffic; len(got) != 1 || got[0] != carried[0] {
		t.Errorf("%+v", got)
	}
	if got := (Scenario{}).recorded(b, CI).Traffic; len(got) != len(b.Traffic) || got[0] != b.Traffic[0] {
		t.Errorf("as it is in the catalogue: %+v", got)
	}
}
