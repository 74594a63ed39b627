// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/cni"
	"github.com/lastcall-dev/lastcall/fixtures/nodeagent"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

var _ = behaviour.Register(called(behaviour.Behaviour{
	ID:    "cni.del-of-an-old-sandbox",
	Title: "A DEL of a pod's old sandbox that comes when the pod has another one ends nothing of that",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "CNI Specification 0.4.0", Section: "General considerations", URL: "https://github.com/containernetworking/cni/blob/spec-v0.4.0/SPEC.md#general-considerations",
		Quote: "Plugins that store state should do so using a primary key of `(network name, CNI_CONTAINERID, CNI_IFNAME)`.",
	}},

	Why:    "What holds a pod's network dies now and then, by itself or with its runtime: the kubelet makes another one, and the pod goes on with its name and its UID, in a new network. The old one's end may come late, when its first DEL had failed or the runtime was away, and it comes again when the old sandbox is collected. Who ends the pod by that takes a live one out of the mesh: nobody listens for it any more, and nothing will have it begin again.",
	Causes: "The plugin, or the agent that it asks, keys what it has of pods by their UID or name.",
	Fix:    "Key by the container's ID and the interface. Have the agent compare the ID of the DEL with the one of the sandbox that it holds.",

	Checks:   []assertions.Check{NextSandboxLives()},
	BrokenBy: []spec.Fault{cni.EndsByUID, nodeagent.EndsAnySandbox},
}))

// NextSandboxLives judges the DELs of sandboxes whose pods have another one.
func NextSandboxLives() assertions.Check {
	late := assertions.Floor{Name: "first calls of DEL for a sandbox that the plugin knew, when its pod had another one", N: 2, Reason: "two are made for that"}
	again := assertions.Floor{Name: "calls of DEL for a sandbox that had ended, when its pod had another one", N: 2, Reason: "two are made for that"}
	return assertions.Check{
		Name:     "what is left of a pod's sandbox behind the DEL of the one before it",
		Expected: "the pod is noted and served in its sandbox as before",
		Floors:   []assertions.Floor{late, again},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all := 0
			for _, k := range callsOf(c, &tally, "ADD", func(k call) bool { return k.Attrs["sandbox"] == timeline.CNINextSandbox }) {
				if k.failed != "" {
					k.against(&tally)
				}
			}
			n := map[bool]int{}
			for _, k := range callsOf(c, &tally, "DEL", func(k call) bool { return k.Attrs["sandbox"] == timeline.CNIOldSandbox }) {
				all++
				if k.failed != "" {
					k.against(&tally)
				}
				before, behind := strings.Fields(k.Attrs["before"]), strings.Fields(k.Attrs["behind"])
				if len(before) < 2 { // which is no more than what the ADD has left
					tally.Doubt("%s was not noted and served in its next sandbox when DEL of the one before it came (%q)", k.Name, k.Attrs["before"])
					continue
				}
				if k.again() || k.noted() {
					n[k.again()]++
				}
				for _, had := range before {
					if !slices.Contains(behind, had) {
						tally.Against(k.At, k.Name, "", "behind %v, of a sandbox that it had before, %s was not %s any more", k, k.Name, had)
					}
				}
			}
			tally.Count(late, n[false])
			tally.Count(again, n[true])
			return tally.Conclude(
				fmt.Sprintf("behind all %d the pods were noted and served as before", all),
				fmt.Sprintf("%s wrong behind %s of a pod's old sandbox", assertions.Plural(tally.Culprits(), "thing was", "things were"), assertions.Plural(all, "DEL", "DELs")))
		},
	}
}
