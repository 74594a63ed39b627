// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Lingers judges that a server that closes after an answer does so in stages.
// RFC 9112 section 9.6: "If a server performs an immediate close of a TCP
// connection, there is a significant risk that the client will not be able to
// read the last HTTP response. [...] To avoid the TCP reset problem, servers
// typically close a connection in stages. First, the server performs a
// half-close by closing only the write side of the read/write connection."
//
// An RST that cuts an answer short at the deadline is right to be one. It is
// an immediate close where the backend had given the answer whole.
func Lingers() Check {
	const unread = "of these, connections on which the client was still sending"
	enough := perTermination("connections that the server ended after an answer that said Connection: close, or under what came behind one that did not", fewConnections)
	unreadFloor := Floor{Name: unread, N: fewConnections, Reason: "where all was read, an immediate close looks like any other"}
	return Check{
		Name:     "how connections end after the answer that said Connection: close, or that was the last",
		Expected: "the FIN, or close_notify in TLS, comes before any RST, and no RST at once behind it: the client can read the answer to its end",
		Floors:   []Floor{enough, unreadFloor},
		Needs:    []Evidence{Uploads},
		Judge: func(c Case) spec.Finding {
			var g gather
			whole := wholeIDs(c.Timeline)
			hard, cut, sending := 0, 0, 0
			total := g.overConnections(c, enough, connectionsTo, inHTTP1, func(t Ending, k connection) bool {
				end, over := k.ended()
				said, ok := k.saidClose()
				if !ok && over {
					said, ok = k.endedUnder(c, t, end)
				}
				if !ok || !over || k.left(end.At) < t.Drain.At-t.Drain.Err {
					return false
				}
				switch {
				case k.resetBehind(end) && aheadPost(said) && said.Nth == 1:
					// The answer is lost with what the client had not read yet, whatever TLS had said.
					hard++
					g.against(t, k.left(end.At), said.ID, "%s: RST instead of FIN, at once behind its close_notify, under what the client was sending", k)
				case end.Kind != timeline.FrameRST:
				case said.Failed() && said.Outcome != timeline.Status && !whole[said.ID]:
					cut++
					return false
				case said.Failed() && said.Outcome != timeline.Status:
					hard++
					g.against(t, k.left(end.At), said.ID, "RST on connection %d, before the client had read its last answer: %s", k.number(), describe(said))
				default:
					hard++
					when := "after"
					if end.At < said.End {
						when = "before the end of" // all of it had come, and the client had yet to read it
					}
					g.against(t, k.left(end.At), said.ID, "%s: RST instead of FIN, %s %s its last answer", k, ms((end.At - said.End).Abs()), when)
				}
				// Behind the answer to the POST itself nothing is unread.
				if aheadPost(said) && said.Nth == 1 {
					sending++
				}
				return true
			})
			g.count(unreadFloor, sending)
			if cut > 0 {
				g.unfinished(c.Timeline, whole)
			}
			passed := fmt.Sprintf("all %d connections that it ended behind an answer ended by FIN or close_notify, %d of them under what the client was sending", total, sending)
			if cut > 0 {
				passed += fmt.Sprintf("; %s, which is no close", plural(cut, "answer was cut in the middle", "answers were cut in the middle"))
			}
			return g.conclude(passed, fmt.Sprintf("%d of %s by RST", hard, plural(total, "connection ended", "connections ended")))
		},
	}
}

// resetBehind says whether an RST came at once behind a close_notify, and no FIN between them: the connection was closed with bytes
// unread.
func (k connection) resetBehind(end timeline.Frame) bool {
	if end.Kind != timeline.FrameCloseNotify {
		return false
	}
	for _, f := range k.frames {
		if f.At >= end.At && (f.Kind == timeline.FrameFIN || f.Kind == timeline.FrameRST) {
			return f.Kind == timeline.FrameRST && f.At-end.At <= atOnce
		}
	}
	return false
}

// endedUnder is the last answer of a connection that the server ended behind it in its drain, before its time was up, without having
// said that it would, under what the client was sending.
func (k connection) endedUnder(c Case, t Ending, end timeline.Frame) (timeline.Sample, bool) {
	last, whole := k.lastAnswer()
	if !whole || last.Nth != 1 || !aheadPost(last) || k.left(last.First) < t.Drain.At+t.Drain.Err || timeIsUp(c, t, k.left(end.At)) {
		return timeline.Sample{}, false
	}
	return last, end.At >= last.End && end.At-last.End <= closesWithin
}
