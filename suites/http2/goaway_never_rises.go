// SPDX-License-Identifier: Apache-2.0

package http2

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/gateway"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// RFC 9113 section 6.8: "Endpoints MUST NOT increase the value they send in the
// last stream identifier, since the peers might already have retried unprocessed
// requests on another connection."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "h2.goaway-never-rises",
	Title: "The last stream ID of a GOAWAY never goes up",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "RFC 9113", Section: "section 6.8", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-6.8",
		Quote: "Endpoints MUST NOT increase the value they send in the last stream identifier, since the peers might already have retried unprocessed requests on another connection.",
	}},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.H2C},

	Why:    "A client may have sent again what the first GOAWAY called unprocessed. If it is processed after all, it is processed twice.",
	Causes: "A second GOAWAY that is made from the highest stream seen by then, after a first one that did not leave room for it.",
	Fix:    "Begin with 2^31-1; never send more than was sent before.",

	Topology: behaviour.Gated, AppsToo: true,
	Disrupt: behaviour.EndBoth,
	Traffic: append([]load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2C, Conns: flow.Reused, Op: flow.Get}, Rate: 25},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2, Conns: flow.Reused, Op: flow.Get}, Rate: 15},
	}, racing...),
	Checks:     []assertions.Check{assertions.GoAwayNeverRises()},
	BrokenBy:   []spec.Fault{gateway.GoAwayRises},
	Resolution: 60 * time.Millisecond,
})
