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

// KEP-1669, Design Details: "kube-proxy's node port health check should fail if
// there are only `Terminating` endpoints, regardless of their readiness". The
// status is kube-proxy's own: 503, whatever the KEP's motivation says of 500.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "endpoints.healthcheck-nodeport",
	Title: "When all of a node's endpoints terminate, its health check port says 503 and its node port still serves",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "KEP-1669", Section: "Design Details, kube-proxy", URL: "https://github.com/kubernetes/enhancements/tree/master/keps/sig-network/1669-proxy-terminating-endpoints",
		Quote: "In addition, kube-proxy's node port health check should fail if there are only `Terminating` endpoints, regardless of their readiness in order to: remove the node from a loadbalancer's node pool as quickly as possible; gracefully handle any new connections that arrive before the loadbalancer is able to remove the node",
	}},
	Profile: spec.ServiceNetwork,
	Needs:   []spec.Feature{spec.Pods, spec.Services, spec.HTTP1, spec.OutsideClient},

	Why:    "With externalTrafficPolicy Local a load balancer polls each node's health check port, and takes a node out after some failed polls in a row. Connections go on coming until then: if the health check fails only when the node has nothing left to serve with, or the node port stops with it, they are lost.",
	Causes: "EndpointSlices that don't say that pods terminate, or a service network that counts terminating endpoints as ready ones.",
	Fix:    "Answer 503 as soon as the node has no endpoint that is ready, and go on serving from those that terminate. Drain for longer than the balancer's period times its threshold.",

	Topology: behaviour.Fallback,
	Disrupt:  behaviour.ScaleToZero,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.NodePortLocal, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 30},
		{Flow: flow.Flow{Path: flow.HealthPort, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Check}, Rate: 10},
	},
	Checks:     []assertions.Check{assertions.NodeLeavesBalancer()},
	BrokenBy:   []spec.Fault{slicewriter.NoTerminating},
	Resolution: 60 * time.Millisecond,
})
