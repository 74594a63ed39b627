// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/cni"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

var _ = behaviour.Register(behaviour.Behaviour{
	ID:     "cni.del-order",
	Title:  "At a pod's end the mesh's plugin has done its part before the interface is removed",
	Level:  spec.Must,
	Labels: []string{"core"},
	Refs: []spec.Ref{{
		Doc: "CNI Specification 0.4.0", Section: "Network Configuration Lists", URL: "https://github.com/containernetworking/cni/blob/spec-v0.4.0/SPEC.md#network-configuration-lists",
		Quote: "For the DEL action, the runtime MUST execute the plugins in reverse-order.",
	}},
	Profile: spec.Mesh,
	// On a host the suite is the runtime: it would judge itself.
	Needs: []spec.Feature{spec.Services, spec.HBONE, spec.Pods},

	Why:    "The plugin's DEL is the last moment in which the node's proxy can reach the peers of a pod that ends: behind it the interface is gone, and a GOAWAY, a close_notify or a FIN goes nowhere.",
	Causes: "The plugin stands before the one that makes the interface, so that the reverse order has it last. Or it answers first and has the rest done in the background. Or an error text with \"not found\" in it, of a plugin that comes earlier, ended the calls before its turn (containerd takes that for success).",
	Fix:    "Put the plugin last in the chain, and have its DEL return when the proxy has said that the pod's tunnels have ended, or when its bound is over.",

	Topology:   behaviour.OnNodes,
	Disrupt:    behaviour.EndBoth,
	Traffic:    behaviour.NodeTraffic,
	Checks:     []assertions.Check{DelInOrder()},
	BrokenBy:   []spec.Fault{cni.EndsBehind},
	Resolution: 60 * time.Millisecond,
})

// DelInOrder judges the end of the plugin's part against the end of the pod's interface: whoever waits for DEL
// removes nothing before, however slow the machine is.
func DelInOrder() assertions.Check {
	asked := assertions.Floor{Per: "termination", Name: "calls of DEL that the plugin has told of", N: 1, Reason: "a pod has one end"}
	return assertions.Check{
		Name:     "when the plugin's DEL is done",
		Expected: "before the pod's interface goes",
		Floors:   []assertions.Floor{asked},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all := 0
			nearest := time.Duration(-1) // to the interface's end
			for t := range tally.Terminations(c) {
				if !t.Net.Known() {
					tally.Doubt("%s: nobody saw when its interface went", t.Name)
					continue
				}
				calls := c.Timeline.EventsOf(timeline.CNIDel, t.UID)
				for _, e := range calls {
					tally.Span(min(e.At, t.Net.At), max(e.At, t.Net.At))
					before := t.Net.At - e.At
					if before < 0 {
						tally.Against(e.At, t.Name, "", "%s: the plugin was done %s after the interface had gone", t.Clock(e.At), (-before).Round(time.Millisecond))
						continue
					}
					if nearest < 0 || before < nearest {
						nearest = before
					}
				}
				all += len(calls)
				tally.Least(asked, t.Name, len(calls))
			}
			return tally.Conclude(
				fmt.Sprintf("%s done before the interface went, %s before it at the latest", assertions.Plural(all, "DEL was", "DELs were"), nearest.Round(time.Millisecond)),
				fmt.Sprintf("%d of %s done when the interface had gone", tally.Culprits(), assertions.Plural(all, "DEL was", "DELs were")))
		},
	}
}
