// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/nodeagent"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "node.snapshot-drops-gone",
	Title: "A pod that was deleted while its node's proxy or agent was away is gone for good, and dropped when that is back",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Section: "after seed 1", Quote: "A pod that was deleted while the node proxy was away is dropped when the proxy is back: no listener, no name, no pending acknowledgement.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE, spec.Bench},

	Why:    "The word of a pod's end is said once, by its runtime, to who is there. Whoever was away hears of it never again: what is kept for such a pod, its network, its listeners, its certificate that is renewed again and again, is kept until the node goes. An agent that waits for somebody to acknowledge it holds up all that comes behind; a removal that waits for who is away holds up the pod.",
	Causes: "An agent that keeps a pod until a proxy has acknowledged its end, and names it to the next one. A proxy that goes by what it is told to remove, and not by what a snapshot leaves out. A DEL without a bound.",
	Fix:    "Take a pod out of what the agent holds whoever is there to hear of it, and close its network's descriptor. In the proxy, end each workload that a snapshot has not named. Bound DEL.",

	Topology:   behaviour.Staying,
	Disrupt:    behaviour.CrashNode,
	Traffic:    crossing,
	Checks:     []assertions.Check{DroppedWhenBack()},
	BrokenBy:   []spec.Fault{nodeagent.NamesTheGone, nodeproxy.KeepsUnnamed},
	Resolution: 60 * time.Millisecond,
})

// How long the runtime's calls may take.
const (
	// delWithin is for a DEL while somebody is away: what cni.del-agent-down allows.
	delWithin = 6 * time.Second
	// calledWithin is for ADD and DEL when all are back.
	calledWithin = 2 * time.Second
)

// toldSockets is how many sockets a finding names.
const toldSockets = 5

// DroppedWhenBack judges what is left of pods that were deleted while their node's proxy or agent was away.
func DroppedWhenBack() assertions.Check {
	gone := assertions.Floor{Per: "who was away", Name: "pods of the node that were deleted meanwhile, and at which somebody looked when it was back", N: 1, Reason: "one is deleted"}
	calls := assertions.Floor{Per: "who was away", Name: "calls of ADD and DEL for another pod of the node when it was back", N: 2, Reason: "one of each"}
	return assertions.Check{
		Name: "pods that were deleted while their node's proxy or agent was away",
		Expected: fmt.Sprintf("each is gone within %s of its app's end, before that is back; later no socket is held in its network, neither agent nor proxy has that open, the agent names it to nobody, and another pod's ADD and DEL take less than %s each",
			delWithin, calledWithin),
		Floors: []assertions.Floor{awayFloor, gone, calls},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all := awayIn(c, byKill, agentKilled)
			tally.Count(awayFloor, len(all))
			said := ""
			total, wrong, late := 0, 0, 0
			for i, a := range all {
				until := time.Duration(math.MaxInt64)
				if i+1 < len(all) {
					until = all[i+1].killed
				}
				n := 0
				for _, e := range c.Timeline.EventsOf(timeline.NodeHolds, "") {
					if e.Node != a.node || e.At < a.back || e.At >= until {
						continue
					}
					n++
					before := tally.Culprits()
					tally.Span(a.killed, e.At)
					took, ended := goneAfter(c, e.Subject)
					switch {
					case !ended:
						tally.Against(e.At, e.Name, "", "the %s was away: %s was not gone %s", a.who, e.Name, a.when(e.At))
					case took > delWithin:
						tally.Late(c, e.At, e.Name, "", "the %s was away: %s was gone %s after its app had exited", a.who, e.Name, short(took))
					}
					if held := strings.Fields(e.Attrs["held"]); len(held) > 0 {
						slices.SortFunc(held, func(a, b string) int { return strings.Compare(b, a) }) // who listens comes first
						tally.Against(e.At, e.Name, "", "the %s was away: %s somebody held %s in the network of %s: %s",
							a.who, a.when(e.At), assertions.Plural(len(held), "socket", "sockets"), e.Name, strings.Join(held[:min(len(held), toldSockets)], ", "))
					}
					for _, who := range strings.Fields(e.Attrs["keeps"]) {
						tally.Against(e.At, e.Name, "", "the %s was away: %s %s had the network of %s open", a.who, a.when(e.At), who, e.Name)
					}
					if e.Attrs["named"] != "false" {
						tally.Against(e.At, e.Name, "", "the %s was away: %s the agent named %s to a proxy that asked for all", a.who, a.when(e.At), e.Name)
					}
					if tally.Culprits() > before {
						wrong++
					}
					said += fmt.Sprintf("; the %s was away: the pod was gone %s after its app had exited", a.who, short(took))
				}
				tally.Least(gone, a.name, n)
				total += n
				n = 0
				for _, e := range c.Timeline.EventsOf(timeline.CNICall, "") {
					if e.Node != a.node || e.At < a.back || e.At >= until {
						continue
					}
					n++
					took, err := time.ParseDuration(e.Attrs["took"])
					before := tally.Culprits()
					switch {
					case e.Attrs["error"] != "":
						tally.Against(e.At, e.Name, "", "the %s was away: %s %s of another pod failed: %s", a.who, a.when(e.At), e.Attrs["command"], e.Attrs["error"])
					case err != nil || took > calledWithin:
						tally.Late(c, e.At, e.Name, "", "the %s was away: %s %s of another pod had taken %s", a.who, a.when(e.At), e.Attrs["command"], e.Attrs["took"])
					}
					late += tally.Culprits() - before
				}
				tally.Least(calls, a.name, n)
			}
			return tally.Conclude(
				fmt.Sprintf("nothing was left of %s", assertions.Plural(total, "pod", "pods"))+said,
				fmt.Sprintf("%d of %s left something behind, and %s held up", wrong, assertions.Plural(total, "pod", "pods"), assertions.Plural(late, "call for another one was", "calls for others were"))+said)
		},
	}
}

// goneAfter is how long after its app's exit a pod was gone.
func goneAfter(c assertions.Case, uid string) (time.Duration, bool) {
	for _, e := range c.Terminations {
		if e.UID == uid && e.Exit.Known() && e.Net.Known() {
			return e.Net.At - e.Exit.At, true
		}
	}
	return 0, false
}
