// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// GoAwayNeverRises judges the GOAWAYs of each connection against each other.
// RFC 9113 section 6.8: "Endpoints MUST NOT increase the value they send in the
// last stream identifier, since the peers might already have retried unprocessed
// requests on another connection."
func GoAwayNeverRises() Check {
	enough := perTermination("HTTP/2 connections that got a GOAWAY", fewConnections)
	return Check{
		Name:     "the last stream IDs of one connection's GOAWAYs",
		Expected: "none is higher than one before it",
		Floors:   []Floor{enough},
		Needs:    []Evidence{Lasting},
		Judge: func(c Case) spec.Finding {
			var g gather
			several := 0
			total := g.overConnections(c, enough, connectionsTo, inHTTP2, func(t Ending, k connection) bool {
				said := k.goAways()
				if len(said) == 0 {
					return false
				}
				if len(said) > 1 {
					several++
				}
				for i, a := range said[1:] {
					if before := lowest(said[:i+1]); a.last > before {
						g.certain(k.left(a.at), t.Name, k.last().ID, "%s: %s: a %s, after one that had said %d", relative(k.left(a.at), t), k, a, before)
					}
				}
				return true
			})
			return g.conclude(
				fmt.Sprintf("it never rose on %s, of which %d got more than one GOAWAY", plural(total, "connection", "connections"), several),
				fmt.Sprintf("it rose %s on %s", plural(g.failures(), "time", "times"), plural(total, "connection", "connections")))
		},
	}
}

// AboveLastUnprocessed judges that no backend began a request whose stream is
// above the last stream ID that its client was told. RFC 9113 section 6.8: "If
// the receiver of the GOAWAY has sent data on streams with a higher stream
// identifier than what is indicated in the GOAWAY frame, those streams are not
// or will not be processed." Section 8.7: "The GOAWAY frame indicates the
// highest stream number that might have been processed. Requests on streams with
// higher numbers are therefore guaranteed to be safe to retry."
func AboveLastUnprocessed() Check {
	const what = "HTTP/2 connections that got a GOAWAY"
	enough := perTermination(what, fewConnections)
	aboveIt := Floor{Name: "streams above it", N: 1,
		Reason: "a server that shuts down in two phases names its last stream when no other is on its way: it leaves none above, and that is best; of who names it at once some are seen",
	}
	return Check{
		Name:     "streams above the last stream ID of their connection's GOAWAYs",
		Expected: "none was answered, and no backend's ledger has one",
		Floors:   []Floor{enough, aboveIt},
		Needs:    []Evidence{Ledger},
		Judge: func(c Case) spec.Finding {
			var g gather
			begun := begunIDs(c.Timeline)
			above, atOnce := 0, 0
			g.overConnections(c, enough, connectionsTo, inHTTP2, func(t Ending, k connection) bool {
				said := k.goAways()
				if len(said) == 0 {
					return false
				}
				last := lowest(said)
				if said[0].last != maxStreamID {
					atOnce++
				}
				for _, s := range k.samples {
					if streamID(s) <= last || unopened(s) && !begun[s.ID] {
						continue
					}
					above++
					switch {
					case begun[s.ID]:
						g.certain(s.End, t.Name, s.ID, "%s: stream %d of %s was begun by a backend; the client was told that %d is the last", relative(s.End, t), streamID(s), k, last)
					case s.First > 0:
						g.certain(s.End, t.Name, s.ID, "%s: stream %d of %s was answered; the client was told that %d is the last", relative(s.End, t), streamID(s), k, last)
					}
				}
				return true
			})
			some := aboveIt
			if atOnce == 0 {
				some = some.Waived()
			}
			g.count(some, above)
			g.unbegun(c.Timeline, begun)
			passed := fmt.Sprintf("none of %s above it was processed", plural(above, "stream", "streams"))
			if above == 0 {
				passed = "no stream was above it: the servers named their last ones when nothing was on its way any more, which is best"
			}
			return g.conclude(passed,
				fmt.Sprintf("%d of %s above it were processed", g.failures(), plural(above, "stream", "streams")))
		},
	}
}

// unbegun doubts a ledger that has not the beginning of every request that a client
// saw answered, wherever in the recording: what such a ledger does not say of another
// request proves nothing.
func (g *gather) unbegun(tl *timeline.Timeline, begun map[string]bool) {
	if first, n := unaccounted(tl, begun); n > 0 {
		g.doubt("%s no beginning in any backend's ledger (the first: %s): it has a hole, or its tail is missing", plural(n, "answered request has", "answered requests have"), first.ID)
	}
}

// BelowLastCompletes judges the streams at or under the last stream ID that
// were open when the first GOAWAY was sent. RFC 9113 section 6.8: "The sender of
// a GOAWAY frame might gracefully shut down a connection by sending a GOAWAY
// frame, maintaining the connection in an "open" state until all in-progress
// streams complete."
//
// What is cut because the instance's time is up is another rule's, and so are
// the streams that crossed the GOAWAY on its way. What was refused, and never begun, is
// no work: section 8.7. A server may say GOAWAY when nothing is left (nginx does): of such
// a connection those streams show it that were open at D, and had their answers by then.
func BelowLastCompletes() Check {
	const what = "streams at or under the last stream ID, open at the first GOAWAY"
	enough := Floor{Per: "termination", Name: what + ", or open at D where none was then", N: fewConnections, Reason: atOneInstant}
	return Check{
		Name:     what,
		Expected: "each ends with its whole answer",
		Likely:   earlyEnd,
		Floors:   []Floor{enough},
		Needs:    []Evidence{Lasting},
		Judge: func(c Case) spec.Finding {
			var g gather
			begun := begunIDs(c.Timeline)
			total, lost, over, ahead := 0, 0, 0, 0
			trusts := false // the ledger, in what it does not have
			ended := g.toll(c.terminated())
			for t := range ended.each() {
				g.shutBetween(c, t)
				judged := 0
				for _, k := range connectionsTo(c, t, inHTTP2) {
					said := k.goAways()
					if len(said) == 0 || k.left(said[0].at) < t.Drain.At-t.Drain.Err {
						continue
					}
					last := lowest(said)
					open, broken, before := false, false, 0
					for _, s := range k.samples {
						if streamID(s) > last || unopened(s) || s.Start >= said[0].at {
							continue
						}
						if s.End <= k.left(said[0].at) {
							if s.Start < t.Earliest() && s.End > t.Drain.At+t.Drain.Err {
								broken = broken || cutShort(s)
								if !s.Failed() && !s.Saturated {
									before++
								}
							}
							continue
						}
						open = true
						if raced(k, s, said[0], begun) {
							trusts = trusts || unspoken(s, begun)
							continue
						}
						// Whoever was told that its request was not processed sends it again, and
						// has it done twice where it was.
						if untaken(s, begun) {
							trusts = true
							continue
						}
						if cutShort(s) && !turnedAway(s) && Outlasts(c, t, s) {
							over++
							continue
						}
						if !s.Saturated || cutShort(s) {
							judged++
						}
						if cutShort(s) {
							lost++
							g.broke(c, t, s, "stream %d of connection %d, with %d as the last stream ID: %s", streamID(s), k.number(), last, describe(s))
						}
					}
					if !open && !broken {
						judged += before
						ahead += before
					}
				}
				total += judged
				ended.has(enough, judged)
			}
			if trusts {
				g.unbegun(c.Timeline, begun)
			}
			ended.bound(ended.broken, total, lost)
			passed := fmt.Sprintf("all %d streams at or under the last stream ID, open at the first GOAWAY, ended whole", total-ahead)
			if ahead > 0 {
				passed += fmt.Sprintf("; %d more were open at D on connections whose GOAWAY came when none was, and had ended whole by then", ahead)
			}
			if over > 0 {
				passed += fmt.Sprintf("; %d more took longer than the instance had, and were cut at its deadline", over)
			}
			return g.conclude(passed, fmt.Sprintf("%d of %s did not end whole", lost, plural(total, "stream", "streams")))
		},
	}
}

// broke is a request that failed at its end.
func (g *gather) broke(c Case, t Ending, s timeline.Sample, format string, args ...any) {
	g.failed(c, s, s.End, t.Name, "%s: %s", relative(s.End, t), fmt.Sprintf(format, args...))
}

// cutShort says whether a request's stream did not come to its end. A gRPC call
// that failed and came to it is whole to HTTP/2, and so is an answer of another
// status.
func cutShort(s timeline.Sample) bool { return s.Failed() && s.Phase != timeline.PhaseDone }

// opened is when a request's stream was opened: its HEADERS are written with
// the request's end where it has no body of its own, and at its begin else, as in a tunnel.
func opened(s timeline.Sample) time.Duration {
	if s.Stream.Flow().Protocol.Tunnels() || slices.Contains(posted, s.Stream.Flow().Op) || isCall(s) || s.Sent == 0 {
		return max(s.Start, s.Dial)
	}
	return s.Sent
}
