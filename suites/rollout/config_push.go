// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Kubernetes documentation, Updating a Deployment: "A Deployment's rollout is
// triggered if and only if the Deployment's Pod template (that is,
// `.spec.template`) is changed".
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "rollout.config-push",
	Title: "A configuration push that changes nothing drains nothing",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "Kubernetes documentation", Section: "Updating a Deployment", URL: "https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#updating-a-deployment",
		Quote: "A Deployment's rollout is triggered if and only if the Deployment's Pod template (that is, `.spec.template`) is changed, for example if the labels or container images of the template are updated. Other updates, such as scaling the Deployment, do not trigger a rollout.",
	}, {
		Doc:   "project",
		Quote: "A configuration push that changes nothing drains nothing.",
	}},
	Profile: spec.App,
	Needs:   []spec.Feature{spec.Pods, spec.Services, spec.HTTP},

	Why:    "GitOps controllers and control planes push the same configuration again and again, at every sync and every restart of their own. If each push ends connections or replaces pods, the system drains all day long, and nobody knows where the latency spikes come from.",
	Causes: "A template that a chart renders anew each time (a timestamp, a random value, the order of a list), a hash over metadata that configures nothing, a proxy that swaps its listeners at each push without comparing.",
	Fix:    "Compare what arrives with what is in effect, and act on the difference only. In charts, let an annotation of the pod template depend on the configuration's content and on nothing else.",

	Topology: behaviour.SlowDrain,
	Disrupt:  behaviour.PushNothing,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 50},
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Get}, Rate: 40},
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.H2C, Conns: flow.Reused, Op: flow.Get}, Rate: 10},
	},
	Checks:     []assertions.Check{assertions.PushDrainsNothing()},
	BrokenBy:   []spec.Fault{disrupt.PushRestarts},
	Resolution: 60 * time.Millisecond,
})
