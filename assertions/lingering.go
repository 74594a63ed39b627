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
	enough := perTermination("connections that the server ended after an answer that said Connection: close", fewConnections)
	unreadFloor := Floor{Name: unread, N: fewConnections, Reason: "where all was read, an immediate close looks like any other"}
	return Check{
		Name:     "how connections end after the answer that said Connection: close",
		Expected: "the FIN, or close_notify in TLS, comes before any RST: the client can read the answer to its end",
		Floors:   []Floor{enough, unreadFloor},
		Needs:    []Evidence{Uploads},
		Judge: func(c Case) spec.Finding {
			var g gather
			whole := wholeIDs(c.Timeline)
			hard, cut, sending := 0, 0, 0
			total := g.overConnections(c, enough, connectionsTo, inHTTP1, func(t Termination, k connection) bool {
				said, ok := k.saidClose()
				end, over := k.ended()
				if !ok || !over || k.left(end.At) < t.Drain.At-t.Drain.Err {
					return false
				}
				switch {
				case end.Kind != timeline.FrameRST:
				case said.Failed() && said.Outcome != timeline.Status && !whole[said.ID]:
					cut++
					return false
				case said.Failed() && said.Outcome != timeline.Status:
					hard++
					g.against(t, k.left(end.At), said.ID, "RST on connection %d, before the client had read the answer that said Connection: close: %s", k.number(), describe(said))
				default:
					hard++
					when := "after"
					if end.At < said.End {
						when = "before the end of" // all of it had come, and the client had yet to read it
					}
					g.against(t, k.left(end.At), said.ID, "%s: RST instead of FIN, %s %s the answer that said Connection: close", k, ms((end.At - said.End).Abs()), when)
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
			passed := fmt.Sprintf("all %d connections that it ended after an answer with Connection: close ended by FIN or close_notify, %d of them under what the client was sending", total, sending)
			if cut > 0 {
				passed += fmt.Sprintf("; %s, which is no close", plural(cut, "answer was cut in the middle", "answers were cut in the middle"))
			}
			return g.conclude(passed, fmt.Sprintf("%d of %s by RST", hard, plural(total, "connection ended", "connections ended")))
		},
	}
}
