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
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// What was due and not sent passes nothing, and does not hide what was seen. It is
// counted in the report.
func TestUnsent(t *testing.T) {
	b := sample("a.a")
	b.Checks = []assertions.Check{{Judge: func(c assertions.Case) spec.Finding {
		for _, s := range c.Timeline.Samples {
			if s.Failed() && s.Start > 6*time.Second {
				return spec.Finding{Verdict: spec.Fail, Actual: "one"}
			}
		}
		return spec.Finding{Verdict: spec.Pass, Actual: "none"}
	}}}
	kill := sample("a.kill")
	kill.Disrupt, kill.Level = KillEach, spec.Control
	scenarios := Fold([]Behaviour{b, kill}, "", false)
	control, own := scenarios[0], scenarios[1]
	stream := own.Traffic[0].Flow.String()
	unsentAt := func(all ...time.Duration) func(func(timeline.Record), *Meta) {
		return func(emit func(timeline.Record), _ *Meta) {
			for _, at := range all {
				emit(timeline.Record{Sample: &timeline.Sample{
					Stream: flow.Named(stream), ID: "unsent" + at.String(), Start: at, End: at, Outcome: timeline.Cancelled, Phase: timeline.PhaseDue,
					Err: "not sent: 7 requests of its stream are in flight", Saturated: true,
				}})
			}
		}
	}
	lost := func(emit func(timeline.Record), m *Meta) {
		unsentAt(7*time.Second)(emit, m)
		emit(timeline.Record{Sample: &timeline.Sample{Stream: flow.Named(stream), ID: "lost", Start: 8 * time.Second, End: 8 * time.Second, Outcome: timeline.Reset, Phase: timeline.PhaseBody}})
	}
	for _, tc := range []struct {
		name         string
		own, control func(func(timeline.Record), *Meta)
		want         spec.Verdict
		reason       string
		counted      int
	}{
		{"all was sent", nil, nil, spec.Pass, "", 0},
		{"before the gate", unsentAt(time.Second / 2), nil, spec.Pass, "", 1},
		{"in the baseline", unsentAt(2 * time.Second), nil, spec.Inconclusive, "1 requests were due and not sent", 1},
		{"later", unsentAt(7*time.Second, 9*time.Second), nil, spec.Inconclusive, "2 requests were due and not sent, because those before them were not over: the system stood still, or the machine has too little CPU for its clients (the first of " + stream + ": not sent: 7 requests of its stream are in flight)", 2},
		{"a violation stands", lost, nil, spec.Fail, "", 1},
		{"in the control", nil, unsentAt(7 * time.Second), spec.Inconclusive, "the control proves nothing: 1 requests were due and not sent", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			tape(t, dir, control, tc.control)
			tape(t, dir, own, tc.own)
			j := recorded(t, dir, scenarios...)
			if got := j.recs[1].judge(b, j.blind()); got.Verdict != tc.want || !strings.Contains(got.Reason, tc.reason) {
				t.Errorf("%v (%s), want %v (%s)", got.Verdict, got.Reason, tc.want, tc.reason)
			}
			failed := 0
			if tc.want == spec.Fail {
				failed = 1
			}
			st := j.recs[1].describe().Streams[0]
			if st.Saturated != tc.counted || st.Outcomes["cancelled"] != tc.counted || st.Attempts != 20+tc.counted+failed || st.Failed != failed {
				t.Errorf("the report counts %+v", st)
			}
		})
	}
}

// The gate waits for a stream whose requests are not sent, and takes it for none that the
// system does not serve.
func TestTheGateAndWhatIsNotSent(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		rec, err := timeline.NewRecorder(dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		k := newSink(rec, "")
		stop := make(chan struct{})
		const sent, left = "direct/http1/new/get@a", "direct/h2c/new/get@a"
		go func() {
			for n := 1; ; n++ {
				for _, s := range []timeline.Sample{
					{Stream: flow.Named(sent), ID: fmt.Sprint("s", n), Outcome: timeline.OK, Phase: timeline.PhaseDone},
					{Stream: flow.Named(left), ID: fmt.Sprint("l", n), Outcome: timeline.Cancelled, Phase: timeline.PhaseDue, Saturated: true, Err: "not sent: 7 requests of its stream are in flight"},
				} {
					k.Emit(timeline.Record{Sample: &s}, 0)
				}
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Millisecond):
				}
			}
		}()
		for _, streams := range [][]flow.Stream{{flow.Named(sent), flow.Named(left)}, {flow.Named(left)}} {
			err := k.awaitSteady(t.Context(), streams, true, 2*unservedFor)
			if err == nil || errors.Is(err, errNothingServed) || !strings.Contains(err.Error(), "last failure: not sent: 7 requests") {
				t.Errorf("of %q: %v", streams, err)
			}
		}
		close(stop)
		synctest.Wait()
		if _, failed := k.Counts(); failed > 0 {
			t.Errorf("%d failed, and nothing was sent", failed)
		}
		if err := rec.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
