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
	ID:    "cni.versions",
	Title: "The plugin serves each version of the CNI specification that it claims, and answers in that version",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "CNI", Section: "section 5, Result Types", URL: "https://github.com/containernetworking/cni/blob/spec-v1.1.0/SPEC.md#section-5-result-types",
		Quote: "cniVersion: The same version supplied on input - the string \"1.1.0\"",
	}},

	Why:    "A cluster's list of plugins has one version, which is the oldest that one of them needs: who joins the list is asked in that. A plugin that claims a version and can't serve it has no pod of the node begin; one that answers in another version gives what comes behind it a result that it can't read.",
	Causes: "The plugin is tried in one version only. It prints what its library's newest types are, without the way back. Its CHECK or DEL reads prevResult as one version's.",
	Fix:    "Print the result in the version of the configuration, and claim no version in which ADD, CHECK and DEL were not tried.",

	Checks:   []assertions.Check{EachVersionIsServed()},
	BrokenBy: []spec.Fault{cni.AnswersInItsOwn, cni.DropsInterfaces, cni.ChecksNothing},
}))

// EachVersionIsServed judges ADD, CHECK and DEL in each version that the plugin claims.
func EachVersionIsServed() assertions.Check {
	claimed := assertions.Floor{Name: "versions of the specification that the plugin claims", N: 1, Reason: "a plugin that claims none is never called"}
	served := assertions.Floor{Per: "version", Name: "kinds of calls in that version, but for CHECK", N: 2, Reason: "there are ADD and DEL in all of them"}
	noticed := assertions.Floor{Per: "version", Name: "calls of CHECK in that version for a pod whose redirect was gone, from 0.4.0 on", N: 1, Reason: "it is taken away, and asked for, once"}
	checked := assertions.Floor{Per: "version", Name: "calls of CHECK in that version, from 0.4.0 on", N: 1, Reason: "there is none before"}
	return assertions.Check{
		Name:     "ADD, CHECK and DEL in each version that is claimed",
		Expected: "each succeeds, CHECK from 0.4.0 on, and the result of ADD is of that version, and has all of the one before it; CHECK fails for a pod whose connections nothing redirects any more",
		Floors:   []assertions.Floor{claimed, served, checked, noticed},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			var all []string
			for _, k := range callsOf(c, &tally, "VERSION", nil) {
				if k.failed != "" {
					k.against(&tally)
				}
				all = append(all, strings.Fields(k.Attrs["versions"])...)
			}
			tally.Count(claimed, len(all))
			total := 0
			if !slices.ContainsFunc(all, cni.HasCheck) {
				for _, none := range []assertions.Floor{checked, noticed} {
					none.N = 0
					tally.Count(none, 0)
				}
			}
			for _, v := range all {
				kinds := 0
				for _, command := range []string{"ADD", "CHECK", "DEL"} {
					calls := callsOf(c, &tally, command, func(k call) bool { return k.Attrs["version"] == v })
					switch {
					case command == "CHECK" && cni.HasCheck(v):
						bare := 0
						for _, k := range calls {
							if k.Attrs["bare"] != "" {
								bare++
							}
						}
						tally.Least(checked, v, len(calls)-bare)
						tally.Least(noticed, v, bare)
					case command != "CHECK" && len(calls) > 0:
						kinds++
					}
					total += len(calls)
					for _, k := range calls {
						switch got, lacks := k.Attrs["result"], k.Attrs["lacks"]; {
						case k.Attrs["bare"] != "":
							if k.failed == "" {
								tally.Against(k.At, k.Name, "", "%v: nothing redirected the pod's connections any more, and it succeeded", k)
							}
						case k.failed != "":
							k.against(&tally)
						case command == "ADD" && got != v:
							tally.Against(k.At, k.Name, "", "%v: the result is of version %q", k, got)
						case lacks != "":
							tally.Against(k.At, k.Name, "", "%v: the result lacks the %s of the one before it", k, strings.ReplaceAll(lacks, " ", " and the "))
						}
					}
				}
				tally.Least(served, v, kinds)
			}
			return tally.Conclude(
				fmt.Sprintf("all %d calls came out as they should, in %s: %s", total, assertions.Plural(len(all), "version", "versions"), strings.Join(all, ", ")),
				fmt.Sprintf("%d of %s came out otherwise, or had another result", tally.Culprits(), assertions.Plural(total, "call", "calls")))
		},
	}
}
