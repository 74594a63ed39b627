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

func TestInHandFromOutside(t *testing.T) {
	slow := flow.To(flow.Flow{Path: flow.Unmeshed, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Slow, Takes: 4 * time.Second}, "")
	requests := func(n int, change func(*timeline.Sample)) func(scene.Scene) { return underWay(slow, n, change) }
	scene.Judge(t, judged(InHandFromOutside()), []scene.Row{
		{Name: "all whole", Build: requests(20, nil), Want: spec.Pass},
		{Name: "one cut", Build: requests(20, func(s *timeline.Sample) {
			s.End, s.Outcome, s.Phase, s.Server = scene.D+time.Second, timeline.Reset, timeline.PhaseBody, ""
		}), Want: spec.Fail},
		{Name: "one cut between the deletion and D", Build: func(s scene.Scene) {
			deletedEarly(s)
			requests(20, func(s *timeline.Sample) {
				s.End, s.Outcome, s.Phase = scene.D-500*time.Millisecond, timeline.Reset, timeline.PhaseBody
			})(s)
		}, Want: spec.Fail},
		{Name: "one that was never in hand", Build: requests(20, func(s *timeline.Sample) {
			s.End, s.Outcome, s.Phase = scene.D+time.Second, timeline.Refused, timeline.PhaseDial
		}), Want: spec.Pass},
		{Name: "too few", Build: requests(5, nil), Want: spec.Inconclusive},
	})
}
