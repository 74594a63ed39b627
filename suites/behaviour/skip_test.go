// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"encoding/json"
	"testing"

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
