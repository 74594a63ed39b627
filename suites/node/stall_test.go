// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestStallUnfelt(t *testing.T) {
	const from, to = scene.D + time.Second, scene.D + 3*time.Second
	tell := func(s scene.Scene, at time.Duration, is string) {
		s.Events = append(s.Events, timeline.Event{At: at, Source: "test", Kind: timeline.NodeProxy, Subject: "proxy-1", Name: "proxy-1", Node: "a", Attrs: map[string]string{"is": is}})
	}
	// What is asked of node a meanwhile waits.
	with := func(set func(*timeline.Sample), more ...func(scene.Scene)) func(scene.Scene) {
		return func(s scene.Scene) {
			crash(s)
			tell(s, from, timeline.NodeProxyStopped)
			tell(s, to, timeline.NodeProxyContinues)
			for _, uid := range []string{stays, elsewhere} {
				dials(s, ownTunnel, uid, func(x *timeline.Sample) {
					x.Outcome, x.Phase = timeline.OK, timeline.PhaseDone
					if uid == stays && x.Start >= from && x.Start < to {
						x.First, x.End = to+10*time.Millisecond, to+11*time.Millisecond
					}
					if set != nil {
						set(x)
					}
				})
			}
			for _, m := range more {
				m(s)
			}
		}
	}
	failing := func(after, before time.Duration) func(*timeline.Sample) {
		return func(x *timeline.Sample) {
			if x.Start >= after && x.Start < before {
				x.Outcome, x.Phase = timeline.Reset, timeline.PhaseFirstByte
			}
		}
	}
	scene.Judge(t, judging(StallUnfelt()), []scene.Row{
		{Name: "all of it waits", Build: with(nil), Want: spec.Pass},
		{Name: "what waits is cut when it goes on", Build: with(failing(from+time.Second, from+1100*time.Millisecond)), Want: spec.Fail},
		{Name: "what begins behind it is cut", Build: with(failing(to+time.Second, to+1100*time.Millisecond)), Want: spec.Fail},
		{Name: "what begins long behind it is cut", Build: with(failing(to+5*time.Second, to+6*time.Second)), Want: spec.Pass},
		{Name: "nothing waits", Build: with(func(x *timeline.Sample) { x.First, x.End = x.Start+2, x.Start+3 }), Want: spec.Inconclusive},
		{Name: "it never goes on", Build: with(nil, func(s scene.Scene) {
			s.Drop(func(e timeline.Event) bool { return e.Attrs["is"] == timeline.NodeProxyContinues })
		}), Want: spec.Inconclusive},
	})
}
