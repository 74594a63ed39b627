// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// asking has an instance look up whom it calls, from before D to its end. set changes what it hears.
func asking(s scene.Scene, set func(*timeline.Sample)) {
	callingOf(s, scene.UID, lookups, func(x *timeline.Sample) {
		x.Server, x.Status, x.Answers = "", 0, []string{"198.19.0.3"}
		if set != nil {
			set(x)
		}
	})
	s.Event(ended, timeline.DrainEnd, scene.UID, map[string]string{"cut": "0"})
}

func TestLookupsAnswered(t *testing.T) {
	const after = scene.D + 3*time.Second
	unheard := func(x *timeline.Sample) {
		x.Outcome, x.Phase, x.Answers, x.First, x.Err = timeline.Timeout, timeline.PhaseFirstByte, nil, 0, "i/o timeout"
	}
	scene.Judge(t, judged(LookupsAnswered()), []scene.Row{
		{Name: "all are answered", Build: func(s scene.Scene) { asking(s, nil) }, Want: spec.Pass},
		{Name: "none is, from an instant on", Build: func(s scene.Scene) {
			asking(s, func(x *timeline.Sample) {
				if x.Start > after {
					unheard(x)
				}
			})
		}, Want: spec.Fail},
		{Name: "one is answered with no address", Build: func(s scene.Scene) {
			n := 0
			asking(s, func(x *timeline.Sample) {
				if x.Start > after {
					if n++; n == 1 {
						x.Answers = nil
					}
				}
			})
		}, Want: spec.Fail},
		{Name: "what was not answered before D is nobody's", Build: func(s scene.Scene) {
			asking(s, func(x *timeline.Sample) {
				if x.End < 7*time.Second { // of the 10 s that there are before D
					unheard(x)
				}
			})
		}, Want: spec.Pass},
		{Name: "one is not answered between the deletion and D", Build: func(s scene.Scene) {
			deletedEarly(s)
			asking(s, func(x *timeline.Sample) {
				if early(x) {
					unheard(x)
				}
			})
		}, Want: spec.Fail},
		{Name: "the name never had an address", Build: func(s scene.Scene) {
			asking(s, func(x *timeline.Sample) {
				if x.Answers = nil; x.Start > scene.D-time.Millisecond {
					x.Answers = []string{"198.19.0.3"}
				}
			})
		}, Want: spec.Inconclusive},
		{Name: "it asked too seldom", Build: func(s scene.Scene) {
			asking(s, func(x *timeline.Sample) { x.Saturated = true })
		}, Want: spec.Inconclusive},
		{Name: "it never said that it had ended", Build: func(s scene.Scene) {
			asking(s, nil)
			s.Drop(func(e timeline.Event) bool { return e.Kind == timeline.DrainEnd })
		}, Want: spec.Inconclusive},
		{Name: "another one asked", Build: func(s scene.Scene) {
			asking(s, func(x *timeline.Sample) { x.Stream = flow.To(x.Stream.Flow(), "uid-c") })
		}, Want: spec.Inconclusive},
	})
}
