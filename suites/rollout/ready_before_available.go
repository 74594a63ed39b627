// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/slicewriter"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Teleport issue 13129: does minReadySeconds hold the traffic back, or the
// rollout? "When a pod is Ready, that is all it needs to be included with the
// matches for a service/endpoint."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "rollout.ready-before-available",
	Title: "A ready pod gets traffic during minReadySeconds, while the rollout waits until it is available",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "Deployment API", Section: "DeploymentSpec.minReadySeconds", URL: "https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/deployment-v1/",
		Quote: "Minimum number of seconds for which a newly created pod should be ready without any of its container crashing, for it to be considered available.",
	}, {
		Doc: "Kubernetes documentation", Section: "Pod conditions", URL: "https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-conditions",
		Quote: "`Ready`: the Pod is able to serve requests and should be added to the load balancing pools of all matching Services.",
	}, {
		Doc: "Teleport issue 13129", URL: "https://github.com/gravitational/teleport/issues/13129",
		Quote: "The service will have the ready pod added to it at the beginning of minReadySeconds, but the deployment will pause before it feels like that pod is truly available as far as the deployment or statefulset update is concerned.",
	}},
	Profile: spec.App,
	Needs:   []spec.Feature{spec.Pods, spec.Services, spec.HTTP},

	Why:    "minReadySeconds is the knob that paces a rollout: it gives a new pod time under real traffic before the next old pod goes. Without traffic in that time a bad version is not noticed until the old pods are gone, and then all clients meet it. If old pods are deleted before the time is over, the pause protects nobody.",
	Causes: "A controller of one's own that writes EndpointSlices by availability instead of readiness; a mesh or a load balancer controller that registers pods late; a deployment tool that deletes old pods as soon as the new ones are ready.",
	Fix:    "Let readiness alone decide about traffic, and leave pacing to whoever deletes the old pods: it must wait until the new pod has been ready for minReadySeconds. If readiness comes too early, mend the readiness probe.",

	Topology: behaviour.Rolling,
	Disrupt:  behaviour.RollingUpdate,
	// 100/s are 300 new connections within P of a readiness: one of nine pods
	// gets some 33 of them.
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 100},
	},
	Checks:     []assertions.Check{assertions.ServesOnceReady(), assertions.WaitsForAvailable()},
	BrokenBy:   []spec.Fault{slicewriter.OnlyAvailable, disrupt.RushesRollout},
	Resolution: 60 * time.Millisecond,
})
