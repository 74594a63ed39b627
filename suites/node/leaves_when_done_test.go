// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestLeavesWhenDone(t *testing.T) {
	// with has a proxy go on each of two nodes so long after it was told to, with requests that were under way for three seconds more, and
	// so many connections on which nothing came.
	with := func(after time.Duration, requests, mutes int) func(scene.Scene) {
		nodes := append(slices.Clone(twoNodes), "c") // where nobody is that our client dials
		return handOverUntil(goesAt+after, nodes, func(s scene.Scene, uid string) {
			add := func(of flow.Flow, n int, ends time.Duration) {
				at := goesAt - time.Second
				s.Add(timeline.Sample{
					Stream: flow.To(of, uid), ID: fmt.Sprint(of.Op, uid, n), Conn: uint64(n), Nth: 1, Due: at, Start: at, Dial: at + 1, Sent: at + 2, End: ends,
					Outcome: timeline.OK, Phase: timeline.PhaseDone,
				})
			}
			for n := range requests {
				add(whileGoing.Flow, n+1, goesAt+3*time.Second)
			}
			for n := range mutes {
				add(unsaying.Flow, n+100, goesAt-time.Second+1)
			}
		})
	}
	check := LeavesWhenDone()
	scene.Judge(t, func(tl *timeline.Timeline) spec.Finding { return check.Run(assertions.NewCase(tl, scene.P)) }, []scene.Row{
		{Name: "with the last request", Build: with(3*time.Second, 8, 8), Want: spec.Pass},
		{Name: "a little later", Build: with(6*time.Second, 8, 8), Want: spec.Pass},
		{Name: "with the last connection that says nothing", Build: with(10*time.Second, 8, 8), Want: spec.Fail},
		{Name: "nothing was under way", Build: with(3*time.Second, 0, 8), Want: spec.Inconclusive},
		{Name: "nobody said nothing", Build: with(3*time.Second, 8, 0), Want: spec.Inconclusive},
	})
}
