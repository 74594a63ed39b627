// SPDX-License-Identifier: Apache-2.0

package hbone

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
	"github.com/lastcall-dev/lastcall/suites/tunnel"
)

// RFC 9113 section 6.8: "The sender of a GOAWAY frame might gracefully shut down
// a connection by sending a GOAWAY frame, maintaining the connection in an "open"
// state until all in-progress streams complete."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "hbone.goaway-keeps-inner",
	Title: "The connections in a tunnel go on behind its GOAWAY, and the tunnel closes when the last of them has ended",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "RFC 9113", Section: "section 6.8", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-6.8",
		Quote: "The sender of a GOAWAY frame might gracefully shut down a connection by sending a GOAWAY frame, maintaining the connection in an \"open\" state until all in-progress streams complete.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "A tunnel carries many of the peer's connections, which know nothing of it. One that is closed with them inside cuts them all at once; one that is never closed keeps the pod until it is killed, and then cuts what is left.",
	Causes: "A proxy that takes GOAWAY for the end: it resets what runs, or closes the connection a fixed time later. One that waits for its peer to close.",
	Fix:    "Behind the GOAWAY carry each stream to its own end, up to the deadline, and end the tunnel with the last of them.",

	Topology: behaviour.Tunnelled, GatewaysToo: true,
	Disrupt:    behaviour.EndBoth,
	Traffic:    []load.Profile{streaming},
	Checks:     []assertions.Check{assertions.BelowLastCompletes(), tunnel.EndsWithTheLast()},
	BrokenBy:   []spec.Fault{datapath.GoAwayCutsInner, datapath.TunnelsOutstay},
	Resolution: 60 * time.Millisecond,
})
