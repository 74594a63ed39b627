// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"strings"
	"testing"

	"github.com/lastcall-dev/lastcall/suites/spec"
)

// A check counts into each floor that it declares, or it proves nothing.
func TestWhatIsNeverCountedIsNoPass(t *testing.T) {
	need, more := Floor{Per: "termination", Name: "new connections", N: 5}, Floor{Name: "looks", N: 1}
	free := Floor{Name: "asides", N: 0}
	for name, tc := range map[string]struct {
		judge func(*gather)
		want  spec.Verdict
		says  string
	}{
		"both":            {func(g *gather) { g.least(need, "a", 5); g.count(more, 1) }, spec.Pass, ""},
		"too few":         {func(g *gather) { g.least(need, "a", 4); g.count(more, 1) }, spec.Inconclusive, "new connections, the fewest at a: 4, and at least 5 are needed"},
		"one never":       {func(g *gather) { g.count(more, 1) }, spec.Inconclusive, "per termination: new connections: never counted, and at least 5 needed"},
		"neither":         {func(*gather) {}, spec.Inconclusive, "new connections: never counted, and at least 5 needed; looks: never counted"},
		"waived":          {func(g *gather) { g.least(need.Waived(), "a", 0); g.count(more, 1) }, spec.Pass, ""},
		"of one of them":  {func(g *gather) { g.leastOf("h2c", need, "a", 5); g.countOf("h2c", more, 1) }, spec.Pass, ""},
		"a violation":     {func(g *gather) { g.culprit(0, "a", "", "broken") }, spec.Fail, "broken"},
		"already too few": {func(g *gather) { g.count(more, 0) }, spec.Inconclusive, "looks: 0, and at least 1 is needed"},
	} {
		k := Check{Name: name, Floors: []Floor{need, more, free}, Judge: func(Case) spec.Finding {
			var g gather
			tc.judge(&g)
			return g.conclude("passed", "broken")
		}}
		if f := k.Run(Case{}); f.Verdict != tc.want || !strings.Contains(f.Actual, tc.says) {
			t.Errorf("%s: %s, %q; want %s, %q", name, f.Verdict, f.Actual, tc.want, tc.says)
		}
	}
}
