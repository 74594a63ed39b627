// SPDX-License-Identifier: Apache-2.0

package hbone

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// toRefusingLong are connections by which tunnels stand behind the GOAWAY of the peer that refuses some: each of
// its tunnels gets one, which does not cover what came last.
var toRefusingLong = load.Profile{Flow: flow.Flow{Path: flow.PeerRefuses, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Slow, Takes: 3 * time.Second}, Rate: 2}

// RFC 9113 section 6.8: "Receivers of a GOAWAY frame MUST NOT open additional streams on
// the connection, although a new connection can be established for new streams."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "hbone.no-connect-after-goaway",
	Title: "No CONNECT is written into a tunnel later than 1 s after its peer has told it to go",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "RFC 9113", Section: "section 6.8", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-6.8",
		Quote: "Receivers of a GOAWAY frame MUST NOT open additional streams on the connection, although a new connection can be established for new streams.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "What is opened in such a tunnel is ignored, or refused: the connection waits a round trip, or for a timeout, before it is opened elsewhere. And a peer that names its last stream late takes it, and is kept from its end.",
	Causes: "A pool that hands out the tunnel that it handed out last, and looks for another one when its CONNECT comes back. One that learns of the GOAWAY only when the tunnel ends.",
	Fix:    "Take the tunnel out of the pool when the GOAWAY is read, and keep it for what is in it.",

	Topology: behaviour.Sourcing, NodesToo: true,
	Disrupt:    behaviour.PeersMisbehave,
	Traffic:    []load.Profile{toRefusing, toRefusingLong},
	Checks:     []assertions.Check{LeavesToldTunnels()},
	BrokenBy:   []spec.Fault{datapath.ConnectsAfterGoAway},
	Resolution: 60 * time.Millisecond,
})

// leavesWithin is how long a source may take to read a GOAWAY: what it wrote before that was on its way.
const leavesWithin = time.Second

// LeavesToldTunnels judges what a source opens in tunnels that the peer has told to go.
func LeavesToldTunnels() assertions.Check {
	stood := assertions.Floor{Name: "tunnels that stood 1 s after their GOAWAY, while the source connected to the peer in others", N: 20,
		Reason: "one that has ended tells nothing: some four a second are told to go, and one in three has a connection in it that lasts"}
	return assertions.Check{
		Name:     "CONNECTs in tunnels that the peer has told to go",
		Expected: fmt.Sprintf("none later than %s after the GOAWAY: the source connects in another tunnel", leavesWithin),
		Floors:   []assertions.Floor{stood},
		Judge: func(c assertions.Case) spec.Finding {
			var y assertions.Tally
			from, _ := began(&y, c, flow.PeerRefuses)
			told := map[string]time.Duration{} // and stand
			elsewhere := map[string]bool{}
			all := 0
			for _, e := range saw(c, flow.PeerRefuses, timeline.PeerGoAway, timeline.PeerConnect, timeline.PeerEnded) {
				conn := e.Attrs["conn"]
				at, is := told[conn]
				switch e.Attrs["what"] {
				case timeline.PeerGoAway:
					if !is {
						told[conn] = e.At
						all++
					}
				case timeline.PeerEnded:
					delete(told, conn)
				default:
					y.Span(from, e.At)
					if is && e.At > at+leavesWithin {
						y.Late(c, e.At, "", "", "%s: stream %s of tunnel %s, %s after its GOAWAY", since(e.At, from), e.Attrs["stream"], conn, (e.At - at).Round(time.Millisecond))
					}
					for other, at := range told {
						if other != conn && e.At > at+leavesWithin {
							elsewhere[other] = true
						}
					}
				}
			}
			y.Count(stood, len(elsewhere))
			return y.Conclude(
				fmt.Sprintf("none in %d tunnels that were told to go, %d of which stood %s later", all, len(elsewhere), leavesWithin),
				fmt.Sprintf("%s in tunnels that were told to go", assertions.Plural(y.Culprits(), "CONNECT", "CONNECTs")))
		},
	}
}
