// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"fmt"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/cni"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

var _ = behaviour.Register(called(behaviour.Behaviour{
	ID:    "cni.status",
	Title: "STATUS tells the truth about the plugin, and does not fail for a mesh's agent or proxy",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "CNI", Section: "section 2, STATUS", URL: "https://github.com/containernetworking/cni/blob/spec-v1.1.0/SPEC.md#status-check-plugin-status",
		Quote: "STATUS is a way for a runtime to determine the readiness of a network plugin. A plugin must exit with a zero (success) return code if the plugin is ready to service ADD requests.",
	}},

	Why:    "The runtime asks every 5 s, and when STATUS fails the node turns NotReady: no pod begins on it, not those either that are in no mesh, and after minutes its pods are taken away. A replacement of the node proxy that shows in STATUS takes the whole node with it. A STATUS that never fails has pods begin on a node where each ADD fails.",
	Causes: "STATUS asks the agent, which is being replaced. It has no pod, and so no mesh, and takes the state of one mesh for that of the node. Or it is not there, and always succeeds.",
	Fix:    "Have STATUS look at what each ADD needs on the node, whoever's pod it is: that the plugin can write its notes. Leave agents and proxies to their own readiness.",

	Checks:   []assertions.Check{StatusIsTrue(), StatusIsThePluginsOwn()},
	BrokenBy: []spec.Fault{cni.AsksTheAgent, cni.AlwaysWell},
}))

// writable says whether the plugin could write its folder.
func (k call) writable() bool { return k.Attrs["writable"] != "false" }

// StatusIsTrue judges STATUS while agent and proxy are up: it fails when the plugin can't write its notes, and
// only then.
func StatusIsTrue() assertions.Check {
	well := assertions.Floor{Name: "calls with all well", N: 1, Reason: "one is made"}
	ill := assertions.Floor{Name: "calls while the plugin can't write its notes", N: 1, Reason: "one is made"}
	return assertions.Check{
		Name:     "STATUS with the agent and the proxy up",
		Expected: "it succeeds when all is well, and fails when the plugin can't write its notes of pods",
		Floors:   []assertions.Floor{well, ill},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all := callsOf(c, &tally, "STATUS", call.well)
			n := 0
			for _, k := range all {
				switch {
				case k.writable() && k.failed != "":
					k.against(&tally)
				case !k.writable() && k.failed == "":
					tally.Against(k.At, "", "", "STATUS succeeded, and the plugin could not write its notes")
				}
				if k.writable() {
					n++
				}
			}
			tally.Count(well, n)
			tally.Count(ill, len(all)-n)
			return tally.Conclude(
				fmt.Sprintf("%s told the truth", assertions.Plural(len(all), "call", "calls")),
				fmt.Sprintf("%d of %s did not tell the truth", tally.Culprits(), assertions.Plural(len(all), "call", "calls")))
		},
	}
}

// StatusIsThePluginsOwn judges STATUS while an agent or a proxy is away, or is replaced.
func StatusIsThePluginsOwn() assertions.Check {
	away := assertions.Floor{Name: "calls while the proxy or the agent was stopped or dead", N: 4, Reason: "one in each of four states"}
	replaced := assertions.Floor{Name: "calls while the proxy was being replaced", N: 5, Reason: "one each 300 ms"}
	return assertions.Check{
		Name:     "STATUS while the agent or the proxy is away, or is replaced",
		Expected: "it succeeds: the plugin is there",
		Floors:   []assertions.Floor{away, replaced},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all := callsOf(c, &tally, "STATUS", func(k call) bool { return !k.well() && k.writable() })
			n := 0
			for _, k := range all {
				if k.failed != "" {
					k.against(&tally)
				}
				if k.proxy == timeline.CNIReplaced {
					n++
				}
			}
			tally.Count(replaced, n)
			tally.Count(away, len(all)-n)
			return tally.Conclude(
				fmt.Sprintf("all %d calls succeeded", len(all)),
				fmt.Sprintf("%d of %s failed", tally.Culprits(), assertions.Plural(len(all), "call", "calls")))
		},
	}
}
