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

// RFC 9112 section 9.6: "A server that sends a "close" connection option MUST
// initiate closure of the connection (see below) after it sends the response
// containing the "close" connection option." The second part of what the design
// calls http1.connection-close: it has another level, so it has an ID of its own.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "http1.closes-after-saying",
	Title: "A server that said close closes the connection, and processes nothing more on it",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "RFC 9112", Section: "section 9.6", URL: "https://www.rfc-editor.org/rfc/rfc9112#section-9.6",
		Quote: "A server that sends a \"close\" connection option MUST initiate closure of the connection (see below) after it sends the response containing the \"close\" connection option. The server MUST NOT process any further requests received on that connection.",
	}},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.HTTP1},

	Why:    "Whoever reads \"close\" takes the connection for dead and sends again elsewhere. If the server processes what was already on its way, the work is done twice.",
	Causes: "The header is added by one layer (a filter, a plugin), and the layer that owns the socket does not look at it.",
	Fix:    "Let the layer that owns the connection set the header, and stop reading requests from that instant on.",

	Topology: behaviour.Gated, AppsToo: true,
	Disrupt: behaviour.EndBoth,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Get}, Rate: 25},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.TLS1, Conns: flow.Reused, Op: flow.Get}, Rate: 15},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Ahead, Takes: time.Second}, Rate: 10},
	},
	Checks:     []assertions.Check{assertions.ClosesAfterSaying()},
	BrokenBy:   []spec.Fault{gateway.CloseThenProcess, gateway.ProcessesAhead},
	Resolution: 60 * time.Millisecond,
})
