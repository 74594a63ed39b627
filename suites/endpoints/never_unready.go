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

// KEP-1669, Handling terminating endpoints that are not ready: "traffic should
// not be routed to terminating pods if their readiness probe is failing, even
// if it is the only endpoints remaining."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "endpoints.never-unready",
	Title: "An endpoint that terminates and does not serve is never used, not even as the last one",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "KEP-1669", Section: "Handling terminating endpoints that are not ready", URL: "https://github.com/kubernetes/enhancements/tree/master/keps/sig-network/1669-proxy-terminating-endpoints",
		Quote: "It is worth noting that traffic should not be routed to terminating pods if their readiness probe is failing, even if it is the only endpoints remaining.",
	}},
	Profile: spec.ServiceNetwork,
	Needs:   []spec.Feature{spec.Pods, spec.Services, spec.HTTP1, spec.OutsideClient},

	Why:    "A failing readiness probe is how a pod says that it wants no more. If the fallback to terminating pods does not listen to it, a pod can't get rid of its clients, and they meet its end: a refusal at once is better than a connection to something that is about to leave.",
	Causes: "EndpointSlices whose `serving` is not the pod's readiness, or a service network that falls back on every terminating endpoint.",
	Fix:    "Set `serving` from the pod's Ready condition, before and after the deletion, and fall back only on endpoints that terminate and serve.",

	Topology: behaviour.Fallback,
	Disrupt:  behaviour.ScaleToZero,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 30},
		{Flow: flow.Flow{Path: flow.ServiceLocal, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 30},
		{Flow: flow.Flow{Path: flow.NodePort, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 30},
		{Flow: flow.Flow{Path: flow.NodePortLocal, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 30},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 10},
	},
	Checks:     []assertions.Check{assertions.NeverUnready()},
	BrokenBy:   []spec.Fault{slicewriter.AlwaysServing},
	Resolution: 60 * time.Millisecond,
})
