// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// upgrades says whether a request makes a WebSocket of its connection.
func upgrades(s timeline.Sample) bool { return s.Stream.Flow().Op == flow.WebSocket }

// goodbyes are the close codes by which a server says that it goes. RFC 6455
// section 7.4.1: "1001 indicates that an endpoint is "going away", such as a
// server going down or a browser having navigated away from a page." 1012 is
// "Service Restart" in the registry that section 11.7 makes; section 7.4.2 leaves
// it to that: "Status codes in the range 1000-2999 are reserved for definition by
// this protocol, its future revisions, and extensions specified in a permanent
// and readily available public specification." Of 1000 it is said that "the
// purpose for which the connection was established has been fulfilled": it was
// not.
var goodbyes = []string{"1001", "1012"}

// atTheDeadline is how much earlier than its deadline, as it is known here, an
// instance may cut: its timer may count from an instant before D.
const atTheDeadline = 500 * time.Millisecond

// deadline is when an instance cuts what is left, at the latest when it is
// killed; 0: nobody said.
func deadline(c Case, t Ending) time.Duration {
	switch at := t.Drain.At + c.Deadline; {
	case c.Deadline == 0:
		return t.Kill
	case t.Kill == 0:
		return at
	default:
		return min(at, t.Kill)
	}
}

// WebSocketsSurvive judges what an instance that drains does with WebSockets:
// those that stood at D, and those that it took up after it. RFC 6455 section
// 7.3: "Servers MAY close the WebSocket connection whenever desired. [...] In
// either case, an endpoint initiates a closure by following the procedures to
// _Start the WebSocket Closing Handshake_ (Section 7.1.2)." That is a close frame.
// Where none came, section 7.1.5 has the client take the code for 1006.
//
// What is cut at the deadline is cut by design, and how is another rule's
// (h2.deadline, tcp.cut-is-visible).
func WebSocketsSurvive() Check {
	codes := strings.Join(goodbyes, " or ")
	enough := perTermination("WebSockets that stood at D", fewConnections)
	return Check{
		Name:     "WebSockets of an instance that drains",
		Expected: fmt.Sprintf("each lives until its client closes it, or is closed by a close frame that says %s; none ends without a close frame before the deadline", codes),
		Likely:   earlyEnd,
		Floors:   []Floor{enough},
		Judge: func(c Case) spec.Finding {
			var g gather
			// Those that stood at D, and those that were accepted after it.
			var old, fresh struct{ all, lost int }
			var none []timeline.Sample
			told, cut := 0, 0
			ended := g.toll(c.terminated())
			for t := range ended.each() {
				g.shutBetween(c, t)
				stood := 0
				none = append(none, madeNone(c, t)...)
				for _, k := range webSocketsTo(c, t) {
					at, s := k.left(k.first().End), k.first()
					if at < t.Drain.At-t.Drain.Err {
						continue
					}
					was := k.parting()
					if was == unsaid && g.dueToBeCut(c, t, at) {
						cut++
						continue
					}
					of := &fresh
					if k.left(s.First) < t.Drain.At-t.Drain.Err {
						of = &old
						if at > t.Drain.At+t.Drain.Err && !s.Saturated {
							stood++
						}
					}
					of.all++
					switch was {
					case saidGoodbye:
						told++
					case unsaid:
						of.lost++
						g.unclosed(c, t, k, at)
					}
				}
				ended.has(enough, stood)
			}
			total := old.all + fresh.all
			ended.bound(ended.broken, total, old.lost+fresh.lost)
			passed := fmt.Sprintf("all %s that stood at D and all %d that were accepted after it lived until their clients closed them", plural(old.all, "WebSocket", "WebSockets"), fresh.all)
			if told > 0 {
				passed = fmt.Sprintf("of %s that stood at D and %d that were accepted after it %d lived until their clients closed them, and %d were told %s", plural(old.all, "WebSocket", "WebSockets"), fresh.all, total-told, told, codes)
			}
			broken := fmt.Sprintf("%d of %s that stood at D and %d of %d that were accepted after it ended before their time", old.lost, plural(old.all, "WebSocket", "WebSockets"), fresh.lost, fresh.all)
			more := ""
			if cut > 0 {
				more += fmt.Sprintf("; %d more were cut at the deadline, which is no part of this rule", cut)
			}
			if len(none) > 0 {
				more += fmt.Sprintf("; %s answered and made no WebSocket, which is no part of this rule (the first with status %d%s)", plural(len(none), "upgrade after D was", "upgrades after D were"), none[0].Status, inBrief(none[0].Err))
			}
			return g.conclude(passed+more, broken+more)
		},
	}
}

// webSocketsTo are the WebSockets to an instance's own address: the upgrades
// that it agreed to and that their clients could take.
func webSocketsTo(c Case, t Ending) []connection {
	return slices.DeleteFunc(connectionsOf(c, t, upgrades), func(k connection) bool { return !accepted(k.first()) })
}

// accepted says whether a WebSocket came of an upgrade. A 101 that does not keep RFC 6455
// section 4.1 is none: "If the response lacks a |Connection| header field or the
// |Connection| header field doesn't contain a token that is an ASCII case-insensitive match
// for the value "Upgrade", the client MUST _Fail the WebSocket Connection_." Its client came
// no further than the answer's header.
func accepted(s timeline.Sample) bool {
	return s.Status == http.StatusSwitchingProtocols && s.Phase != timeline.PhaseFirstByte
}

// madeNone are the upgrades that reached an instance since its D, were answered, and are no
// WebSockets.
func madeNone(c Case, t Ending) []timeline.Sample {
	var out []timeline.Sample
	for _, k := range connectionsOf(c, t, upgrades) {
		if s := k.first(); s.First > 0 && !accepted(s) && arrival(s) >= t.Drain.At-t.Drain.Err {
			out = append(out, s)
		}
	}
	return out
}

// parting is how a WebSocket ended.
type parting int

const (
	byClient    parting = iota // it closed when it was done, and was answered
	saidGoodbye                // the server said that it goes
	unsaid                     // neither
)

func (k connection) parting() parting {
	switch s := k.first(); {
	case !s.Failed():
		return byClient
	case s.Outcome == timeline.CloseFrame && slices.Contains(goodbyes, k.closeCode()):
		return saidGoodbye
	}
	return unsaid
}

// closeCode is that of the server's close frame.
func (k connection) closeCode() string {
	for _, f := range k.frames {
		if f.Kind == timeline.FrameWSClose {
			return f.Attrs["code"]
		}
	}
	return ""
}

// timeIsUp says whether an instance's time was up at an instant, as far as anybody
// said when that is.
func timeIsUp(c Case, t Ending, at time.Duration) bool {
	end := deadline(c, t)
	return end > 0 && at >= end-t.Drain.Err-atTheDeadline
}

// dueToBeCut is timeIsUp, and a doubt where nobody said.
func (g *gather) dueToBeCut(c Case, t Ending, at time.Duration) bool {
	if deadline(c, t) == 0 {
		g.doubt("nobody said when %s cuts what is left", t.Name)
		return true
	}
	return timeIsUp(c, t, at)
}

// unclosed is a culprit: a WebSocket that ended too soon, and not as it should.
func (g *gather) unclosed(c Case, t Ending, k connection, at time.Duration) {
	s := k.first()
	switch {
	case s.Outcome == timeline.Timeout:
		g.late(c, at, t.Name, s.ID, "%s: no message came back on %s any more: %s", relative(at, t), k, describe(s))
	case s.Outcome == timeline.CloseFrame:
		g.against(t, at, s.ID, "%s was closed with code %s: %s", k, k.closeCode(), describe(s))
	case s.Outcome == timeline.Corrupt, s.Outcome == timeline.Malformed:
		g.against(t, at, s.ID, "%s went wrong: %s", k, describe(s))
	default:
		g.ended(c, t, s, at, "%s ended without a close frame (1006): %s", k, describe(s))
	}
}
