// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"cmp"
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// stuckFor is the stretch before a deletion in which it is seen to whom the
// client sticks.
const stuckFor = 2 * time.Second

// AffinityMoves judges that ClientIP affinity lets go of a terminating pod: no
// new connection of the client that stuck to it reaches it after P.
func AffinityMoves() Check {
	stuckTo := Floor{Name: "terminations of the pod that the client stuck to", N: 1,
		Reason: "the client sticks to one of three pods, and each is deleted once",
	}
	stuckBefore := Floor{Per: "such termination", Name: "new connections that the pod served to the client in the 2 s before its deletion, and no other pod did", N: 20,
		Reason: "shows that the client stuck to it; no rate is concluded from it",
	}
	offeredLater := Floor{Per: "such termination", Name: "new connections offered to the Service after P", N: 200}
	return Check{
		Name:     "new connections of a client with ClientIP affinity after T_endpoint + P",
		Expected: "while ready endpoints exist, no new connection of a client that stuck to a pod reaches it later than P after its EndpointSlice said that it terminates",
		Floors:   []Floor{stuckTo, stuckBefore, offeredLater},
		Judge: func(c Case) spec.Finding {
			var g gather
			served := servers(c.Timeline)
			stuck, total, late := 0, 0, 0
			ended := g.toll(c.terminated())
			for t := range ended.each() {
				own, others := stickiness(c, t)
				if own > 0 && others > 0 {
					g.doubt("before %s was deleted, %s of the client reached it and %d reached others: it did not stick", t.Name, plural(own, "connection", "connections"), others)
					continue
				}
				held := own > 0
				from := terminatingSince(c, t, string(flow.Sticky))
				after, until := from.at+c.P, from.at+c.P+acceptMargin
				end := max(until, t.exitOr(until))
				g.span(from.at, end)
				n := 0
				for _, s := range c.Timeline.Samples {
					if s.Stream.Flow().Path != flow.Sticky || !onNewConns(s) || s.Start <= after || s.Start > end {
						continue
					}
					if !s.Saturated {
						n++
					}
					reached := s.Reached == t.UID || served[s.ID] == t.UID
					// What a client loses that never was at this pod, or
					// that another is known to have had, it does not lose
					// to it.
					lost := held && s.Failed() && s.Start <= t.exitOr(until) && cmp.Or(s.Reached, served[s.ID]) == ""
					if !reached && !lost {
						continue
					}
					if !othersReady(c.Timeline, t.UID, string(flow.Sticky), s.Start) {
						g.doubt("at times no other endpoint than that of %s was ready", t.Name)
						continue
					}
					late++
					if reached {
						g.late(c, s.Start, t.Name, s.ID, "%s: a new connection of the client still reached the terminating pod", from.tell(s.Start))
					} else {
						g.late(c, s.Start, t.Name, s.ID, "%s: a new connection of the client failed: %s", from.tell(s.Start), describe(s))
					}
				}
				if !held {
					continue
				}
				stuck++
				total += n
				if last, _, _ := listener(c, t, t.Drain.At); last < until {
					g.doubt("%s did not go on accepting until %s: "+deadPod, t.Name, from.tell(until))
				}
				ended.has(stuckBefore, own)
				ended.has(offeredLater, n)
			}
			g.count(stuckTo, stuck)
			return g.conclude(
				fmt.Sprintf("in %s the client had left its pod by T_endpoint + P: none of %d new connections reached it", plural(stuck, "termination", "terminations"), total),
				plural(late, "new connection of the client reached, or was lost on the way to,", "new connections of the client reached, or were lost on the way to,")+" the terminating pod that it stuck to, later than P")
		},
	}
}

// stickiness counts the client's connections just before a deletion: those
// that the pod served, and those that others did.
func stickiness(c Case, t Ending) (own, others int) {
	before := min(t.Del.At-t.Del.Err, t.Drain.At-t.Drain.Err)
	for _, s := range c.Timeline.Samples {
		if s.Stream.Flow().Path != flow.Sticky || !onNewConns(s) || s.Failed() || s.Saturated || s.Start < max(c.Steady, before-stuckFor) || s.Start >= before {
			continue
		}
		if s.Reached == t.UID {
			own++
		} else {
			others++
		}
	}
	return own, others
}
