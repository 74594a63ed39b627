// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/gateway"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Seed 4: what is in front of the gateway is not in the cluster, and learns of a
// drain by its own health checks only.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "gateway.external-lb",
	Title: "A load balancer in front takes an instance out before its listener closes",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "project", Section: "after envoyproxy/gateway pull request 2633",
		Quote: "A load balancer in front deregisters before the listener closes.",
	}},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.HTTP1, spec.LBHealth},

	Why:    "What stands before a gateway is mostly a cloud's load balancer, outside the cluster. It looks every few seconds, and believes a bad answer when it was given twice or thrice. Until then it sends new connections, and if the listener is gone by then, each of them is lost, in every rollout.",
	Causes: "A drain that is shorter than the load balancer's period times its threshold; a health check that turns bad with the listener and not before it; a load balancer that looks at the port alone, which is open until the end.",
	Fix:    "Fail the health check at the drain's begin, and keep the listener for longer than period × threshold, with a margin for the way there.",

	Topology: behaviour.Gated,
	Disrupt:  behaviour.EndBoth,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Balanced, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 40},
	},
	Checks:     []assertions.Check{assertions.DeregistersFirst(behaviour.BalancerPeriod, behaviour.BalancerThreshold)},
	BrokenBy:   []spec.Fault{gateway.HastyListener, gateway.HealthStaysGood, gateway.HealthFollows},
	Resolution: 60 * time.Millisecond,
})
