// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestProbesOutlast(t *testing.T) {
	const death, unready = scene.D + 3*time.Second, scene.D + 9*time.Second
	// bereft has the sidecar be killed, and the app's container not be ready any more at an instant.
	bereft := func(not time.Duration, more ...func(scene.Scene)) func(scene.Scene) {
		return func(s scene.Scene) {
			beside(death + 10*time.Millisecond)(s)
			s.Event(death, timeline.Disruption, scene.UID, map[string]string{"what": string(disrupt.KillSidecar)})
			s.Event(unready, timeline.DrainUnready, scene.UID, nil)
			for at, is := range map[time.Duration]string{time.Second: "true", not: "false"} {
				s.Event(at, timeline.ContainerReady, scene.UID, map[string]string{"container": "echo", "ready": is})
			}
			for _, m := range more {
				m(s)
			}
		}
	}
	without := func(kind timeline.EventKind) func(scene.Scene) {
		return func(s scene.Scene) { s.Drop(func(e timeline.Event) bool { return e.Kind == kind }) }
	}
	check := ProbesOutlast()
	scene.Judge(t, func(tl *timeline.Timeline) spec.Finding { return check.Run(assertions.NewCase(tl, scene.P)) }, []scene.Row{
		{Name: "until the app says so", Build: bereft(unready + 500*time.Millisecond), Want: spec.Pass},
		{Name: "until its sidecar is dead", Build: bereft(death + 1200*time.Millisecond), Want: spec.Fail},
		{Name: "until its sidecar is dead, on a node without CPU", Build: bereft(death+1200*time.Millisecond, func(s scene.Scene) { s.Starve("a", death+1200*time.Millisecond) }), Want: spec.Inconclusive},
		{Name: "before its sidecar is dead", Build: bereft(death - time.Second), Want: spec.Inconclusive},
		{Name: "the app is not ready a moment later", Build: bereft(unready, func(s scene.Scene) {
			for i := range s.Events {
				if s.Events[i].Kind == timeline.DrainUnready {
					s.Events[i].At = death + time.Second
				}
			}
		}), Want: spec.Inconclusive},
		{Name: "its sidecar's own", Build: bereft(unready, func(s scene.Scene) {
			s.Event(death+time.Second, timeline.ContainerReady, scene.UID, map[string]string{"container": "proxy", "ready": "false"})
		}), Want: spec.Pass},
		{Name: "the app never says so", Build: bereft(unready, without(timeline.DrainUnready)), Want: spec.Inconclusive},
		{Name: "nobody killed it", Build: bereft(unready, without(timeline.Disruption)), Want: spec.Inconclusive},
		{Name: "nobody saw what its kubelet says", Build: bereft(unready, without(timeline.ContainerReady)), Want: spec.Inconclusive},
	})
}
