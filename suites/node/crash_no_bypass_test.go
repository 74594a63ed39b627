// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestNothingBypassesWhoIsAway(t *testing.T) {
	const app, peer = "10.0.0.1:40000", "10.0.0.2"
	with := func(more ...func(scene.Scene)) func(scene.Scene) {
		return func(s scene.Scene) {
			both(s)
			// These last for longer than scenes do, as a recording that was stopped before its tail.
			s.Drop(func(e timeline.Event) bool {
				return e.Kind == timeline.Marker && e.Attrs["what"] == assertions.MarkTail
			})
			dials(s, sendsOut, stays, nil)
			dialled(s, servesAt, app, peer+":15008")
			dialled(s, servesAt+time.Second, app, peer+":15008")
			for _, m := range more {
				m(s)
			}
		}
	}
	plain := func(at time.Duration, what string) func(scene.Scene) {
		return func(s scene.Scene) {
			s.Event(at, timeline.Wire, "", map[string]string{"what": what, "from": app, "to": peer + ":8080"})
		}
	}
	without := func(kind timeline.EventKind) func(scene.Scene) {
		return func(s scene.Scene) { s.Drop(func(e timeline.Event) bool { return e.Kind == kind }) }
	}
	scene.Judge(t, judging(NothingBypassesWhoIsAway()), []scene.Row{
		{Name: "tunnels alone", Build: with(), Want: spec.Pass},
		{Name: "a connection, while it was away", Build: with(plain(killedAt+time.Second, timeline.WireDialled)), Want: spec.Fail},
		{Name: "a byte, when the next one serves", Build: with(plain(servesAt+time.Second, timeline.WireSaid)), Want: spec.Fail},
		{Name: "while the agent was away", Build: with(plain(agentKilledAt+time.Second, timeline.WireDialled)), Want: spec.Fail},
		{Name: "before anybody was", Build: with(plain(killedAt-time.Second, timeline.WireDialled)), Want: spec.Pass},
		{Name: "the end of a tunnel", Build: with(func(s scene.Scene) {
			s.Event(servesAt, timeline.Wire, "", map[string]string{"what": timeline.WireReset, "from": peer + ":15008", "to": app})
		}), Want: spec.Pass},
		{Name: "the wire had no tunnel", Build: with(without(timeline.Wire)), Want: spec.Inconclusive},
		{Name: "the agent never came back", Build: with(without(timeline.NodeAgent)), Want: spec.Inconclusive},
		{Name: "the wire was not seen whole", Build: with(func(s scene.Scene) {
			s.Event(servesAt, timeline.WatchGap, "wire", map[string]string{"why": "the buffer was full"})
		}), Want: spec.Inconclusive},
		{Name: "only apps of another node dialled", Build: func(s scene.Scene) {
			both(s)
			dials(s, sendsOut, elsewhere, nil)
			dialled(s, servesAt, app, peer+":15008")
			dialled(s, servesAt, app, peer+":15008")
		}, Want: spec.Inconclusive},
		{Name: "nothing was served behind it", Build: func(s scene.Scene) {
			both(s)
			dials(s, sendsOut, stays, func(x *timeline.Sample) { x.Outcome, x.Phase = timeline.Refused, timeline.PhaseDial })
			dialled(s, servesAt, app, peer+":15008")
			dialled(s, servesAt, app, peer+":15008")
		}, Want: spec.Inconclusive},
		{Name: "no app dialled", Build: func(s scene.Scene) {
			both(s)
			dialled(s, servesAt, app, peer+":15008")
			dialled(s, servesAt, app, peer+":15008")
		}, Want: spec.Inconclusive},
	})
}
