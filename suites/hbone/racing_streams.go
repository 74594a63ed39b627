// SPDX-License-Identifier: Apache-2.0

package hbone

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// RFC 9113 section 6.8: "After allowing time for any in-flight stream creation
// (at least one round-trip time) ..." A client with 20 ms of delay opens streams
// that cross the GOAWAY on their way.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "hbone.racing-streams",
	Title: "CONNECTs that crossed a tunnel's first GOAWAY are answered, or known to be unprocessed",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "RFC 9113", Section: "section 6.8", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-6.8",
		Quote: "After allowing time for any in-flight stream creation (at least one round-trip time), the server MAY send another GOAWAY frame with an updated last stream identifier. This ensures that a connection can be cleanly shut down without losing requests.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "No peer can know of a GOAWAY that is still on its way. What it opened meanwhile is a connection of somebody's app, and must not be stranded.",
	Causes: "A proxy that stops reading at GOAWAY, or ignores new streams without saying so.",
	Fix:    "Serve what comes before the second GOAWAY; refuse what comes after it by its last stream ID, or with REFUSED_STREAM.",

	Topology: behaviour.Tunnelled, GatewaysToo: true,
	Disrupt:    behaviour.EndBoth,
	Traffic:    []load.Profile{crossing},
	Checks:     []assertions.Check{assertions.RacingStreams()},
	BrokenBy:   []spec.Fault{datapath.StrandsCrossing},
	Resolution: 60 * time.Millisecond,
})

// crossing are connections over a path with a delay, in tunnels that many share.
var crossing = load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.Shared, Op: flow.Get, Delay: behaviour.RaceDelay}, Rate: 100}
