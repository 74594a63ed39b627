// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// CloseNotifyFirst judges how TLS connections are ended that stood at D, or that end from then on with an answer that said so. RFC
// 8446 section 6.1: "Each party MUST send a "close_notify" alert before closing
// its write side of the connection, unless it has already sent some error
// alert." And: "If a transport-level close is received prior to a "close_notify",
// the receiver cannot know that all the data that was sent has been received."
//
// What is cut with work in hand is no normal way out: of that the rule is a
// SHOULD, and it is counted apart. own are floors, by their names, that take the place of
// the check's.
func CloseNotifyFirst(own ...Floor) Check {
	const what = "TLS connections that stood at D, or ended later with an answer that said so, and that the server ended"
	enough := perTermination(what, fewConnections).OrOwn(own)
	return Check{
		Name:     what,
		Expected: "a close_notify comes on each before the FIN",
		Floors:   []Floor{enough},
		Judge: func(c Case) spec.Finding {
			var g gather
			bare, cut, spared := 0, 0, 0
			total := g.overConnections(c, enough, endedLater, inTLS, func(t Ending, k connection) bool {
				end, ok := k.ended()
				switch {
				case !ok, k.alerted(end):
					return false
				case end.Kind == timeline.FrameCloseNotify:
				case sparedAt(c, t, k.left(end.At)):
					spared++
					return false
				case k.working(end):
					cut++
					return false
				default:
					bare++
					g.against(t, k.left(end.At), k.last().ID, "%s ended by %s without close_notify", k, whose[end.Kind])
				}
				return true
			})
			if f, only := g.nothingButKill(spared, "TLS connections that stood at D"); only && total+cut == 0 {
				f.Evidence = nil
				return f
			}
			passed := fmt.Sprintf("all %d TLS connections that stood at D, or ended later with an answer that said so, and that the server ended, were ended by close_notify first", total)
			if cut > 0 {
				passed += fmt.Sprintf("; %d more were cut with a request in hand and without it", cut)
			}
			return g.conclude(passed, fmt.Sprintf("%d of %s ended without it", bare, plural(total, "connection was", "connections were")))
		},
	}
}

// alerted says whether an error alert came before the end.
func (k connection) alerted(end timeline.Frame) bool {
	for _, f := range k.frames {
		if f.Kind == timeline.FrameAlert && f.At <= end.At {
			return true
		}
	}
	return false
}
