// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/nodeagent"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "node.agent-restarts",
	Title: "A node's agent that is killed, or is replaced, is felt by no connection of the node's pods",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Section: "the node agent",
		Quote: "tells the node proxy of pods, un-enrols; survives the proxy's restarts and its own",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE, spec.Bench},

	Why:    "No byte passes through the agent: it says who is served, and that has not changed. It is updated as often as the proxy, and nobody plans an outage for that. A proxy that goes by its connection to the agent, or by the first words of a new one, turns each of these updates into the loss of all connections of the node.",
	Causes: "The proxy takes the end of the agent's connection for that of its workloads. The next agent answers before it has read whom it has, and the proxy drops whom that does not name.",
	Fix:    "Have the proxy hold its workloads, with descriptors of its own, until an agent says that one has ended. Have the agent read its notes before it answers anybody, and say when it has named all.",

	Topology:   behaviour.Staying,
	Disrupt:    behaviour.CrashNode,
	Traffic:    crossing,
	Checks:     []assertions.Check{AgentUnfelt()},
	BrokenBy:   []spec.Fault{nodeproxy.EndsWithAgent, nodeagent.NamesNobodyFirst},
	Resolution: 60 * time.Millisecond,
})

// unfeltFor is how long behind the start of the next agent nothing of the change may be felt: that has told its proxy by then.
const unfeltFor = 3 * time.Second

// AgentUnfelt judges what passes while a node's agent is away, and shortly behind that. What the loss of a proxy may cost comes
// before that, and counts for nothing here; nor does what is to a pod that was deleted.
func AgentUnfelt() assertions.Check {
	gaps := assertions.Floor{Name: "times that a node's agent was away, and another one came", N: 2, Reason: "it is killed, and then told to go"}
	fresh := assertions.Floor{Per: "time", Name: "new connections to workloads of the node, or from them, meanwhile and shortly behind that", N: 80,
		Reason: "some 50 a second, where both pods are new to our own client"}
	kept := assertions.Floor{Per: "time", Name: "requests that were under way when it went", N: 8, Reason: "some last for 2 s, to each instance and through the Service"}
	return assertions.Check{
		Name:     "requests while a node's agent is away",
		Expected: fmt.Sprintf("none fails until %s after the next one has started, neither of those that were under way nor of the new ones", unfeltFor),
		Floors:   []assertions.Floor{gaps, fresh, kept},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			on, ended := nodesOf(c), deleted(c)
			all := awayIn(c, agentKilled, agentTold)
			tally.Count(gaps, len(all))
			total := 0
			for _, g := range all {
				from, to := g.killed, g.back+unfeltFor
				for _, a := range awayIn(c, byKill) {
					if a.killed < g.killed {
						from = max(from, a.back+dialledWithin)
					}
				}
				tally.Span(from, to)
				opened, crossed := 0, 0
				for _, s := range c.Timeline.Samples {
					uid := s.Stream.Target()
					if s.End < from || s.Start > to || goneBy(ended, s.End, uid, s.Server, s.Reached) {
						continue
					}
					total++
					switch {
					case s.Failed():
						tally.Failed(c, s, s.End, uid, "%s after the agent of %s was %s", short(s.End-g.killed), g.node, g.was)
					case s.Start < from:
						crossed++
					case (on[uid] == g.node || on[s.Server] == g.node) && s.Stream.Flow().Conns == flow.New && !s.Saturated:
						opened++
					}
				}
				tally.Least(fresh, g.was, opened)
				tally.Least(kept, g.was, crossed)
			}
			return tally.Conclude(
				fmt.Sprintf("none of %d requests failed in %s without an agent", total, assertions.Plural(len(all), "time", "times")),
				fmt.Sprintf("%d of %s failed while a node's agent was away, or just behind that", tally.Culprits(), assertions.Plural(total, "request", "requests")))
		},
	}
}

// goneBy says whether one of some pods had been deleted by an instant.
func goneBy(ended map[string]time.Duration, at time.Duration, uids ...string) bool {
	for _, uid := range uids {
		if when, is := ended[uid]; is && when <= at {
			return true
		}
	}
	return false
}
