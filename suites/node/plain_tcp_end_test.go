// SPDX-License-Identifier: Apache-2.0

package node

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

func TestPlainEndsAreSeen(t *testing.T) {
	talk := flow.Flow{Path: flow.Direct, Protocol: flow.TCP, Conns: flow.New, Op: flow.Talk, Takes: outlives}
	with := func(n int, set func(*timeline.Sample)) func(scene.Scene) {
		return func(s scene.Scene) {
			s.Event(gone, timeline.NetGone, scene.UID, nil)
			for k := range n {
				at := scene.D - time.Second
				x := timeline.Sample{
					Stream: flow.To(talk, scene.UID), ID: fmt.Sprint("talk", k), Conn: uint64(k + 1), Nth: 1, Due: at, Start: at, Dial: at, Sent: at, First: at + 1, End: soon,
					Outcome: timeline.Closed, Phase: timeline.PhaseBody, Server: scene.UID,
				}
				if set != nil {
					set(&x)
				}
				s.Add(x)
			}
		}
	}
	ends := func(at time.Duration, as timeline.Outcome) func(*timeline.Sample) {
		return func(x *timeline.Sample) { x.End, x.Outcome = at, as }
	}
	scene.Judge(t, func(tl *timeline.Timeline) spec.Finding {
		return PlainEndsAreSeen().Run(assertions.NewCase(tl, scene.P))
	}, []scene.Row{
		{Name: "by FIN", Build: with(12, nil), Want: spec.Pass},
		{Name: "by RST", Build: with(12, ends(soon, timeline.Reset)), Want: spec.Pass},
		{Name: "half a file", Build: with(12, ends(soon, timeline.Truncated)), Want: spec.Pass},
		{Name: "a moment behind the interface", Build: with(12, ends(gone+seenWithin/2, timeline.Reset)), Want: spec.Pass},
		{Name: "as the process ended, whose end was seen a moment later", Build: with(12, ends(scene.Exit-20*time.Millisecond, timeline.Reset)), Want: spec.Pass},
		{Name: "long behind it", Build: with(12, ends(gone+2*time.Second, timeline.Reset)), Want: spec.Fail},
		{Name: "never", Build: with(12, ends(gone+5*time.Second, timeline.Timeout)), Want: spec.Fail},
		{Name: "ended by the app", Build: with(12, ends(scene.D+time.Second, timeline.Closed)), Want: spec.Inconclusive},
		{Name: "came to their own ends", Build: with(12, ends(soon, timeline.OK)), Want: spec.Inconclusive},
		{Name: "too few", Build: with(9, nil), Want: spec.Inconclusive},
		{Name: "in tunnels", Build: with(12, func(x *timeline.Sample) { x.Stream = flow.To(kept.Flow, scene.UID) }), Want: spec.Inconclusive},
		{Name: "nobody saw the interface", Build: func(s scene.Scene) {
			with(12, nil)(s)
			s.Drop(func(e timeline.Event) bool { return e.Kind == timeline.NetGone })
		}, Want: spec.Inconclusive},
	})
}
