// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "sidecar.probes-reach-the-app",
	Title: "The kubelet's probes of an app are answered by the app, also when its sidecar is dead",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "project", Section: "the redirect in the pod",
		Quote: "The kubelet's probes reach the app: a connection from the node's own address to a port that a probe of the pod names goes straight to it.",
	}, {
		Doc: "Kubernetes", Section: "Configure Liveness, Readiness and Startup Probes", URL: "https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/",
		Quote: "The kubelet uses readiness probes to know when a container is ready to start accepting traffic.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Pods, spec.Services, spec.HTTP},

	Why:    "A probe that goes through the sidecar asks two at once, and the app is held to answer for both. When the sidecar starts anew, or drains before its app, the kubelet takes the app for not ready, or restarts one that is well; and what it says of the app while the pod ends is what its sidecar can do.",
	Causes: "The redirect takes all that comes in. The probes were rewritten to a port of the sidecar's, which asks the app.",
	Fix:    "Leave connections from the node's own addresses to the ports that the pod's probes name out of the redirect.",

	Topology:   behaviour.BesideNative,
	Disrupt:    behaviour.BereaveEach,
	Traffic:    bereft,
	Checks:     []assertions.Check{ProbesOutlast()},
	BrokenBy:   []spec.Fault{sidecar.ProbesGoThrough},
	Resolution: 100 * time.Millisecond,
})

// ProbesOutlast judges what the readiness probe of an app says from its sidecar's death until the app itself is not ready any
// more, by what the kubelet says of the app's container: to the pod, and to its endpoint, its dead sidecar's own readiness counts too.
func ProbesOutlast() assertions.Check {
	probed := assertions.Floor{Per: "termination", Name: "whole seconds from the death of its sidecar until the app said itself that it is not ready, of one whose container was ready", N: 2,
		Reason: "its kubelet asks each second, and takes one failure for an answer"}
	return assertions.Check{
		Name:     "readiness probes of an app whose sidecar was killed",
		Expected: "the app's container is ready until the app says itself that it is not",
		Floors:   []assertions.Floor{probed},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all, app := 0, appContainer(c)
			for t := range tally.Terminations(c) {
				killed, death, why := bereaved(c, t)
				unready := saysUnready(c, t)
				switch {
				case why != "":
					tally.Doubt("%s", why)
					continue
				case unready == 0:
					tally.Doubt("%s never said until when it was ready", t.Name)
					continue
				}
				all++
				tally.Span(killed, unready)
				ready, failed := false, false
				for _, e := range c.Timeline.EventsOf(timeline.ContainerReady, t.UID) {
					if e.Attrs["container"] != app {
						continue
					}
					is := e.Attrs["ready"] == "true"
					switch {
					case e.At < killed:
						ready = is
					case ready && !is && !failed && e.At < unready:
						failed = true
						tally.Late(c, e.At, t.Name, "", "%s: its container was not ready any more, %s after its sidecar was killed and %s before the app was not",
							t.Clock(e.At), (e.At - killed).Round(time.Millisecond), (unready - e.At).Round(time.Millisecond))
					}
				}
				n := 0
				if ready {
					n = max(0, int((unready-death.At-death.Err)/time.Second))
				}
				tally.Least(probed, t.Name, n)
			}
			return tally.Conclude(
				fmt.Sprintf("the containers of all %d were ready until the app was not", all),
				fmt.Sprintf("%d of %s not ready any more while the app was", tally.Culprits(), assertions.Plural(all, "container was", "containers were")))
		},
	}
}

// saysUnready is when an instance that ends said itself that it is not ready any more; 0: it never did.
func saysUnready(c assertions.Case, t assertions.Ending) time.Duration {
	for _, e := range c.Timeline.EventsOf(timeline.DrainUnready, t.UID) {
		if e.At >= t.Earliest() {
			return e.At
		}
	}
	return 0
}
