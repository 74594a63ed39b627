// SPDX-License-Identifier: Apache-2.0

package rejudged_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/match"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// A matcher is no second opinion: it says of each kept run what the run's report says.
func TestMatchersAgree(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: reading the kept recordings takes half a minute; `make rejudged` does it")
	}
	matchers := map[string]*match.Matcher{
		"rollout.zero-failed":      match.HaveNoFailedRequests(),
		"h2.goaway":                match.HaveReceivedGoAway(),
		"tls.close-notify":         match.HaveClosedWithNotify(),
		"pool.evicts":              match.HaveEvictedFromPools(),
		"pod.accept-after-sigterm": match.HaveServedUntil(3 * time.Second), // P in all of them
	}
	agreed := map[spec.Verdict]int{}
	for _, name := range recordings(t) {
		for _, b := range read(t, filepath.Join("testdata", name+".golden.yaml")).Behaviours {
			m := matchers[b.ID]
			if m == nil || b.Verdict == spec.Skipped {
				continue
			}
			r, err := behaviour.Open(filepath.Join("testdata", name), b.ID)
			if err != nil {
				t.Fatal(err)
			}
			got := spec.Inconclusive
			switch passes, err := m.Match(r); {
			case err == nil && passes:
				got = spec.Pass
			case err == nil:
				got = spec.Fail
			}
			if got != b.Verdict {
				t.Errorf("%s: %s is %s, and %s by its matcher", name, b.ID, b.Verdict, got)
			}
			agreed[got]++
		}
	}
	if agreed[spec.Pass] == 0 || agreed[spec.Fail] == 0 {
		t.Errorf("%v: the kept runs had passes and a failure, and nothing is shown of what they lack", agreed)
	}
}
