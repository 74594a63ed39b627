// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// beside has the scene's instance be the container echo of its pod, and the sidecar beside it exit.
func beside(exits ...time.Duration) func(scene.Scene) {
	return func(s scene.Scene) {
		s.Event(0, timeline.Marker, "", map[string]string{"what": assertions.MarkSubject, "container": "echo"})
		for _, at := range exits {
			s.Event(at, timeline.ProcExit, scene.UID, map[string]string{"container": "proxy"})
		}
	}
}

// starved has the load be late around an instant.
func starved(s scene.Scene, at time.Duration) {
	for from := at - scene.P; from < at+scene.P; from += 20 * time.Millisecond {
		s.Add(timeline.Sample{
			Stream: flow.Named("service/http1/new/get"), ID: fmt.Sprint(from), Conn: 1, Nth: 1, Due: from, Start: from, End: from + time.Millisecond,
			Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: scene.OtherUID, Status: 200, Saturated: true,
		})
	}
}

func TestLeavesWithTheApp(t *testing.T) {
	check := LeavesWithTheApp()
	scene.Judge(t, func(tl *timeline.Timeline) spec.Finding { return check.Run(assertions.NewCase(tl, scene.P)) }, []scene.Row{
		{Name: "soon after", Build: beside(scene.Exit + 6*time.Second), Want: spec.Pass},
		{Name: "before", Build: beside(scene.D + time.Second), Want: spec.Pass},
		{Name: "long after", Build: beside(scene.Exit + leaveWithin + time.Second), Want: spec.Fail},
		{Name: "one of two long after", Build: beside(scene.Exit, scene.Exit+leaveWithin+time.Second), Want: spec.Fail},
		{Name: "a little too late, on a starved machine", Build: func(s scene.Scene) {
			beside(scene.Exit + leaveWithin + time.Second)(s)
			starved(s, scene.Exit+leaveWithin)
		}, Want: spec.Inconclusive},
		{Name: "a little too late, on a node without CPU", Build: func(s scene.Scene) {
			beside(scene.Exit + leaveWithin + time.Second)(s)
			s.On("a")
			s.Starve("a", scene.Exit+leaveWithin)
		}, Want: spec.Inconclusive},
		{Name: "a little too late, and another node is without CPU", Build: func(s scene.Scene) {
			beside(scene.Exit + leaveWithin + time.Second)(s)
			s.On("a")
			s.Starve("b", scene.Exit+leaveWithin)
		}, Want: spec.Fail},
		{Name: "long after, and the machine is starved when it goes at last", Build: func(s scene.Scene) {
			beside(scene.Exit + 2*leaveWithin)(s)
			starved(s, scene.Exit+2*leaveWithin)
		}, Want: spec.Fail},
		{Name: "nobody saw it", Build: beside(), Want: spec.Inconclusive},
		{Name: "nobody saw a vendor's, but what was there for its drain", Build: func(s scene.Scene) {
			vendors(s)
			s.Event(scene.Exit+time.Second, timeline.ProcExit, scene.UID, map[string]string{"container": "hook"})
		}, Want: spec.Inconclusive},
		{Name: "what was there for a vendor's drain, long after", Build: func(s scene.Scene) {
			vendors(s)
			beside(scene.Exit + time.Second)(s)
			s.Event(scene.Exit+leaveWithin+time.Second, timeline.ProcExit, scene.UID, map[string]string{"container": "hook"})
		}, Want: spec.Fail},
		{Name: "an init container", Build: beside(scene.D - time.Second), Want: spec.Inconclusive},
	})
}
