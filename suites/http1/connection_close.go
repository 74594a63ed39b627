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

// RFC 9112 section 9.6: "A sender SHOULD send a Connection header field (Section
// 7.6.1 of [HTTP]) containing the "close" connection option when it intends to
// close a connection." A server with an accept grace need not say it from D on.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "http1.connection-close",
	Title: "The last reply on a connection that the server closes says so",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "RFC 9112", Section: "section 9.6", URL: "https://www.rfc-editor.org/rfc/rfc9112#section-9.6",
		Quote: "A sender SHOULD send a Connection header field (Section 7.6.1 of [HTTP]) containing the \"close\" connection option when it intends to close a connection.",
	}},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.HTTP1},

	Why:    "A client that was told puts its next request on another connection. One that was not told writes it into a connection that is closing, and can't know whether it was processed: a POST that is lost, or run twice.",
	Causes: "A proxy that closes its idle connections at the drain, without having said close on the reply before. A server whose drain begins only after the reply was written.",
	Fix:    "From the begin of the drain on, add \"Connection: close\" to each reply, and close the connection after it; close idle connections last.",

	Topology: behaviour.Gated, AppsToo: true,
	Disrupt: behaviour.EndBoth,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 20}, // when the listener goes
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Get}, Rate: 25},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.TLS1, Conns: flow.Reused, Op: flow.Get}, Rate: 15},
		// In hand when a server begins to say it, whenever that is: where it begins with its
		// last answers, the quick ones are none of these.
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Ahead, Takes: time.Second}, Rate: 10},
	},
	Checks:     []assertions.Check{assertions.SaysClose()},
	BrokenBy:   []spec.Fault{gateway.NoConnectionClose},
	Resolution: 60 * time.Millisecond,
})
