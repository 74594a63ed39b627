// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/slicewriter"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// KEP-1669, Motivation: "there can be a small window of time where old pods on
// a node are terminating (hence not "Ready") but the load balancer has not
// probed kube-proxy's healthCheckNodePort yet."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "endpoints.local-rollout",
	Title: "With externalTrafficPolicy Local and one pod on each node, a rolling update loses nothing behind a load balancer",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "KEP-1669", Section: "Proposal, all endpoints terminating on a node when traffic policy is \"Local\"", URL: "https://github.com/kubernetes/enhancements/tree/master/keps/sig-network/1669-proxy-terminating-endpoints",
		Quote: "When the traffic policy is \"Local\" and all endpoints are terminating within a single node, then traffic should be routed to any terminating endpoint that is ready on that node.",
	}, {
		Doc: "KEP-1669", Section: "Story 1", URL: "https://github.com/kubernetes/enhancements/tree/master/keps/sig-network/1669-proxy-terminating-endpoints",
		Quote: "Ideally the terminating pod should gracefully handle traffic to this node until either one of the conditions are satisfied.",
	}},
	Profile: spec.ServiceNetwork,
	Needs:   []spec.Feature{spec.Pods, spec.Services, spec.KubeProxy, spec.OutsideClient, spec.HTTP1},

	Why:    "With externalTrafficPolicy Local a node without a local pod has nobody to send a connection to. When its only pod terminates, the load balancer does not know yet: until it has looked often enough, it goes on sending. Unless the node falls back to the terminating pod, each rollout loses what comes in these seconds.",
	Causes: "EndpointSlices that lose a pod at its deletion, a service network that does not fall back to endpoints that terminate and serve, a pod that stops accepting before the load balancer has noticed, a load balancer that looks too seldom for the pod's drain.",
	Fix:    "Keep terminating endpoints in the EndpointSlices, with serving as long as the pod serves. Let the pod accept for longer than the load balancer's check period × failure threshold + P, and make the grace period longer than that.",

	Topology: behaviour.PerNode,
	Disrupt:  behaviour.RollingUpdate,
	// New connections at 60/s are 30/s for the node that is bare, and it stays
	// in for a second at least.
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Balanced, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 60},
		{Flow: flow.Flow{Path: flow.Balanced, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get, Delay: behaviour.RaceDelay}, Rate: 20},
		{Flow: flow.Flow{Path: flow.Balanced, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Get}, Rate: 40},
		{Flow: flow.Flow{Path: flow.HealthPort, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Check}, Rate: 5},
	},
	Checks:     []assertions.Check{assertions.LocalRollout(behaviour.BalancerPeriod, behaviour.BalancerThreshold)},
	BrokenBy:   []spec.Fault{slicewriter.DropTerminating},
	Resolution: 60 * time.Millisecond,
})
