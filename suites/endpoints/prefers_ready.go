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

// KEP-1669, Proposal: "When the traffic policy is "Cluster" and some
// endpoints are terminating, all traffic should be routed to the ready
// endpoints that are not terminating.."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "endpoints.prefers-ready",
	Title: "While ready endpoints exist, no new connection goes to an endpoint that has been terminating for longer than P",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "KEP-1669", Section: "Proposal, only some endpoints terminating when traffic policy is \"Cluster\"", URL: "https://github.com/kubernetes/enhancements/tree/master/keps/sig-network/1669-proxy-terminating-endpoints",
		Quote: "When the traffic policy is \"Cluster\" and some endpoints are terminating, all traffic should be routed to the ready endpoints that are not terminating..",
	}},
	Profile: spec.ServiceNetwork,
	Labels:  []string{"core"},
	Needs:   []spec.Feature{spec.Pods, spec.Services, spec.HTTP1},

	Why:    "A pod plans to accept for P after it was told to stop. Clients whom the service network still sends there later find a closed listener: their connections are refused, in every rollout.",
	Causes: "kube-proxy starved of CPU, a watch that lags, a very large number of Services with slow syncs, or EndpointSlices that go on saying ready.",
	Fix:    "Look at the measured propagation in the report, and at kube-proxy's sync durations (kubeproxy_sync_proxy_rules_duration_seconds). Give kube-proxy and kube-controller-manager CPU, lower kube-proxy's minSyncPeriod, and stop whatever else writes the EndpointSlices. If the cluster can't be faster, set --p to what it takes, and let your pods accept for that long.",

	Topology: behaviour.SlowDrain,
	Disrupt:  behaviour.DeleteEach,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 60},
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Get}, Rate: 40},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 50},
	},
	Checks:     []assertions.Check{assertions.PrefersReady()},
	BrokenBy:   []spec.Fault{slicewriter.AlwaysReady, datapath.KeepsChoosing},
	Resolution: 60 * time.Millisecond,
})
