// SPDX-License-Identifier: Apache-2.0

package hbone

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// RFC 8446 section 6.1: "Each party MUST send a "close_notify" alert before
// closing its write side of the connection, unless it has already sent some
// error alert."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "hbone.close-notify",
	Title: "Tunnels end with close_notify before the FIN, whenever after D that is",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "RFC 8446", Section: "section 6.1", URL: "https://www.rfc-editor.org/rfc/rfc8446#section-6.1",
		Quote: "Each party MUST send a \"close_notify\" alert before closing its write side of the connection, unless it has already sent some error alert.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "Without it the peer can't tell the tunnel's end from a cut: it has to take all that ran in it for lost, and to dial a host that may be gone.",
	Causes: "The socket is closed below the TLS layer; the process exits with tunnels open.",
	Fix:    "Close the TLS layer first, then the socket, of every tunnel that is left when the last connection in it has ended.",

	Topology: behaviour.Tunnelled, GatewaysToo: true, NodesToo: true,
	Disrupt:    behaviour.EndBoth,
	Traffic:    []load.Profile{used, streaming, idle},
	Checks:     []assertions.Check{assertions.CloseNotifyFirst()},
	BrokenBy:   []spec.Fault{datapath.TunnelsEndBare},
	Resolution: 60 * time.Millisecond,
})
