// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// AcceptsAfterDrain judges that an instance serves new connections, dialled
// at its own address, in [D, D+P]: those of streams that open one for each
// request, and those that streams of kept connections open meanwhile.
func AcceptsAfterDrain() Check {
	const floorNew = 50
	return Check{
		Name:     "new connections to the instance itself in [D, D+P]",
		Expected: "every new connection to the terminating pod in [D, D+P] is accepted and its request answered",
		Floors: []Floor{
			{Name: "per termination: new connections dialled at the pod in [D, D+P]", N: floorNew},
			{Name: "per termination: requests on kept connections", N: 0, Reason: "a conformant server says Connection: close from D on, so kept connections can't be had 200 times after it; the behaviour is about new ones"},
		},
		Judge: func(c Case) spec.Finding {
			var g gather
			lost, hit, opened, total := 0, 0, 0, 0
			for _, t := range c.Terminations {
				g.span(t.Drain.At, t.Drain.At+c.P)
				w := g.accepts(c, t, t.Drain, "D", t.Drain.At+c.P)
				if w.lost > 0 {
					hit++
				}
				lost, opened, total = lost+w.lost, opened+w.sound, total+w.all
				g.least("new connections in [D, D+P]", t.Name, w.sound, floorNew)
			}
			g.needTerminations(c)
			g.finding.Bounds = BoundsOf(len(c.Terminations), hit, max(opened, lost), lost)
			g.finding.Cause = "The process closes its listener, or leaves, when SIGTERM arrives. The pod's removal from the service network takes up to P: until then clients still dial it."
			return g.conclude(
				fmt.Sprintf("all %d new connections in the windows of %d terminations were served", total, len(c.Terminations)),
				fmt.Sprintf("%d of %d new connections failed within P of the drain's start, at %d of %d terminations", lost, total, hit, len(c.Terminations)))
		},
	}
}

// tally is what came of the attempts of a window: all of them, those that the
// generator sent in time, and those that were lost.
type tally struct{ all, sound, lost int }

// accepts judges the new connections that were dialled at an instance's own
// address from an instant on, by the name of called, to another.
func (g *gather) accepts(c Case, t Termination, from Instant, called string, to time.Duration) tally {
	var w tally
	for _, s := range c.Timeline.Samples {
		// Slow replies are another behaviour's; a new connection is judged by
		// a request that is over at once.
		if !directTo(s, t.UID) || slowOp(s) || !s.New() || s.Start < from.At-from.Err || s.Start > to {
			continue
		}
		if s.Start < from.At+from.Err {
			// Before or after: nobody knows.
			if s.Failed() {
				g.doubt("a connection to %s failed within the uncertainty of %s (±%s, %s)", t.Name, called, ms(from.Err), from.Source)
			}
			continue
		}
		w.all++
		if !s.Saturated {
			w.sound++
		}
		if s.Failed() {
			w.lost++
			g.culprit(s.Start, t.Name, s.ID, "%s + %s: %s", called, ms(s.Start-from.At), describe(s))
		}
	}
	if from.Err > c.P/4 {
		g.doubt("%s of %s is known only to ±%s (%s)", called, t.Name, ms(from.Err), from.Source)
	}
	return w
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

// listenerWindow is the stretch over which a listener is judged to be there:
// where half of the new connections or more fail, it is not.
const listenerWindow = 500 * time.Millisecond

// listener tells the end of an instance's listener after from, as dials of new
// connections to its own address saw it: when it last served one, when it was
// gone (from the first failure on with which at least half of the attempts of
// the next half second fail; a single loss is a loss, and not the listener's
// end), and how many it served. A connection that stands and is not answered
// has failed too.
func listener(c Case, t Termination, from time.Duration) (last, gone time.Duration, served int) {
	var dials []timeline.Sample
	for _, s := range c.Timeline.Samples {
		if directTo(s, t.UID) && onNewConns(s) && !slowOp(s) && s.Start >= from {
			dials = append(dials, s)
		}
	}
	for i, s := range dials {
		if !s.Failed() {
			last = max(last, s.Start)
			if !s.Saturated {
				served++
			}
			continue
		}
		if gone != 0 {
			continue
		}
		failed, all := 0, 0
		for _, next := range dials[i:] {
			if next.Start > s.Start+listenerWindow {
				break
			}
			all++
			if next.Failed() {
				failed++
			}
		}
		if 2*failed >= all {
			gone = s.Start
		}
	}
	return last, gone, served
}
