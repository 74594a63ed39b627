// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"net/http"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// AnswersHalfHeaders judges what becomes of requests on connections of before D that
// were to come after it: half of the header was sent before, or nothing. The rule is
// the project's own: a server may serve such a request or not, and close, but both
// sides have to know which.
//
// A reset without a byte is a close without one. Of the statuses, 408 and 503
// say that the request was not served: RFC 9110 section 15.5.9: "The 408 (Request
// Timeout) status code indicates that the server did not receive a complete
// request message within the time that it was prepared to wait."
func AnswersHalfHeaders() Check {
	enough := perTermination("connections with half a header at D", fewConnections)
	mutelyFloor := perTermination("connections at D that were to have their first request later", fewConnections)
	return Check{
		Name:     "requests that come late on connections of before D",
		Expected: "each request is answered whole (also by 408 or 503), or its connection is closed without a byte and no backend has begun it",
		Likely:   earlyEnd,
		Floors:   []Floor{enough, mutelyFloor},
		Judge: func(c Case) spec.Finding {
			var g gather
			begun := begunIDs(c.Timeline)
			total, closed, wrong := 0, 0, 0
			for _, t := range c.Terminations {
				g.shutBetween(c, t)
				judged := map[flow.Op]int{}
				for _, k := range connectionsOf(c, t, halved) {
					s := k.first()
					if !halfSent(t, k) {
						continue
					}
					total++
					if !s.Saturated {
						judged[s.Stream.Flow().Op]++
					}
					silent := s.First == 0 && (s.Outcome == timeline.Closed || s.Outcome == timeline.Reset)
					at := k.left(s.End)
					switch {
					case !s.Failed(), refused(s):
					case silent && c.Plain && s.Sent > 0:
						g.doubt("a request that was sent whole was closed on without a byte, and no ledger says whether it was begun")
					case silent && !begun[s.ID]:
						closed++
					case silent:
						wrong++
						g.against(t, at, s.ID, "a backend began the request, and its client was closed on without a byte: %s", describe(s))
					case s.Outcome == timeline.Timeout:
						wrong++
						g.late(c, at, t.Name, s.ID, "%s: neither answered nor closed: %s", relative(at, t), describe(s))
					default:
						wrong++
						g.against(t, at, s.ID, "%s", describe(s))
					}
				}
				g.least(enough, t.Name, judged[flow.HalfHeader])
				g.least(mutelyFloor, t.Name, judged[flow.Belated])
			}
			g.needTerminations(c)
			switch {
			case closed > 0 && len(begun) == 0 && !c.Plain:
				g.doubt("no backend's ledger says what was begun")
			case closed > 0:
				g.unbegun(c.Timeline, begun)
			}
			return g.conclude(
				fmt.Sprintf("%d of %d were answered, and %d closed without a byte", total-closed, total, closed),
				fmt.Sprintf("%d of %s ended in between", wrong, plural(total, "request", "requests")))
		},
	}
}

// halved says whether a request's header comes in two halves, or late and at once.
func halved(s timeline.Sample) bool {
	return s.Stream.Flow().Op == flow.HalfHeader || s.Stream.Flow().Op == flow.Belated
}

// halfSent says whether, at D, the peer had the connection and not all of the header.
func halfSent(t Termination, k connection) bool {
	s := k.first()
	return s.Phase != timeline.PhaseTLS && s.Dial > 0 && s.Dial+k.way()+atOnce < t.Drain.At-t.Drain.Err &&
		(s.Sent == 0 || s.Sent+k.way() > t.Drain.At+t.Drain.Err) && k.left(s.End) > t.Drain.At+t.Drain.Err
}

// refused says whether a client was told that its request was not served, and
// may be sent again.
func refused(s timeline.Sample) bool {
	return s.Outcome == timeline.Status && (s.Status == http.StatusRequestTimeout || s.Status == http.StatusServiceUnavailable)
}
