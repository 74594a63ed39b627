// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestOutlastsTheApp(t *testing.T) {
	check := OutlastsTheApp()
	scene.Judge(t, func(tl *timeline.Timeline) spec.Finding { return check.Run(assertions.NewCase(tl, scene.P)) }, []scene.Row{
		{Name: "after", Build: beside(scene.Exit + time.Second), Want: spec.Pass},
		{Name: "before", Build: beside(scene.Exit - time.Second), Want: spec.Fail},
		{Name: "one of two before", Build: beside(scene.Exit-time.Second, scene.Exit+time.Second), Want: spec.Fail},
		{Name: "a vendor's before", Build: func(s scene.Scene) { vendors(s); beside(scene.Exit - time.Second)(s) }, Want: spec.Fail},
		{Name: "one that is there for a vendor's drain", Build: func(s scene.Scene) {
			vendors(s)
			s.Event(scene.Exit-time.Second, timeline.ProcExit, scene.UID, map[string]string{"container": "hook"})
			beside(scene.Exit + time.Second)(s)
		}, Want: spec.Pass},
		{Name: "that one alone", Build: func(s scene.Scene) {
			vendors(s)
			s.Event(scene.Exit+time.Second, timeline.ProcExit, scene.UID, map[string]string{"container": "hook"})
		}, Want: spec.Inconclusive},
		{Name: "between the deletion and the app's own signal", Build: func(s scene.Scene) {
			s.Drop(func(e timeline.Event) bool { return e.Kind == timeline.DrainStart })
			s.Event(scene.D+300*time.Millisecond, timeline.DrainStart, scene.UID, map[string]string{"trigger": "SIGTERM"})
			beside(scene.D + 200*time.Millisecond)(s)
		}, Want: spec.Fail},
		{Name: "nobody saw it", Build: beside(), Want: spec.Inconclusive},
		{Name: "an init container", Build: beside(scene.D - time.Second), Want: spec.Inconclusive},
	})
}
