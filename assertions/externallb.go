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

// DeregistersFirst judges that a load balancer in front, which asks each
// instance for its health every period and takes it out after so many bad
// answers in a row, has taken an instance out before its listener is gone, and
// that no new connection through it is lost. The rule is the project's own.
func DeregistersFirst(period time.Duration, threshold int) Check {
	notices := period * time.Duration(threshold)
	offersFloor := perTermination("new connections offered to the load balancer from D to exit + P", 200)
	afterFloor := Floor{Per: "termination", Name: "new connections that it sent to the instance after D", N: 5,
		Reason: fmt.Sprintf("only until it has noticed: about %s at the rate of the path, shared by the instances", notices),
	}
	return Check{
		Name:     "the load balancer in front, and the listener",
		Expected: fmt.Sprintf("the load balancer, which takes an instance out after %d bad answers %s apart, does so before the instance's listener goes, and no new connection through it is lost", threshold, period),
		Likely:   earlyEnd,
		Floors:   []Floor{offersFloor, afterFloor},
		Judge: func(c Case) spec.Finding {
			var g gather
			lost, all := 0, 0
			ended := g.toll(c.terminated())
			for t := range ended.each() {
				g.shutBetween(c, t)
				g.deregisters(c, t)
				end := t.exitOr(t.Kill) + c.P
				until := end
				if next, follows := ended.next(); follows {
					until = min(until, next.Drain.At) // from there on what is lost is held against the next one
				}
				sent, offered := 0, 0
				for _, s := range c.Timeline.Samples {
					if s.Stream.Flow().Path != flow.Balanced || !onNewConns(s) || s.Start < t.Drain.At-t.Drain.Err || s.Start >= end {
						continue
					}
					counts := !s.Saturated || s.Failed()
					if counts {
						offered++
					}
					if s.Start >= until {
						continue
					}
					if counts {
						all++
					}
					if s.Reached == t.UID && !s.Failed() {
						sent++
					}
					if !s.Failed() {
						continue
					}
					if g.noBackend(c, s, "instance") {
						continue
					}
					lost++
					g.lost(c, s, t.Name, "%s of %s: %s", relative(s.Start, t), t.Name, describe(s))
				}
				ended.has(offersFloor, offered)
				ended.has(afterFloor, sent)
			}
			ended.bound(ended.broken, all, lost)
			return g.conclude(
				fmt.Sprintf("it had taken each out before its listener went; 0 of %s through it were lost", plural(all, "new connection", "new connections")),
				fmt.Sprintf("%d of %s left before it was taken out, or lost what came: %d of %s", ended.broken, plural(len(ended.of), "instance", "instances"), lost, plural(all, "new connection", "new connections")))
		},
	}
}

// deregisters judges whether the load balancer in front had taken an instance
// out when its listener went.
func (g *gather) deregisters(c Case, t Ending) {
	// Who is in again behind its exit is another one, at its address.
	looks := slices.DeleteFunc(c.Timeline.EventsOf(timeline.Balancer, t.UID), func(e timeline.Event) bool {
		return e.Attrs["in"] == "true" && t.Exit.Known() && e.At > t.Exit.At+t.Exit.Err
	})
	is := turningOf(t, looks, "in")
	shut, saw := acceptsUntil(c, t)
	switch {
	case !is.good:
		g.doubt("the load balancer did not have %s in when its drain began", t.Name)
	case !saw:
		g.doubt("nobody saw %s stop accepting", t.Name)
	case is.silent:
		g.doubt("the load balancer took %s out because it got no answer in time: on a busy machine that says nothing of the instance", t.Name)
	case !is.bad.Known():
		g.culprit(shut, t.Name, "", "%s: it accepted no more, and the load balancer never took it out", relative(shut, t))
	case is.bad.At > shut:
		g.late(c, shut, t.Name, "", "%s: it accepted no more, and the load balancer took it out only %s later", relative(shut, t), ms(is.bad.At-shut))
	}
}
