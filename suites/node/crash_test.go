// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// The flows of crossing, by what they are here.
var (
	throughMesh, lasting        = crossing[2].Flow, crossing[4].Flow
	ownTunnel, quiet, sendsOut  = crossing[3].Flow, crossing[5], crossing[6].Flow
	throughService, serviceLong = crossing[0].Flow, crossing[1].Flow
)

func TestOnlyTheGap(t *testing.T) {
	failing := func(of flow.Flow, uid string, from, to time.Duration) func(scene.Scene) {
		return func(s scene.Scene) {
			for i := range s.Samples {
				if x := &s.Samples[i]; x.Stream == flow.To(of, uid) && x.Start >= from && x.Start < to {
					x.Outcome, x.Phase = timeline.Refused, timeline.PhaseDial
				}
			}
		}
	}
	with := func(more ...func(scene.Scene)) func(scene.Scene) {
		return func(s scene.Scene) {
			crash(s, "proxy")
			for _, uid := range []string{stays, elsewhere} {
				for _, of := range []flow.Flow{throughMesh, ownTunnel, sendsOut} {
					dials(s, of, uid, nil)
				}
			}
			dials(s, throughService, "", func(x *timeline.Sample) { x.Server = elsewhere })
			for _, m := range more {
				m(s)
			}
		}
	}
	const second = time.Second
	scene.Judge(t, judging(OnlyTheGap(byKill)), []scene.Row{
		{Name: "the gap alone", Build: with(), Want: spec.Pass},
		{Name: "a tunnel of our own client's, behind it", Build: with(failing(ownTunnel, stays, servesAt+2*second, servesAt+3*second)), Want: spec.Fail},
		{Name: "what a workload of the node sends out, behind it", Build: with(failing(sendsOut, stays, servesAt+2*second, servesAt+3*second)), Want: spec.Fail},
		{Name: "just behind it", Build: with(failing(ownTunnel, stays, servesAt, servesAt+second/2)), Want: spec.Pass},
		{Name: "through a peer that waits", Build: with(failing(throughMesh, stays, servesAt, servesAt+10*second)), Want: spec.Pass},
		{Name: "through a peer that waits for ever", Build: with(failing(throughMesh, stays, servesAt, sceneEnds)), Want: spec.Fail},
		{Name: "through a peer, long behind it", Build: with(failing(throughMesh, stays, servesAt+12*second, servesAt+13*second)), Want: spec.Fail},
		{Name: "through the Service, long behind it", Build: with(failing(throughService, "", servesAt+12*second, servesAt+13*second)), Want: spec.Fail},
		{Name: "on another node, in the gap", Build: with(failing(throughMesh, elsewhere, killedAt+second, killedAt+2*second)), Want: spec.Fail},
		{Name: "to a workload that was deleted", Build: with(failing(ownTunnel, stays, servesAt+2*second, sceneEnds), func(s scene.Scene) {
			s.Event(servesAt+2*second, timeline.PodDeletion, stays, map[string]string{"grace": "15"})
		}), Want: spec.Pass},
		{Name: "the next one serves late", Build: with(
			failing(ownTunnel, stays, servesAt, startedAt+11*second), failing(sendsOut, stays, servesAt, startedAt+11*second)), Want: spec.Fail},
		{Name: "the next one serves late, and the one that dies answers once more", Build: with(
			failing(ownTunnel, stays, servesAt, startedAt+11*second), failing(sendsOut, stays, servesAt, startedAt+11*second), func(s scene.Scene) {
				s.Add(timeline.Sample{
					Stream: flow.To(ownTunnel, stays), ID: "last", Conn: 999, Nth: 1, Due: killedAt, Start: killedAt, Sent: killedAt + 1, First: killedAt + 2, End: killedAt + 3,
					Outcome: timeline.OK, Phase: timeline.PhaseDone,
				})
			}), Want: spec.Fail},
		{Name: "no gap", Build: with(func(s scene.Scene) {
			for i := range s.Samples {
				s.Samples[i].Outcome = timeline.OK
			}
		}), Want: spec.Inconclusive},
		{Name: "the agent alone", Build: func(s scene.Scene) { crash(s, "agent") }, Want: spec.Inconclusive},
	})
}

func TestCutShows(t *testing.T) {
	// under adds requests that were under way at the SIGKILL, of which set says what became.
	under := func(of flow.Flow, uid string, set func(*timeline.Sample)) func(scene.Scene) {
		return func(s scene.Scene) {
			for n := range 5 {
				x := timeline.Sample{
					Stream: flow.To(of, uid), ID: of.String() + uid + string(rune('a'+n)), Conn: uint64(n + 100), Nth: 1,
					Due: killedAt - time.Second, Start: killedAt - time.Second, Sent: killedAt - time.Second, First: killedAt - time.Second + 1, End: killedAt + 10*time.Millisecond,
					Outcome: timeline.Reset, Phase: timeline.PhaseBody,
				}
				set(&x)
				s.Add(x)
			}
		}
	}
	is := func(o timeline.Outcome) func(*timeline.Sample) {
		return func(x *timeline.Sample) { x.Outcome = o }
	}
	late := func(x *timeline.Sample) { x.Outcome, x.End = timeline.Timeout, killedAt+10*time.Second }
	with := func(says []timeline.Frame, more ...func(scene.Scene)) func(scene.Scene) {
		return func(s scene.Scene) {
			crash(s, "proxy")
			stand(s, quiet, 12, says...)
			for _, m := range append(more, under(serviceLong, "", is(timeline.Reset)), under(lasting, stays, is(timeline.Truncated)), under(lasting, elsewhere, is(timeline.OK))) {
				m(s)
			}
		}
	}
	then := []timeline.Frame{frame(killedAt+10*time.Millisecond, timeline.FrameFIN)}
	scene.Judge(t, judging(CutShows()), []scene.Row{
		{Name: "reset, and in TLS without a close_notify", Build: with(then), Want: spec.Pass},
		{Name: "as if it were whole", Build: with(then, under(throughMesh, stays, is(timeline.Truncated))), Want: spec.Fail},
		{Name: "ended before the first byte", Build: with(then, under(throughMesh, stays, is(timeline.Closed))), Want: spec.Fail},
		{Name: "begun before, and dialled behind it", Build: with(then, under(throughMesh, stays, func(x *timeline.Sample) {
			x.Outcome, x.Phase, x.Sent, x.First = timeline.Refused, timeline.PhaseDial, 0, 0
		})), Want: spec.Pass},
		{Name: "hung", Build: with(then, under(throughMesh, stays, late)), Want: spec.Fail},
		{Name: "answered", Build: with(then, under(throughMesh, stays, is(timeline.OK))), Want: spec.Pass},
		{Name: "tunnels that stand", Build: with(nil), Want: spec.Fail},
		{Name: "tunnels that end late", Build: with([]timeline.Frame{frame(killedAt+3*time.Second, timeline.FrameFIN)}), Want: spec.Fail},
		{Name: "nothing was under way", Build: func(s scene.Scene) { crash(s, "proxy"); stand(s, quiet, 12, then...) }, Want: spec.Inconclusive},
	})
}
