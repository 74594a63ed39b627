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

// RFC 9112 section 9.6: "To avoid the TCP reset problem, servers typically close
// a connection in stages."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "http1.lingering-close",
	Title: "No reset while the client can still have a reply to read",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "RFC 9112", Section: "section 9.6", URL: "https://www.rfc-editor.org/rfc/rfc9112#section-9.6",
		Quote: "If the server receives additional data from the client on a fully closed connection, such as another request sent by the client before receiving the server's response, the server's TCP stack will send a reset packet to the client; unfortunately, the reset packet might erase the client's unacknowledged input buffers before they can be read and interpreted by the client's HTTP parser.",
	}},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.HTTP1},

	Why:    "The reset can erase a reply that was sent in full: the work is done, and the client never hears of it.",
	Causes: "close(2) right after the last write, with a request or the rest of a body unread in the socket. SO_LINGER with 0.",
	Fix:    "Close in stages: shut the writing side down, read until the client's FIN or for a bounded time, then close.",

	Topology: behaviour.Gated, AppsToo: true,
	Disrupt: behaviour.EndBoth,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Get}, Rate: 25},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.TLS1, Conns: flow.Reused, Op: flow.Get}, Rate: 15},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Get, Delay: behaviour.RaceDelay}, Rate: 150},
		// More than a server reads before it has answered what came first.
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.AheadPost, Takes: time.Second}, Rate: 6},
	},
	Checks:     []assertions.Check{assertions.Lingers()},
	BrokenBy:   []spec.Fault{gateway.AbruptClose, gateway.ClosesAtOnce},
	Resolution: 60 * time.Millisecond,
})
