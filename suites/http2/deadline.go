// SPDX-License-Identifier: Apache-2.0

package http2

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/gateway"
	"github.com/lastcall-dev/lastcall/fixtures/shutdown"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// RFC 9113 section 6.8: "Endpoints SHOULD always send a GOAWAY frame before
// closing a connection". The deadline of a drain is no exception.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "h2.deadline",
	Title: "At the deadline, RST_STREAM or GOAWAY comes before the end of the connection",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "RFC 9113", Section: "section 6.8", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-6.8",
		Quote: "Endpoints SHOULD always send a GOAWAY frame before closing a connection so that the remote peer can know whether a stream has been partially processed or not.",
	}, {
		// The RFC is content with a GOAWAY of long before.
		Doc: "project", Section: "after RFC 9113, section 6.8",
		Quote: "At the deadline RST_STREAM or GOAWAY comes before FIN.",
	}},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.H2C},

	Why:    "A stream that is cut must be known to be cut. A bare FIN in the middle of a stream leaves the client to guess which of its streams were taken.",
	Causes: "The process exits at its deadline, or is killed at the end of its grace period.",
	Fix:    "Cut what is left a little before the grace period ends: RST_STREAM for each stream, then GOAWAY, then the close.",

	Topology: behaviour.GatedShort, AppsToo: true,
	Disrupt: behaviour.EndBoth,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 20}, // what the baseline is taken from
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2C, Conns: flow.Reused, Op: flow.Slow, Takes: 12 * time.Second}, Rate: 6},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2, Conns: flow.Reused, Op: flow.Slow, Takes: 12 * time.Second}, Rate: 4},
	},
	Checks:     []assertions.Check{assertions.DeadlineTellsFirst()},
	BrokenBy:   []spec.Fault{gateway.BareDeadline, shutdown.HookEndsBeforeDrain},
	Resolution: 60 * time.Millisecond,
})
