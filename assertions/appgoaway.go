// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// NothingLostAtGoAway judges that the clients before a proxy lose nothing by the
// GOAWAY of an app behind it. The frame is about one connection (RFC 9113
// section 6.8), and the proxy has others: its clients need not hear of it.
//
// A call that a backend has begun, and whose client was told that it was not
// processed, is lost: its work is thrown away, or done twice. RFC 9113 section 8.7: "A
// server MUST NOT indicate that a stream has not been processed unless it can
// guarantee that fact."
//
// Only what was begun while the app still accepted is judged: that it then goes
// away is what other rules are about.
func NothingLostAtGoAway() Check {
	saidFloor := Floor{Per: "termination", Name: "connections on which the instance said GOAWAY", N: 1,
		Reason: "a proxy may have all its calls on one connection to each backend",
	}
	runningFloor := Floor{Per: "termination", Name: "calls through the proxy in flight at D", N: 3,
		Reason: atOneInstant,
	}
	begunFloor := Floor{Per: "termination", Name: "calls through the proxy begun from D until the instance stops accepting", N: fewCalls,
		Reason: "the window is that of the drain in which the instance accepts",
	}
	return Check{
		Name:     "calls while an instance behind the proxy has said GOAWAY and still accepts",
		Expected: "each that ran at D, or was begun before the instance's listener went, ends whole, or as known to be unprocessed",
		Floors:   []Floor{saidFloor, runningFloor, begunFloor},
		Judge: func(c Case) spec.Finding {
			var g gather
			all, lost, away := 0, 0, 0
			taken := begunIDs(c.Timeline)
			hit := map[string]bool{}
			ended := g.toll(c.terminated())
			for t := range ended.each() {
				g.shutBetween(c, t)
				shut, ok := acceptsUntil(c, t)
				if !ok {
					g.doubt("nobody knows when %s stopped accepting", t.Name)
				}
				atD := 0
				for _, s := range c.Timeline.Samples {
					if !throughService(s) || !isCall(s) || s.End <= t.Drain.At || s.Start >= shut-atTheDoor {
						continue
					}
					all++
					if s.Start < t.Drain.At && !s.Saturated {
						atD++
					}
					switch {
					case !s.Failed():
					case untaken(s, taken):
						away++
					default:
						lost++
						hit[t.UID] = true
						why := describe(s)
						if turnedAway(s) {
							why = "begun by a backend, and its client was told that it was not processed: " + why
						}
						g.lost(c, s, t.Name, "%s of %s: %s", relative(s.Start, t), t.Name, why)
					}
				}
				ended.has(saidFloor, len(toldBy(c, t, timeline.ToldByGoAway)))
				ended.has(runningFloor, atD)
				ended.has(begunFloor, len(callsWhileAccepting(c, t)))
			}
			g.unbegun(c.Timeline, taken)
			ended.bound(len(hit), all, lost)
			passed := fmt.Sprintf("0 of %s lost over %s", plural(all, "call was", "calls were"), ended)
			if away > 0 {
				passed += fmt.Sprintf("; %d more were refused as not processed", away)
			}
			return g.conclude(passed, fmt.Sprintf("%d of %s lost, around %d of %s", lost, plural(all, "call was", "calls were"), len(hit), ended))
		},
	}
}
