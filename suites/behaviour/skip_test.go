// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// A run of before the kinds wrote the reason alone: it says nothing in a system's favour.
func TestSkipReadsBothForms(t *testing.T) {
	var run Run
	text := `{"skipped": {"a.old": "it needs Pods", "a.new": {"kind": "unclaimed", "why": "it claims no TCP"}}}`
	if err := json.Unmarshal([]byte(text), &run); err != nil {
		t.Fatal(err)
	}
	if got, want := run.Skipped["a.old"], (Skip{Why: "it needs Pods"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := run.Skipped["a.new"], Because(spec.Unclaimed, "it claims no TCP"); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	again, err := json.Marshal(run.Skipped["a.new"])
	if err != nil || string(again) != `{"kind":"unclaimed","why":"it claims no TCP"}` {
		t.Errorf("%s, %v", again, err)
	}
	if (Because(spec.Uncarried, "") != Skip{}) {
		t.Error("a skip without a reason")
	}
}

// What a run was not asked for is in its report, so that nobody takes a part for all. A
// control is the suite's own.
func TestUnselected(t *testing.T) {
	was := registry
	defer func() { registry = was }()
	registry = []Behaviour{
		{ID: "a.told", Level: spec.Must, Profile: spec.Gateway}, {ID: "pod.left", Level: spec.Should, Profile: spec.App},
		{ID: "a.control", Level: spec.Control, Profile: spec.Gateway},
	}
	got := unselected([]v1alpha1.Behaviour{{ID: "a.told"}})
	if want := (v1alpha1.Unselected{ID: "pod.left", Level: spec.Should, Profile: spec.App}); len(got) != 1 || got[0] != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// What a report's profiles follow from is written when it is judged: whose each behaviour
// is, the kind of a skip, and what was not asked for; of a matrix, nothing of the kind.
func TestFillWritesWhatIsStated(t *testing.T) {
	was := registry
	defer func() { registry = was }()
	registry = []Behaviour{
		{ID: "pod.skipped", Level: spec.Must, Profile: spec.App}, {ID: "a.left", Level: spec.Must, Profile: spec.Gateway},
	}
	run := Run{Skipped: map[string]Skip{"pod.skipped": Because(spec.Unclaimed, "it claims no TCP")}}
	var report v1alpha1.ConformanceReport
	if err := (&judgement{}).fill(&report, run); err != nil {
		t.Fatal(err)
	}
	want := v1alpha1.Behaviour{ID: "pod.skipped", Level: spec.Must, Profile: spec.App, Verdict: spec.Skipped, Reason: "it claims no TCP", Skip: spec.Unclaimed}
	if d := cmp.Diff([]v1alpha1.Behaviour{want}, report.Behaviours); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]v1alpha1.Unselected{{ID: "a.left", Level: spec.Must, Profile: spec.Gateway}}, report.Unselected); d != "" {
		t.Error(d)
	}
	if len(report.Profiles) != len(spec.Profiles()) {
		t.Errorf("%+v", report.Profiles)
	}
	run.Matrix = Diagonal
	if err := (&judgement{}).fill(&report, run); err != nil || report.Unselected != nil || report.Profiles != nil {
		t.Errorf("%v, %+v, %+v", err, report.Unselected, report.Profiles)
	}
}
