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

// In these scenes node a's proxy is told to go with nobody beside it, cuts what it has at its deadline, and is gone.
const (
	aloneDeadline = 12 * time.Second
	aloneTold     = scene.D
	aloneCuts     = aloneTold + aloneDeadline
	aloneGone     = aloneCuts + 200*time.Millisecond
	aloneNext     = aloneGone + 2*time.Second
	aloneServes   = aloneNext + 500*time.Millisecond
)

// goesAlone has that proxy do so, with pods on both nodes.
func goesAlone(s scene.Scene) {
	s.Drop(func(e timeline.Event) bool { return e.Subject == scene.UID }) // it stays
	tell := func(at time.Duration, name, is string) {
		s.Events = append(s.Events, timeline.Event{At: at, Source: "test", Kind: timeline.NodeProxy, Subject: name, Name: name, Node: "a", Attrs: map[string]string{"is": is}})
	}
	for uid, node := range map[string]string{stays: "a", elsewhere: "b"} {
		s.Events = append(s.Events, timeline.Event{At: 1, Source: "test", Kind: timeline.PodSeen, Subject: uid, Name: uid, Node: node, Attrs: map[string]string{"node": node}})
	}
	tell(2, "proxy-1", timeline.NodeProxyStarts)
	tell(aloneTold, "proxy-1", timeline.NodeProxyTold)
	tell(aloneGone, "proxy-1", timeline.NodeProxyGone)
	tell(aloneNext, "proxy-2", timeline.NodeProxyStarts)
	tell(aloneServes, "proxy-2", timeline.NodeProxyServes)
}

// asked adds requests of a stream, one each 20 ms, and such as take 2 s, one each 100 ms, until the last has been answered by the
// next proxy: those to node a are cut at the deadline, so that it shows, and refused from the proxy's end on. set may change each.
func asked(s scene.Scene, of flow.Flow, uid string, set func(*timeline.Sample)) {
	for at, n := aloneTold-3*time.Second, 0; at < aloneServes+15*time.Second; at, n = at+20*time.Millisecond, n+1 {
		x := timeline.Sample{
			Stream: flow.To(of, uid), ID: fmt.Sprint(of, uid, n), Conn: uint64(n + 1), Nth: 1, Due: at, Start: at, Dial: at + 1, Sent: at + 1, First: at + 2, End: at + 3,
			Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: uid, Status: 200,
		}
		if n%5 == 0 {
			x.End = at + 2*time.Second
		}
		switch here := uid != elsewhere; {
		case here && at >= aloneGone && at < aloneServes:
			x.End, x.Outcome, x.Phase = at+3, timeline.Refused, timeline.PhaseDial
		case here && at < aloneGone && x.End > aloneCuts:
			x.End, x.Outcome, x.Phase = max(at+3, aloneCuts), timeline.Reset, timeline.PhaseBody
		}
		if set != nil {
			set(&x)
		}
		s.Add(x)
	}
}

func TestServesAlone(t *testing.T) {
	with := func(set func(*timeline.Sample), more ...func(scene.Scene)) func(scene.Scene) {
		return func(s scene.Scene) {
			goesAlone(s)
			asked(s, throughMesh, stays, set)
			asked(s, throughMesh, elsewhere, set)
			for _, m := range more {
				m(s)
			}
		}
	}
	refused := func(uid string, from, to time.Duration) func(*timeline.Sample) {
		return func(x *timeline.Sample) {
			if x.Stream.Target() == uid && x.Start >= from && x.Start < to {
				x.Outcome, x.Phase = timeline.Refused, timeline.PhaseDial
			}
		}
	}
	// lasting is what was cut at the deadline, which ends otherwise.
	lasting := func(at time.Duration, by timeline.Outcome) func(*timeline.Sample) {
		return func(x *timeline.Sample) {
			if x.Start < at && x.End >= aloneCuts && x.Outcome == timeline.Reset {
				x.End, x.Outcome = at, by
			}
		}
	}
	atSigterm := func(x *timeline.Sample) {
		if x.Stream.Target() == stays && x.Start < aloneTold && x.End > aloneTold {
			x.End, x.Outcome, x.Phase = aloneTold+10*time.Millisecond, timeline.Reset, timeline.PhaseBody
		}
	}
	judge := func(tl *timeline.Timeline) spec.Finding {
		c := assertions.NewCase(tl, scene.P)
		c.Deadline = aloneDeadline
		return ServesAlone().Run(c)
	}
	scene.Judge(t, judge, []scene.Row{
		{Name: "all is served, and the rest is cut at its deadline", Build: with(nil), Want: spec.Pass},
		{Name: "new ones are refused from SIGTERM on", Build: with(refused(stays, aloneTold, aloneGone)), Want: spec.Fail},
		{Name: "new ones are refused for a second", Build: with(refused(stays, aloneTold+3*time.Second, aloneTold+4*time.Second)), Want: spec.Fail},
		{Name: "new ones are refused in its last moment", Build: with(refused(stays, aloneCuts-400*time.Millisecond, aloneGone)), Want: spec.Pass},
		{Name: "new ones are refused on the other node", Build: with(refused(elsewhere, aloneTold+3*time.Second, aloneTold+4*time.Second)), Want: spec.Fail},
		{Name: "what was under way is cut at SIGTERM", Build: with(atSigterm), Want: spec.Fail},
		{Name: "what lasts is cut before the deadline", Build: with(lasting(aloneCuts-time.Second, timeline.Reset)), Want: spec.Fail},
		{Name: "what lasts is cut as if it were whole", Build: with(lasting(aloneCuts, timeline.Truncated)), Want: spec.Fail},
		{Name: "a successor stood beside it", Build: with(nil, func(s scene.Scene) {
			s.Events = append(s.Events, timeline.Event{At: aloneTold - time.Second, Source: "test", Kind: timeline.NodeProxy, Subject: "proxy-0", Node: "a", Attrs: map[string]string{"is": timeline.NodeProxyStarts}})
		}), Want: spec.Inconclusive},
		{Name: "nobody saw its end", Build: with(nil, func(s scene.Scene) {
			s.Drop(func(e timeline.Event) bool { return e.Attrs["is"] == timeline.NodeProxyGone })
		}), Want: spec.Inconclusive},
	})
}

func TestOnlyTheGapBehindAnEnd(t *testing.T) {
	with := func(set func(*timeline.Sample)) func(scene.Scene) {
		return func(s scene.Scene) {
			goesAlone(s)
			for _, of := range []flow.Flow{throughMesh, ownTunnel, sendsOut} {
				asked(s, of, stays, set)
				asked(s, of, elsewhere, set)
			}
		}
	}
	after := func(from time.Duration) func(*timeline.Sample) {
		return func(x *timeline.Sample) {
			if x.Stream.Target() == stays && x.Start >= aloneServes+from {
				x.Outcome, x.Phase = timeline.Refused, timeline.PhaseDial
			}
		}
	}
	scene.Judge(t, judging(OnlyTheGap(byExit)), []scene.Row{
		{Name: "the gap alone", Build: with(nil), Want: spec.Pass},
		{Name: "long behind it", Build: with(after(12 * time.Second)), Want: spec.Fail},
		{Name: "from its begin on", Build: with(after(2 * time.Second)), Want: spec.Fail},
	})
	scene.Judge(t, judging(OnlyTheGap(byKill)), []scene.Row{{Name: "nobody was killed", Build: with(nil), Want: spec.Inconclusive}})
}
