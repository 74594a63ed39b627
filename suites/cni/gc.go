// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/cni"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

var _ = behaviour.Register(called(behaviour.Behaviour{
	ID:    "cni.gc",
	Title: "GC ends the pods that the runtime does not name any more, and nobody else",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "CNI", Section: "section 2, GC", URL: "https://github.com/containernetworking/cni/blob/spec-v1.1.0/SPEC.md#gc-clean-up-any-stale-resources",
		Quote: "A plugin SHOULD remove as many stale resources as possible. For example, a plugin should remove any IPAM reservations associated with attachments not in the provided list.",
	}},

	Why:    "A runtime that loses its own notes, at a crash or with a node's disk, never calls DEL for the pods that it had. What the mesh holds of them stays until GC: listeners, certificates, an address that peers still tunnel to. A GC that ends too much cuts pods that live.",
	Causes: "The plugin has no GC. It compares by the container's ID alone, or by names that another network of the node shares, and ends pods of that too.",
	Fix:    "Note each attachment with its network, container and interface; in GC end those of this network that are not in the runtime's list, as DEL does.",

	Checks:   []assertions.Check{StaleIsCollected()},
	BrokenBy: []spec.Fault{cni.CollectsAll, cni.CollectsNothing},
}))

// StaleIsCollected judges what a GC leaves.
func StaleIsCollected() assertions.Check {
	stale := assertions.Floor{Name: "pods that the plugin knew, and that the runtime did not name any more", N: 2, Reason: "two are made for that"}
	there := assertions.Floor{Name: "other pods that the plugin knew", N: 3, Reason: "two that the runtime names, and one of another network"}
	return assertions.Check{
		Name:     "what is left of pods behind GC",
		Expected: "no note and no socket of those that the runtime does not name any more; the others are noted and served as before",
		Floors:   []assertions.Floor{stale, there},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all := callsOf(c, &tally, "GC", nil)
			gone, kept := 0, 0
			for _, k := range all {
				of := func(key string) []string { return strings.Fields(k.Attrs[key]) }
				has := func(key, pod string) bool { return slices.Contains(of(key), pod) }
				if k.failed != "" {
					k.against(&tally)
				}
				for _, pod := range of("stale") {
					if !has("before", pod) {
						continue
					}
					gone++
					if has("noted", pod) || has("served", pod) {
						tally.Against(k.At, pod, "", "behind GC %s, which is no more, was still noted or served", pod)
					}
				}
				for _, pod := range of("there") {
					if !has("before", pod) {
						continue
					}
					kept++
					if !has("noted", pod) || !has("served", pod) {
						tally.Against(k.At, pod, "", "behind GC %s, which is there, was not noted, or not served", pod)
					}
				}
			}
			tally.Count(stale, gone)
			tally.Count(there, kept)
			return tally.Conclude(
				fmt.Sprintf("GC ended all %d that were stale, and none of %d others", gone, kept),
				fmt.Sprintf("%s not as the runtime had said", assertions.Plural(tally.Culprits(), "pod was", "pods were")))
		},
	}
}
