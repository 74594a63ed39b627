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

// toRefusing are connections to a peer that refuses some.
var toRefusing = load.Profile{Flow: flow.Flow{Path: flow.PeerRefuses, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 20}

// RFC 9113 section 8.7: "The GOAWAY frame indicates the highest stream number that
// might have been processed. Requests on streams with higher numbers are therefore
// guaranteed to be safe to retry." And: "Requests that have not been processed have not
// failed; clients MAY automatically retry them, even those with non-idempotent methods."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "hbone.unprocessed-is-retried",
	Title: "A CONNECT that was refused as not processed is opened again before the application hears of it",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "RFC 9113", Section: "section 8.7", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-8.7",
		Quote: "Requests that have not been processed have not failed; clients MAY automatically retry them, even those with non-idempotent methods.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "An application that dials knows nothing of tunnels, and nothing of it was processed: the peer says so. A source that passes that on as a cut makes of each peer's orderly end an error of its own app's.",
	Causes: "A proxy that takes REFUSED_STREAM, or a GOAWAY that does not cover the stream, for any other error of the stream's.",
	Fix:    "Open a CONNECT again on another tunnel, a bounded number of times, where the peer has said that it was not processed.",

	Topology: behaviour.Sourcing, NodesToo: true,
	Disrupt:    behaviour.PeersMisbehave,
	Traffic:    []load.Profile{toRefusing},
	Checks:     []assertions.Check{ServedThoughRefused()},
	BrokenBy:   []spec.Fault{datapath.NeverRetries},
	Resolution: 60 * time.Millisecond,
})

// ServedThoughRefused judges the connections of an app to a peer that refuses some of the CONNECTs for
// them as not processed.
func ServedThoughRefused() assertions.Check {
	byReset := assertions.Floor{Name: "CONNECTs that the peer refused by REFUSED_STREAM", N: 30,
		Reason: "one in five is, and what becomes of each is the same: it is no count over a window"}
	byGoAway := assertions.Floor{Name: "CONNECTs that the peer refused by a GOAWAY that does not cover them", N: 30,
		Reason: "as those by REFUSED_STREAM"}
	served := assertions.Floor{Name: "connections of the app to the peer while it refuses some", N: 300}
	return assertions.Check{
		Name:     "connections to a peer that refuses CONNECTs as not processed",
		Expected: "each is served: no app hears of a CONNECT that was not processed",
		Floors:   []assertions.Floor{byReset, byGoAway, served},
		Judge: func(c assertions.Case) spec.Finding {
			var y assertions.Tally
			from, _ := began(&y, c, flow.PeerRefuses)
			refused := map[string]int{}
			for _, e := range saw(c, flow.PeerRefuses, timeline.PeerRefused) {
				refused[e.Attrs["by"]]++
			}
			y.Count(byReset, refused[timeline.PeerByReset])
			y.Count(byGoAway, refused[timeline.PeerByGoAway])
			n := 0
			for _, s := range dialled(c, flow.PeerRefuses) {
				if s.Start < from {
					continue
				}
				y.Span(from, s.End)
				n++
				if s.Failed() {
					y.Failed(c, s, s.End, "", "%s", since(s.End, from))
				}
			}
			y.Count(served, n)
			all := refused[timeline.PeerByReset] + refused[timeline.PeerByGoAway]
			return y.Conclude(
				fmt.Sprintf("all %d were served, though the peer refused %d CONNECTs as not processed", n, all),
				fmt.Sprintf("%d of %d failed, while the peer refused %d CONNECTs as not processed", y.Culprits(), n, all))
		},
	}
}
