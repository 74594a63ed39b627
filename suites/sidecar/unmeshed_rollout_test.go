// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestInHandFromOutside(t *testing.T) {
	slow := flow.To(flow.Flow{Path: flow.Unmeshed, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Slow, Takes: 4 * time.Second}, "")
	// requests are so many that are under way at D; the change is to the first one.
	requests := func(n int, change func(*timeline.Sample)) func(scene.Scene) {
		return func(s scene.Scene) {
			for i := range n {
				begin := scene.D - slow.Flow().Takes + time.Duration(i+1)*slow.Flow().Takes/time.Duration(n+1)
				x := timeline.Sample{
					Stream: slow, ID: fmt.Sprintf("%s#%d", slow, i), Due: begin, Start: begin, Sent: begin, First: begin + 1, End: begin + slow.Flow().Takes,
					Outcome: timeline.OK, Phase: timeline.PhaseDone, Conn: uint64(i + 1), Nth: 1, Server: scene.UID,
				}
				if i == 0 && change != nil {
					change(&x)
				}
				s.Add(x)
			}
		}
	}
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
