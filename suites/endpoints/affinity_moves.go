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

// No norm says how long affinity lasts when its pod terminates. The
// documentation promises "the same Pod each time", and KEP-1669 that traffic
// goes to endpoints that don't terminate, with no word of an exception.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "endpoints.affinity-moves",
	Title: "ClientIP affinity lets go of a terminating pod while ready ones exist",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc:   "project",
		Quote: "A client that ClientIP affinity ties to a pod is given to another one within P of the pod's termination.",
	}, {
		Doc: "Kubernetes documentation, Virtual IPs and Service Proxies", Section: "Session affinity", URL: "https://kubernetes.io/docs/reference/networking/virtual-ips/#session-affinity",
		Quote: "If you want to make sure that connections from a particular client are passed to the same Pod each time, you can select the session affinity based on the client's IP addresses by setting .spec.sessionAffinity to ClientIP for a Service (the default is None).",
	}, {
		Doc: "KEP-1669", Section: "Proposal, only some endpoints terminating when traffic policy is \"Cluster\"", URL: "https://github.com/kubernetes/enhancements/tree/master/keps/sig-network/1669-proxy-terminating-endpoints",
		Quote: "When the traffic policy is \"Cluster\" and some endpoints are terminating, all traffic should be routed to the ready endpoints that are not terminating..",
	}},
	Profile: spec.ServiceNetwork,
	Needs:   []spec.Feature{spec.Pods, spec.Services, spec.HTTP1},

	Why:    "Affinity lasts three hours by default, a terminating pod less than a minute. A client that is held to such a pod is still there when it ends, and then has nowhere to go until the rules change.",
	Causes: "A service network that looks up a client's pod before it looks at the pod's state, or EndpointSlices that go on saying ready.",
	Fix:    "The service network must forget the affinity to an endpoint that is no longer ready, and choose anew. See endpoints.conditions for what the EndpointSlices say.",

	Topology: behaviour.SlowDrain,
	Disrupt:  behaviour.DeleteEach,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Sticky, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 30},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 20},
	},
	Checks:     []assertions.Check{assertions.AffinityMoves()},
	BrokenBy:   []spec.Fault{slicewriter.StickyReady},
	Resolution: 60 * time.Millisecond,
})
