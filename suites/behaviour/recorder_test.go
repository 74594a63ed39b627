// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/echo"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// What the fake stage stands for. Its samples have the machine's own clock, which hardly moves
// while the time of a synctest bubble does: what is judged here rests on their order alone.
const (
	// fakeUnclean is how many requests fail before the load runs clean.
	fakeUnclean = 10
	// fakeDrain is how long what is ended takes to be gone.
	fakeDrain = 4 * time.Second
	// fakeLate is how much later than the load the ledger ends.
	fakeLate = 3 * time.Second
)

// fakeStage stands scenarios up whose traffic is answered as a sound system does. The steps that
// breaks names fail in the recordings that are no control.
type fakeStage struct {
	breaks map[string]error
	// blind is how many of the controls to come show nobody the death, and late says that the
	// clients send each tenth request late.
	blind int
	late  bool
	// more is traffic that the rule has beside its own. Of a death one stream hears, whoever asks first.
	more []load.Profile

	mu      sync.Mutex
	opened  []string
	grounds []*fakeGround
	closed  bool
}

func (*fakeStage) Fit(b Behaviour) (Behaviour, Skip) { return b, Skip{} }

func (*fakeStage) Describe(context.Context) (v1alpha1.Environment, error) {
	return v1alpha1.Environment{Kubernetes: "v1.34.0"}, nil
}

func (f *fakeStage) Open(_ context.Context, s Scenario, sink *Sink) (Ground, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opened = append(f.opened, s.Name)
	g := &fakeGround{scenario: s, sink: sink, stop: make(chan struct{}), late: f.late}
	if !s.Control {
		g.breaks = f.breaks
	} else if f.blind > 0 {
		f.blind--
		g.blind = true
	}
	if err := g.breaks["open"]; err != nil {
		return nil, err
	}
	f.grounds = append(f.grounds, g)
	return g, nil
}

func (f *fakeStage) Close(ctx context.Context) (*v1alpha1.Egress, error) {
	f.closed = ctx.Err() == nil
	return nil, f.breaks["close the stage"]
}

// fakeGround answers the traffic of one scenario, ends one pod, and tells of both.
type fakeGround struct {
	scenario Scenario
	sink     *Sink
	breaks   map[string]error
	// blind and late are the stage's.
	blind, late bool

	load sync.WaitGroup
	stop chan struct{}
	once sync.Once

	mu     sync.Mutex
	killed bool // and nobody was told yet
	closed bool
}

func (g *fakeGround) Start(context.Context) (streams []flow.Stream, nodes []string, err error) {
	if err := g.breaks["start"]; err != nil {
		return nil, nil, err
	}
	for _, p := range g.scenario.Traffic {
		name := flow.To(p.Flow, "")
		streams = append(streams, name)
		g.load.Go(func() { g.generate(name, p.Rate) })
	}
	return streams, []string{"node-1"}, nil
}

// generate sends one stream's requests until Stop. Each backend writes of each that it answered,
// and of the last ones it does so late.
func (g *fakeGround) generate(name flow.Stream, rate float64) {
	tick := time.NewTicker(time.Duration(float64(time.Second) / rate))
	defer tick.Stop()
	var late []timeline.Record
	for n := 1; ; n++ {
		dies := g.diesNow() // and begins after that
		at := timeline.Monotonic()
		s := timeline.Sample{
			Stream: name, ID: fmt.Sprintf("%s#%d", name, n), Conn: uint64(n), Nth: 1, Due: at, Start: at, Dial: at, Sent: at, First: at, End: at,
			Outcome: timeline.OK, Phase: timeline.PhaseDone, Status: 200, Server: "uid-b", Saturated: g.late && n%10 == 0,
		}
		if n <= fakeUnclean || g.breaks["gate"] != nil || dies {
			s.Outcome, s.Phase, s.Status, s.First, s.Server = timeline.Reset, timeline.PhaseFirstByte, 0, 0, ""
		}
		g.sink.Emit(timeline.Record{Sample: &s}, 0)
		if !s.Failed() {
			begin := timeline.Record{Entry: &timeline.Entry{At: at, ID: s.ID, Step: timeline.Begin, Pod: s.Server}}
			done := timeline.Record{Entry: &timeline.Entry{At: at, ID: s.ID, Step: timeline.Done, Pod: s.Server, Whole: true}}
			g.sink.Emit(begin, 0)
			if late = append(late, done); len(late) > 5 {
				g.sink.Emit(late[0], 0)
				late = late[1:]
			}
		}
		select {
		case <-tick.C:
		case <-g.stop:
			if g.breaks["ledger"] == nil && !g.scenario.killsLedger() {
				time.AfterFunc(fakeLate, func() {
					for _, r := range late {
						g.sink.Emit(r, 0)
					}
				})
			}
			return
		}
	}
}

// diesNow says of the first request after a kill that it met the death.
func (g *fakeGround) diesNow() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.killed
	g.killed = false
	return was
}

func (g *fakeGround) Disrupt(ctx context.Context) error {
	if err := g.breaks["disrupt"]; err != nil {
		return err
	}
	tell := func(kind timeline.EventKind, attrs map[string]string) {
		g.sink.Event(timeline.Event{Source: "fake", Kind: kind, Subject: "uid-a", Name: "pod-a", Attrs: attrs})
	}
	if g.scenario.Control {
		tell(timeline.Disruption, map[string]string{"what": "kill", "signal": "KILL"})
		tell(timeline.ProcExit, nil)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.killed = !g.blind
		return nil
	}
	tell(timeline.Disruption, map[string]string{"what": "delete"})
	tell(timeline.PodDeletion, map[string]string{"grace": "30"})
	tell(timeline.DrainStart, map[string]string{"trigger": "SIGTERM"})
	if err := disrupt.Pause(ctx, fakeDrain); err != nil {
		return err
	}
	tell(timeline.ProcExit, nil)
	tell(timeline.PodGone, nil)
	return nil
}

func (g *fakeGround) Stop(context.Context) error {
	g.once.Do(func() { close(g.stop) })
	g.load.Wait()
	return g.breaks["stop"]
}

func (g *fakeGround) Close(ctx context.Context) error {
	g.once.Do(func() { close(g.stop) })
	g.load.Wait()
	g.closed = ctx.Err() == nil
	return g.breaks["close"]
}

const (
	ruleID    = "pod.answers"
	controlID = "pod.control"
)

// twoScenarios leaves two behaviours in the catalogue, for a test: one that asks whether what
// was answered before the disruption was answered after it, and the control.
func twoScenarios(t *testing.T, more ...load.Profile) {
	t.Helper()
	was := registry
	t.Cleanup(func() { registry = was })
	get := load.Profile{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 20}
	one := Topology{Replicas: 1, MinDrain: 2 * time.Second, Deadline: 20 * time.Second, Grace: 30 * time.Second}
	need := assertions.Floor{Name: "requests after the disruption", N: 50}
	answers := assertions.Check{
		Name: "requests after the disruption", Expected: "all are answered", Floors: []assertions.Floor{need},
		Judge: func(c assertions.Case) spec.Finding {
			f := spec.Finding{Verdict: spec.Pass, Actual: "all were"}
			n := 0
			for _, s := range c.Timeline.Samples {
				if s.Start < c.Disturbed {
					continue
				}
				n++
				if s.Failed() {
					f.Verdict, f.Actual = spec.Fail, "one was not"
				}
			}
			f.Evidence = []spec.Count{{Name: need.Name, N: n, Floor: need.N}}
			if f.Verdict == spec.Pass && n < need.N {
				f.Verdict, f.Actual = spec.Inconclusive, "there were too few"
			}
			return f
		},
	}
	rule := Behaviour{
		ID: ruleID, Title: "Requests are answered", Level: spec.Must, Profile: spec.App, Why: "w", Causes: "c", Fix: "f",
		Refs:     []spec.Ref{{Doc: "project", Section: "test", Quote: "q"}},
		Topology: one, Disrupt: disrupt.DeleteEach(1), Traffic: append(more, get), Checks: []assertions.Check{answers},
		BrokenBy: []spec.Fault{echo.CutBodies}, Resolution: 60 * time.Millisecond,
	}
	control := rule
	control.ID, control.Level, control.Disrupt = controlID, spec.Control, disrupt.KillEach(1)
	control.Checks, control.BrokenBy = []assertions.Check{assertions.SeesAbruptDeath()}, []spec.Fault{DeafClients}
	registry = []Behaviour{rule, control}
}

// said is a step that the recorder told of, and when, counted from the run's begin.
type said struct {
	Progress

	at time.Duration
}

// taken is a run that the recorder made on a fake stage.
type taken struct {
	dir   string
	stage *fakeStage
	*Recorder
	err   error
	steps []said
	took  time.Duration
}

// of are the steps of one scenario, in their order.
func (x taken) of(scenario string) []said {
	return slices.DeleteFunc(slices.Clone(x.steps), func(s said) bool { return s.Scenario != scenario })
}

// names are the two scenarios, as their plan orders them.
func (x taken) names() (control, rule string) { return x.Plan()[0].Name, x.Plan()[1].Name }

func (x taken) meta(t *testing.T, scenario string) Meta {
	t.Helper()
	m, err := readMeta(historyDir(x.dir, scenario))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (x taken) history(t *testing.T, scenario string) *timeline.Timeline {
	t.Helper()
	tl, err := timeline.Read(historyDir(x.dir, scenario))
	if err != nil {
		t.Fatal(err)
	}
	return tl
}

// verdicts are what the report says of the behaviours, by ID.
func (x taken) verdicts(t *testing.T) (map[string]v1alpha1.Behaviour, *v1alpha1.ConformanceReport) {
	t.Helper()
	report, err := x.Finish()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]v1alpha1.Behaviour{}
	for _, b := range report.Behaviours {
		out[b.ID] = b
	}
	return out, report
}

// take records the two scenarios in time that a bubble makes. hear is told each step, and may
// end the run; nil: nobody is.
func take(t *testing.T, stage *fakeStage, hear func(p Progress, stop context.CancelCauseFunc)) taken {
	t.Helper()
	twoScenarios(t, stage.more...)
	x := taken{dir: t.TempDir(), stage: stage}
	rule, _ := Find(ruleID)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, stop := context.WithCancelCause(t.Context())
		defer stop(nil)
		var mu sync.Mutex
		var err error
		x.Recorder, err = NewRecorder(Config{
			Stage: x.stage, Dir: x.dir, Selected: []Behaviour{rule}, Price: OnCluster,
			Report: v1alpha1.ConformanceReport{Settings: v1alpha1.Settings{P: v1alpha1.Duration(3 * time.Second), Profile: CI}},
			Progress: func(p Progress) {
				mu.Lock()
				defer mu.Unlock()
				x.steps = append(x.steps, said{p, time.Since(began)})
				if hear != nil {
					hear(p, stop)
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		// A second of the bubble is an instant of the machine, of which one tick that its host takes
		// for others is all.
		x.stolen.account = func() (busy, stolen, all float64) { return 0, 0, time.Since(began).Seconds() }
		x.err = x.Record(ctx)
		x.took = time.Since(began)
		for _, id := range []string{ruleID, controlID} {
			select {
			case <-x.Done(id):
			default:
				t.Errorf("who waits for %s waits on", id)
			}
		}
	})
	if !x.stage.closed {
		t.Error("the stage stands, or was closed with a context that is over")
	}
	for _, g := range x.stage.grounds {
		if !g.closed {
			t.Errorf("%s stands, or was removed with a context that is over", g.scenario.Name)
		}
	}
	return x
}

// A run that goes well: what is told, what is written, and what is judged of it.
func TestRecord(t *testing.T) {
	x := take(t, &fakeStage{}, nil)
	if x.err != nil {
		t.Fatal(x.err)
	}
	control, rule := x.names()
	if got := []string{control, rule}; !slices.Equal(x.stage.opened, got) {
		t.Errorf("opened %v, want %v", x.stage.opened, got)
	}
	if x.Done("pod.unknown") != nil {
		t.Error("somebody waits for what is not recorded")
	}

	t.Run("the steps", func(t *testing.T) {
		for i, s := range x.Plan() {
			steps := x.of(s.Name)
			var words []string
			at := map[string]time.Duration{}
			for _, p := range steps {
				words = append(words, p.Step)
				at[p.Step] = p.at
				if p.N != i+1 || p.Of != 2 {
					t.Errorf("%q of %s is told as that of %d of %d", p.Step, s.Name, p.N, p.Of)
				}
			}
			const (
				running, steady, tail, recorded = "1 streams running; waiting until all are clean", "steady; recording the baseline", "recording the tail", "recorded"
			)
			disturbed := InWords(s.Disrupt)
			want := []string{"bringing the pods up", running, steady, disturbed, tail, recorded}
			if !s.Control { // it went up while the control ended
				want = slices.Insert(want, 1, "its pods are up; the load waits for those before it to end")
			}
			if !slices.Equal(words, want) {
				t.Fatalf("%s: %q, want %q", s.Name, words, want)
			}
			lasts := func(what string, from, to string, want time.Duration) {
				if got := at[to] - at[from]; got != want {
					t.Errorf("%s of %s is %s long, want %s", what, s.Name, got, want)
				}
			}
			// The last of the clean ones is due then, and the gate is looked at five times a second.
			due := (fakeUnclean + steadyRun - 1) * time.Second / 20
			if got := at[steady] - at[running]; got < due || got > due+time.Second/5 {
				t.Errorf("the gate of %s opened after %s, and could after %s", s.Name, got, due)
			}
			lasts("the baseline", steady, disturbed, baselineFor)
			if s.Control {
				lasts("the disruption", disturbed, tail, 0)
				lasts("the tail", tail, recorded, 3*time.Second) // P
			} else {
				lasts("the disruption", disturbed, tail, fakeDrain)
				// The ledger is looked at five times a second too.
				end := 3*time.Second + tailFor + fakeLate
				if got := at[recorded] - at[tail]; got < end || got > end+time.Second/5 {
					t.Errorf("the tail and the ledger's end of %s took %s, want %s", s.Name, got, end)
				}
			}
			if last := steps[len(steps)-1]; last.Samples == 0 || last.Failed < fakeUnclean || last.Left >= steps[0].Left {
				t.Errorf("at the end of %s: %d samples, %d failed, %s left of %s", s.Name, last.Samples, last.Failed, last.Left, steps[0].Left)
			}
		}
		last := x.steps[len(x.steps)-1]
		if last.Step != "removing what the run made" || last.Scenario != "" || last.Left != 0 {
			t.Errorf("the last step: %+v", last)
		}
	})

	t.Run("what is written", func(t *testing.T) {
		for _, s := range x.Plan() {
			m, tl := x.meta(t, s.Name), x.history(t, s.Name)
			if !m.Ended || m.Doubt != "" || m.Error != "" || m.Format != Format || !slices.Equal(m.Clients, []string{"node-1"}) {
				t.Errorf("%s: %+v", s.Name, m)
			}
			steps := x.of(s.Name)
			if took := steps[len(steps)-1].at - steps[0].at; m.To.Sub(m.From) != took {
				t.Errorf("%s is said to have taken %s, and took %s", s.Name, m.To.Sub(m.From), took)
			}
			want := map[string]int{
				timeline.SamplesFile: len(tl.Samples), timeline.EventsFile: len(tl.Events), timeline.FramesFile: 0, timeline.LedgerFile: len(tl.Ledger),
			}
			if !maps.Equal(m.Lines, want) {
				t.Errorf("%s: lines %v, want %v", s.Name, m.Lines, want)
			}
			var marks []string
			for _, e := range tl.EventsOf(timeline.Marker, "") {
				marks = append(marks, e.Attrs["what"])
			}
			if !slices.Equal(marks, []string{assertions.MarkSteady, assertions.MarkTail}) {
				t.Errorf("%s: the marks %v", s.Name, marks)
			}
			if s.Control {
				continue
			}
			// The ledger's end came after the load's, and is there.
			done, answered := 0, 0
			for _, e := range tl.Ledger {
				if e.Step == timeline.Done {
					done++
				}
			}
			for _, x := range tl.Samples {
				if !x.Failed() {
					answered++
				}
			}
			if done != answered {
				t.Errorf("%d requests were answered, and %d are in the ledger", answered, done)
			}
		}
		run, err := readRun(x.dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(run.Plan) != 2 || run.Report.Environment.Kubernetes != "v1.34.0" || run.Report.Environment.Load == nil || run.Report.Metadata.Took.D() != x.took || len(run.Report.Errors) > 0 {
			t.Errorf("%+v", run)
		}
	})

	t.Run("the report", func(t *testing.T) {
		own, err := NewJudge(x.Recorder).Of(ruleID)
		if err != nil || own.Verdict != spec.Pass {
			t.Errorf("judged alone: %v, %v: %s", err, own.Verdict, own.Reason)
		}
		got, report := x.verdicts(t)
		for _, id := range []string{ruleID, controlID} {
			if b := got[id]; b.Verdict != spec.Pass || !b.Recorded {
				t.Errorf("%s: %v, %s", id, b.Verdict, b.Reason)
			}
		}
		if len(report.Scenarios) != 2 || len(report.Errors) > 0 {
			t.Errorf("%d scenarios, errors %v", len(report.Scenarios), report.Errors)
		}
		for _, name := range []string{"report.yaml", TextFile, filepath.Join(v1alpha1.HistoryDir, rule, pictureFile)} {
			if s, err := os.Stat(filepath.Join(x.dir, name)); err != nil || s.Size() == 0 {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// breaking is a stage of which one step fails.
func breaking(step string) *fakeStage {
	return &fakeStage{breaks: map[string]error{step: errors.New("broken on purpose")}}
}

// What breaks in a recording ends that one, and what was recorded by then is kept; the run goes
// on, and is told what it can't be blamed for.
func TestRecordOfWhatBreaks(t *testing.T) {
	for _, tc := range []struct {
		breaks string
		// meta is what the recording says of it, as an error or a doubt, and errors what the
		// run's report does.
		meta, errors string
		doubt        bool
		verdict      spec.Verdict
		// marks are how far the recording came.
		marks []string
	}{
		{breaks: "open", meta: "bringing the topology up: broken on purpose", verdict: spec.Error},
		{breaks: "start", meta: "starting the load: broken on purpose", verdict: spec.Error},
		{breaks: "gate", meta: "the steady gate never opened", doubt: true, verdict: spec.Inconclusive},
		{breaks: "disrupt", meta: ": broken on purpose", verdict: spec.Error, marks: []string{assertions.MarkSteady}},
		{breaks: "stop", meta: "ending the load: broken on purpose", verdict: spec.Error, marks: []string{assertions.MarkSteady, assertions.MarkTail}},
		{breaks: "ledger", verdict: spec.Pass, marks: []string{assertions.MarkSteady, assertions.MarkTail}}, // the check on the ledger is another behaviour's
		{breaks: "close", errors: "removing it: broken on purpose", verdict: spec.Pass, marks: []string{assertions.MarkSteady, assertions.MarkTail}},
		{breaks: "close the stage", errors: "broken on purpose", verdict: spec.Pass, marks: []string{assertions.MarkSteady, assertions.MarkTail}},
	} {
		t.Run(tc.breaks, func(t *testing.T) {
			x := take(t, breaking(tc.breaks), nil)
			if x.err != nil {
				t.Fatal(x.err)
			}
			_, rule := x.names()
			m, tl := x.meta(t, rule), x.history(t, rule)
			why := m.Error
			if tc.doubt {
				why = m.Doubt
			}
			if !strings.Contains(why, tc.meta) || (m.Error != "" || m.Doubt != "") != (tc.meta != "") || m.Ended != (tc.doubt || tc.meta == "") {
				t.Errorf("%+v", m)
			}
			if m.To.IsZero() || m.Lines[timeline.EventsFile] != len(tl.Events) {
				t.Errorf("it was not closed: %+v", m)
			}
			var marks []string
			for _, e := range tl.EventsOf(timeline.Marker, "") {
				marks = append(marks, e.Attrs["what"])
			}
			if !slices.Equal(marks, tc.marks) {
				t.Errorf("the marks %v, want %v", marks, tc.marks)
			}
			if len(tc.marks) > 0 && len(tl.Samples) < steadyRun {
				t.Errorf("%d samples were kept", len(tl.Samples))
			}
			got, report := x.verdicts(t)
			if b := got[ruleID]; b.Verdict != tc.verdict {
				t.Errorf("%v, want %v: %s", b.Verdict, tc.verdict, b.Reason)
			}
			if b := got[controlID]; b.Verdict != spec.Pass {
				t.Errorf("the control: %v: %s", b.Verdict, b.Reason)
			}
			if said := strings.Join(report.Errors, "; "); !strings.Contains(said, tc.errors) || (said != "") != (tc.errors != "") {
				t.Errorf("the run's errors: %q", said)
			}
		})
	}
}

// A gate that never opens is waited for as long as it may take, and no longer; a ledger whose
// end never comes too.
func TestRecordWaitsNoLongerThanItMay(t *testing.T) {
	for breaks, want := range map[string]time.Duration{
		"gate":   steadyBudget,
		"ledger": fakeDrain + 3*time.Second + tailFor + ledgerBudget,
	} {
		x := take(t, breaking(breaks), nil)
		_, rule := x.names()
		steps := x.of(rule)
		at := slices.IndexFunc(steps, func(s said) bool { return strings.Contains(s.Step, "streams running") })
		if breaks == "ledger" {
			at += 2 // disturbed
		}
		from := steps[at].at
		// A wait is looked at five times a second.
		if got := x.meta(t, rule).To.Sub(x.meta(t, rule).From) - (from - steps[0].at); got < want || got > want+time.Second {
			t.Errorf("%s: %s, want %s", breaks, got, want)
		}
	}
}

// Who stops a run keeps what it recorded, and nothing stays behind.
func TestRecordStopped(t *testing.T) {
	stopped := errors.New("stopped by a person")
	for _, tc := range []struct {
		step    string
		control bool // in it
		marks   int  // so far the recording came
		opened  int
		verdict spec.Verdict
		reason  string
	}{
		{step: "waiting until all are clean", marks: 0, opened: 2, verdict: spec.Inconclusive, reason: "the steady gate never opened"},
		{step: "recording the baseline", marks: 1, opened: 2, verdict: spec.Inconclusive, reason: "nothing was disturbed"},
		{step: "recording the tail", marks: 1, opened: 2, verdict: spec.Inconclusive, reason: "stopped before its end"},
		{step: "recording the tail", control: true, marks: 1, opened: 1, verdict: spec.Inconclusive, reason: "was not recorded"},
	} {
		name := tc.step
		if tc.control {
			name += " of the control"
		}
		t.Run(name, func(t *testing.T) {
			x := take(t, &fakeStage{}, func(p Progress, stop context.CancelCauseFunc) {
				if strings.Contains(p.Step, tc.step) && (p.N == 1) == tc.control {
					stop(stopped)
				}
			})
			if x.err != nil {
				t.Fatal(x.err)
			}
			if len(x.stage.opened) != tc.opened {
				t.Errorf("opened %v", x.stage.opened)
			}
			control, rule := x.names()
			last := rule
			if tc.control {
				last = control
				if _, err := os.Stat(historyDir(x.dir, rule)); err == nil {
					t.Error("what was never begun has a history")
				}
			}
			m, tl := x.meta(t, last), x.history(t, last)
			if m.Ended || m.Error != "" || m.Doubt != "" || m.To.IsZero() || m.Lines[timeline.SamplesFile] != len(tl.Samples) {
				t.Errorf("%+v", m)
			}
			if n := len(tl.EventsOf(timeline.Marker, "")); n != tc.marks || tc.marks > 0 && len(tl.Samples) < steadyRun {
				t.Errorf("%d marks and %d samples were kept", n, len(tl.Samples))
			}
			got, report := x.verdicts(t)
			if b := got[ruleID]; b.Verdict != tc.verdict || !strings.Contains(b.Reason, tc.reason) {
				t.Errorf("%v: %s", b.Verdict, b.Reason)
			}
			if said := strings.Join(report.Errors, "; "); said != "the run ended early: "+stopped.Error() {
				t.Errorf("the run's errors: %q", said)
			}
		})
	}
}

// A control that proves nothing is recorded again where the machine was busy, twice at most; what
// was recorded before stands beside it.
func TestRecordTheControlAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		stage   *fakeStage
		before  int
		verdict spec.Verdict
	}{
		"it proves something":             {&fakeStage{late: true}, 0, spec.Pass},
		"blind on a calm machine":         {&fakeStage{blind: 1}, 0, spec.Fail},
		"blind once, on a busy machine":   {&fakeStage{blind: 1, late: true}, 1, spec.Pass},
		"blind always, on a busy machine": {&fakeStage{blind: 9, late: true}, recordedAgain, spec.Fail},
	} {
		t.Run(name, func(t *testing.T) {
			x := take(t, tc.stage, nil)
			if x.err != nil {
				t.Fatal(x.err)
			}
			control, rule := x.names()
			// What comes next goes up in the tail of the first.
			if want := append([]string{control, rule}, slices.Repeat([]string{control}, tc.before)...); !slices.Equal(x.stage.opened, want) {
				t.Errorf("opened %v, want %v", x.stage.opened, want)
			}
			m, next := x.meta(t, control), x.meta(t, rule)
			if len(m.Before) != tc.before || len(next.Before) > 0 {
				t.Fatalf("%d recordings before it, want %d", len(m.Before), tc.before)
			}
			if held := next.Held > 0; held != (tc.before > 0) || held && next.From.Before(m.To) {
				t.Errorf("what comes next went up %s before its load, at %s, which is %s behind the end of the control", next.Held, next.From, next.From.Sub(m.To))
			}
			told := 0
			for _, p := range x.of(control) {
				if strings.HasPrefix(p.Step, "it proved nothing") {
					told++
				}
			}
			if told != tc.before {
				t.Errorf("it is told %d times", told)
			}
			for _, a := range m.Before {
				kept, err := readMeta(historyDir(x.dir, a.History))
				if err != nil || !kept.Ended || !kept.From.Equal(a.From) || a.Why == "" || !strings.Contains(a.Busy, "sent late") {
					t.Errorf("%+v: %v", a, err)
				}
			}
			if got, _ := x.verdicts(t); got[controlID].Verdict != tc.verdict {
				t.Errorf("the control: %v: %s", got[controlID].Verdict, got[controlID].Reason)
			}
		})
	}
}

// A control that is too much for the machine is recorded again in halves, and these in halves; what was recorded before stands
// beside the first of them.
func TestRecordTheControlInHalves(t *testing.T) {
	get := func(p flow.Protocol) load.Profile {
		return load.Profile{Flow: flow.Flow{Path: flow.Service, Protocol: p, Conns: flow.New, Op: flow.Get}, Rate: 20}
	}
	for _, tc := range []struct {
		more    []load.Profile
		streams []int // of the controls, in the order in which they were recorded
		before  []int // and of those that count, how many stand before them
	}{
		{[]load.Profile{get(flow.H2C)}, []int{2, 1, 1}, []int{1, 0}},
		{[]load.Profile{get(flow.H2C), get(flow.TCP)}, []int{3, 2, 1, 1, 1}, []int{2, 0, 0}},
	} {
		stage := &fakeStage{late: true, more: tc.more}
		x := take(t, stage, nil)
		if x.err != nil {
			t.Fatal(x.err)
		}
		var streams []int
		for _, g := range stage.grounds {
			if g.scenario.Control {
				streams = append(streams, len(g.scenario.Traffic))
			}
		}
		if !slices.Equal(streams, tc.streams) {
			t.Errorf("the controls had %v streams, want %v", streams, tc.streams)
		}
		run, err := readRun(x.dir)
		if err != nil {
			t.Fatal(err)
		}
		plan := x.Plan()
		if len(run.Plan) != len(plan) || len(plan) != len(tc.before)+1 {
			t.Fatalf("%d scenarios were kept, of %d, want %d", len(run.Plan), len(plan), len(tc.before)+1)
		}
		for i, s := range plan[:len(tc.before)] {
			m := x.meta(t, s.Name)
			if !s.Control || len(s.Traffic) != 1 || !m.Ended || len(m.Before) != tc.before[i] {
				t.Errorf("%s: %d streams, %d before it, want %d: %+v", s.Name, len(s.Traffic), len(m.Before), tc.before[i], m)
			}
			for _, a := range m.Before {
				if kept, err := readMeta(historyDir(x.dir, a.History)); err != nil || len(kept.Scenario.Traffic) < 2 {
					t.Errorf("%+v: %v", a, err)
				}
			}
		}
		for _, p := range x.steps {
			if p.N > p.Of || p.Of != 2 {
				t.Errorf("%d of %d: %s", p.N, p.Of, p.Step)
			}
		}
		live, err := NewJudge(x.Recorder).Of(controlID)
		if got, _ := x.verdicts(t); err != nil || got[controlID].Verdict != spec.Pass || live.Verdict != spec.Pass {
			t.Errorf("the control: %v, and while it runs %v: %v", got[controlID].Verdict, live.Verdict, err)
		}
	}
}
