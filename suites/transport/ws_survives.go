// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/gateway"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// RFC 6455 section 7.4.1: "1001 indicates that an endpoint is "going away", such
// as a server going down or a browser having navigated away from a page." Section
// 7.3 has whoever closes start the closing handshake; that a server which means
// to serve what is in flight keeps WebSockets too is the project's own.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "ws.survives",
	Title: "A WebSocket lives through the drain, or is closed with 1001",
	Level: spec.Should,
	Refs: []spec.Ref{
		{
			Doc: "RFC 6455", Section: "section 7.4.1", URL: "https://www.rfc-editor.org/rfc/rfc6455#section-7.4.1",
			Quote: "1001 indicates that an endpoint is \"going away\", such as a server going down or a browser having navigated away from a page.",
		},
		{
			Doc: "RFC 6455", Section: "section 7.1.5", URL: "https://www.rfc-editor.org/rfc/rfc6455#section-7.1.5",
			Quote: "If _The WebSocket Connection is Closed_ and no Close control frame was received by the endpoint (such as could occur if the underlying transport connection is lost), _The WebSocket Connection Close Code_ is considered to be 1006.",
		},
	},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.HTTP1, spec.WebSocket},

	Why:    "A client that reads 1001 opens another WebSocket at once, and elsewhere. One that reads 1006 can't tell a drain from a broken network: it backs off, or tells its user so; and what was on its way in either direction is lost without a word.",
	Causes: "An upgraded connection has left the HTTP server, which does not count it any more: the drain does not wait for it, and the process exits under it. Or all that is left is closed together with the listener.",
	Fix:    "Count upgraded connections in the drain, and wait for them until the deadline. What has to go before says 1001, and waits for the answer.",

	Topology: behaviour.Upgraded, AppsToo: true,
	Disrupt: behaviour.EndBoth,
	// Some are open at each instant up to 3 s after the listener's end. Longer
	// ones would make every scenario that has these wait for them: at its begin,
	// for four clean ones in a row, and at the end of each instance.
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 20}, // what the baseline is taken from
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.WebSocket, Takes: 3 * time.Second}, Rate: 3},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.TLS1, Conns: flow.New, Op: flow.WebSocket, Takes: 3 * time.Second}, Rate: 2},
		// A close frame of each side can cross the other's.
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.WebSocket, Takes: 3 * time.Second, Delay: behaviour.RaceDelay}, Rate: 3},
	},
	Checks:     []assertions.Check{assertions.WebSocketsSurvive()},
	BrokenBy:   []spec.Fault{gateway.CutsWebSockets, sidecar.HurriesOut, nodeproxy.CutsOnceDeleted},
	Resolution: 60 * time.Millisecond,
})
