// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/fixtures/gateway"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// RFC 9293 section 3.6: "CLOSE is an operation meaning "I have no more data to
// send."" Of a stream that is cut this is not true. For tunnels RFC 9113 section
// 8.5 says what to do instead.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "tcp.cut-is-visible",
	Title: "A stream that is cut ends as an error at its peer, never as a clean end",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "RFC 9293", Section: "section 3.6", URL: "https://www.rfc-editor.org/rfc/rfc9293#section-3.6",
		Quote: "CLOSE is an operation meaning \"I have no more data to send.\"",
	}, {
		Doc: "RFC 9113", Section: "section 8.5", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-8.5",
		Quote: "Correspondingly, a proxy MUST send a TCP segment with the RST bit set if it detects an error with the stream or the HTTP/2 connection.",
	}, {
		Doc: "project", Section: "after RFC 9113, section 8.5",
		Quote: "A stream that is cut instead of ended, at the deadline or by a removal, reaches the peer as an error, never as a clean end.",
	}},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.TCP},

	Why:    "A bare FIN in the middle of a stream makes half a download look whole, and nobody will ever fetch the rest.",
	Causes: "At the deadline, or at its exit, the process closes its sockets, or leaves that to its kernel: a close sends a FIN.",
	Fix:    "Cut what is left by a reset (SO_LINGER with a time of 0), on both sides of a proxy, before the process goes.",

	Topology: behaviour.GatedShort, AppsToo: true,
	Disrupt: behaviour.EndBoth,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 20}, // what the baseline is taken from
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.TCP, Conns: flow.New, Op: flow.Talk, Takes: 12 * time.Second}, Rate: 2},
	},
	Checks:     []assertions.Check{assertions.CutIsVisible()},
	BrokenBy:   []spec.Fault{gateway.FINAtDeadline, gateway.FINToBackends, datapath.CutsEndClean},
	Resolution: 60 * time.Millisecond,
})
