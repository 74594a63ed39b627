// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/cni"
	"github.com/lastcall-dev/lastcall/fixtures/nodeagent"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
	"github.com/lastcall-dev/lastcall/suites/tunnel"
)

var _ = behaviour.Register(behaviour.Behaviour{
	ID:      "node.crash-no-bypass",
	Title:   "While a node's proxy or agent is away, and when the next one comes, nothing passes between pods of the mesh in plain text",
	Level:   spec.Must,
	Refs:    []spec.Ref{whateverRestarts},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE, spec.Bench},

	Why:    "What nobody carries has to fail. Where it goes its own way instead, all requests are served while the proxy is away, and each of them can be read along. The seconds behind that are as bad: a proxy that has just come knows nobody yet, and who is taken for a stranger is spoken to in plain text.",
	Causes: "Redirect rules that go with the proxy or the agent that wrote them. An agent that takes pods out of the mesh when its proxy does not answer. A proxy that serves before discovery has said who is in the mesh, and passes on what it can't place.",
	Fix:    "Let the rules stand whoever is away: a port at which nobody listens refuses. In the proxy, hold what comes until discovery has said all that it knows.",

	Topology:   behaviour.Staying,
	Disrupt:    behaviour.CrashNode,
	Traffic:    crossing,
	Checks:     []assertions.Check{NothingBypassesWhoIsAway()},
	BrokenBy:   []spec.Fault{nodeproxy.PassesAtFirst, nodeagent.LetsThrough, cni.FailsOpen},
	Resolution: 60 * time.Millisecond,
})

// whateverRestarts is the rule of who replaces a part of the mesh, and of who loses one.
var whateverRestarts = spec.Ref{
	Doc: "project", Section: "design", Quote: "Between two enrolled pods nothing goes in plain text, whatever restarts, once the source's discovery has said HBONE for the destination for at least P.",
}

// seenTunnels is the floor of a wire that is looked at for what is in no tunnel.
var seenTunnels = assertions.Floor{Name: "tunnels that the wire had from then on", N: 2, Reason: "they show that what passes is seen; a pool needs few of them"}

// tailOf is the end of what is judged: of a recording that was stopped before its tail all of it is.
func tailOf(c assertions.Case) time.Duration { return cmp.Or(c.Tail, math.MaxInt64) }

// firstKill is when a node's proxy, or its agent, was first killed, whether another one came or not.
func firstKill(c assertions.Case) time.Duration {
	first := time.Duration(math.MaxInt64)
	for _, m := range []manner{byKill, agentKilled} {
		for _, e := range c.Timeline.EventsOf(m.of, "") {
			if e.Attrs["is"] == m.is {
				first = min(first, e.At)
			}
		}
	}
	return first
}

// NothingBypassesWhoIsAway judges what the nodes' wire had between pods of the mesh from when a node's proxy, or its agent, was first
// away. That somebody would have gone past them is shown by what the apps of that node sent out.
func NothingBypassesWhoIsAway() assertions.Check {
	meanwhile := assertions.Floor{Per: "proxy or agent", Name: "connections that apps of its node made while it was away", N: 10, Reason: "15 a second each, for the seconds of that"}
	behind := assertions.Floor{Per: "proxy or agent", Name: "connections of theirs that were served when it was back", N: 60, Reason: "15 a second each, until the end"}
	return assertions.Check{
		Name:     "what passes between pods of the mesh while a node's proxy or agent is away, and behind that",
		Expected: "no connection is made, and no byte sent, but to the port of tunnels: what nobody carries fails",
		Floors:   []assertions.Floor{awayFloor, meanwhile, behind, seenTunnels},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all, on, from := awayIn(c, byKill, agentKilled), nodesOf(c), firstKill(c)
			tally.Count(awayFloor, len(all))
			total := 0
			for _, a := range all {
				tally.Span(a.killed, max(a.back, c.Tail))
				made, served := 0, 0
				for _, s := range c.Timeline.Samples {
					switch {
					case s.Stream.Flow().Path != flow.Outbound || on[s.Stream.Target()] != a.node || s.Saturated:
					case a.during(s.Start):
						made++
					case s.Start >= a.back && !s.Failed():
						served++
					}
				}
				tally.Least(meanwhile, a.name, made)
				tally.Least(behind, a.name, served)
				total += made + served
			}
			tunnel.Past(&tally, c, from, tailOf(c))
			dialled := tunnel.Dialled(c, from, tailOf(c))
			tally.Count(seenTunnels, dialled)
			return tally.Conclude(
				fmt.Sprintf("the wire had %d new tunnels and nothing else, while apps of these nodes made %d connections", dialled, total),
				fmt.Sprintf("%d times something passed between pods of the mesh without a tunnel", tally.Culprits()))
		},
	}
}
