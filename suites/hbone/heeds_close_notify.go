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

// toNotifying are connections to a peer that ends its tunnels in TLS alone.
var toNotifying = load.Profile{Flow: flow.Flow{Path: flow.PeerNotifies, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 15}

// RFC 8446 section 6.1: "This alert notifies the recipient that the sender will not
// send any more messages on this connection." What is pool.heeds-close-notify of a gateway's backends.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "hbone.heeds-close-notify",
	Title: "No CONNECT is written into a tunnel later than 1 s after its peer's close_notify, also where no GOAWAY has come",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "RFC 8446", Section: "section 6.1", URL: "https://www.rfc-editor.org/rfc/rfc8446#section-6.1",
		Quote: "This alert notifies the recipient that the sender will not send any more messages on this connection.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "Who has said close_notify answers no CONNECT any more. A proxy that ends by its last words in TLS alone, or is ended by its runtime's shutdown of TLS, leaves tunnels that still take bytes: each connection that is opened there hangs until a timeout, or until the FIN, and its app does not know whether it was served.",
	Causes: "A pool that goes by GOAWAY, and by its socket. A reader that takes the end of TLS for a pause.",
	Fix:    "Take a tunnel out of the pool when its TLS ends, and end it.",

	Topology: behaviour.Sourcing, NodesToo: true,
	Disrupt:    behaviour.PeersMisbehave,
	Traffic:    []load.Profile{toNotifying},
	Checks:     []assertions.Check{LeavesNotifiedTunnels()},
	BrokenBy:   []spec.Fault{datapath.AwaitsFIN},
	Resolution: 60 * time.Millisecond,
})

// LeavesNotifiedTunnels judges what a source opens in tunnels whose peer has said close_notify.
func LeavesNotifiedTunnels() assertions.Check {
	elsewhere := assertions.Floor{Name: "tunnels whose peer said close_notify, and behind which the source connected to it in others", N: 5,
		Reason: "one every 1.5 s at least, where it has one: each is seen to be replaced"}
	return assertions.Check{
		Name:     "CONNECTs in tunnels whose peer has said close_notify",
		Expected: fmt.Sprintf("none later than %s after it: the source connects in another tunnel", leavesWithin),
		Floors:   []assertions.Floor{elsewhere},
		Judge: func(c assertions.Case) spec.Finding {
			var y assertions.Tally
			from, _ := began(&y, c, flow.PeerNotifies)
			said := map[string]time.Duration{} // by tunnel
			replaced := map[string]bool{}
			for _, e := range saw(c, flow.PeerNotifies, timeline.PeerNotified, timeline.PeerConnect) {
				conn := e.Attrs["conn"]
				if e.Attrs["what"] == timeline.PeerNotified {
					said[conn] = e.At
					continue
				}
				y.Span(from, e.At)
				if at, is := said[conn]; is && e.At > at+leavesWithin {
					y.Late(c, e.At, "", "", "%s: stream %s of tunnel %s, %s after its close_notify", since(e.At, from), e.Attrs["stream"], conn, (e.At - at).Round(time.Millisecond))
				}
				for other, at := range said {
					if other != conn && e.At > at {
						replaced[other] = true
					}
				}
			}
			y.Count(elsewhere, len(replaced))
			return y.Conclude(
				fmt.Sprintf("none in %d tunnels whose peer had said close_notify, %d of which were replaced", len(said), len(replaced)),
				fmt.Sprintf("%s in %d tunnels whose peer had said close_notify", assertions.Plural(y.Culprits(), "CONNECT", "CONNECTs"), len(said)))
		},
	}
}
