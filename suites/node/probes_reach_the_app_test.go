// SPDX-License-Identifier: Apache-2.0

package node

import (
	"slices"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/health"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestProbesPassBy(t *testing.T) {
	const second = time.Second
	says := func(s scene.Scene, at time.Duration, uid, probe, good string, more ...string) {
		attrs := map[string]string{"probe": probe, "good": good}
		for _, m := range more {
			attrs[m] = "true"
		}
		s.Event(at, timeline.Health, uid, attrs)
	}
	with := func(more ...func(scene.Scene)) func(scene.Scene) {
		return func(s scene.Scene) {
			crash(s, "proxy")
			for _, uid := range []string{stays, goneFirst, elsewhere} {
				says(s, killedAt-5*second, uid, health.Ready, "true")
				says(s, killedAt-5*second, uid, health.Live, "true")
				for at := killedAt - 2*second; at < startedAt+2*second; at += health.Period {
					s.Event(at, timeline.Looked, uid, map[string]string{"probe": health.Ready})
				}
			}
			s.Event(killedAt+second/2, timeline.PodDeletion, goneFirst, map[string]string{"grace": "15"})
			for _, m := range more {
				m(s)
			}
		}
	}
	fails := func(at time.Duration, uid, probe string, more ...string) func(scene.Scene) {
		return func(s scene.Scene) { says(s, at, uid, probe, "false", more...) }
	}
	scene.Judge(t, judging(ProbesPassBy()), []scene.Row{
		{Name: "answered as before", Build: with(), Want: spec.Pass},
		{Name: "not ready", Build: with(fails(killedAt+second, stays, health.Ready)), Want: spec.Fail},
		{Name: "not alive", Build: with(fails(killedAt+second, stays, health.Live)), Want: spec.Fail},
		{Name: "no answer in time", Build: with(fails(killedAt+second, stays, health.Ready, "silent")), Want: spec.Fail},
		{Name: "what no kubelet asks", Build: with(fails(killedAt+second, stays, health.LB)), Want: spec.Pass},
		{Name: "who is deleted", Build: with(fails(killedAt+second, goneFirst, health.Ready)), Want: spec.Pass},
		{Name: "on another node", Build: with(fails(killedAt+second, elsewhere, health.Ready)), Want: spec.Pass},
		{Name: "when the next one is there", Build: with(fails(startedAt+second, stays, health.Ready)), Want: spec.Pass},
		{Name: "not ready before", Build: with(fails(killedAt-second, stays, health.Ready)), Want: spec.Inconclusive},
		{Name: "a gap that nobody looks into", Build: with(func(s scene.Scene) {
			for i := range s.Events {
				if s.Events[i].Attrs["is"] == timeline.NodeProxyStarts {
					s.Events[i].At = killedAt + second/2
				}
			}
		}), Want: spec.Inconclusive},
		{Name: "a prober that stood still", Build: with(func(s scene.Scene) {
			s.Events = slices.DeleteFunc(s.Events, func(e timeline.Event) bool { return e.Kind == timeline.Looked && e.At > killedAt })
		}), Want: spec.Inconclusive},
		{Name: "the agent alone", Build: func(s scene.Scene) { crash(s, "agent") }, Want: spec.Inconclusive},
	})
}
