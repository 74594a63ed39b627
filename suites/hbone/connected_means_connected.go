// SPDX-License-Identifier: Apache-2.0

package hbone

import (
	"fmt"
	"net/http"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
	"github.com/lastcall-dev/lastcall/suites/tunnel"
)

// vacant are CONNECTs to a port where nothing listens.
var vacant = load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.Reused, Op: flow.Vacant}, Rate: 5}

// RFC 9110 section 9.3.6: "Any 2xx (Successful) response indicates that the sender
// (and all inbound proxies) will switch to tunnel mode immediately after the
// response header section; data received after that header section is from the
// server identified by the request target." And RFC 9113 section 8.5: "Once this
// connection is successfully established, the proxy sends a HEADERS frame
// containing a 2xx-series status code to the client".
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "hbone.connected-means-connected",
	Title: "A CONNECT to a port where nothing listens gets an error status or RST_STREAM, never 200",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "RFC 9113", Section: "section 8.5", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-8.5",
		Quote: "Once this connection is successfully established, the proxy sends a HEADERS frame containing a 2xx-series status code to the client, as defined in Section 9.3.6 of [HTTP].",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "To the peer's application a 200 is a connection that stands. One that nobody took then ends without a word: it looks like an app that accepts and crashes, and a client that would have tried another address is kept from it.",
	Causes: "A proxy that answers before it has dialled, to save the round trip.",
	Fix:    "Dial first. Answer with 503, or by RST_STREAM with CONNECT_ERROR, where nobody takes the connection.",

	Topology: behaviour.Tunnelled, GatewaysToo: true, NodesToo: true,
	Disrupt:    behaviour.EndBoth,
	Traffic:    []load.Profile{vacant},
	Checks:     []assertions.Check{DeniedWhereNobodyListens()},
	BrokenBy:   []spec.Fault{datapath.ConnectsFirst},
	Resolution: 60 * time.Millisecond,
})

// DeniedWhereNobodyListens judges the answers to CONNECTs to a port where nothing listens, while the
// pod is as ever and while it drains; and that there is one, for as long as its app accepts: as it says
// itself (timeline.DrainListenerClosed), and for P from D on where it says nothing.
func DeniedWhereNobodyListens() assertions.Check {
	before := assertions.Floor{Per: "termination", Name: "CONNECTs that were answered before D", N: 20, Reason: "the answer to each is the same: it is no count over a window"}
	during := assertions.Floor{Per: "termination", Name: "CONNECTs that were answered after D", N: 10,
		Reason: before.Reason + "; who accepts for P alone gets 15, and who promises to accept for less than 2s is asked for as much less"}
	return assertions.Check{
		Name:     "CONNECTs to a port where nothing listens",
		Expected: "each is answered with an error's status, before and after D, until the app accepts no more, or ended by RST_STREAM; in a tunnel that is kept it may be turned away as not processed",
		Floors:   []assertions.Floor{before, during},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all := 0
			for t := range tally.Terminations(c) {
				tally.SpanDrain(c, t)
				until := assertions.AppAccepts(c, t)
				shut, said := t.SaysShut(c)
				n := map[bool]int{} // whether it was answered after D
				for _, s := range c.Timeline.Samples {
					if s.Stream.Flow().Op != flow.Vacant || !tunnel.Direct(s, t) {
						continue
					}
					if s.Status == 0 && !deniedByReset(s) {
						switch {
						case s.Start < c.Steady || s.Start > until || !unanswered(s):
						case said && s.End > shut:
							// On a machine without time half a second is not enough for an answer.
							tally.Late(c, s.End, t.Name, s.ID, "%s: %s: a CONNECT was not answered until the app's listener had closed: %s: %s", t.Clock(s.End), s.Stream.Kind(), s.Outcome, s.Err)
						default:
							tally.Failed(c, s, s.End, t.Name, "%s: a CONNECT was never answered", t.Clock(s.End))
						}
						continue
					}
					all++
					n[s.End >= t.Drain.At]++
					if s.Status/100 == http.StatusOK/100 {
						tally.Certain(s.End, t.Name, s.ID, "%s: %s: a CONNECT to a port where nothing listens was answered with status %d", t.Clock(s.End), s.Stream.Kind(), s.Status)
					}
				}
				tally.Least(before, t.Name, n[false])
				tally.Least(during.Within(c.MinDrain, 2*time.Second), t.Name, n[true])
			}
			return tally.Conclude(fmt.Sprintf("all %d were answered with an error's status, or by RST_STREAM", all),
				fmt.Sprintf("%s answered with success, or never; %d were answered", assertions.Plural(tally.Culprits(), "CONNECT was", "CONNECTs were"), all))
		},
	}
}

// deniedByReset says whether a CONNECT was denied by RST_STREAM, as RFC 9113 section 8.5 has it for a connection that
// fails: a kept recording may have it as a failure.
func deniedByReset(s timeline.Sample) bool {
	return s.Outcome == timeline.StreamReset || !s.Failed() && s.Status == 0
}

// unanswered says whether a CONNECT was sent in a tunnel that stood, and nobody said what became of it: that it failed
// or that it was not processed.
func unanswered(s timeline.Sample) bool {
	return s.Phase != timeline.PhaseDial && s.Phase != timeline.PhaseTLS && !s.Outcome.SafeToRetry()
}
