// SPDX-License-Identifier: Apache-2.0

package suites

import (
	"strings"
	"testing"

	"github.com/onsi/ginkgo/v2/types"

	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// A known deviation breaks nobody's build, and JUnit tells it with its reason and link.
func TestOutcome(t *testing.T) {
	known := []v1alpha1.Deviation{{Behaviour: "a.known", Reason: "by design", Link: "https://example.com/1"}}
	passed, skipped, failed := types.SpecStatePassed, types.SpecStateSkipped, types.SpecStateFailed
	for _, tc := range []struct {
		name    string
		id      string
		level   spec.Level
		verdict spec.Verdict
		strict  bool
		want    types.SpecState
		why     string
	}{
		{"a pass", "a.b", spec.Must, spec.Pass, false, passed, ""},
		{"a skip", "a.b", spec.Must, spec.Skipped, false, skipped, "the reason"},
		{"a failure", "a.b", spec.Must, spec.Fail, false, failed, "MUST a.b"},
		{"a known failure", "a.known", spec.Must, spec.Fail, false, skipped, "Fail, a known deviation: by design (https://example.com/1)\nMUST a.known"},
		{"a known one that passed", "a.known", spec.Must, spec.Pass, false, passed, ""},
		{"a known one that nothing showed", "a.known", spec.Must, spec.Inconclusive, false, failed, "Inconclusive: the reason"},
		{"a warning", "a.b", spec.Should, spec.Fail, false, passed, ""},
		{"a strict run's SHOULD", "a.b", spec.Should, spec.Fail, true, failed, "SHOULD a.b"},
		{"a known SHOULD of a strict run", "a.known", spec.Should, spec.Fail, true, skipped, "Fail, a known deviation: by design"},
		{"a MAY", "a.b", spec.May, spec.Fail, true, passed, ""},
		{"an error", "a.b", spec.Must, spec.Error, false, failed, "Error: the reason"},
	} {
		b := v1alpha1.Behaviour{ID: tc.id, Level: tc.level, Verdict: tc.verdict, Reason: "the reason"}
		if got, why := outcome(b, known, tc.strict); got != tc.want || !strings.HasPrefix(why, tc.why) || (why == "") != (tc.why == "") {
			t.Errorf("%s: %s %q, want %s %q", tc.name, got, why, tc.want, tc.why)
		}
	}
}
