// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/fixtures/gateway"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// RFC 9293 section 3.6: "The user who CLOSEs may continue to RECEIVE until the TCP
// receiver is told that the remote peer has CLOSED also." Who stands between the
// two has to pass on which of them has.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "tcp.half-close",
	Title: "Half-close passes both ways, after D too",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "RFC 9293", Section: "section 3.6", URL: "https://www.rfc-editor.org/rfc/rfc9293#section-3.6",
		Quote: "The user who CLOSEs may continue to RECEIVE until the TCP receiver is told that the remote peer has CLOSED also.",
	}, {
		Doc: "project", Section: "after RFC 9293, section 3.6",
		Quote: "Half-close passes both ways, after D too.",
	}},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.TCP},

	Why:    "A client that has said all it had to say ends its half, and waits for the answer. A proxy that takes this for the end of the connection throws the answer away.",
	Causes: "Both sockets are closed as soon as one of the two copies ends, most often when the proxy is in a hurry; or the end of one side is never passed on.",
	Fix:    "Pass the FIN of each side on by a half-close of the other (shutdown of the write side), and close when both have come.",

	Topology: behaviour.Talking, AppsToo: true,
	Disrupt: behaviour.EndBoth,
	Traffic: append(slices.Clone(talksNearAndFar),
		load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.TCP, Conns: flow.New, Op: flow.Hear, Takes: 2 * time.Second}, Rate: 3}),
	Checks:     []assertions.Check{assertions.PassesHalfClose(), assertions.PassesServersEnd()},
	BrokenBy:   []spec.Fault{gateway.NoHalfClose, datapath.EndsWhole},
	Resolution: 60 * time.Millisecond,
})
