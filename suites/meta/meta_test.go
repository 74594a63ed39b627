// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"strings"
	"testing"

	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestCompare(t *testing.T) {
	e := Expectation{Fault: "x", Verdicts: map[string]Verdict{
		"a.fails": {Verdict: spec.Fail, Checks: []string{"one"}}, "a.passes": {Verdict: spec.Pass},
		"a.unsure": {Verdict: spec.Inconclusive, Reason: "it is dead"},
	}}
	report := func(edit func(*v1alpha1.ConformanceReport)) *v1alpha1.ConformanceReport {
		r := &v1alpha1.ConformanceReport{}
		r.Settings.Fault = "x"
		r.Behaviours = []v1alpha1.Behaviour{
			{ID: "a.fails", Verdict: spec.Fail, Findings: v1alpha1.Findings{{Check: "one", Verdict: spec.Fail, Culprits: []spec.Culprit{{Text: "c"}}}}},
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
		{"by another check", func(r *v1alpha1.ConformanceReport) { r.Behaviours[0].Findings[0].Check = "other" }, `not by its check "one"`},
		{"killed too much", func(r *v1alpha1.ConformanceReport) { r.Behaviours[1].Verdict = spec.Fail }, "expected Pass"},
		{"unsure of something else", func(r *v1alpha1.ConformanceReport) { r.Behaviours[2].Reason = "too few" }, "another reason"},
		{"not written down", func(r *v1alpha1.ConformanceReport) { r.Behaviours[2].ID = "a.new" }, "expected Pass"},
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

func TestCheck(t *testing.T) {
	const dead = "not enough evidence: echo-1 did not go on accepting: of a pod that is dead nothing can be shown"
	kills := func(spec.Fault) []string { return []string{"pod.accept-after-sigterm", "rollout.zero-failed"} }
	for _, tc := range []struct {
		name           string
		cell           v1alpha1.MatrixCell
		problem, doubt string
	}{
		{"a kill", v1alpha1.MatrixCell{Behaviour: "pod.accept-after-sigterm", Verdict: spec.Fail, Culprits: 1}, "", ""},
		{"by another check", v1alpha1.MatrixCell{Behaviour: "rollout.zero-failed", Verdict: spec.Fail, Culprits: 1, Failed: []string{"the ledger against the clients"}}, "not by its check \"requests through the Service", ""},
		{"by that one too", v1alpha1.MatrixCell{Behaviour: "rollout.zero-failed", Verdict: spec.Fail, Culprits: 1, Failed: []string{"the ledger against the clients", "requests through the Service in [first D, last exit + P]"}}, "", ""},
		{"a kill without a culprit", v1alpha1.MatrixCell{Behaviour: "pod.accept-after-sigterm", Verdict: spec.Fail}, "without a culprit", ""},
		{"never served at all", v1alpha1.MatrixCell{Behaviour: "pod.accept-after-sigterm", Verdict: spec.Fail, Culprits: 1, Failed: []string{spec.Claimed, spec.Claimed}}, "that is no kill", ""},
		{"no kill", v1alpha1.MatrixCell{Behaviour: "pod.accept-after-sigterm", Verdict: spec.Pass}, "Pass, expected Fail", ""},
		{"a doubt", v1alpha1.MatrixCell{Behaviour: "pod.accept-after-sigterm", Verdict: spec.Inconclusive, Reason: "starved"}, "", "Inconclusive, expected Fail. starved"},
		{"as unsure as it was meant to be", v1alpha1.MatrixCell{Behaviour: "endpoints.affinity-moves", Verdict: spec.Inconclusive, Reason: dead}, "", ""},
		{"unsure of something else", v1alpha1.MatrixCell{Behaviour: "endpoints.affinity-moves", Verdict: spec.Inconclusive, Reason: "the agent was lost"}, "", "for another reason than"},
		{"killed too much", v1alpha1.MatrixCell{Behaviour: "endpoints.affinity-moves", Verdict: spec.Fail, Culprits: 1}, "Fail, expected Inconclusive", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := &v1alpha1.Matrix{Rows: []v1alpha1.MatrixRow{{Fault: "close-listener", Cells: []v1alpha1.MatrixCell{tc.cell}}}}
			Check(m, kills)
			for _, list := range []struct {
				what, want string
				got        []string
			}{{"problems", tc.problem, m.Problems}, {"doubts", tc.doubt, m.Doubts}} {
				if text := strings.Join(list.got, "; "); (text != "") != (list.want != "") || !strings.Contains(text, list.want) {
					t.Errorf("%s %q, want %q", list.what, text, list.want)
				}
			}
			if got := m.Rows[0].Cells[0].Doubt; got != (tc.doubt != "") {
				t.Errorf("the cell's doubt is %t", got)
			}
		})
	}
}
