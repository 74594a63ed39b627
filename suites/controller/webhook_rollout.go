// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/controller"
	"github.com/lastcall-dev/lastcall/fixtures/membership"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Kubernetes documentation, Dynamic Admission Control: "Fail means that an error calling the webhook
// causes the admission to fail and the API request to be rejected."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "controller.webhook-rollout",
	Title: "While a control plane is replaced, no pod is refused, and none comes up outside of the mesh",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "Kubernetes documentation", Section: "Dynamic Admission Control, Failure policy", URL: "https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#failure-policy",
		Quote: "Fail means that an error calling the webhook causes the admission to fail and the API request to be rejected.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Pods, spec.Services},

	Why:    "A roll-out of an app and one of its mesh often come together. A pod that is refused holds the app's roll-out up; one that comes up without its sidecar, or unknown to its node's proxy, speaks plain text, past every policy, for as long as it lives.",
	Causes: "A webhook that closes at SIGTERM under failurePolicy Fail (refused) or Ignore (bare); one that answers while it shuts down, and has lost what it injects.",
	Fix:    "Two replicas, failurePolicy Fail, a listener that stays open for P after SIGTERM, and answers until then as before.",

	Topology: behaviour.Controlling,
	Disrupt:  behaviour.DeleteBoth,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.TLS1, Conns: flow.New, Op: flow.Get}, Rate: 25},
	},
	Checks:     []assertions.Check{Injects()},
	BrokenBy:   []spec.Fault{controller.WebhookClosesAtSigterm, controller.InjectsNothing, controller.ForgetsNodes},
	Resolution: 200 * time.Millisecond,
})

// Injects judges that each pod that is tried between the begin of a replica's end and its exit + P comes with its
// sidecar. That begin is the earliest that D may be: a controller says nothing of it, and no pod may be refused before. What
// is tried, the stage tells (timeline.PodTried).
func Injects() assertions.Check {
	tried := assertions.Floor{Per: "termination", Name: "pods that were tried from its end's begin to its exit + P", N: 100,
		Reason: "the stage tries twenty a second, by the way that every pod of the mesh takes",
	}
	ofNodes := assertions.Floor{Per: "termination", Name: "of these, pods that their nodes' proxies are to serve", N: 50, Reason: "every second one"}
	return assertions.Check{
		Name:     "pods that are made while a replica goes",
		Expected: "each is admitted, with its sidecar, or with the annotation by which its node's plugin goes",
		Floors:   []assertions.Floor{tried, ofNodes},
		Needs:    []assertions.Evidence{assertions.Tried},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			pods := c.Timeline.EventsOf(timeline.PodTried, "")
			all, bad := 0, 0
			// An older recording has a sidecar's alone.
			ofNodes, said := ofNodes, slices.ContainsFunc(pods, func(e timeline.Event) bool { return e.Attrs["dataplane"] != "" })
			for t := range tally.Terminations(c) {
				if !t.Exit.Known() {
					tally.Doubt("nobody saw %s exit", t.Name)
					continue
				}
				end := t.Exit.At + c.P
				begin := t.Earliest()
				tally.Span(begin, end)
				n, nodes := 0, 0
				for _, e := range pods {
					if e.At < begin || e.At > end {
						continue
					}
					n++
					what := "a sidecar"
					if e.Attrs["dataplane"] == membership.NodeDataplane {
						nodes++
						what = "the annotation that has its node's proxy serve it"
					}
					switch e.Attrs["result"] {
					case timeline.TriedRefused:
						bad++
						tally.Late(c, e.At, t.Name, "", "%s: a pod was refused, after %s: %s", t.Clock(e.At), e.Err.Round(time.Millisecond), e.Attrs["why"])
					case timeline.TriedBare:
						bad++
						// A machine without time has the webhook answer late or never, and no pod comes bare of that: it is refused.
						tally.Against(e.At, t.Name, "", "%s: a pod was made without %s", t.Clock(e.At), what)
					}
				}
				all += n
				tally.Least(tried, t.Name, n)
				if !said {
					ofNodes.N = 0
				}
				tally.Least(ofNodes, t.Name, nodes)
			}
			return tally.Conclude(
				fmt.Sprintf("each of %s came as one of the mesh", assertions.Plural(all, "pod", "pods")),
				fmt.Sprintf("%d of %s did not", bad, assertions.Plural(all, "pod", "pods")))
		},
	}
}
