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

// RFC 9113 section 6.8: "Activity on streams numbered lower than or equal to the
// last stream identifier might still complete successfully. The sender of a
// GOAWAY frame might gracefully shut down a connection by sending a GOAWAY
// frame, maintaining the connection in an "open" state until all in-progress
// streams complete."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "h2.below-last-id-completes",
	Title: "Streams at or under the last stream ID complete",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "RFC 9113", Section: "section 6.8", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-6.8",
		Quote: "The sender of a GOAWAY frame might gracefully shut down a connection by sending a GOAWAY frame, maintaining the connection in an \"open\" state until all in-progress streams complete.",
	}},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.H2C},

	Why:    "A stream that the server took and then drops is lost, and its client may not even send it again.",
	Causes: "A drain that closes the connection when GOAWAY was written, or a timer that is shorter than the work.",
	Fix:    "Keep the connection open until its streams have ended, up to the deadline.",

	Topology: behaviour.Gated, AppsToo: true,
	Disrupt: behaviour.EndBoth,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2C, Conns: flow.Shared, Op: flow.Slow, Takes: 3 * time.Second}, Rate: 6},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2, Conns: flow.Shared, Op: flow.Slow, Takes: 3 * time.Second}, Rate: 4},
	},
	Checks:     []assertions.Check{assertions.BelowLastCompletes()},
	BrokenBy:   []spec.Fault{gateway.GoAwayDrops, gateway.EndsWithFirst},
	Resolution: 60 * time.Millisecond,
})
