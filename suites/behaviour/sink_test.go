// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// The gate opens without a stream that is never served, where the system claimed to,
// and marks it: no sooner than that is certain, and not where another is in trouble.
func TestTheGateAndWhatIsNeverServed(t *testing.T) {
	const good, never, like = "direct/http1/new/get@a", "direct/h2c/new/get@a", "direct/h2c/new/get@b"
	for _, tc := range []struct {
		name    string
		claimed bool
		served  func(n int, stream string) bool
		opens   bool
		marks   int
		quits   bool // before the budget is over
		more    []string
	}{
		{"all is served", true, func(int, string) bool { return true }, true, 0, false, nil},
		{"one is never served", true, func(_ int, s string) bool { return s == good }, true, 1, false, nil},
		{"one is never served, and nobody claimed that it is", false, func(_ int, s string) bool { return s == good }, false, 0, false, nil},
		{"one was served once", true, func(n int, s string) bool { return s == good || n == 3 }, false, 0, false, nil},
		{"nothing is served", true, func(int, string) bool { return false }, false, 0, true, nil},
		{"nothing is served, and nobody claimed that it is", false, func(int, string) bool { return false }, false, 0, false, nil},
		{"the other one fails at times", true, func(n int, s string) bool { return s == good && n%15 != 0 }, false, 0, false, nil},
		{"one of two instances never serves it", true, func(_ int, s string) bool { return s != never }, false, 0, false, []string{like}},
		{"neither of two instances serves it", true, func(_ int, s string) bool { return s == good }, true, 1, false, []string{like}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				rec, err := timeline.NewRecorder(dir, 0)
				if err != nil {
					t.Fatal(err)
				}
				k := newSink(rec, "")
				names := append([]string{good, never}, tc.more...)
				var streams []flow.Stream
				for _, name := range names {
					streams = append(streams, flow.Named(name))
				}
				stop := make(chan struct{})
				go func() {
					for n := 1; ; n++ {
						for _, name := range names {
							s := timeline.Sample{Stream: flow.Named(name), ID: fmt.Sprint(name, n), Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: "a"}
							if !tc.served(n, name) {
								s.Outcome, s.Phase = timeline.Refused, timeline.PhaseDial
							}
							k.Emit(timeline.Record{Sample: &s}, 0)
						}
						select {
						case <-stop:
							return
						case <-time.After(100 * time.Millisecond):
						}
					}
				}()
				began := time.Now()
				err = k.awaitSteady(t.Context(), streams, tc.claimed, time.Minute)
				took := time.Since(began)
				close(stop)
				synctest.Wait()
				if (err == nil) != tc.opens {
					t.Fatalf("the gate: %v", err)
				}
				if (tc.marks > 0 || tc.quits) && took < unservedFor {
					t.Errorf("given up after %s", took)
				}
				if errors.Is(err, errNothingServed) != tc.quits || tc.quits && took > 2*unservedFor {
					t.Errorf("after %s: %v", took, err)
				}
				if err := rec.Close(); err != nil {
					t.Fatal(err)
				}
			})
			tl, err := timeline.Read(dir)
			if err != nil {
				t.Fatal(err)
			}
			marks := 0
			for _, e := range tl.EventsOf(timeline.Marker, "") {
				if e.Attrs["what"] == assertions.MarkUnserved && e.Attrs["stream"] == never && strings.Contains(e.Attrs["why"], "refused") {
					marks++
				}
			}
			if marks != tc.marks {
				t.Errorf("%d streams are marked, want %d", marks, tc.marks)
			}
		})
	}
}

// A server that keeps no connection leaves what was sent ahead behind, and is steady.
func TestTheGateAndWhatIsLeftBehind(t *testing.T) {
	rec, err := timeline.NewRecorder(t.TempDir(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	k := newSink(rec, "")
	const stream = "direct/http1/new/ahead/1s@a"
	for n := range steadyRun {
		k.Emit(timeline.Record{Sample: &timeline.Sample{Stream: flow.Named(stream), ID: fmt.Sprint(n), Nth: 1, Outcome: timeline.OK, Phase: timeline.PhaseDone}}, 0)
		k.Emit(timeline.Record{Sample: &timeline.Sample{Stream: flow.Named(stream), ID: fmt.Sprint(n, "b"), Nth: 2, Outcome: timeline.BehindClose, Phase: timeline.PhaseFirstByte}}, 0)
	}
	if ok, _, seen := k.steady([]flow.Stream{flow.Named(stream)}, false); !ok {
		t.Errorf("it waits: %s", seen)
	}
	if _, failed := k.Counts(); failed > 0 {
		t.Errorf("%d failures are told", failed)
	}
}

// A server that ends both halves of a stream at the end of one has served all but that, and is steady.
func TestTheGateAndHalfCloses(t *testing.T) {
	rec, err := timeline.NewRecorder(t.TempDir(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	k := newSink(rec, "")
	for stream, whole := range map[string]bool{"direct/tcp/new/talk/3s@a": true, "direct/tcp/new/talk/3s@b": false} {
		for n := range steadyRun {
			s := timeline.Sample{
				Stream: flow.Named(stream), ID: fmt.Sprint(stream, n), Nth: 1, First: 1, Sent: 3 * time.Second, End: 3*time.Second + time.Millisecond,
				Got: 100, Want: 100, Outcome: timeline.Truncated, Phase: timeline.PhaseBody,
			}
			if !whole {
				s.Got, s.Sent, s.End = 50, 0, time.Second
			}
			k.Emit(timeline.Record{Sample: &s}, 0)
		}
		if ok, _, seen := k.steady([]flow.Stream{flow.Named(stream)}, false); ok != whole {
			t.Errorf("%s: steady %t: %s", stream, ok, seen)
		}
	}
	if _, failed := k.Counts(); failed != steadyRun {
		t.Errorf("%d failures are told, want those that lost more than their end: %d", failed, steadyRun)
	}
}

// What fails beside connections that its own clients cut is judged, and not waited for: but it has to be there.
func TestTheGateAndWhatClientsCut(t *testing.T) {
	rec, err := timeline.NewRecorder(t.TempDir(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	k := newSink(rec, "")
	stream := flow.Named("peer-hears/http1/new/abandoned/500ms@a")
	if ok, _, _ := k.steady([]flow.Stream{stream}, false); ok {
		t.Error("it waits for none")
	}
	k.Emit(timeline.Record{Sample: &timeline.Sample{Stream: stream, ID: "a", Outcome: timeline.Reset, Phase: timeline.PhaseWrite}}, 0)
	if ok, _, seen := k.steady([]flow.Stream{stream}, false); !ok {
		t.Errorf("it waits: %s", seen)
	}
}

// What took a while has the instant of its beginning: what it led to may come before its end.
func TestEventsKeepTheirInstants(t *testing.T) {
	dir := t.TempDir()
	before := timeline.Monotonic()
	rec, err := timeline.NewRecorder(dir, before)
	if err != nil {
		t.Fatal(err)
	}
	k := newSink(rec, "")
	var began time.Duration
	if err := disrupt.Tell(k.Event, timeline.Event{}, nil, func() error {
		began = timeline.Monotonic()
		k.Event(timeline.Event{Source: "peer", Kind: timeline.PeerSaw})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	tl, err := timeline.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	led := tl.EventsOf(timeline.PeerSaw, "")[0].At
	if told := tl.EventsOf(timeline.Disruption, "")[0].At; told > began-before || led < began-before {
		t.Errorf("what began before %v is told of %v, and what it led to of %v", began-before, told, led)
	}
}

// A system that never serves what takes long, and serves its like that does not, gives up such answers: it does not break
// what it claims.
func TestWhoGivesUpLongAnswers(t *testing.T) {
	b := sample("a.a")
	post := func(takes time.Duration) load.Profile {
		return load.Profile{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Post, Takes: takes}, Rate: 3}
	}
	short, long := post(time.Second), post(11*time.Second)
	b.Traffic = []load.Profile{short, long}
	for _, tc := range []struct {
		never   []load.Profile
		of      load.Profile
		hurries bool
	}{
		{[]load.Profile{long}, long, true},
		{[]load.Profile{short, long}, long, false},
		{[]load.Profile{short}, short, false},
	} {
		tl := &timeline.Timeline{Events: []timeline.Event{{At: 2 * time.Second, Kind: timeline.Marker, Attrs: map[string]string{"what": assertions.MarkSteady}}}}
		for _, p := range tc.never {
			tl.Samples = append(tl.Samples, timeline.Sample{Stream: flow.Named(p.Flow.String()), ID: p.Flow.String(), Start: 1, End: 2, Outcome: timeline.Status, Phase: timeline.PhaseDone})
			tl.Events = append(tl.Events, timeline.Event{At: time.Second, Kind: timeline.Marker, Attrs: map[string]string{"what": assertions.MarkUnserved, "stream": p.Flow.String(), "why": "504"}})
		}
		r := recording{scene: assertions.NewCase(tl, 3*time.Second)}
		if got := r.hurries(b, tc.of); got != tc.hurries {
			t.Errorf("never served: %v; %v: %t", tc.never, tc.of, got)
		}
	}
}

// A claim that does not hold fails what needs it, and nothing else.
func TestABrokenClaimFails(t *testing.T) {
	b, other := sample("a.a"), sample("a.b")
	b.Traffic = append(b.Traffic, load.Profile{Flow: flow.Flow{Path: flow.Service, Protocol: flow.TLS1, Conns: flow.New, Op: flow.Get}, Rate: 10})
	for _, x := range []*Behaviour{&b, &other} {
		x.Checks = []assertions.Check{{Name: "c", Judge: func(c assertions.Case) spec.Finding {
			for _, s := range c.Timeline.Samples {
				if s.Failed() {
					return spec.Finding{Verdict: spec.Fail}
				}
			}
			return spec.Finding{Verdict: spec.Pass}
		}}}
	}
	kill := sample("a.kill")
	kill.Disrupt, kill.Level = KillEach, spec.Control
	scenarios := Fold([]Behaviour{b, other, kill}, "", false)
	never := b.Traffic[len(b.Traffic)-1].Flow.String()
	dir := t.TempDir()
	j := &judgement{}
	for _, s := range scenarios {
		tape(t, dir, s, func(emit func(timeline.Record), _ *Meta) {
			emit(timeline.Record{Event: &timeline.Event{At: 999 * time.Millisecond, Source: "runner", Kind: timeline.Marker, Attrs: map[string]string{"what": assertions.MarkUnserved, "stream": never + "@uid", "why": "refused"}}})
			for i := range 40 {
				at := time.Duration(i+1) * 100 * time.Millisecond
				emit(timeline.Record{Sample: &timeline.Sample{Stream: flow.Named(never + "@uid"), ID: "never" + at.String(), Start: at, End: at + 1, Outcome: timeline.Refused, Phase: timeline.PhaseDial}})
			}
		})
		r, err := readRecording(dir, s, 3*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		j.recs = append(j.recs, r)
	}
	own := j.recs[1]
	if got := own.judge(b, j.blind()); got.Verdict != spec.Fail || len(got.Findings) != 1 || !strings.Contains(got.Findings[0].Expected, "TLS") {
		t.Errorf("what needs it: %v %s %+v", got.Verdict, got.Reason, got.Findings)
	}
	if got := own.judge(other, j.blind()); got.Verdict != spec.Pass {
		t.Errorf("what does not: %v %s %+v", got.Verdict, got.Reason, got.Findings)
	}
}

// Each request that both sides may tell of is waited for until they have; what a client lost is told too.
func TestSettle(t *testing.T) {
	ok := timeline.Record{Sample: &timeline.Sample{ID: "a", Outcome: timeline.OK, Server: "pod"}}
	unknown := timeline.Record{Sample: &timeline.Sample{ID: "a", Outcome: timeline.OK}} // whose answer it was
	lost := timeline.Record{Sample: &timeline.Sample{ID: "a", Outcome: timeline.Reset}}
	done := timeline.Record{Entry: &timeline.Entry{ID: "a", Step: timeline.Done, Whole: true}}
	cut := timeline.Record{Entry: &timeline.Entry{ID: "a", Step: timeline.Done}}
	begun := timeline.Record{Entry: &timeline.Entry{ID: "a", Step: timeline.Begin}}
	for _, tc := range []struct {
		name string
		told []timeline.Record
		due  int
	}{
		{"an answer alone", []timeline.Record{begun, ok}, 1},
		{"a backend alone", []timeline.Record{begun, done}, 1},
		{"both", []timeline.Record{ok, done}, 0},
		{"both, the other way round", []timeline.Record{done, ok}, 0},
		{"the answer was lost", []timeline.Record{done, lost}, 0},
		{"the answer was lost, and the ledger is late", []timeline.Record{lost, done}, 0},
		{"it was cut", []timeline.Record{cut, lost}, 0},
		{"it was done twice", []timeline.Record{done, done, ok}, 0},
		{"nobody says whose answer it was", []timeline.Record{unknown}, 0},
		{"nobody says whose answer it was, and it was done", []timeline.Record{unknown, done}, 0},
	} {
		rec, err := timeline.NewRecorder(t.TempDir(), 0)
		if err != nil {
			t.Fatal(err)
		}
		k := newSink(rec, "")
		for _, r := range tc.told {
			k.Emit(r, 0)
		}
		if k.wanted != tc.due {
			t.Errorf("%s: %d are due from the other side, want %d", tc.name, k.wanted, tc.due)
		}
		if err := rec.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
