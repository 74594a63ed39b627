// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/cni"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

var _ = behaviour.Register(called(behaviour.Behaviour{
	ID:    "cni.others-unharmed",
	Title: "Pods that are in no mesh begin and end at once, whoever of the mesh's is dead or does nothing",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Section: "the mesh's plugin",
		Quote: "Without the annotation the plugin exits 0 at once, so that a dead agent never blocks anybody else's pod.",
	}},

	Why:    "The plugin of a mesh is called for each pod of its node: for DNS, for the controllers, for the agent itself where that is not on the node's own network. One that asks its agent for all of them turns the failure of a mesh into that of the node, and where the agent's own pod waits for it nothing ever comes back.",
	Causes: "The plugin asks the agent first, which knows who is in the mesh. It lists what it can't read as in the mesh, to be safe.",
	Fix:    "Have the pod itself say whether it is in the mesh, by an annotation that the runtime hands over with the call, and do nothing for all others.",

	Checks:   []assertions.Check{OthersAtOnce()},
	BrokenBy: []spec.Fault{cni.AsksForEverybody},
}))

// atOnce is how long a call may take that has nothing to do: its process begins and ends, on a machine that does more meanwhile.
const atOnce = 2 * time.Second

// OthersAtOnce judges the begin and the end of pods that are in no mesh while the proxy or the agent is away.
func OthersAtOnce() assertions.Check {
	made := assertions.Floor{Per: "state", Name: "calls of ADD and DEL for pods that are in no mesh", N: 4, Reason: "two pods begin and end"}
	return assertions.Check{
		Name:     "calls for pods that are in no mesh while the proxy or the agent is stopped or dead",
		Expected: fmt.Sprintf("each ADD and each DEL succeeds within %s", atOnce),
		Floors:   []assertions.Floor{made},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			total := 0
			var slowest time.Duration
			for _, down := range downs {
				all := callsIn(c, &tally, func(k call) bool { return k.others() && k.agent == down.agent && k.proxy == down.proxy })
				tally.Least(made, down.says, len(all))
				total += len(all)
				for _, k := range all {
					slowest = max(slowest, k.took)
					switch {
					case k.failed != "":
						k.against(&tally)
					case k.took > atOnce:
						tally.Late(c, k.At, k.Name, "", "%v took %s", k, k.took.Round(time.Millisecond))
					}
				}
			}
			return tally.Conclude(
				fmt.Sprintf("all %s succeeded, within %s", assertions.Plural(total, "call", "calls"), slowest.Round(time.Millisecond)),
				fmt.Sprintf("%d of %s failed, or took longer than %s", tally.Culprits(), assertions.Plural(total, "call", "calls"), atOnce))
		},
	}
}
