// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"testing"

	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestConclude(t *testing.T) {
	type b = v1alpha1.Behaviour
	must := func(v spec.Verdict) b { return b{ID: "m", Level: spec.Must, Verdict: v} }
	should := func(v spec.Verdict) b { return b{ID: "s", Level: spec.Should, Verdict: v} }
	may := func(v spec.Verdict) b { return b{ID: "y", Level: spec.May, Verdict: v} }
	ctl := func(v spec.Verdict) b { return b{ID: "c", Level: spec.Control, Verdict: v} }
	tests := []struct {
		name     string
		in       []b
		known    []string
		controls []v1alpha1.Control
		errors   []string
		strict   bool
		want     spec.Verdict
		exit     int
		warnings int
	}{
		{name: "nothing ran", want: spec.Inconclusive, exit: 3},
		{name: "all skipped", in: []b{must(spec.Skipped)}, want: spec.Inconclusive, exit: 3},
		{name: "pass", in: []b{must(spec.Pass), must(spec.Skipped)}, want: spec.Pass, exit: 0},
		{name: "must fails", in: []b{must(spec.Pass), must(spec.Fail)}, want: spec.Fail, exit: 1},
		{name: "fail beats error", in: []b{must(spec.Error), must(spec.Fail)}, want: spec.Fail, exit: 1},
		{name: "error beats inconclusive", in: []b{must(spec.Inconclusive), must(spec.Error)}, want: spec.Error, exit: 3},
		{name: "inconclusive beats pass", in: []b{must(spec.Inconclusive), must(spec.Pass)}, want: spec.Inconclusive, exit: 3},
		{name: "should warns", in: []b{must(spec.Pass), should(spec.Fail)}, want: spec.Pass, exit: 0, warnings: 1},
		{name: "should fails a strict run", in: []b{must(spec.Pass), should(spec.Fail)}, strict: true, want: spec.Fail, exit: 1},
		{name: "what is claimed and not there fails at any level", in: []b{must(spec.Pass), {
			ID: "s", Level: spec.Should, Verdict: spec.Fail, Findings: v1alpha1.Findings{{Check: spec.Claimed, Verdict: spec.Fail}},
		}}, want: spec.Fail, exit: 1},
		{name: "what is claimed and in doubt does not", in: []b{must(spec.Pass), {
			ID: "s", Level: spec.Should, Verdict: spec.Inconclusive, Findings: v1alpha1.Findings{{Check: spec.Claimed, Verdict: spec.Fail}},
		}}, want: spec.Pass, exit: 0},
		{name: "only shoulds", in: []b{should(spec.Pass)}, want: spec.Pass, exit: 0},
		{name: "may costs nothing", in: []b{must(spec.Pass), may(spec.Fail)}, strict: true, want: spec.Pass, exit: 0},
		{name: "a blind control is no failure of the system", in: []b{must(spec.Pass), ctl(spec.Fail)}, want: spec.Error, exit: 3},
		{name: "an unsure control", in: []b{must(spec.Pass)}, controls: []v1alpha1.Control{{Verdict: spec.Inconclusive}}, want: spec.Inconclusive, exit: 3},
		{name: "a failed control", in: []b{must(spec.Pass)}, controls: []v1alpha1.Control{{Verdict: spec.Fail}}, want: spec.Error, exit: 3},
		{name: "the run broke", in: []b{must(spec.Pass)}, errors: []string{"egress guard"}, want: spec.Error, exit: 3},
		{name: "the run broke after a failure", in: []b{must(spec.Fail)}, errors: []string{"egress guard"}, want: spec.Fail, exit: 1},

		{name: "a known deviation fails, and the exit code is another's", in: []b{must(spec.Pass), {ID: "k", Level: spec.Must, Verdict: spec.Fail}}, known: []string{"k"}, want: spec.Fail, exit: 0},
		{name: "nothing but a known deviation", in: []b{must(spec.Fail)}, known: []string{"m"}, want: spec.Fail, exit: 0},
		{name: "a known deviation beside a new one", in: []b{must(spec.Fail), {ID: "k", Level: spec.Must, Verdict: spec.Fail}}, known: []string{"k"}, want: spec.Fail, exit: 1},
		{name: "a known deviation beside what was not shown", in: []b{must(spec.Inconclusive), {ID: "k", Level: spec.Must, Verdict: spec.Fail}}, known: []string{"k"}, want: spec.Fail, exit: 3},
		{name: "a known deviation of a run that broke", in: []b{must(spec.Fail)}, known: []string{"m"}, errors: []string{"egress guard"}, want: spec.Fail, exit: 3},
		{name: "a known deviation that was not shown", in: []b{must(spec.Inconclusive)}, known: []string{"m"}, want: spec.Inconclusive, exit: 3},
		{name: "a known deviation that passed", in: []b{must(spec.Pass)}, known: []string{"m"}, want: spec.Pass, exit: 0},
		{name: "a known SHOULD is a warning still", in: []b{must(spec.Pass), should(spec.Fail)}, known: []string{"s"}, want: spec.Pass, exit: 0, warnings: 1},
		{name: "a known SHOULD of a strict run", in: []b{must(spec.Pass), should(spec.Fail)}, known: []string{"s"}, strict: true, want: spec.Fail, exit: 0},
		{name: "a control is nobody's deviation", in: []b{must(spec.Pass), ctl(spec.Fail)}, known: []string{"c"}, want: spec.Error, exit: 3},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			r := v1alpha1.ConformanceReport{Behaviours: tc.in, Controls: tc.controls, Errors: tc.errors}
			r.Settings.Strict = tc.strict
			for _, id := range tc.known {
				r.Deviations = append(r.Deviations, v1alpha1.Deviation{Behaviour: id, Reason: "so"})
			}
			r.Conclude()
			r.Conclude() // a second time changes nothing
			if r.Verdict != tc.want || r.ExitCode != tc.exit || r.Summary.Warnings != tc.warnings {
				t.Errorf("got %v, exit %d, %d warnings; want %v, exit %d, %d warnings",
					r.Verdict, r.ExitCode, r.Summary.Warnings, tc.want, tc.exit, tc.warnings)
			}
		})
	}
}
