// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestDelIsQuick(t *testing.T) {
	check := DelIsQuick()
	call := func(attrs map[string]string) func(scene.Scene) {
		return func(s scene.Scene) { s.Event(scene.Exit+time.Second, timeline.CNIDel, scene.UID, attrs) }
	}
	on := func(node, starves string, build func(scene.Scene)) func(scene.Scene) {
		return func(s scene.Scene) {
			s.On(node)
			s.Starve(starves, scene.Exit+time.Second)
			build(s)
		}
	}
	scene.Judge(t, func(tl *timeline.Timeline) spec.Finding { return check.Run(assertions.NewCase(tl, scene.P)) }, []scene.Row{
		{Name: "quick", Build: call(map[string]string{"took": "499ms"}), Want: spec.Pass},
		{Name: "slow", Build: call(map[string]string{"took": "501ms"}), Want: spec.Fail},
		{Name: "slow, on a node without CPU", Build: on("a", "a", call(map[string]string{"took": "501ms"})), Want: spec.Inconclusive},
		{Name: "slow, and another node is without CPU", Build: on("a", "b", call(map[string]string{"took": "501ms"})), Want: spec.Fail},
		{Name: "quick, and it failed", Build: call(map[string]string{"took": "10ms", "error": "no"}), Want: spec.Fail},
		{Name: "quick, and the proxy refused", Build: call(map[string]string{"took": "10ms", "untold": "del: the agent says: the proxy says: no"}), Want: spec.Fail},
		{Name: "slow, and never acknowledged", Build: call(map[string]string{"took": "3s", "untold": "no acknowledgement in time"}), Want: spec.Fail},
		{Name: "nobody measured", Build: call(nil), Want: spec.Inconclusive},
	})
}
