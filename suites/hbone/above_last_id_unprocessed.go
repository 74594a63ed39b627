// SPDX-License-Identifier: Apache-2.0

package hbone

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// RFC 9113 section 6.8: "If the receiver of the GOAWAY has sent data on streams
// with a higher stream identifier than what is indicated in the GOAWAY frame,
// those streams are not or will not be processed." The ledger of the app
// says whether that is true.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "hbone.above-last-id-unprocessed",
	Title: "A connection above the last stream ID of its tunnel's GOAWAY did not reach the app",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "RFC 9113", Section: "section 6.8", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-6.8",
		Quote: "If the receiver of the GOAWAY has sent data on streams with a higher stream identifier than what is indicated in the GOAWAY frame, those streams are not or will not be processed.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "A peer opens a CONNECT again at once whose stream is above the last one, and its app knows nothing of that. If the first one had reached the app, what was asked on it is done twice.",
	Causes: "A proxy that names the last stream by another count than that of the streams which it has handed on: those that were finished, or those that were there when the drain began.",
	Fix:    "Take the last stream ID at the place that dials the app, in the same critical section, and dial for none above it.",

	Topology: behaviour.Tunnelled, GatewaysToo: true, NodesToo: true,
	Disrupt:    behaviour.EndBoth,
	Traffic:    []load.Profile{used, streaming, crossing},
	Checks:     []assertions.Check{assertions.AboveLastUnprocessed()},
	BrokenBy:   []spec.Fault{datapath.GoAwayDisowns},
	Resolution: 60 * time.Millisecond,
})
