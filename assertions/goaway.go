// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// SendsGoAway judges that an instance that drains says GOAWAY on each HTTP/2
// connection before it ends it. RFC 9113 section 6.8: "Endpoints SHOULD always
// send a GOAWAY frame before closing a connection so that the remote peer can
// know whether a stream has been partially processed or not."
//
// Of the connections that say nothing by design IdleGetsGoAway speaks, and a shared one
// may be one too many: a server that says GOAWAY with an answer never tells that. own are
// floors, by their names, that take the place of the check's.
func SendsGoAway(own ...Floor) Check {
	k := goAwayFirst(
		"HTTP/2 connections that the draining server ends",
		"a GOAWAY comes on each connection before it is closed or reset",
		"HTTP/2 connections that got a GOAWAY or were ended",
		"kept HTTP/2 connections with requests", "; of silent ones another rule speaks",
		connectionsTo, func(k connection) bool { return !k.pooled() }, own...)
	k.Needs = []Evidence{Lasting}
	return k
}

// IdleGetsGoAway is SendsGoAway for the connections that say nothing.
func IdleGetsGoAway() Check {
	return goAwayFirst(
		"silent HTTP/2 connections that stood at D",
		"a GOAWAY comes on each silent connection too, before it is closed or reset",
		"silent HTTP/2 connections that got a GOAWAY or were ended",
		"silent HTTP/2 connections that stood at D", "",
		standing, connection.pooled)
}

// goAwayFirst judges the connections that are not another rule's: kind says which these are,
// and others which are not.
func goAwayFirst(name, expected, what, kind, others string, of func(Case, Ending, []flow.Protocol) []connection, anothers func(connection) bool, own ...Floor) Check {
	enough := perTermination(what, fewConnections).OrOwn(own)
	return Check{
		Name: name, Expected: expected,
		Likely: earlyEnd,
		Floors: []Floor{enough},
		Judge: func(c Case) spec.Finding {
			var g gather
			mute := 0
			total := g.overConnections(c, enough, of, inHTTP2, func(t Ending, k connection) bool {
				if anothers(k) || !k.answered() {
					return false
				}
				if said := k.goAways(); len(said) > 0 {
					return k.left(said[0].at) >= t.Drain.At-t.Drain.Err
				}
				end, ok := k.ended()
				if !ok || k.left(end.At) < t.Drain.At-t.Drain.Err {
					return false
				}
				mute++
				g.against(t, k.left(end.At), k.last().ID, "%s ended by %s without a GOAWAY", k, whose[end.Kind])
				return true
			})
			return g.conclude(
				fmt.Sprintf("all %d %s that it told or ended got a GOAWAY first%s", total, kind, others),
				fmt.Sprintf("%d of %d %s that it told or ended got no GOAWAY%s", mute, total, kind, others))
		},
	}
}

// FirstGoAwayMax judges the first GOAWAY on the connections that stood at D.
// RFC 9113 section 6.8: "A server that is attempting to gracefully shut down a
// connection SHOULD send an initial GOAWAY frame with the last stream identifier
// set to 2^31-1 and a NO_ERROR code."
//
// Where there was none at all, that is another rule's (SendsGoAway).
func FirstGoAwayMax() Check {
	enough := perTermination("connections that stood at D and got a GOAWAY", fewConnections)
	return Check{
		Name:     "the first GOAWAY on connections that stood at D",
		Expected: "its last stream ID is 2^31-1 and its code NO_ERROR: streams that are on their way are still taken",
		Floors:   []Floor{enough},
		Needs:    []Evidence{Lasting},
		Judge: func(c Case) spec.Finding {
			var g gather
			wrong := 0
			total := g.overConnections(c, enough, standing, inHTTP2, func(t Ending, k connection) bool {
				said := k.goAways()
				if len(said) == 0 {
					return false
				}
				if first := said[0]; first.last != maxStreamID || first.code != noError {
					wrong++
					g.against(t, k.left(first.at), k.last().ID, "%s: the first was a %s", k, first)
				}
				return true
			})
			return g.conclude(
				fmt.Sprintf("the first GOAWAY said 2^31-1 and NO_ERROR on all %d HTTP/2 connections that stood at D and got one", total),
				fmt.Sprintf("the first GOAWAY was another one on %d of %s", wrong, plural(total, "connection", "connections")))
		},
	}
}

// noError is the name of the code 0: RFC 9113 section 7.
const noError = "NO_ERROR"

// finalWithin is how long after its first GOAWAY a server may take to say which
// stream was the last: the text has no bound, and a client waits no longer.
const finalWithin = 10 * time.Second

// FinalGoAway judges the GOAWAY that follows the first one. RFC 9113 section
// 6.8: "After allowing time for any in-flight stream creation (at least one
// round-trip time), the server MAY send another GOAWAY frame with an updated
// last stream identifier."
//
// A connection that its client ended soon after the first one proves nothing. That the
// other one is not too early only a path with a delay shows.
func FinalGoAway() Check {
	enough := perTermination("connections whose first GOAWAY said 2^31-1 and that got another, or were ended by the server, or were held for long by the client", fewConnections)
	distantFloor := Floor{Name: "of these, connections over a path with a delay", N: 1,
		Reason: "clients that share their connections have one or two to each instance",
	}
	return Check{
		Name:     "the GOAWAY after the first one",
		Expected: "before the server ends the connection, and at least a round trip after the first GOAWAY, another one names the real last stream ID",
		Likely:   earlyEnd,
		Floors:   []Floor{enough, distantFloor},
		Needs:    []Evidence{Lasting},
		Judge: func(c Case) spec.Finding {
			var g gather
			wrong, asked, far := 0, 0, 0
			var slowest time.Duration
			total := g.overConnections(c, enough, standingAll, inHTTP2, func(t Ending, k connection) bool {
				said := k.goAways()
				if len(said) == 0 || said[0].last != maxStreamID {
					return false
				}
				ok, known := g.final(c, t, k, said)
				if known && !ok {
					wrong++
				}
				if known && k.way() > 0 {
					far++
				}
				if took, pinged := k.answeredPing(said); known && pinged {
					asked++
					slowest = max(slowest, took)
				}
				return known
			})
			g.count(distantFloor, far)
			pings := ""
			if asked > 0 {
				pings = fmt.Sprintf("; on %d of them a PING followed the first, and the client answered within %s", asked, ms(slowest))
			}
			return g.conclude(
				fmt.Sprintf("a second GOAWAY named the real last stream ID on all %d HTTP/2 connections whose first one said 2^31-1 and whose second one or end was seen", total)+pings,
				fmt.Sprintf("on %d of %s it was missing, too early or no real one", wrong, plural(total, "connection", "connections"))+pings)
		},
	}
}

// final judges the GOAWAYs of a connection after a first one that left all
// open. known is false where the client ended the connection before any came.
func (g *gather) final(c Case, t Ending, k connection, said []goAway) (ok, known bool) {
	first := said[0]
	for _, a := range said[1:] {
		if a.last == maxStreamID {
			continue
		}
		highest := k.highestStream()
		switch gap := a.at - first.at; {
		case gap < 2*k.way():
			// Nobody can be sooner for want of CPU.
			g.against(t, k.left(a.at), k.last().ID, "%s: the second GOAWAY came %s after the first; a round trip takes %s", k, ms(gap), ms(2*k.way()))
		// Where the recording was stopped, what was in flight is not known.
		case a.last > highest && c.Cancelled == 0 && c.Tail != 0:
			g.against(t, k.left(a.at), k.last().ID, "%s: a %s, and the client had opened none above %d", k, a, highest)
		default:
			ok = true
		}
		return ok, true
	}
	end, over := k.end()
	if !over || end.Kind == timeline.FrameClose && end.At-first.at < finalWithin {
		return false, false
	}
	g.against(t, end.At, k.last().ID, "%s ended by %s, %s after a first GOAWAY that left all open, and without another", k, whose[end.Kind], ms(end.At-first.at))
	return false, true
}

// answeredPing says whether the client answered a PING that came behind the first GOAWAY
// and before one that named a real last stream, if any did, and how long after it had
// come at most: a server may measure the round trip by it.
func (k connection) answeredPing(said []goAway) (took time.Duration, ok bool) {
	named := slices.IndexFunc(said, func(a goAway) bool { return a.last != maxStreamID })
	for _, f := range k.frames {
		if f.Kind != timeline.FramePing {
			continue
		}
		d, err := time.ParseDuration(f.Attrs["answered"])
		if came := f.At - d; err != nil || came < said[0].at || named >= 0 && came > said[named].at {
			continue
		}
		took, ok = max(took, d), true
	}
	return took, ok
}

// resetOf is the RST_STREAM of a request's stream.
func (k connection) resetOf(s timeline.Sample) (timeline.Frame, bool) {
	id := fmt.Sprint(streamID(s))
	for _, f := range k.frames {
		if f.Kind == timeline.FrameReset && f.Attrs["id"] == id {
			return f, true
		}
	}
	return timeline.Frame{}, false
}
