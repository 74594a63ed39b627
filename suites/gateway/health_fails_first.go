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

// Seed 4: the health check that an external load balancer polls has to fail
// first, and not instead of the drain.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "gateway.health-fails-first",
	Title: "The load balancer's health check fails before the listener goes; liveness stays good",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "project", Section: "after envoyproxy/gateway pull request 2633",
		Quote: "The health endpoint that the load balancer polls fails before, and not instead of, the drain; liveness stays good.",
	}},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.HTTP, spec.LBHealth},

	Why:    "A load balancer outside the cluster knows only what its health check says. If that stays good until the listener is gone, each of its clients meets a refusal; if liveness fails with it, whoever looks after the process (a kubelet, where the drain began without a deletion) kills the gateway in mid drain.",
	Causes: "One health endpoint for everything; or a health check on the very listener that is drained.",
	Fix:    "Give the load balancer a health endpoint of its own, fail it at the begin of the drain, and close the listener later than its period times its threshold.",

	Topology: behaviour.Gated,
	Disrupt:  behaviour.EndBoth,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 25},
	},
	Checks:     []assertions.Check{assertions.HealthFailsFirst()},
	BrokenBy:   []spec.Fault{gateway.HealthStaysGood, gateway.HealthFollows, gateway.LivenessFollows},
	Resolution: 60 * time.Millisecond,
})
