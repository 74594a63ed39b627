// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"testing"

	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestLine(t *testing.T) {
	failed := spec.Finding{Verdict: spec.Fail, Actual: "3 of 9 failed\nat length"}
	unsure := spec.Finding{Verdict: spec.Inconclusive, Actual: "not enough evidence: 2, and at least 5 are needed"}
	for _, tc := range []struct {
		name string
		b    v1alpha1.Behaviour
		want string
	}{
		{"failed", v1alpha1.Behaviour{Verdict: spec.Fail, Findings: []spec.Finding{unsure, failed}}, "3 of 9 failed"},
		{"unsure", v1alpha1.Behaviour{Verdict: spec.Inconclusive, Findings: []spec.Finding{unsure}}, unsure.Actual},
		{"unsure, with a violation", v1alpha1.Behaviour{
			Verdict: spec.Inconclusive, Reason: "3 of 9 failed: that proves nothing, because it was cut", Findings: []spec.Finding{unsure, failed},
		}, "3 of 9 failed: that proves nothing, because it was cut"},
		{"error", v1alpha1.Behaviour{Verdict: spec.Error, Reason: "kaput", Findings: []spec.Finding{failed}}, "kaput"},
	} {
		if got := tc.b.Line(); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
