// SPDX-License-Identifier: Apache-2.0

package http2

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/gateway"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// RFC 9113 section 6.8: "After allowing time for any in-flight stream creation
// (at least one round-trip time) ..." A client with 20 ms of delay sends streams
// that cross the GOAWAY on their way.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "h2.racing-streams",
	Title: "Streams that crossed the first GOAWAY are served, or known to be unprocessed",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "RFC 9113", Section: "section 6.8", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-6.8",
		Quote: "After allowing time for any in-flight stream creation (at least one round-trip time), the server MAY send another GOAWAY frame with an updated last stream identifier. This ensures that a connection can be cleanly shut down without losing requests.",
	}},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.H2C},

	Why:    "No client can know of a GOAWAY that is still on its way. What it sent meanwhile is nobody's fault, and must not be stranded.",
	Causes: "A server that stops reading at GOAWAY, ignores new streams without saying so, or closes the connection at once.",
	Fix:    "Serve what comes before the second GOAWAY; refuse what comes after it by its last stream ID, or with REFUSED_STREAM.",

	Topology: behaviour.Gated, AppsToo: true,
	Disrupt:    behaviour.EndBoth,
	Traffic:    racing,
	Checks:     []assertions.Check{assertions.RacingStreams()},
	BrokenBy:   []spec.Fault{gateway.StrandsRacing, gateway.ResetsRacing},
	Resolution: 60 * time.Millisecond,
})
