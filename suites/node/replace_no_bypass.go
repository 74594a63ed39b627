// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
	"github.com/lastcall-dev/lastcall/suites/tunnel"
)

var _ = behaviour.Register(behaviour.Behaviour{
	ID:      "node.replace-no-bypass",
	Title:   "What is sent through a node's proxy while that is replaced reaches pods of the mesh in tunnels alone",
	Level:   spec.Must,
	Refs:    []spec.Ref{whateverRestarts},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE, spec.Wire},

	Why:    "Each update of the mesh puts a proxy beside each node's old one that knows nobody at first, and takes the apps' next connections. One that passes on what it can't place loses none of them, so that the roll-out looks as good as it can, and has sent the mesh's traffic in plain text.",
	Causes: "A proxy that is ready when it listens, and hears from discovery behind that. Redirect rules that are taken away and written anew in a roll-out.",
	Fix:    "Let the new proxy be ready, and take connections, when discovery has said all that it knows. Leave the rules to the plugin: they are the same for each proxy.",

	Topology:   behaviour.Staying,
	Disrupt:    behaviour.ReplaceProxies,
	Traffic:    through,
	Checks:     []assertions.Check{NothingBypassesWhoIsReplaced()},
	BrokenBy:   []spec.Fault{nodeproxy.PassesAtFirst},
	Resolution: 60 * time.Millisecond,
})

// NothingBypassesWhoIsReplaced judges what the nodes' wire had between pods of the mesh from when the first proxy stood beside another, which
// takes connections before that is told to go. What the clients send goes through the proxy of their own node.
func NothingBypassesWhoIsReplaced() assertions.Check {
	made := assertions.Floor{Name: "connections through the Service that were served from then on", N: 300, Reason: "60 a second, from the first proxy's successor to the last one's end"}
	return assertions.Check{
		Name:     "what passes between pods of the mesh while their nodes' proxies are replaced",
		Expected: "no connection is made, and no byte sent, but to the port of tunnels",
		Floors:   []assertions.Floor{replacedFloor, made, seenTunnels},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all := replacedIn(c)
			tally.Count(replacedFloor, seenGone(all))
			from, _ := meanwhile(c, all)
			tally.Span(from, max(from, c.Tail))
			n := 0
			for _, s := range c.Timeline.Samples {
				if f := s.Stream.Flow(); f.Path == flow.Service && f.Conns == flow.New && s.Start >= from && !s.Failed() && !s.Saturated {
					n++
				}
			}
			tunnel.Past(&tally, c, from, tailOf(c))
			dialled := tunnel.Dialled(c, from, tailOf(c))
			tally.Count(made, n)
			tally.Count(seenTunnels, dialled)
			return tally.Conclude(
				fmt.Sprintf("the wire had %d new tunnels and nothing else, while %d new connections through the Service were served", dialled, n),
				fmt.Sprintf("%d times something passed between pods of the mesh without a tunnel", tally.Culprits()))
		},
	}
}
