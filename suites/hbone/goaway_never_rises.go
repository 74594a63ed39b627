// SPDX-License-Identifier: Apache-2.0

package hbone

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// RFC 9113 section 6.8: "Endpoints MUST NOT increase the value they send in the
// last stream identifier, since the peers might already have retried unprocessed
// requests on another connection."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "hbone.goaway-never-rises",
	Title: "The last stream ID of a tunnel's GOAWAYs never goes up",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "RFC 9113", Section: "section 6.8", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-6.8",
		Quote: "Endpoints MUST NOT increase the value they send in the last stream identifier, since the peers might already have retried unprocessed requests on another connection.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "A CONNECT that was turned away is opened again on another tunnel at once. One that is then served after all is a connection that the app has twice.",
	Causes: "A proxy that says its GOAWAY again when it closes, from the beginning.",
	Fix:    "Keep the last stream ID that was said, and say none above it.",

	Topology: behaviour.Tunnelled, GatewaysToo: true, NodesToo: true,
	Disrupt:    behaviour.EndBoth,
	Traffic:    all,
	Checks:     []assertions.Check{assertions.GoAwayNeverRises()},
	BrokenBy:   []spec.Fault{datapath.GoAwayRises},
	Resolution: 60 * time.Millisecond,
})
