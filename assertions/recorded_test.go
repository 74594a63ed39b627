// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Real proxies' frames, as a run of each on the host stage recorded them, cut to what
// the checks look at (testdata/recorded/README.md says how): a check that is changed
// says of them what it said before, or the change has to say why not.
func TestRecorded(t *testing.T) {
	const (
		pass    = spec.Pass
		fail    = spec.Fail
		unclear = spec.Inconclusive
	)
	proxies := []string{"haproxy", "envoy", "haproxy-naive"}
	var cases []Case
	for i, minDrain := range []time.Duration{5 * time.Second, 5 * time.Second, 0} {
		tl, err := timeline.Read(filepath.Join("testdata", "recorded", proxies[i]))
		if err != nil {
			t.Fatal(err)
		}
		c := NewCase(tl, 3*time.Second)
		c.MinDrain, c.Deadline = minDrain, 20*time.Second
		cases = append(cases, c)
	}
	for _, tc := range []struct {
		check Check
		// In the order of the proxies. Skipped: it is not asked, because what is late is
		// held against nobody while requests are missing, as they are here.
		want [3]spec.Verdict
	}{
		{SendsGoAway(), [3]spec.Verdict{pass, pass, fail}},
		{FirstGoAwayMax(), [3]spec.Verdict{pass, pass, unclear}},
		{FinalGoAway(), [3]spec.Verdict{fail, pass, unclear}},
		{GoAwayNeverRises(), [3]spec.Verdict{pass, pass, unclear}},
		{IdleGetsGoAway(), [3]spec.Verdict{pass, fail, fail}},
		{AboveLastUnprocessed(), [3]spec.Verdict{pass, pass, unclear}},
		{BelowLastCompletes(), [3]spec.Verdict{pass, pass, unclear}},
		{RacingStreams(), [3]spec.Verdict{pass, pass, unclear}},
		{CallsSayTheirEnd(), [3]spec.Verdict{pass, pass, fail}},
		// The last answers of a hard stop were whole at the backend before D.
		{SaysClose(), [3]spec.Verdict{pass, pass, unclear}},
		{ClosesAfterSaying(), [3]spec.Verdict{pass, fail, unclear}},
		// When they were recorded nobody sent a long POST ahead.
		{Lingers(), [3]spec.Verdict{unclear, unclear, unclear}},
		{AnswersHalfHeaders(), [3]spec.Verdict{pass, pass, pass}},
		{ClosesIdleFirst(), [3]spec.Verdict{unclear, pass, fail}},
		{CloseNotifyFirst(), [3]spec.Verdict{fail, pass, fail}},
		{WebSocketsSurvive(), [3]spec.Verdict{pass, pass, fail}},
		{CarriesOpaque(), [3]spec.Verdict{pass, pass, fail}},
		{PassesHalfClose(), [3]spec.Verdict{pass, pass, unclear}},
		{PassesServersEnd(), [3]spec.Verdict{pass, pass, unclear}},
		{ServerSpeaksFirst(), [3]spec.Verdict{pass, pass, unclear}},
		{ClosesSilent(), [3]spec.Verdict{spec.Skipped, unclear, pass}},
		{HealthFailsFirst(), [3]spec.Verdict{spec.Skipped, pass, spec.Skipped}},
	} {
		for i, proxy := range proxies {
			if tc.want[i] == spec.Skipped {
				continue
			}
			t.Run(proxy+"/"+tc.check.Name, func(t *testing.T) {
				if f := tc.check.Run(cases[i]); f.Verdict != tc.want[i] {
					t.Errorf("verdict %v, want %v\nactual: %s\nculprits: %v\nevidence: %v", f.Verdict, tc.want[i], f.Actual, f.Culprits, f.Evidence)
				}
			})
		}
	}
}
