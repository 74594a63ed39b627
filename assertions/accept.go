// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// AcceptsAfterDrain judges that an instance serves new connections, dialled
// at its own address, in [D, D+P].
func AcceptsAfterDrain() Check {
	const floorNew, floorReused = 50, 200
	return Check{
		Name:     "new connections to the instance itself in [D, D+P]",
		Expected: "every new connection to the terminating pod in [D, D+P] is accepted and its request answered",
		Floors: []Floor{
			{Name: "per termination: new connections dialled at the pod in [D, D+P]", N: floorNew},
			{Name: "per termination: requests on reused connections to the pod in [D, exit]", N: floorReused},
		},
		Judge: func(c Case) spec.Finding {
			var g gather
			lost, hit, total := 0, 0, 0
			for _, t := range c.Terminations {
				from, to := t.Drain.At+t.Drain.Err, t.Drain.At+c.P
				g.span(t.Drain.At, to)
				opened, reused, before := 0, 0, lost
				for _, s := range c.Timeline.Samples {
					if !directTo(s, t.UID) {
						continue
					}
					if !onNewConns(s) {
						if !s.Saturated && s.Start >= t.Drain.At && s.Start <= t.exitOr(to) {
							reused++
						}
						continue
					}
					// Slow replies are another behaviour's; a new connection
					// is judged by a request that is over at once.
					if slowOp(s) || s.Start < from || s.Start > to {
						continue
					}
					total++
					if !s.Saturated {
						opened++
					}
					if s.Failed() {
						lost++
						g.culprit(s.Start, t.Name, s.ID, "D + %s: %s", ms(s.Start-t.Drain.At), describe(s))
					}
				}
				if lost > before {
					hit++
				}
				g.least("new connections in [D, D+P]", t.Name, opened, floorNew)
				g.least("requests on reused connections in [D, exit]", t.Name, reused, floorReused)
				if t.Drain.Err > c.P/4 {
					g.doubt("D of %s is known only to ±%s (%s)", t.Name, ms(t.Drain.Err), t.Drain.Source)
				}
			}
			g.needTerminations(c)
			g.finding.Bounds = BoundsOf(len(c.Terminations), hit, total, lost)
			g.finding.Cause = "The process closes its listener, or leaves, when SIGTERM arrives. The pod's removal from the service network takes up to P: until then clients still dial it."
			return g.conclude(
				fmt.Sprintf("all %d new connections in the windows of %d terminations were served", total, len(c.Terminations)),
				fmt.Sprintf("%d of %d new connections failed within P of the drain's start, at %d of %d terminations", lost, total, hit, len(c.Terminations)))
		},
	}
}

func ms(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// exitOr is T_exit, or other where nobody saw it.
func (t Termination) exitOr(other time.Duration) time.Duration {
	if t.Exit.Known() {
		return t.Exit.At
	}
	return other
}

// needTerminations doubts a recording in which nothing terminated.
func (g *gather) needTerminations(c Case) {
	if len(c.Terminations) == 0 {
		g.doubt("no pod was seen to terminate")
	}
}

// lastAccepted is when the instance, dialled at its own address, last served
// a new connection after from, and closed when it first refused one after
// that: a refusal in between is a loss, and not the listener's end. n counts
// the connections that it served.
func lastAccepted(c Case, t Termination, from time.Duration) (last, closed time.Duration, n int) {
	for _, s := range c.Timeline.Samples {
		if !directTo(s, t.UID) || !onNewConns(s) || slowOp(s) || s.Start < from {
			continue
		}
		if s.Failed() {
			if closed == 0 && s.Phase == timeline.PhaseDial {
				closed = s.Start
			}
			continue
		}
		if !s.Saturated {
			n++
		}
		last, closed = max(last, s.Start), 0
	}
	return last, closed, n
}
