// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "node.leaves-nothing",
	Title: "Once a workload is gone its node's proxy holds no socket of it, in whatever state its connections were",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Quote: "After a workload is gone no socket, listener or thread of it stays in the node proxy, whatever state its connections were in.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE, spec.RuntimeCalls},

	Why:    "A socket keeps its network namespace alive, and a node sees thousands of workloads in a proxy's life. What each of them leaves behind, a listener or a connection on which nothing ever came, is memory and descriptors of the proxy until it is restarted.",
	Causes: "The proxy waits for the end of a connection on which nothing comes, or of a handshake that nobody goes on with. It closes what it knows of, and not what it was about to accept.",
	Fix:    "Close the listeners first, then all that was accepted, the unfinished included; acknowledge the removal when the last one is closed.",

	Topology:   behaviour.OnNodes,
	Disrupt:    behaviour.EndBoth,
	Traffic:    behaviour.NodeTraffic,
	Checks:     []assertions.Check{HoldsNothing()},
	BrokenBy:   []spec.Fault{nodeproxy.KeepsListening},
	Resolution: 60 * time.Millisecond,
})

// HoldsNothing judges the sockets in a workload's network when its last process has ended and its removal is
// acknowledged: whoever holds one then is no part of it.
func HoldsNothing() assertions.Check {
	looked := assertions.Floor{Per: "termination", Name: "looks at the sockets in the workload's network, behind its removal", N: 1, Reason: "a workload has one end"}
	return assertions.Check{
		Name:     "the sockets that are held in a workload's network behind its removal",
		Expected: "none",
		Floors:   []assertions.Floor{looked},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all := 0
			for t := range tally.Terminations(c) {
				n := 0
				for _, e := range c.Timeline.EventsOf(timeline.CNIDel, t.UID) {
					held, seen := e.Attrs["held"]
					if !seen {
						continue
					}
					n++
					tally.Span(e.At, e.At)
					for _, socket := range strings.Fields(held) {
						tally.Against(e.At, t.Name, "", "%s: somebody held %s when the removal was acknowledged", t.Clock(e.At), socket)
					}
				}
				all += n
				tally.Least(looked, t.Name, n)
			}
			return tally.Conclude(
				fmt.Sprintf("no socket was held in the network of any of %s", assertions.Plural(all, "workload that was removed", "workloads that were removed")),
				fmt.Sprintf("%s held behind the removal", assertions.Plural(tally.Culprits(), "socket was", "sockets were")))
		},
	}
}
