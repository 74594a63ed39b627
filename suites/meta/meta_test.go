// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	_ "github.com/lastcall-dev/lastcall/suites/all"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestExpectationsSpeakOfTheCatalogue(t *testing.T) {
	entries, err := expected.ReadDir("expected")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range entries {
		fault := spec.Fault(strings.TrimSuffix(f.Name(), ".yaml"))
		e, err := Expected(fault)
		if err != nil {
			t.Error(err)
			continue
		}
		for id := range e.Verdicts {
			if _, ok := behaviour.Find(id); !ok {
				t.Errorf("%s: %q is no behaviour", f.Name(), id)
			}
		}
		for _, b := range behaviour.Catalogue() {
			if _, ok := e.Verdicts[b.ID]; !ok {
				t.Errorf("%s: nothing is written down for %s", f.Name(), b.ID)
			}
		}
		for _, known := range behaviour.Faults() {
			if known.Name != fault {
				continue
			}
			for _, id := range known.Breaks {
				if e.Verdicts[id].Verdict != spec.Fail {
					t.Errorf("%s: the component says that it breaks %s, the expectation says %s", f.Name(), id, e.Verdicts[id].Verdict)
				}
			}
		}
	}
	if _, err := Expected("no-such-fault"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an unknown fault: %v", err)
	}
}

func TestCompare(t *testing.T) {
	e := Expectation{Fault: "x", Verdicts: map[string]Verdict{
		"a.fails": {Verdict: spec.Fail}, "a.passes": {Verdict: spec.Pass},
		"a.unsure": {Verdict: spec.Inconclusive, Reason: "it is dead"},
	}}
	report := func(edit func(*v1alpha1.ConformanceReport)) *v1alpha1.ConformanceReport {
		r := &v1alpha1.ConformanceReport{}
		r.Settings.Fault = "x"
		r.Behaviours = []v1alpha1.Behaviour{
			{ID: "a.fails", Verdict: spec.Fail, Findings: v1alpha1.Findings{{Verdict: spec.Fail, Culprits: []spec.Culprit{{Text: "c"}}}}},
			{ID: "a.passes", Verdict: spec.Pass},
			{ID: "a.unsure", Verdict: spec.Inconclusive, Reason: "because it is dead"},
		}
		edit(r)
		return r
	}
	tests := []struct {
		name string
		edit func(*v1alpha1.ConformanceReport)
		want string
	}{
		{"as expected", func(*v1alpha1.ConformanceReport) {}, ""},
		{"another fault", func(r *v1alpha1.ConformanceReport) { r.Settings.Fault = "y" }, `fault "y"`},
		{"not killed", func(r *v1alpha1.ConformanceReport) { r.Behaviours[0].Verdict = spec.Pass }, "expected Fail"},
		{"an error is no kill", func(r *v1alpha1.ConformanceReport) { r.Behaviours[0].Verdict = spec.Error }, "expected Fail"},
		{"no culprit", func(r *v1alpha1.ConformanceReport) { r.Behaviours[0].Findings = nil }, "without a culprit"},
		{"killed too much", func(r *v1alpha1.ConformanceReport) { r.Behaviours[1].Verdict = spec.Fail }, "expected Pass"},
		{"unsure of something else", func(r *v1alpha1.ConformanceReport) { r.Behaviours[2].Reason = "too few" }, "another reason"},
		{"not written down", func(r *v1alpha1.ConformanceReport) { r.Behaviours[1].ID = "a.new" }, "nothing is written down"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			err := Compare(e, report(tc.edit))
			if (err != nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
