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

// In the scenes of crash the agent is replaced at last, when it has been back for long.
const (
	agentToldAt = agentBackAt + 4*time.Second
	agentNextAt = agentToldAt + 300*time.Millisecond
)

func TestAgentUnfelt(t *testing.T) {
	told := func(s scene.Scene) {
		for at, is := range map[time.Duration]string{agentToldAt: timeline.NodeAgentTold, agentNextAt: timeline.NodeAgentStarts} {
			s.Events = append(s.Events, timeline.Event{At: at, Source: "test", Kind: timeline.NodeAgent, Subject: "agent", Name: "agent", Node: "a", Attrs: map[string]string{"is": is}})
		}
	}
	with := func(set func(*timeline.Sample), more ...func(scene.Scene)) func(scene.Scene) {
		return func(s scene.Scene) {
			both(s)
			told(s)
			for _, of := range []flow.Flow{throughMesh, ownTunnel, sendsOut} {
				dials(s, of, stays, func(x *timeline.Sample) {
					if x.Start%(time.Second/2) == 0 {
						x.End = x.Start + 2*time.Second // which is under way for long
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
	failing := func(from, to time.Duration) func(*timeline.Sample) {
		return func(x *timeline.Sample) {
			if x.Start >= from && x.Start < to {
				x.Outcome, x.Phase = timeline.Refused, timeline.PhaseDial
			}
		}
	}
	cut := func(x *timeline.Sample) {
		if x.Start < agentToldAt && x.End > agentToldAt {
			x.End, x.Outcome, x.Phase = agentToldAt+20*time.Millisecond, timeline.Reset, timeline.PhaseBody
		}
	}
	scene.Judge(t, judging(AgentUnfelt()), []scene.Row{
		{Name: "nothing is felt", Build: with(nil), Want: spec.Pass},
		{Name: "new ones are refused while it is dead", Build: with(failing(agentKilledAt+time.Second, agentKilledAt+2*time.Second)), Want: spec.Fail},
		{Name: "new ones are refused when the next one is there", Build: with(failing(agentBackAt+time.Second, agentBackAt+1500*time.Millisecond)), Want: spec.Fail},
		{Name: "new ones are refused behind its replacement", Build: with(failing(agentNextAt+100*time.Millisecond, agentNextAt+200*time.Millisecond)), Want: spec.Fail},
		{Name: "what was under way is cut at its replacement", Build: with(cut), Want: spec.Fail},
		{Name: "before the agent went, through a peer that waits for the proxy", Build: with(failing(servesAt+2*time.Second, servesAt+9*time.Second)), Want: spec.Pass},
		{Name: "of a pod that was deleted", Build: with(failing(agentKilledAt+time.Second, agentKilledAt+2*time.Second), func(s scene.Scene) {
			s.Event(agentKilledAt, timeline.PodDeletion, stays, map[string]string{"grace": "15"})
		}), Want: spec.Inconclusive},
		{Name: "it was killed alone", Build: with(nil, func(s scene.Scene) {
			s.Drop(func(e timeline.Event) bool { return e.Kind == timeline.NodeAgent && e.At >= agentToldAt })
		}), Want: spec.Inconclusive},
		{Name: "nobody asked", Build: func(s scene.Scene) { both(s); told(s) }, Want: spec.Inconclusive},
	})
}
