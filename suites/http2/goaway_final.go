// SPDX-License-Identifier: Apache-2.0

package http2

import (
	"slices"

	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/gateway"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// RFC 9113 section 6.8: "After allowing time for any in-flight stream creation
// (at least one round-trip time), the server MAY send another GOAWAY frame with
// an updated last stream identifier."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "h2.goaway-final",
	Title: "After a round trip, another GOAWAY says which stream was the last",
	Level: spec.May,
	Refs: []spec.Ref{{
		Doc: "RFC 9113", Section: "section 6.8", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-6.8",
		Quote: "After allowing time for any in-flight stream creation (at least one round-trip time), the server MAY send another GOAWAY frame with an updated last stream identifier. This ensures that a connection can be cleanly shut down without losing requests.",
	}},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.H2C},

	Why:    "Until it comes, a client whose connection breaks has to take every stream for processed.",
	Causes: "A server that sends the first one only, and then waits for the client to go; or one that sends both at once.",
	Fix:    "Send a PING with the first GOAWAY, and the second GOAWAY when it is answered.",

	Topology: behaviour.Gated, AppsToo: true,
	Disrupt:    behaviour.EndBoth,
	Traffic:    slices.Concat(usedAndIdle, racing),
	Checks:     []assertions.Check{assertions.FinalGoAway()},
	BrokenBy:   []spec.Fault{gateway.GoAwayFirstOnly, gateway.HastyFinal},
	Resolution: 60 * time.Millisecond,
})
