// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// taped is the directory of a run of two behaviours, a.a and b.b, each on a recording of its own,
// that skipped c.c. The control has its stream of a.a, and knows nothing of b.b's.
func taped(t *testing.T) (dir string, own, other Behaviour) {
	t.Helper()
	own, other = sample("a.a"), sample("b.b")
	own.Checks = says(spec.Finding{Verdict: spec.Pass, Actual: "all is well"})
	other.Topology.Replicas, other.Checks = 7, own.Checks
	other.Traffic = []load.Profile{{Flow: flow.Flow{Path: flow.Service, Protocol: flow.H2C, Conns: flow.New, Op: flow.Get}, Rate: 20}}
	kill := sample("a.kill")
	kill.Disrupt, kill.Level = KillEach, spec.Control
	plan := Fold([]Behaviour{own, other, kill}, "", false)
	broken := Fold([]Behaviour{own}, "a-fault", false)[0]
	dir = t.TempDir()
	for i := range plan {
		if plan[i].Control {
			plan[i].Traffic = own.Traffic
		}
		tape(t, dir, plan[i], nil)
	}
	run := Run{
		Report: v1alpha1.ConformanceReport{Settings: v1alpha1.Settings{P: v1alpha1.Duration(3 * time.Second)}},
		Plan:   append([]Scenario{broken}, plan...), Skipped: map[string]Skip{"c.c": Because(spec.Uncarried, "the stage has no such thing")},
	}
	if err := writeJSON(filepath.Join(dir, runFile), run); err != nil {
		t.Fatal(err)
	}
	return dir, own, other
}

func TestOpen(t *testing.T) {
	dir, own, other := taped(t)
	for _, tc := range []struct {
		name, of string
		put      Behaviour
		verdict  spec.Verdict
		told     string
	}{
		{"its own", "a.a", own, spec.Pass, "a.a: t"},
		{"one whose stream the control does not know", "b.b", other, spec.Inconclusive, "did not see it"},
		{"another's, whose streams all see", "a.a", other, spec.Pass, "b.b: t"},
		{"another's, and one of its streams is blind", "b.b", own, spec.Inconclusive, "service/h2c/new/get: the control killed pods"},
	} {
		r, err := Open(dir, tc.of)
		if err != nil {
			t.Fatal(err)
		}
		judged, told := r.Judge(tc.put)
		if judged.Verdict != tc.verdict || !strings.Contains(strings.Join(strings.Fields(told), " "), tc.told) {
			t.Errorf("%s: %s, and it is told\n%s\nwant %s, %q", tc.name, judged.Verdict, told, tc.verdict, tc.told)
		}
	}
}

// Judging changes nothing of the recording: it says the same again.
func TestJudgedTwice(t *testing.T) {
	dir, own, _ := taped(t)
	own.Checks = []assertions.Check{{
		Name: "answers", Expected: "some", Floors: []assertions.Floor{{Name: "answers", N: 1}},
		Judge: func(c assertions.Case) spec.Finding {
			n := len(slices.DeleteFunc(slices.Clone(c.Timeline.Samples), func(s timeline.Sample) bool { return s.Failed() }))
			return spec.Finding{Verdict: spec.Pass, Evidence: []spec.Count{{Name: "answers", N: n, Floor: 1}}}
		},
	}}
	r, err := Open(dir, "a.a")
	if err != nil {
		t.Fatal(err)
	}
	_, once := r.Judge(own)
	if _, again := r.Judge(own); once != again || !strings.Contains(once, "20 answers") {
		t.Errorf("once\n%s\nand again\n%s", once, again)
	}
}

func TestWhatCantBeOpened(t *testing.T) {
	dir, _, _ := taped(t)
	for _, tc := range []struct{ dir, id, says string }{
		{t.TempDir(), "a.a", "holds no recorded run: run.json is missing"},
		{dir, "c.c", "the run skipped c.c: the stage has no such thing"},
		{dir, "d.d", `made no recording for "d.d"; it made them for a.a, b.b`},
		{dir, "a.kill", `made no recording for "a.kill"`}, // nothing but itself is judged on a control
	} {
		if _, err := Open(tc.dir, tc.id); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want %q", tc.id, err, tc.says)
		}
	}
}
