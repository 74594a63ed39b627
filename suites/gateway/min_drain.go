// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/gateway"
	"github.com/lastcall-dev/lastcall/fixtures/shutdown"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Seed 4: a drain that may end as soon as there are no connections ends before
// the load balancer has heard of it.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "gateway.min-drain",
	Title: "The minimum drain holds, also without a connection; after it, no connection means exit",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Section: "after envoyproxy/gateway pull request 2633",
		Quote: "The minimum holds with zero connections too; after it, zero connections means exit.",
	}},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.HTTP},

	Why:    "Whoever still dials is not connected yet. A gateway that leaves the moment it is idle leaves before its load balancer has stopped sending.",
	Causes: "A shutdown manager that waits for zero connections only; or one that sleeps for the whole drain although nobody is there any more.",
	Fix:    "Wait for the minimum first, however idle; then leave as soon as the last connection has gone, and at the deadline in any case.",

	Topology: behaviour.GatedIdle,
	Disrupt:  behaviour.EndBoth,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 20},
	},
	Checks:     []assertions.Check{assertions.HoldsMinimum()},
	BrokenBy:   []spec.Fault{gateway.LeavesWhenIdle, gateway.StaysOn, gateway.ClosesListener, gateway.ExitsOnSigterm, shutdown.HookReturnsEarly, shutdown.HookNeverReturns},
	Resolution: 60 * time.Millisecond,
})
