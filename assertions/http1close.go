// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// fewConnections is the least number of connections of one kind that a check
// on what is said on the wire stands on, for each termination.
const fewConnections = 5

// SaysClose judges that the last answer on an HTTP/1.1 connection that the
// server then closes says so. RFC 9112 section 9.6: "A sender SHOULD send a
// Connection header field (Section 7.6.1 of [HTTP]) containing the "close"
// connection option when it intends to close a connection."
//
// As long as the instance accepts new connections it may mean to serve those
// that stand too, and need not say it: an answer of that time is excused where
// the connection was closed only with the listener, or after it. Not where that was all: who accepts
// until its exit, and has told none of its clients by then, ends connections of which
// they think that they go on. A connection on which no answer was begun after D had no place to say it in.
func SaysClose() Check {
	enough := perTermination("connections that the server closed after an answer that had to say so, or did", fewConnections)
	return Check{
		Name:     "the last answer on connections that the server closes",
		Expected: "on every HTTP/1.1 connection that the draining server closes, the last answer says Connection: close; only one from before its listener went, on a connection that stood longer than that, need not, unless its listener went with the process and nobody was told",
		Likely:   earlyEnd,
		Floors:   []Floor{enough},
		Needs:    []Evidence{Lasting},
		Judge: func(c Case) spec.Finding {
			var g gather
			whole := wholeAt(c.Timeline)
			total, mute, early, cut := 0, 0, 0, 0
			ended := g.toll(c.terminated())
			for t := range ended.each() {
				g.shutBetween(c, t)
				shut, ok := acceptsUntil(c, t)
				if !ok {
					shut = LastSeen(c)
				}
				killed := t.Killed() || t.Kill > 0 && t.Exit.Known() && t.Exit.At+t.Exit.Err >= t.Kill // which is nothing that a server does
				judged, said := 0, false
				var untold []connection // of those that need not say it
				for _, k := range connectionsTo(c, t, inHTTP1) {
					end, ok := k.ended()
					last, some := k.lastAnswer()
					begun := k.left(last.First)
					// Its client may read it much later.
					if at, is := whole[last.ID]; is && !last.LastOnConn && begun < at+longWait {
						begun = min(begun, at)
					}
					if !ok || !some || begun < t.Drain.At+max(t.Drain.Err, atOnce) {
						continue
					}
					switch {
					case last.LastOnConn:
						judged, said = judged+1, true
					case killed && t.Exit.Known() && k.left(end.At) >= t.Exit.At-t.Exit.Err-atOnce:
						cut++ // by its kernel
					// A server may compose an answer while another of its threads
					// closes the listener, and dials see that a little late.
					case k.left(last.First) <= shut+atOnce && k.left(end.At) >= shut-atTheDoor:
						untold = append(untold, k)
					default:
						judged++
						before := g.failures()
						const text = "%s ended by %s, %s after an answer that did not say Connection: close"
						args := []any{k, whose[end.Kind], ms(end.At - last.End)}
						// That it came behind the listener's end, and not just before, a machine
						// that stood still may have made of it.
						if at := k.left(end.At); k.left(last.First) <= shut+NoCrossing {
							g.late(c, at, t.Name, last.ID, "%s: "+text, append([]any{relative(at, t)}, args...)...)
						} else {
							g.against(t, at, last.ID, text, args...)
						}
						mute += g.failures() - before
					}
				}
				if t.Exit.Known() && shut >= t.Exit.At-atTheDoor && !said && !killed {
					judged += len(untold)
					mute += len(untold)
					for _, k := range untold {
						end, _ := k.ended()
						last, _ := k.lastAnswer()
						g.against(t, k.left(end.At), last.ID, "%s ended by %s with the process, %s after an answer that did not say Connection: close, as none did", k, whose[end.Kind], ms(end.At-last.End))
					}
				} else {
					early += len(untold)
				}
				total += judged
				ended.has(enough, judged)
			}
			passed := fmt.Sprintf("the last answer on each of %d closed connections said Connection: close", total)
			if early > 0 {
				passed += fmt.Sprintf("; on %d more the last one was begun while new connections were still accepted, and need not: they stood until then", early)
			}
			if cut > 0 {
				passed += fmt.Sprintf("; %s, which the server did not close", plural(cut, "connection ended with SIGKILL", "connections ended with SIGKILL"))
			}
			return g.conclude(passed, fmt.Sprintf("%d of %s closed after an answer that did not say it", mute, plural(total, "connection was", "connections were")))
		},
	}
}

// lastAnswer is the last request on the connection that was answered whole.
func (k connection) lastAnswer() (timeline.Sample, bool) {
	for i := len(k.samples) - 1; i >= 0; i-- {
		s := k.samples[i]
		if s.First == 0 {
			continue
		}
		// What was cut in the middle is no orderly end.
		return s, !s.Failed() || s.Outcome == timeline.Status || s.Outcome == timeline.Corrupt
	}
	return timeline.Sample{}, false
}

// closesWithin is how long a server may take to close what it said that it
// closes: the client waits as long before it closes by itself.
const closesWithin = 2 * time.Second

// ClosesAfterSaying judges that a server that said Connection: close does so.
// RFC 9112 section 9.6: "A server that sends a "close" connection option MUST
// initiate closure of the connection (see below) after it sends the response
// containing the "close" connection option."
//
// And: "The server MUST NOT process any further requests received on that
// connection." A client that has read "close" sends nothing more, so that only what
// was sent before its answer was there (flow.Ahead) can come behind it.
func ClosesAfterSaying() Check {
	enough := perTermination("connections on which an answer said Connection: close, and whose end was seen", fewConnections)
	behind := perTermination("requests that were sent behind one whose answer said Connection: close", fewConnections)
	return Check{
		Name:     "connections on which an answer said Connection: close",
		Expected: fmt.Sprintf("the server closes each within %s of that answer's end, and processes nothing that comes behind the request", closesWithin),
		Floors:   []Floor{enough, behind},
		Needs:    []Evidence{Ledger},
		Judge: func(c Case) spec.Finding {
			var g gather
			total := g.overConnections(c, enough, connectionsTo, inHTTP1, func(t Ending, k connection) bool {
				said, ok := k.saidCloseIn(t)
				if !ok {
					return false
				}
				end, over := k.end()
				late := end.At-said.End > closesWithin
				switch {
				case !over:
					return false
				case end.Kind != timeline.FrameClose && !late:
				case end.Kind != timeline.FrameClose:
					g.late(c, end.At, t.Name, said.ID, "%s: %s was closed only %s after the answer that said so", relative(k.left(end.At), t), k, ms(end.At-said.End))
				case late:
					g.late(c, end.At, t.Name, said.ID, "%s: %s was still open %s after the answer that said Connection: close; the client closed it", relative(end.At, t), k, ms(end.At-said.End))
				default:
					// The client was first, and so it is nobody's.
					return false
				}
				return true
			})
			open := g.failures()
			sent := g.behindClose(c, behind)
			return g.conclude(
				fmt.Sprintf("all %d connections on which it said Connection: close, and whose end was seen, were closed in time, and none of the %d requests behind such an answer was processed", total, sent),
				fmt.Sprintf("%d of %s, and %d of %s", open, plural(total, "connection was not closed in time", "connections were not closed in time"),
					g.failures()-open, plural(sent, "request behind such an answer was processed", "requests behind such an answer were processed")))
		},
	}
}

// saidCloseIn is saidClose, where the drain had begun when that answer was sent.
func (k connection) saidCloseIn(t Ending) (timeline.Sample, bool) {
	said, ok := k.saidClose()
	return said, ok && k.left(said.End) >= t.Drain.At-t.Drain.Err
}

// behindClose judges the requests behind the one whose answer said close: that they
// are not answered, and that no backend begins them from then on. What one has begun
// before that, for a server that reads ahead, was no further request, if it is not
// answered. A hole in the ledger is a doubt. It returns on how many connections there was one, and holds that against the
// floor of each termination.
func (g *gather) behindClose(c Case, enough Floor) int {
	begins := map[string]time.Duration{}
	for _, e := range c.Timeline.Ledger {
		if e.Step == timeline.Begin {
			begins[e.ID] = e.At
		}
	}
	g.unbegun(c.Timeline, begunIDs(c.Timeline))
	return g.overConnections(c, enough, connectionsTo, inHTTP1, func(t Ending, k connection) bool {
		said, ok := k.saidCloseIn(t)
		evidence := false
		for _, s := range k.samples {
			if !ok || s.Nth <= said.Nth {
				continue
			}
			at, begun := begins[s.ID]
			switch {
			case s.First > 0:
				g.against(t, k.left(s.First), s.ID, "%s: a request behind the answer that said Connection: close was answered", k)
			case begun && at >= k.left(said.First):
				g.against(t, at, s.ID, "%s: a backend began a request behind the answer that said Connection: close", k)
			}
			evidence = true
		}
		return evidence
	})
}
