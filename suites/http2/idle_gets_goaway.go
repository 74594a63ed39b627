// SPDX-License-Identifier: Apache-2.0

package http2

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/gateway"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// RFC 9113 section 6.8: "Endpoints SHOULD always send a GOAWAY frame before
// closing a connection". A connection without a stream is one.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "h2.idle-gets-goaway",
	Title: "A silent connection gets a GOAWAY too, before its close",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "RFC 9113", Section: "section 6.8", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-6.8",
		Quote: "Endpoints SHOULD always send a GOAWAY frame before closing a connection so that the remote peer can know whether a stream has been partially processed or not.",
	}},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.H2C},

	Why:    "A pooled connection that says nothing is the one that the client's next request goes to.",
	Causes: "GOAWAY is sent with the next response only, as Envoy does: a connection that has none waits for it forever.",
	Fix:    "Send GOAWAY on every connection when the drain begins, whether it is busy or not.",

	Topology: behaviour.Gated, AppsToo: true,
	Disrupt: behaviour.EndBoth,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2C, Conns: flow.New, Op: flow.Idle, Takes: 20 * time.Second}, Rate: 2},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2, Conns: flow.New, Op: flow.Idle, Takes: 20 * time.Second}, Rate: 2},
	},
	Checks:     []assertions.Check{assertions.IdleGetsGoAway()},
	BrokenBy:   []spec.Fault{gateway.GoAwayBusyOnly},
	Resolution: 60 * time.Millisecond,
})
