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

// RFC 9113 section 6.8: "If the receiver of the GOAWAY has sent data on streams
// with a higher stream identifier than what is indicated in the GOAWAY frame,
// those streams are not or will not be processed." The ledger of the backends
// says whether that is true.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "h2.above-last-id-unprocessed",
	Title: "What is above the last stream ID was not processed",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "RFC 9113", Section: "section 6.8", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-6.8",
		Quote: "If the receiver of the GOAWAY has sent data on streams with a higher stream identifier than what is indicated in the GOAWAY frame, those streams are not or will not be processed.",
	}},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.H2C},

	Why:    "It is the one promise that makes a retry of a POST safe. If it is broken, a retry runs it twice.",
	Causes: "Streams that were handed to a worker, or to a backend, before the GOAWAY was made, with the ID taken from somewhere else.",
	Fix:    "Take the last stream ID at the place that hands streams on, in the same critical section.",

	Topology: behaviour.Gated, AppsToo: true,
	Disrupt: behaviour.EndBoth,
	Traffic: append([]load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2C, Conns: flow.Reused, Op: flow.Get}, Rate: 25},
	}, racing...),
	Checks:     []assertions.Check{assertions.AboveLastUnprocessed()},
	BrokenBy:   []spec.Fault{gateway.GoAwayLies},
	Resolution: 60 * time.Millisecond,
})
