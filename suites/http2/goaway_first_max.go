// SPDX-License-Identifier: Apache-2.0

package http2

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/gateway"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// RFC 9113 section 6.8: "A server that is attempting to gracefully shut down a
// connection SHOULD send an initial GOAWAY frame with the last stream identifier
// set to 2^31-1 and a NO_ERROR code."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "h2.goaway-first-max",
	Title: "The first GOAWAY of a graceful shutdown refuses nothing",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "RFC 9113", Section: "section 6.8", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-6.8",
		Quote: "A server that is attempting to gracefully shut down a connection SHOULD send an initial GOAWAY frame with the last stream identifier set to 2^31-1 and a NO_ERROR code. This signals to the client that a shutdown is imminent and that initiating further requests is prohibited.",
	}},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.H2C},

	Why:    "Streams that left the client before it could know are on their way. A GOAWAY with the real ID at once refuses them: each is an error to whoever can't retry it.",
	Causes: "A server that sends one GOAWAY with the highest stream it has seen, as net/http, nginx and others do.",
	Fix:    "Send GOAWAY(2^31-1, NO_ERROR) first, and the real ID at least one round trip later.",

	Topology: behaviour.Gated, AppsToo: true,
	Disrupt:    behaviour.EndBoth,
	Traffic:    usedAndIdle,
	Checks:     []assertions.Check{assertions.FirstGoAwayMax()},
	BrokenBy:   []spec.Fault{gateway.GoAwayFinalOnly},
	Resolution: 60 * time.Millisecond,
})
