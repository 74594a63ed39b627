// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/fixtures/slicewriter"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// KEP-1669, Proposal: "When the traffic policy is "Cluster" and all endpoints
// are terminating, then traffic should be routed to any terminating endpoint
// that is ready." What the KEP calls ready here is `serving` in the API.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "endpoints.falls-back-to-terminating",
	Title: "When all endpoints terminate, those that still serve are used",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "KEP-1669", Section: "Proposal, all endpoints terminating and traffic policy is \"Cluster\"", URL: "https://github.com/kubernetes/enhancements/tree/master/keps/sig-network/1669-proxy-terminating-endpoints",
		Quote: "When the traffic policy is \"Cluster\" and all endpoints are terminating, then traffic should be routed to any terminating endpoint that is ready.",
	}, {
		Doc: "KEP-1669", Section: "Proposal, all endpoints terminating on a node when traffic policy is \"Local\"", URL: "https://github.com/kubernetes/enhancements/tree/master/keps/sig-network/1669-proxy-terminating-endpoints",
		Quote: "When the traffic policy is \"Local\" and all endpoints are terminating within a single node, then traffic should be routed to any terminating endpoint that is ready on that node.",
	}, {
		Doc: "Kubernetes documentation, Virtual IPs and Service Proxies", Section: "Traffic to terminating endpoints", URL: "https://kubernetes.io/docs/reference/networking/virtual-ips/#traffic-to-terminating-endpoints",
		Quote: "If there are local endpoints and all of them are terminating, then kube-proxy will forward traffic to those terminating endpoints.",
	}},
	Profile: spec.ServiceNetwork,
	Needs:   []spec.Feature{spec.Pods, spec.Services, spec.HTTP1, spec.OutsideClient},

	Why:    "When the last pods of a Service, or of a node, go before their successors are there, pods that drain are all that is left, and they could serve. Without the fallback every new connection is lost in that time, however well the pods drain.",
	Causes: "A controller that takes endpoints out of their slice at the deletion (the built-in one did before Kubernetes 1.22), or a service network that looks at `ready` alone (kube-proxy did before 1.26). With externalTrafficPolicy or internalTrafficPolicy Local, the end of a node's only pod is enough to be hit by it.",
	Fix:    "Keep terminating pods in their EndpointSlices with `serving` and `terminating`, and where no endpoint that the traffic policy allows is ready, route to those that terminate and serve.",

	Topology: behaviour.Fallback,
	Disrupt:  behaviour.ScaleToZero,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 30},
		{Flow: flow.Flow{Path: flow.ServiceLocal, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 30},
		{Flow: flow.Flow{Path: flow.NodePort, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 40},
		{Flow: flow.Flow{Path: flow.NodePortLocal, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 40},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 10},
	},
	Checks:     []assertions.Check{assertions.FallsBack()},
	BrokenBy:   []spec.Fault{slicewriter.DropTerminating, datapath.ForsakesEnding},
	Resolution: 60 * time.Millisecond,
})
