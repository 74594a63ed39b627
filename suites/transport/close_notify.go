// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/gateway"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// RFC 8446 section 6.1: "Each party MUST send a "close_notify" alert before
// closing its write side of the connection, unless it has already sent some
// error alert."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "tls.close-notify",
	Title: "TLS connections end with close_notify before the FIN",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "RFC 8446", Section: "section 6.1", URL: "https://www.rfc-editor.org/rfc/rfc8446#section-6.1",
		Quote: "Each party MUST send a \"close_notify\" alert before closing its write side of the connection, unless it has already sent some error alert.",
	}},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.TLS},

	Why:    "Without it an end can't be told from a truncation: whoever can inject a FIN can cut a download short, and a client that checks takes every such end for an error.",
	Causes: "The socket is closed below the TLS layer; the process exits with connections open.",
	Fix:    "Close the TLS layer first, then the socket, on every connection that is left at the end of the drain.",

	Topology: behaviour.Gated, AppsToo: true,
	Disrupt: behaviour.EndBoth,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.TLS1, Conns: flow.Reused, Op: flow.Get}, Rate: 15},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2, Conns: flow.Reused, Op: flow.Get}, Rate: 15},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.TLS1, Conns: flow.New, Op: flow.Idle, Takes: 20 * time.Second}, Rate: 2},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2, Conns: flow.New, Op: flow.Idle, Takes: 20 * time.Second}, Rate: 2},
	},
	Checks:     []assertions.Check{assertions.CloseNotifyFirst()},
	BrokenBy:   []spec.Fault{gateway.BareFIN},
	Resolution: 60 * time.Millisecond,
})
