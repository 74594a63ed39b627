// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"testing"

	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// What may be stated of a profile. Each row but the first differs from a conformant
// system in one thing.
func TestProfiles(t *testing.T) {
	type b = v1alpha1.Behaviour
	of := func(level spec.Level, v spec.Verdict, kind spec.SkipKind) b {
		return b{ID: "x", Level: level, Profile: spec.Gateway, Verdict: v, Skip: kind}
	}
	pass := of(spec.Must, spec.Pass, "")
	unselected := func(l spec.Level) []v1alpha1.Unselected {
		return []v1alpha1.Unselected{{ID: "y", Level: l, Profile: spec.Gateway}}
	}
	for _, tc := range []struct {
		name       string
		in         []b
		unselected []v1alpha1.Unselected
		change     func(*v1alpha1.ConformanceReport)
		want       v1alpha1.Result
		must       v1alpha1.Tally
	}{
		{name: "every MUST passed", in: []b{pass, pass}, want: v1alpha1.Conformant, must: v1alpha1.Tally{Passed: 2}},
		{name: "a feature is not claimed", in: []b{pass, of(spec.Must, spec.Skipped, spec.Unclaimed)}, want: v1alpha1.Conformant, must: v1alpha1.Tally{Passed: 1, Unclaimed: 1}},
		{name: "the stage can't carry one", in: []b{pass, of(spec.Must, spec.Skipped, spec.Uncarried)}, want: v1alpha1.Partial, must: v1alpha1.Tally{Passed: 1, Skipped: 1}},
		{name: "another role's", in: []b{pass, of(spec.Must, spec.Skipped, spec.OtherRole)}, want: v1alpha1.Partial, must: v1alpha1.Tally{Passed: 1, Skipped: 1}},
		{name: "it did not come up", in: []b{pass, of(spec.Must, spec.Skipped, spec.Moot)}, want: v1alpha1.Partial, must: v1alpha1.Tally{Passed: 1, Skipped: 1}},
		{name: "skipped, and an old run does not say what for", in: []b{pass, of(spec.Must, spec.Skipped, "")}, want: v1alpha1.Partial, must: v1alpha1.Tally{Passed: 1, Skipped: 1}},
		{name: "not selected", in: []b{pass}, unselected: unselected(spec.Must), want: v1alpha1.Partial, must: v1alpha1.Tally{Passed: 1, Unselected: 1}},
		{name: "a SHOULD was not selected", in: []b{pass}, unselected: unselected(spec.Should), want: v1alpha1.Conformant, must: v1alpha1.Tally{Passed: 1}},
		{name: "inconclusive", in: []b{pass, of(spec.Must, spec.Inconclusive, "")}, want: v1alpha1.Partial, must: v1alpha1.Tally{Passed: 1, Inconclusive: 1}},
		{name: "an error", in: []b{pass, of(spec.Must, spec.Error, "")}, want: v1alpha1.Partial, must: v1alpha1.Tally{Passed: 1, Errors: 1}},
		{name: "failed", in: []b{pass, of(spec.Must, spec.Fail, "")}, want: v1alpha1.Nonconformant, must: v1alpha1.Tally{Passed: 1, Failed: 1}},
		{name: "failed, beside what was skipped", in: []b{of(spec.Must, spec.Skipped, spec.Uncarried), of(spec.Must, spec.Fail, "")}, want: v1alpha1.Nonconformant, must: v1alpha1.Tally{Failed: 1, Skipped: 1}},
		{name: "a known deviation", in: []b{pass, of(spec.Must, spec.Fail, "")}, want: v1alpha1.Nonconformant, must: v1alpha1.Tally{Passed: 1, Failed: 1, Known: 1},
			change: func(r *v1alpha1.ConformanceReport) {
				r.Behaviours[1].ID = "k"
				r.Deviations = []v1alpha1.Deviation{{Behaviour: "k", Reason: "so"}}
			}},
		{name: "nothing is claimed", in: []b{of(spec.Must, spec.Skipped, spec.Unclaimed)}, want: v1alpha1.Unjudged, must: v1alpha1.Tally{Unclaimed: 1}},
		{name: "nothing is carried", in: []b{of(spec.Must, spec.Skipped, spec.Uncarried)}, want: v1alpha1.Unjudged, must: v1alpha1.Tally{Skipped: 1}},
		{name: "nothing was selected", unselected: unselected(spec.Must), want: v1alpha1.Unjudged, must: v1alpha1.Tally{Unselected: 1}},
		{name: "nothing was shown", in: []b{of(spec.Must, spec.Inconclusive, "")}, want: v1alpha1.Unjudged, must: v1alpha1.Tally{Inconclusive: 1}},
		{name: "only a SHOULD passed", in: []b{of(spec.Should, spec.Pass, "")}, want: v1alpha1.Unjudged},
		{name: "a SHOULD and a MAY failed", in: []b{pass, of(spec.Should, spec.Fail, ""), of(spec.May, spec.Fail, "")}, want: v1alpha1.Conformant, must: v1alpha1.Tally{Passed: 1}},
		{name: "another profile's failed", in: []b{pass, {ID: "pod.x", Level: spec.Must, Profile: spec.App, Verdict: spec.Fail}}, want: v1alpha1.Conformant, must: v1alpha1.Tally{Passed: 1}},
		{name: "the run broke", in: []b{pass}, want: v1alpha1.Partial, must: v1alpha1.Tally{Passed: 1},
			change: func(r *v1alpha1.ConformanceReport) { r.Errors = []string{"egress guard"} }},
		{name: "a control was blind", in: []b{pass, {ID: "pod.abrupt-death", Level: spec.Control, Profile: spec.App, Verdict: spec.Fail}}, want: v1alpha1.Partial, must: v1alpha1.Tally{Passed: 1}},
		{name: "a recording's control was unsure", in: []b{pass}, want: v1alpha1.Partial, must: v1alpha1.Tally{Passed: 1},
			change: func(r *v1alpha1.ConformanceReport) {
				r.Controls = []v1alpha1.Control{{Verdict: spec.Inconclusive}}
			}},
		{name: "broken on purpose", in: []b{pass}, want: v1alpha1.Partial, must: v1alpha1.Tally{Passed: 1},
			change: func(r *v1alpha1.ConformanceReport) { r.Settings.Fault = "no-goaway" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := v1alpha1.ConformanceReport{Behaviours: tc.in, Unselected: tc.unselected}
			if tc.change != nil {
				tc.change(&r)
			}
			r.Conclude()
			r.Conclude() // a second time changes nothing
			if len(r.Profiles) != 4 || r.Profiles[3].Name != spec.Gateway {
				t.Fatalf("%+v", r.Profiles)
			}
			if got := r.Profiles[3]; got.Result != tc.want || got.Must != tc.must {
				t.Errorf("%s %+v, want %s %+v", got.Result, got.Must, tc.want, tc.must)
			}
		})
	}
}

// A report of before profiles has none, and so has a run that judges the suite: both
// would be stated of nobody.
func TestNoProfiles(t *testing.T) {
	old := v1alpha1.ConformanceReport{Behaviours: []v1alpha1.Behaviour{{ID: "a.b", Level: spec.Must, Verdict: spec.Pass}}}
	matrix := v1alpha1.ConformanceReport{Matrix: &v1alpha1.Matrix{}, Unselected: []v1alpha1.Unselected{{ID: "a.b", Level: spec.Must, Profile: spec.Gateway}}}
	for name, r := range map[string]v1alpha1.ConformanceReport{"old": old, "matrix": matrix} {
		if r.Conclude(); r.Profiles != nil {
			t.Errorf("%s: %+v", name, r.Profiles)
		}
	}
}

// What is listed and passed is told; what failed, or was not judged, is none of that.
func TestOutlived(t *testing.T) {
	r := v1alpha1.ConformanceReport{
		Behaviours: []v1alpha1.Behaviour{{ID: "a.a", Verdict: spec.Pass}, {ID: "a.b", Verdict: spec.Fail}, {ID: "a.c", Verdict: spec.Skipped}, {ID: "a.d", Verdict: spec.Pass}},
		Deviations: []v1alpha1.Deviation{{Behaviour: "a.a"}, {Behaviour: "a.b"}, {Behaviour: "a.c"}, {Behaviour: "a.e"}},
	}
	if got := r.Outlived(); len(got) != 1 || got[0].Behaviour != "a.a" {
		t.Errorf("%+v", got)
	}
}
