// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/fixtures/zds"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
	"github.com/lastcall-dev/lastcall/suites/tunnel"
)

var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "node.removal-acknowledged",
	Title: "Who removes a workload from its node's proxy learns of it when all its tunnels have ended, not before",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "CNI Specification 0.4.0", Section: "Parameters", URL: "https://github.com/containernetworking/cni/blob/spec-v0.4.0/SPEC.md#parameters",
		Quote: "Plugins should generally complete a DEL action without error even if some resources are missing.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "Behind the removal of a workload comes that of its network. A removal that returns early leaves the proxy sending into an interface that is gone, on tunnels whose peers hear nothing; and nobody can see from outside that it was too early.",
	Causes: "The proxy acknowledges the message when it has read it, and drains in the background.",
	Fix:    "Acknowledge when the last tunnel of the workload has ended, or was cut at the bound.",

	Topology:   behaviour.OnNodes,
	Disrupt:    behaviour.EndBoth,
	Traffic:    behaviour.NodeTraffic,
	Checks:     []assertions.Check{EndedWhenAcknowledged()},
	BrokenBy:   []spec.Fault{nodeproxy.AcknowledgesFirst, nodeproxy.RefusesEnds},
	Resolution: 60 * time.Millisecond,
})

// readWithin is how long after it has come the end of a tunnel is read by our own client.
const readWithin = 100 * time.Millisecond

// EndedWhenAcknowledged judges the tunnels that stood when the app had exited: by the end of DEL each has
// ended, in whatever way. Where the plugin says that nobody acknowledged the removal to whoever waited for that, it was no
// acknowledgement that came early: but who waits has learnt nothing, which the rule is about.
func EndedWhenAcknowledged() assertions.Check {
	stood := assertions.ConnectionsPerTermination(orTold)
	return assertions.Check{
		Name:     "what still stands when the removal is acknowledged",
		Expected: "the removal is acknowledged, and each tunnel that stood when the app had exited has ended by the end of DEL",
		Floors:   []assertions.Floor{stood},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all, never, stands := 0, 0, 0
			for t := range tally.Terminations(c) {
				calls := c.Timeline.EventsOf(timeline.CNIDel, t.UID)
				if !t.Exit.Known() || len(calls) == 0 {
					tally.Doubt("%s: nobody saw when its app had exited, or when its removal was done", t.Name)
					continue
				}
				done, untold := calls[0].At, calls[0].Attrs["untold"]
				tally.Span(t.Exit.At, done)
				if why := calls[0].Attrs["unread"]; why != "" {
					tally.Doubt("%s: nobody read whether its removal was acknowledged: %s", t.Name, why)
				}
				if untold != "" {
					never++
					const text = "%s: its agent waited for the acknowledgement of its removal in vain: %s"
					// What came before the agent gives up is an answer, which no lack of CPU makes.
					if took, err := time.ParseDuration(calls[0].Attrs["took"]); err == nil && took < zds.DefaultAckWithin {
						tally.Against(done, t.Name, "", text, t.Clock(done), untold)
					} else {
						tally.Late(c, done, t.Name, "", text, t.Clock(done), untold)
					}
				}
				n := 0
				for _, k := range tunnel.To(c, t) {
					if toldEarly(k, t) {
						n++
						continue
					}
					if !k.StoodAt(t.Exit.At) {
						continue
					}
					n++
					ended := k.Left()
					if end, over := k.Ended(); over {
						ended = min(ended, end.At)
					}
					if ended > done+readWithin && untold == "" && !leftBy(c, k, done) {
						stands++
						tally.Late(c, done, t.Name, k.Samples[0].ID, "%s: %s stood when the removal was acknowledged", t.Clock(done), k)
					}
				}
				all += n
				tally.Least(stood, t.Name, n)
			}
			return tally.Conclude(
				fmt.Sprintf("all %d %s had ended when the removal was acknowledged", all, orTold),
				fmt.Sprintf("%d of %d %s, stood when the removal was acknowledged, and %s never acknowledged", stands, all, orTold, assertions.Plural(never, "removal was", "removals were")))
		},
	}
}
