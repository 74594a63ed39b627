// SPDX-License-Identifier: Apache-2.0

package http2

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/gateway"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// RFC 9113 section 6.8: "Endpoints SHOULD always send a GOAWAY frame before
// closing a connection so that the remote peer can know whether a stream has
// been partially processed or not."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "h2.goaway",
	Title: "A connection that is shut down gets a GOAWAY before its close",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "RFC 9113", Section: "section 6.8", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-6.8",
		Quote: "Endpoints SHOULD always send a GOAWAY frame before closing a connection so that the remote peer can know whether a stream has been partially processed or not.",
	}},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.H2C},

	Why:    "Without it the last stream ID is effectively the highest possible one: a client has to take each stream for processed, and can retry nothing.",
	Causes: "The process exits at SIGTERM; or its HTTP server is closed instead of shut down.",
	Fix:    "Begin the drain with a GOAWAY on every HTTP/2 connection, and close none before it.",

	Topology: behaviour.Gated, AppsToo: true,
	Disrupt:    behaviour.EndBoth,
	Traffic:    usedAndIdle,
	Checks:     []assertions.Check{assertions.SendsGoAway()},
	BrokenBy:   []spec.Fault{gateway.NoGoAway},
	Resolution: 60 * time.Millisecond,
})
