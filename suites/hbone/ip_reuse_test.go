// SPDX-License-Identifier: Apache-2.0

package hbone

import (
	"fmt"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestGetsOnlyItsOwn(t *testing.T) {
	const (
		came   = scene.D
		listed = came + 6*time.Second
	)
	fresh, kept, through := behaviour.NodeTraffic[0], behaviour.NodeTraffic[1], behaviour.NodeTraffic[4]
	// some are newcomers at the addresses of pods to which clients had tunnels, and go on to ask; change
	// changes each request for the pods that are gone, and answered is who answers it; "": nobody does.
	some := func(pods int, own bool, answered func(x timeline.Sample) string) func(scene.Scene) {
		return func(s scene.Scene) {
			ask := func(stream flow.Stream, conn uint64, at time.Duration, by string) {
				x := timeline.Sample{
					Stream: stream, ID: fmt.Sprintf("%s-%d", stream, at), Conn: conn, Nth: 1, Due: at, Start: at, Sent: at, First: at + 1,
					End: at + 2*time.Millisecond, Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: by, Status: 200,
				}
				if by == "" {
					x.Outcome, x.Phase, x.First = timeline.Reset, timeline.PhaseTLS, 0
				}
				s.Add(x)
			}
			for n := range pods {
				old, next := fmt.Sprintf("old-%d", n), fmt.Sprintf("new-%d", n)
				s.Event(came, timeline.AddressReused, next, map[string]string{"address": "198.18.0.9", "of": old})
				s.Event(listed, timeline.AddressListed, next, map[string]string{"address": "198.18.0.9", "of": old})
				for at := 6 * time.Second; at < listed; at += 50 * time.Millisecond {
					by := old
					if at >= came {
						by = answered(timeline.Sample{Stream: flow.To(kept.Flow, old), Server: next})
					}
					ask(flow.To(kept.Flow, old), uint64(1+at/(500*time.Millisecond)), at, by)
					if at >= came {
						by = answered(timeline.Sample{Stream: flow.To(through.Flow, ""), Server: next})
					}
					ask(flow.To(through.Flow, ""), uint64(at), at+time.Duration(n), by)
				}
				for at := listed; own && at < listed+3*time.Second; at += 50 * time.Millisecond {
					ask(flow.To(fresh.Flow, next), uint64(at), at, next)
				}
			}
		}
	}
	nobody := func(timeline.Sample) string { return "" }
	judge(t, GetsOnlyItsOwn(), []scene.Row{
		{Name: "nothing but its own", Build: some(2, true, nobody), Want: spec.Pass},
		{Name: "what was for the old pod", Build: some(2, true, func(x timeline.Sample) string {
			if x.Stream.Target() != "" {
				return x.Server
			}
			return ""
		}), Want: spec.Fail},
		{Name: "what was for the Service", Build: some(2, true, func(x timeline.Sample) string {
			if x.Stream.Target() == "" {
				return x.Server
			}
			return ""
		}), Want: spec.Fail},
		{Name: "it began what no client saw answered", Build: func(s scene.Scene) {
			some(2, true, nobody)(s)
			s.Ledger = append(s.Ledger, timeline.Entry{At: came + time.Second, ID: fmt.Sprintf("%s-%d", flow.To(kept.Flow, "old-0"), came), Step: timeline.Begin, Pod: "new-0"})
		}, Want: spec.Fail},
		{Name: "of nobody knows whom", Build: func(s scene.Scene) {
			some(2, true, nobody)(s)
			s.Ledger = append(s.Ledger, timeline.Entry{At: came + time.Second, ID: "unheard-of", Step: timeline.Begin, Pod: "new-0"})
		}, Want: spec.Inconclusive},
		{Name: "it was never reached", Build: some(2, false, nobody), Want: spec.Inconclusive},
		{Name: "one only", Build: some(1, true, nobody), Want: spec.Inconclusive},
		{Name: "nobody came", Build: func(scene.Scene) {}, Want: spec.Inconclusive},
	})
}
