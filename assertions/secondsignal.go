// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// IgnoresSecondSignal judges that a second SIGTERM changes nothing: for P
// after it the instance serves new connections and does not leave, and what
// is in flight at that instant completes.
func IgnoresSecondSignal() Check {
	const floorNew, floorInflight = 50, 5
	return Check{
		Name:     "P after a second SIGTERM",
		Expected: "for P after a second SIGTERM the pod serves every new connection and does not leave, and every request that was in flight ends whole",
		Floors: []Floor{
			{Name: "second SIGTERMs", N: 1, Reason: "whether it is sent once or to each target is the disruption's affair; each that came is judged"},
			{Name: "per second SIGTERM: new connections dialled at the pod within P of it", N: floorNew},
			{Name: "per second SIGTERM and kind of request: in flight at it", N: floorInflight, Reason: "what is in flight at one instant is rate times duration, not a count over a window"},
			{Name: "per second SIGTERM: requests on kept connections", N: 0, Reason: "as in pod.accept-after-sigterm: a conformant server ends its kept connections from D on"},
		},
		Judge: func(c Case) spec.Finding {
			var g gather
			whole := wholeIDs(c.Timeline)
			kinds := slowStreams(c.Timeline)
			if len(kinds) == 0 {
				g.doubt("no slow requests were sent to the pods")
			}
			seen, all, lost, hit := 0, 0, 0, 0
			for _, t := range c.Terminations {
				at, sent := secondSignal(c, t)
				if !sent {
					continue
				}
				if t.Exit.Known() && t.Exit.At+t.Exit.Err < at.At-at.Err {
					g.doubt("%s was gone before the second SIGTERM", t.Name)
					continue
				}
				seen++
				to := at.At + c.P
				g.span(at.At, to)
				before := g.failures()
				fresh := g.accepts(c, t, at, "second SIGTERM", to)
				inflight, work := g.completes(c, t, at, "the second SIGTERM", whole)
				switch {
				case !t.Exit.Known():
					g.doubt("nobody saw %s exit", t.Name)
				case t.Exit.At+t.Exit.Err < to:
					g.culprit(t.Exit.At, t.Name, "", "the process left %s after the second SIGTERM", ms(t.Exit.At-at.At))
				case t.Exit.At-t.Exit.Err < to:
					g.doubt("the exit of %s is known only to ±%s (%s)", t.Name, ms(t.Exit.Err), t.Exit.Source)
				}
				if g.failures() > before {
					hit++
				}
				all, lost = all+fresh.all+work.all, lost+fresh.lost+work.lost
				g.least("new connections within P of the second SIGTERM", t.Name, fresh.sound, floorNew)
				for _, k := range kinds {
					g.least(k+" in flight at the second SIGTERM", t.Name, inflight[k], floorInflight)
				}
			}
			g.needTerminations(c)
			g.count("second SIGTERMs", seen, 1)
			g.finding.Bounds = BoundsOf(seen, hit, all, lost)
			g.finding.Cause = "The process takes a second SIGTERM for impatience and exits, as many frameworks do with a second Ctrl-C; or its signal handler is removed after the first, and the default action kills it."
			return g.conclude(
				fmt.Sprintf("%d second SIGTERMs changed nothing for %d requests", seen, all),
				fmt.Sprintf("%d of %d second SIGTERMs did harm: %d of %d requests were lost", hit, seen, lost, all))
		},
	}
}

// secondSignal is when a second SIGTERM reached an instance: as it says
// itself, or else as the suite sent it.
func secondSignal(c Case, t Termination) (Instant, bool) {
	for _, e := range c.Timeline.EventsOf(timeline.Disruption, t.UID) {
		if e.Attrs["what"] != "sigterm-again" || e.Attrs["error"] != "" || e.At < t.Drain.At-t.Drain.Err {
			continue
		}
		took, err := time.ParseDuration(e.Attrs["took"])
		if err != nil {
			took = 0
		}
		sent := Instant{At: e.At, Err: max(e.Err, took), Source: e.Source}
		for _, again := range c.Timeline.EventsOf(timeline.DrainAgain, t.UID) {
			if again.At >= e.At {
				return Instant{At: again.At, Err: again.Err, Source: again.Source}, true
			}
		}
		return sent, true
	}
	return Instant{}, false
}
