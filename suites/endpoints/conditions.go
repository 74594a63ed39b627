// SPDX-License-Identifier: Apache-2.0

// Package endpoints holds the behaviours of the service network.
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

// KEP-1672, Design Details: "any pod with a deletion timestamp will have
// condition.terminating = true", "any terminating pod must have
// condition.ready = false".
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "endpoints.conditions",
	Title: "An endpoint says terminating from its pod's deletion on, is not ready from then on, and never goes back",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "KEP-1672", Section: "Design Details", URL: "https://github.com/kubernetes/enhancements/tree/master/keps/sig-network/1672-tracking-terminating-endpoints",
		Quote: "any pod with a deletion timestamp will have condition.terminating = true; any terminating pod must have condition.ready = false; the new `serving` condition is set based on pod readiness regardless of terminating state.",
	}, {
		Doc: "EndpointSlice API", Section: "EndpointConditions.ready", URL: "https://kubernetes.io/docs/reference/kubernetes-api/service-resources/endpoint-slice-v1/",
		Quote: "In general, an endpoint should be marked ready if it is serving and not terminating, though this can be overridden in some cases, such as when the associated Service has set the publishNotReadyAddresses flag.",
	}},
	Profile: spec.ServiceNetwork,
	Labels:  []string{"core"},
	Needs:   []spec.Feature{spec.Pods, spec.Services},

	Why:    "Everything that routes by EndpointSlices (kube-proxy, meshes, gateways, load balancer controllers) decides by these three conditions. A wrong one sends traffic to pods that are about to end, or keeps it from the only ones that could serve.",
	Causes: "A controller of one's own that writes EndpointSlices, or a cluster whose endpoint slice controller lags.",
	Fix:    "Derive ready = publishNotReadyAddresses or (serving and not terminating); set terminating from the deletion timestamp and never take it back; serving is the pod's readiness. If the built-in controller writes the slices, look for what makes kube-controller-manager lag.",

	Topology: behaviour.SlowDrain,
	Disrupt:  behaviour.DeleteEach,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 40},
	},
	Checks:     []assertions.Check{assertions.LegalConditions()},
	BrokenBy:   []spec.Fault{slicewriter.TerminatingGoesBack, slicewriter.AlwaysReady},
	Resolution: 60 * time.Millisecond,
})
