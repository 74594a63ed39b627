// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"math"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/sidecar"
	"github.com/lastcall-dev/lastcall/suites/spec"
	"github.com/lastcall-dev/lastcall/suites/tunnel"
)

var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "node.outbound-until-app-exits",
	Title: "What an app sends out through its node's proxy is served in tunnels from the drain's start until the app's end, and what it keeps open is left alone",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Quote: "A pod's deletion is not its app's end: through its node's proxy new and pooled outbound connections work from D until the app is gone, and none is told to go.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE, spec.Wire},

	Why:    "An app that drains still works: it answers what it has in hand, flushes what it keeps in memory, and tells others that it goes. For that it dials databases, queues and other apps. A node's proxy gets no SIGTERM then, and hears of the deletion from discovery all the same, while the app has its whole drain before it. One that lets go of the pod at that breaks each of these calls inside of the app, where no client can repeat it.",
	Causes: "A proxy that takes the news that a pod terminates for its end, and closes its ports: the one for what the app dials with the others. Discovery that drops a terminating pod from the node's workloads. A drain that knows no direction. Discovery that takes a terminating pod out of the mesh: what its app dials goes out in plain text from then on.",
	Fix:    "End a workload when its runtime does (the CNI plugin's DEL), and not when the API has its deletion. Until then let the drain be for those who come in, if for anybody.",

	Topology:   behaviour.CallingOnNodes,
	Disrupt:    behaviour.EndBoth,
	Traffic:    sidecar.Calls,
	Checks:     []assertions.Check{callsServed(), sidecar.CallsThroughProxy(sidecar.CallsNotDrained()), CallsInTunnels()},
	BrokenBy:   []spec.Fault{nodeproxy.OutboundEndsOnceDeleted, nodeproxy.CutsOnceDeleted, nodeproxy.PlainOnceDeleted},
	Resolution: 60 * time.Millisecond,
})

// callsServed is sidecar.CallsServed of an app that has no sidecar.
func callsServed() assertions.Check {
	k := sidecar.CallsThroughProxy(sidecar.CallsServed())
	k.Likely = nil // which speaks of sidecars
	return k
}

// CallsInTunnels judges what the nodes' wire has between pods of the mesh while an app ends that calls others.
func CallsInTunnels() assertions.Check {
	tunnels := assertions.Floor{Name: "tunnels that the wire had, in the whole recording", N: 1, Reason: "each shows that what passes is seen; a pool needs few of them"}
	return assertions.Check{
		Name:     "what passes between pods of the mesh while an app ends",
		Expected: "from D to the app's exit no connection is made, and no byte sent, but to the port of tunnels",
		Floors:   []assertions.Floor{tunnels},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			from, to := time.Duration(math.MaxInt64), time.Duration(0)
			for t := range tally.Terminations(c) {
				if !t.Exit.Known() {
					tally.Doubt("%s: nobody saw its app exit", t.Name)
					continue
				}
				from, to = min(from, t.Earliest()), max(to, t.Exit.At)
			}
			if to > 0 {
				tally.Span(from, to)
			}
			tunnel.Past(&tally, c, from, to)
			n := tunnel.Dialled(c, 0, math.MaxInt64)
			tally.Count(tunnels, n)
			return tally.Conclude(
				fmt.Sprintf("no connection was made without a tunnel; the wire had %s", assertions.Plural(n, "tunnel", "tunnels")),
				fmt.Sprintf("%d times something else than a tunnel passed between pods of the mesh", tally.Culprits()))
		},
	}
}
