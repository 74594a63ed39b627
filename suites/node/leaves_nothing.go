// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
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
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "A socket keeps its network namespace alive, and a node sees thousands of workloads in a proxy's life. What each of them leaves behind, a listener or a connection on which nothing ever came, is memory and descriptors of the proxy until it is restarted.",
	Causes: "The proxy waits for the end of a connection on which nothing comes, or of a handshake that nobody goes on with. It closes what it knows of, and not what it was about to accept.",
	Fix:    "Close the listeners first, then all that was accepted, the unfinished included; acknowledge the removal when the last one is closed.",

	Topology:   behaviour.OnNodes,
	Disrupt:    behaviour.EndBoth,
	Traffic:    append(slices.Clone(behaviour.NodeTraffic), mute),
	Checks:     []assertions.Check{HoldsNothing()},
	BrokenBy:   []spec.Fault{nodeproxy.KeepsListening, nodeproxy.KeepsMute},
	Resolution: 60 * time.Millisecond,
})

// mute are connections to a workload's port for tunnels on which nothing comes, for less long than a server waits for it.
var mute = load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.New, Op: flow.Mute, Takes: 8 * time.Second}, Rate: 2}

// muteFor is how long before a workload's end a connection may have begun that is not given up yet then, on either side.
const muteFor = 2 * time.Second

// HoldsNothing judges the sockets in a workload's network when its last process has ended and its removal is
// acknowledged: whoever holds one then is no part of it.
func HoldsNothing() assertions.Check {
	unsaid := assertions.Floor{Per: "termination", Name: fmt.Sprintf("connections to its port for tunnels on which nothing came, begun in the last %s before its removal", muteFor), N: 1, Reason: "two begin in a second"}
	looked := assertions.Floor{Per: "termination", Name: "looks at the sockets in the workload's network, behind its removal", N: 1, Reason: "a workload has one end; on a cluster it is the plugin that looks"}
	return assertions.Check{
		Name:     "the sockets that are held in a workload's network behind its removal",
		Expected: "none",
		Floors:   []assertions.Floor{looked, unsaid},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all := 0
			for t := range tally.Terminations(c) {
				n, silent := 0, 0
				for _, e := range c.Timeline.EventsOf(timeline.CNIDel, t.UID) {
					held, seen := e.Attrs["held"]
					if !seen {
						continue
					}
					n++
					silent += mutesBefore(c, t, e)
					tally.Span(e.At, e.At)
					for _, socket := range strings.Fields(held) {
						if untold := e.Attrs["untold"]; untold != "" { // nobody had the time to acknowledge it
							tally.LateOn(c, t.Node, e.At, t.Name, "", "%s: somebody held %s when the removal was given up: %s", t.Clock(e.At), socket, untold)
							continue
						}
						tally.Against(e.At, t.Name, "", "%s: somebody held %s when the removal was acknowledged", t.Clock(e.At), socket)
					}
				}
				all += n
				tally.Least(looked, t.Name, n)
				tally.Least(unsaid, t.Name, silent)
			}
			return tally.Conclude(
				fmt.Sprintf("no socket was held in the network of any of %s", assertions.Plural(all, "workload that was removed", "workloads that were removed")),
				fmt.Sprintf("%s held behind the removal", assertions.Plural(tally.Culprits(), "socket was", "sockets were")))
		},
	}
}

// mutesBefore are the connections to an instance on which nothing was said, and that were begun just before a DEL of it.
func mutesBefore(c assertions.Case, t assertions.Ending, del timeline.Event) int {
	took, err := time.ParseDuration(del.Attrs["took"])
	if err != nil {
		return 0
	}
	n, begun := 0, del.At-took
	for _, s := range c.Timeline.Samples {
		if s.Stream.Target() == t.UID && s.Stream.Flow().Op == flow.Mute && !s.Failed() && s.Start > begun-muteFor && s.End < begun {
			n++
		}
	}
	return n
}
