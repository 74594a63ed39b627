// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"fmt"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/cni"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

var _ = behaviour.Register(called(behaviour.Behaviour{
	ID:    "cni.del-idempotent",
	Title: "DEL of a pod that has ended succeeds, however often it comes, without its network namespace and without what came of its ADD",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "CNI", Section: "section 2, DEL", URL: "https://github.com/containernetworking/cni/blob/spec-v1.1.0/SPEC.md#del-remove-container-from-network-or-un-apply-modifications",
		Quote: "Plugins should generally complete a DEL action without error even if some resources are missing.",
	}},

	Why:    "A runtime calls DEL again when it is not sure that the first one was done: after its own restart, and when the pod's sandbox is removed behind its stop. By then the network namespace is gone, and so is the result of ADD. A DEL that fails then is called for ever, and the pod stays.",
	Causes: "The plugin opens the network namespace before it looks whether there is something to do. It needs prevResult to know the pod. It takes it for an error that its own note of the pod is gone.",
	Fix:    "Go by a note of the plugin's own that ADD wrote. Where there is none the pod has ended: succeed.",

	Checks:   []assertions.Check{DelSucceedsAgain()},
	BrokenBy: []spec.Fault{cni.NeedsItsNamespace},
}))

// DelSucceedsAgain judges the DELs of pods whose agent and proxy are up, the first and the later ones.
func DelSucceedsAgain() assertions.Check {
	first := assertions.Floor{Name: "pods that the plugin knew, and that were ended a first time", N: 3, Reason: "three pods are ended three times each"}
	later := assertions.Floor{Name: "calls of DEL behind that, with neither namespace nor result", N: 6, Reason: "three pods are ended three times each"}
	return assertions.Check{
		Name:     "calls of DEL for a pod that has ended",
		Expected: fmt.Sprintf("each succeeds within %s, the first one and the later ones", bound),
		Floors:   []assertions.Floor{first, later},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all := callsOf(c, &tally, "DEL", call.well)
			known := map[string]bool{}
			again := 0
			for _, k := range all {
				switch {
				case !k.again():
					known[k.Name] = k.noted()
				case known[k.Name]:
					again++
				}
			}
			n := 0
			for _, k := range all {
				if k.again() && known[k.Name] {
					known[k.Name] = false
					n++
				}
			}
			tally.Count(first, n)
			tally.Count(later, again)
			slowest := ended(c, &tally, all)
			return tally.Conclude(
				fmt.Sprintf("all %d succeeded, %d of them behind the first of their pod, within %v", len(all), again, slowest),
				fmt.Sprintf("%d of %s failed, or came to no end", tally.Culprits(), assertions.Plural(len(all), "DEL", "DELs")))
		},
	}
}
