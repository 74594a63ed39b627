// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/cni"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "cni.del-quick",
	Title: "With its node proxy up, the mesh's plugin adds less than half a second to a pod's end",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "project", Quote: "With the node proxy up, DEL adds less than 500 ms to a pod's end: deletion shouldn't be slow.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "The runtime removes a pod's network before the pod is gone, and waits for each plugin. What a plugin takes is added to the end of every pod on the node, to each step of a rolling update, and to a node's drain.",
	Causes: "The plugin waits for a drain that has nothing left to wait for: the app has exited, and what was open with it has ended. Or it asks the API server, or waits for an agent that is busy with another pod.",
	Fix:    "Tell the peers of all tunnels at once, wait until their kernels have it, and answer; bound the rest to less than half a second.",

	Topology:   behaviour.OnNodes,
	Disrupt:    behaviour.EndBoth,
	Traffic:    behaviour.NodeTraffic,
	Checks:     []assertions.Check{DelIsQuick()},
	BrokenBy:   []spec.Fault{nodeproxy.Dawdles, nodeproxy.RefusesEnds},
	Resolution: 60 * time.Millisecond,
})

// quick is how long a DEL may take.
const quick = 500 * time.Millisecond

// DelIsQuick judges how long each pod's DEL took: as its runtime saw it on the bench, and in a cluster, where no runtime tells,
// as the plugin notes it, without its process's own start.
func DelIsQuick() assertions.Check {
	asked := assertions.Floor{Per: "termination", Name: "calls of DEL with the node proxy up", N: 1, Reason: "a pod has one end"}
	return assertions.Check{
		Name:     "how long the plugin's DEL takes",
		Expected: fmt.Sprintf("it has the pod's peers told, and succeeds, within %s", quick),
		Floors:   []assertions.Floor{asked},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			var all int
			var slowest time.Duration
			by := ""
			for t := range tally.Terminations(c) {
				n := 0
				for _, e := range c.Timeline.EventsOf(timeline.CNIDel, t.UID) {
					took, err := time.ParseDuration(e.Attrs["took"])
					if err != nil {
						tally.Doubt("%s: nobody measured how long its DEL took", t.Name)
						continue
					}
					n++
					if e.Source == cni.Source {
						by = ", by the plugin's own note"
					}
					tally.Span(e.At-took, e.At)
					slowest = max(slowest, took)
					if why := e.Attrs["unread"]; why != "" {
						tally.Doubt("%s: nobody read whether its peers were told: %s", t.Name, why)
					}
					switch why := e.Attrs["error"]; {
					case why != "":
						tally.Against(e.At, t.Name, "", "%s: DEL failed: %s", t.Clock(e.At), why)
					case took > quick:
						tally.LateOn(c, t.Node, e.At, t.Name, "", "%s: DEL had taken %s%s", t.Clock(e.At), took.Round(time.Millisecond), untold(e))
					case untold(e) != "":
						tally.Against(e.At, t.Name, "", "%s: DEL was done%s", t.Clock(e.At), untold(e))
					}
				}
				all += n
				tally.Least(asked, t.Name, n)
			}
			return tally.Conclude(
				fmt.Sprintf("%s took %s at most%s", assertions.Plural(all, "DEL", "DELs"), slowest.Round(time.Millisecond), by),
				fmt.Sprintf("%d of %s failed, had nobody told, or took longer than %s%s", tally.Culprits(), assertions.Plural(all, "DEL", "DELs"), quick, by))
		},
	}
}

// untold says of a DEL why the pod's peers may not have been told; "": they were.
func untold(e timeline.Event) string {
	if why := e.Attrs["untold"]; why != "" {
		return ", and its peers may not have been told: " + why
	}
	return ""
}
