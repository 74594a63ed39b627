// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/gateway"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// RFC 9112 section 9.5: "A client or server that wishes to time out
// SHOULD issue a graceful close on the connection." The rest is ours: the race
// between an idle close and a request is invisible on loopback, so it is looked
// for at 20 ms too.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "http1.idle-closes-before-exit",
	Title: "Idle connections are closed before the process goes, and under no request that is on its way",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "RFC 9112", Section: "section 9.5", URL: "https://www.rfc-editor.org/rfc/rfc9112#section-9.5",
		Quote: "A client or server that wishes to time out SHOULD issue a graceful close on the connection.",
	}, {
		Doc: "project", Section: "after RFC 9112, section 9.5",
		Quote: "Idle keep-alive connections are closed before the process goes, and not under a request that is on its way.",
	}},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.HTTP1},

	Why:    "A pool that holds a dead connection finds out by losing a request. Each instance that leaves without closing its idle connections leaves such a trap in every client's pool.",
	Causes: "The process exits with idle connections open. Or it closes all of them at once at SIGTERM, while clients are writing on some.",
	Fix:    "Say \"Connection: close\" on the replies of a grace, so that clients let go by themselves; close what is idle for longer than a round trip last.",

	Topology: behaviour.Gated, AppsToo: true,
	Disrupt: behaviour.EndBoth,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Get}, Rate: 25},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.TLS1, Conns: flow.Reused, Op: flow.Get}, Rate: 15},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Get, Delay: behaviour.RaceDelay}, Rate: 150},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Idle, Takes: 20 * time.Second}, Rate: 2},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.TLS1, Conns: flow.New, Op: flow.Idle, Takes: 20 * time.Second}, Rate: 2},
	},
	Checks:     []assertions.Check{assertions.ClosesIdleFirst()},
	BrokenBy:   []spec.Fault{gateway.IdleLeftOpen, gateway.IdleCutAtDrain},
	Resolution: 60 * time.Millisecond,
})
