// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestNothingBypassesWhoIsReplaced(t *testing.T) {
	const app, tunnel, plain = "10.0.0.1:40000", "10.0.0.2:15008", "10.0.0.2:8080"
	with := func(nodes []string, at time.Duration, to string) func(scene.Scene) {
		return func(s scene.Scene) {
			for _, n := range nodes {
				replace(s, n, toldAt, goneAt)
			}
			calls(s, nil)
			dialled(s, toldAt, app, tunnel)
			dialled(s, toldAt+time.Second, app, tunnel)
			dialled(s, at, app, to)
		}
	}
	both := []string{"a", "b"}
	scene.Judge(t, judging(NothingBypassesWhoIsReplaced()), []scene.Row{
		{Name: "tunnels alone", Build: with(both, toldAt, tunnel), Want: spec.Pass},
		{Name: "through the next one, before the old one is told to go", Build: with(both, toldAt-400*time.Millisecond, plain), Want: spec.Fail},
		{Name: "long behind that", Build: with(both, goneAt+time.Second, plain), Want: spec.Fail},
		{Name: "before there was another", Build: with(both, toldAt-time.Second, plain), Want: spec.Pass},
		{Name: "only one was replaced", Build: with(both[:1], toldAt, tunnel), Want: spec.Inconclusive},
	})
}
