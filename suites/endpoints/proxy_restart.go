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

// KEP-1672, Goals: "Provide a mechanism to track whether an endpoint is
// terminating by only watching the EndpointSlice API." What stands in the API
// is known to a proxy that has only just started.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "endpoints.proxy-restart",
	Title: "A restart of kube-proxy in mid drain loses no connection, and no terminating endpoint",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Section: "after KEP-1672, Goals", URL: "https://github.com/kubernetes/enhancements/tree/master/keps/sig-network/1672-tracking-terminating-endpoints",
		Quote: "Provide a mechanism to track whether an endpoint is terminating by only watching the EndpointSlice API.",
	}, {
		Doc: "KEP-1669", Section: "Proposal, all endpoints terminating and traffic policy is \"Cluster\"", URL: "https://github.com/kubernetes/enhancements/tree/master/keps/sig-network/1669-proxy-terminating-endpoints",
		Quote: "When the traffic policy is \"Cluster\" and all endpoints are terminating, then traffic should be routed to any terminating endpoint that is ready.",
	}},
	Profile: spec.ServiceNetwork,
	Needs:   []spec.Feature{spec.Pods, spec.Services, spec.HTTP1, spec.KubeProxy},

	Why:    "Node proxies are updated in the same minutes in which pods are moved. A proxy that keeps to itself which endpoints terminate forgets them when it restarts: clients of the last pods are refused although these still serve, and connections to them are cut.",
	Causes: "A proxy that writes its rules before it has read all EndpointSlices, one that keeps the terminating endpoints in its memory, or slices that no longer have them.",
	Fix:    "A proxy that stops must leave its rules in the kernel. One that starts must read all EndpointSlices before it writes any rule, take its knowledge from nothing else, and never drop established connections.",

	Topology: behaviour.FallbackLong,
	Disrupt:  behaviour.RestartProxies,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 30},
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Get}, Rate: 20},
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Slow, Takes: 8 * time.Second}, Rate: 5},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 10},
	},
	Checks:     []assertions.Check{assertions.SurvivesProxyRestart()},
	BrokenBy:   []spec.Fault{slicewriter.ForgetTerminating, slicewriter.DropTerminating},
	Resolution: 60 * time.Millisecond,
})
