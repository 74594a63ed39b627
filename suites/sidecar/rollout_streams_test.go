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

// underWay are so many of a stream that are under way at D, each of another age; the change is to the first one, nil: none.
func underWay(of flow.Stream, n int, change func(*timeline.Sample)) func(scene.Scene) {
	takes := of.Flow().Takes
	return func(s scene.Scene) {
		for i := range n {
			begin := scene.D - takes + time.Duration(i+1)*takes/time.Duration(n+1)
			x := timeline.Sample{
				Stream: of, ID: fmt.Sprintf("%s#%d", of, i), Due: begin, Start: begin, Sent: begin, First: begin + 1, End: begin + takes,
				Outcome: timeline.OK, Phase: timeline.PhaseDone, Conn: uint64(i + 1), Nth: 1, Server: scene.UID,
			}
			if i == 0 && change != nil {
				change(&x)
			}
			s.Add(x)
		}
	}
}

func TestStreamsLast(t *testing.T) {
	talk := flow.To(flow.Flow{Path: flow.Service, Protocol: flow.TCP, Conns: flow.New, Op: flow.Talk, Takes: streamTakes}, "")
	streams := func(n int, change func(*timeline.Sample)) func(scene.Scene) { return underWay(talk, n, change) }
	scene.Judge(t, judged(StreamsLast()), []scene.Row{
		{Name: "all whole", Build: streams(160, nil), Want: spec.Pass},
		{Name: "one cut visibly", Build: streams(160, func(s *timeline.Sample) {
			s.End, s.Outcome, s.Phase = scene.D+time.Second, timeline.Reset, timeline.PhaseBody
		}), Want: spec.Fail},
		{Name: "one cut like an end", Build: streams(160, func(s *timeline.Sample) {
			s.End, s.Outcome, s.Phase = scene.D+time.Second, timeline.Truncated, timeline.PhaseBody
		}), Want: spec.Fail},
		{Name: "one cut between the deletion and D", Build: func(s scene.Scene) {
			deletedEarly(s)
			streams(160, func(s *timeline.Sample) {
				s.End, s.Outcome, s.Phase = scene.D-500*time.Millisecond, timeline.Reset, timeline.PhaseBody
			})(s)
		}, Want: spec.Fail},
		{Name: "too few", Build: streams(20, nil), Want: spec.Inconclusive},
	})
}
