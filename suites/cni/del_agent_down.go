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

var _ = behaviour.Register(called(behaviour.Behaviour{
	ID:    "cni.del-agent-down",
	Title: "A pod ends within seconds when its node proxy, or its agent, is dead or does nothing",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Quote: "The node proxy or the agent is dead or stopped: DEL is bounded, the pod is never stuck.",
	}},

	Why:    "DEL is on the way of every pod's end. One that waits for who is not there keeps every pod of the node Terminating, and with them rolling updates and the node's drain, just when something is wrong with the node. One that fails is called again after ever longer pauses, and the pod keeps its address meanwhile.",
	Causes: "The plugin waits for an agent's answer without a bound of its own, and so for as long as the runtime lets it. It takes an agent that it can't reach for an error. Its error has \"not found\" in it: containerd takes that for success, calls none of the plugins before it, and the pod's address is never free again.",
	Fix:    "Bound all that DEL waits for, to 5 s or so. When that is over forget the pod, succeed, and say on stderr that its peers may not have been told.",

	Checks:   []assertions.Check{DelIsBounded()},
	BrokenBy: []spec.Fault{cni.WaitsForEver, cni.SaysNotFound, cni.FailsWithoutAgent},
}))

// downs are how an agent and a proxy may be away.
var downs = []struct{ says, agent, proxy string }{
	{"the proxy stopped", timeline.CNIUp, timeline.CNIStopped},
	{"the proxy dead", timeline.CNIUp, timeline.CNIDead},
	{"the agent stopped", timeline.CNIStopped, timeline.CNIUp},
	{"the agent dead", timeline.CNIDead, timeline.CNIUp},
}

// DelIsBounded judges the DELs of pods whose proxy or agent is away, one kind of that as the other.
func DelIsBounded() assertions.Check {
	known := assertions.Floor{Per: "state", Name: "pods that the plugin knew, and that were ended", N: 5, Reason: "five pods are ended side by side"}
	return assertions.Check{
		Name:     "calls of DEL while the proxy or the agent is stopped or dead",
		Expected: fmt.Sprintf("each succeeds within %s, and no error has \"not found\" in it", bound),
		Floors:   []assertions.Floor{known},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			total := 0
			var slowest time.Duration
			for _, down := range downs {
				all := callsOf(c, &tally, "DEL", func(k call) bool { return k.agent == down.agent && k.proxy == down.proxy })
				n := 0
				for _, k := range all {
					if k.noted() {
						n++
					}
				}
				tally.Least(known, down.says, n)
				slowest = max(slowest, ended(c, &tally, all))
				total += len(all)
			}
			return tally.Conclude(
				fmt.Sprintf("all %s succeeded, within %s", assertions.Plural(total, "DEL", "DELs"), slowest.Round(time.Millisecond)),
				fmt.Sprintf("%d of %s failed, or came to no end", tally.Culprits(), assertions.Plural(total, "DEL", "DELs")))
		},
	}
}
