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
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "node.lets-go-of-the-network",
	Title: "Once a workload is gone neither its node's proxy nor its agent has its network open",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Quote: "After a workload is gone nobody keeps its network namespace: no descriptor, and no thread in it.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE, spec.Bench},

	Why:    "A descriptor of a network namespace keeps it alive as a socket in it does, and shows nowhere but in the list of what a process has open. A node sees thousands of workloads in a proxy's life, and each that stays behind is the kernel's memory for a whole network: its routes, its rules and its tables of connections.",
	Causes: "The descriptor of the workload's network that came with its begin is closed by nobody. A thread that went into the network did not come back.",
	Fix:    "Close the descriptor with the last socket, also where the begin failed; end a thread that can't leave the network.",

	Topology:   behaviour.OnNodes,
	Disrupt:    behaviour.EndBoth,
	Traffic:    append(slices.Clone(behaviour.NodeTraffic), mute),
	Checks:     []assertions.Check{LetsGo()},
	BrokenBy:   []spec.Fault{nodeproxy.KeepsNetwork},
	Resolution: 60 * time.Millisecond,
})

// LetsGo judges who of a node's agent and its proxies has a workload's network open a second behind its removal: a descriptor
// keeps it as a socket does.
func LetsGo() assertions.Check {
	looked := assertions.Floor{Per: "termination", Name: "looks at what agent and proxies have open, a second behind the workload's removal", N: 1, Reason: "a workload has one end"}
	return assertions.Check{
		Name:     "who has a workload's network open behind its removal",
		Expected: "nobody, a second behind it",
		Floors:   []assertions.Floor{looked},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all := 0
			for t := range tally.Terminations(c) {
				n := 0
				for _, e := range c.Timeline.EventsOf(timeline.NodeHolds, t.UID) {
					n++
					tally.Span(e.At, e.At)
					for _, who := range strings.Fields(e.Attrs["keeps"]) {
						tally.Late(c, e.At, t.Name, "", "%s: %s had its network open", t.Clock(e.At), who)
					}
				}
				all += n
				tally.Least(looked, t.Name, n)
			}
			return tally.Conclude(
				fmt.Sprintf("nobody had the network of any of %s open", assertions.Plural(all, "workload that was removed", "workloads that were removed")),
				fmt.Sprintf("%s of a workload that was removed still open", assertions.Plural(tally.Culprits(), "network was", "networks were")))
		},
	}
}
