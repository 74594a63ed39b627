// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/health"
	"github.com/lastcall-dev/lastcall/fixtures/nodeagent"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "node.probes-reach-the-app",
	Title: "The kubelet's probes reach the apps of a node while its proxy is dead",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "project", Section: "the redirect in the pod",
		Quote: "The kubelet's probes reach the app: a connection from the node's own address to a port that a probe of the pod names goes straight to it.",
	}, {
		Doc: "Kubernetes", Section: "Configure Liveness, Readiness and Startup Probes", URL: "https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/",
		Quote: "The kubelet uses liveness probes to know when to restart a container.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE, spec.Bench},

	Why:    "A probe that goes through the node's proxy asks two at once. When that is dead for some seconds, all apps of the node are not ready, and none of them is at fault; when it is for longer, the kubelet starts all of them anew, and what was an outage of new connections takes everything that the apps had in memory.",
	Causes: "The redirect takes all that comes in, or leaves alone an address that the kubelet does not probe from. Ports of probes that were read once, and are otherwise now.",
	Fix:    "Leave connections from the node's own addresses to the ports that the pod's probes name out of the redirect.",

	Topology:   behaviour.Staying,
	Disrupt:    behaviour.CrashNode,
	Traffic:    crossing,
	Checks:     []assertions.Check{ProbesPassBy()},
	BrokenBy:   []spec.Fault{nodeagent.RedirectsProbes},
	Resolution: 60 * time.Millisecond,
})

// leastLooks is how many looks of a kubelet's a gap has at least that shows anything.
const leastLooks = 2

// ProbesPassBy judges what the probes of a node's instances say while its proxy is dead.
func ProbesPassBy() assertions.Check {
	killed := byKill.floor()
	looks := assertions.Floor{Name: fmt.Sprintf("instances of the node that stayed, answered their probe when its proxy was killed, and were probed %d times or more while there was none", leastLooks), N: 1,
		Reason: "of the two instances on the node one is deleted meanwhile"}
	return assertions.Check{
		Name:     "probes of instances whose node's proxy is dead",
		Expected: "each is answered as before",
		Floors:   []assertions.Floor{killed, looks},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			on, gone := nodesOf(c), deleted(c)
			all, stayed := awayIn(c, byKill), 0
			for _, a := range all {
				tally.Span(a.killed, a.started)
				good := map[string]bool{} // by instance: it was ready at the SIGKILL
				for _, e := range c.Timeline.EventsOf(timeline.Health, "") {
					at, ends := gone[e.Subject]
					if on[e.Subject] != a.node || ends && at < a.started || e.Attrs["probe"] == health.LB || e.At >= a.started {
						continue
					}
					if e.At < a.killed {
						if e.Attrs["probe"] == health.Ready {
							good[e.Subject] = e.Attrs["good"] == "true"
						}
						continue
					}
					if e.Attrs["good"] == "true" || !good[e.Subject] {
						continue
					}
					// Who does not answer in time may have had no CPU; a refusal is an answer.
					text := fmt.Sprintf("%s: the %s probe of %s failed: %s", a.when(e.At), e.Attrs["probe"], e.Name, e.Attrs["why"])
					if e.Attrs["silent"] == "true" {
						tally.Late(c, e.At, e.Subject, "", "%s", text)
					} else {
						tally.Against(e.At, e.Subject, "", "%s", text)
					}
				}
				looked := map[string]int{} // at an instance while there was none
				for _, e := range c.Timeline.EventsOf(timeline.Looked, "") {
					if e.Attrs["probe"] == health.Ready && e.At >= a.killed && e.At < a.started {
						looked[e.Subject]++
					}
				}
				for uid, was := range good {
					if was && looked[uid] >= leastLooks {
						stayed++
					}
				}
			}
			tally.Count(killed, len(all))
			tally.Count(looks, stayed)
			return tally.Conclude(
				fmt.Sprintf("the probes of %s were answered as before while the node had no proxy", assertions.Plural(stayed, "instance", "instances")),
				fmt.Sprintf("%s failed while the node had no proxy", assertions.Plural(tally.Culprits(), "probe", "probes")))
		},
	}
}
