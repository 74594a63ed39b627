// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// IgnoresSecondSignal judges that a second SIGTERM changes nothing: for P
// after it the instance serves new connections, stays ready and does not leave,
// and what is in flight at that instant or begun since completes. Where another
// instance got one SIGTERM only, what that one does by itself is no harm of the second.
func IgnoresSecondSignal() Check {
	again := Floor{Name: "second SIGTERMs", N: 1,
		Reason: "whether it is sent once or to each target is the disruption's affair; each that came is judged",
	}
	newConns := Floor{Per: "second SIGTERM", Name: "new connections dialled at the pod within P of the second SIGTERM", N: 50}
	inFlight := Floor{Per: "second SIGTERM and kind of request", Name: "in flight at the second SIGTERM", N: 5, Reason: atOneInstant}
	return Check{
		Name:     "P after a second SIGTERM",
		Expected: "for P after a second SIGTERM, or as long as a pod that got one SIGTERM alone does, the pod serves every new connection, its endpoint goes on serving, it does not leave, and every request that was in flight or is begun meanwhile ends whole",
		Likely:   earlyEndBehindSecond,
		Floors:   []Floor{again, newConns, inFlight, keptUncounted("second SIGTERM")},
		Needs:    []Evidence{Lasting},
		Judge: func(c Case) spec.Finding {
			var g gather
			whole := wholeIDs(c.Timeline)
			kinds := g.slowKinds(c)
			gap := watchGap(c.Timeline, "endpointslices")
			own := oneSignal(c)
			for _, e := range c.Timeline.EventsOf(timeline.Disruption, "") {
				if e.Attrs["what"] == secondSigterm && e.Attrs["error"] != "" {
					g.doubt("a second SIGTERM was not sent to %s: %s", cmp.Or(e.Name, "any pod"), e.Attrs["error"])
				}
			}
			seen := 0
			ended := g.toll(c.terminated())
			for t := range ended.each() {
				at, sent := secondSignal(c, t)
				if !sent {
					continue
				}
				if t.Exit.Known() && t.Exit.At+t.Exit.Err < at.At-at.Err {
					g.doubt("%s was gone before the second SIGTERM", t.Name)
					continue
				}
				seen++
				to := own.shut.cap(t, at.At+at.Err+c.P) - at.Err
				serves := own.unserving.cap(t, at.At+c.P)
				g.span(at.At, max(at.At, to))
				fresh := g.accepts(c, t, at, "second SIGTERM", to)
				inflight, work := g.completes(c, t, at, "the second SIGTERM", whole)
				later := g.completesSince(c, t, at, to, whole)
				served := map[string]bool{} // by family, until the state at hand
				for _, s := range endpointStates(c.Timeline, t.UID, MainService) {
					if s.at-s.err > at.At+at.Err && s.at < serves && !s.gone && !s.serving && served[s.family] {
						g.late(c, s.at, t.Name, "", "`serving` of its endpoint went false %s after the second SIGTERM", ms(s.at-at.At))
					}
					served[s.family] = s.serving
				}
				if gap != "" {
					g.doubt("the EndpointSlice watch has a gap: %s", gap)
				}
				switch {
				case !t.Exit.Known():
					g.doubt("nobody saw %s exit", t.Name)
				case t.Exit.At+t.Exit.Err < to:
					g.culprit(t.Exit.At, t.Name, "", "the process left %s after the second SIGTERM", ms(t.Exit.At-at.At))
				case t.Exit.At-t.Exit.Err < to:
					g.doubt("the exit of %s is known only to ±%s (%s)", t.Name, ms(t.Exit.Err), t.Exit.Source)
				}
				ended.add(fresh, work, later)
				if own.shut.after != 0 && to <= at.At {
					// By itself it accepts none by then, and what it has in hand tells.
					ended.has(newConns.Waived(), fresh.sound)
					g.span(at.At, t.exitOr(at.At+c.P))
				} else {
					ended.has(newConns.Within(to-at.At, c.P), fresh.sound)
				}
				for _, k := range kinds {
					ended.hasOf(k.String(), inFlight, inflight[k])
				}
			}
			g.count(again, seen)
			all, lost := ended.sum.all, ended.sum.lost
			g.finding.Bounds = spec.BoundsOf(seen, ended.broken, all, lost)
			return g.conclude(
				fmt.Sprintf("%s changed nothing for %d requests", plural(seen, "second SIGTERM", "second SIGTERMs"), all),
				fmt.Sprintf("%d of %s did harm; %d of %s failed", ended.broken, plural(seen, "second SIGTERM", "second SIGTERMs"), lost, plural(all, "request", "requests")))
		},
	}
}

// ownEnds are what an instance did that got one SIGTERM only.
type ownEnds struct {
	unserving ownEnd // `serving` of its endpoint went false
	shut      ownEnd // its listener was gone, or it was
}

// ownEnd is how long after its D that was, and by how much it may differ at another
// instance of the system. 0: it did not, or there is no such instance.
type ownEnd struct{ after, err time.Duration }

// cap is an instant that another instance is judged until, or the one from which on it may do
// the same by itself, where that is earlier.
func (o ownEnd) cap(t Ending, until time.Duration) time.Duration {
	if o.after == 0 {
		return until
	}
	return min(until, t.Drain.At-t.Drain.Err+o.after-o.err)
}

// oneSignal tells what the last instance did that got one SIGTERM only, where others got
// two (fixtures/disrupt). In older recordings each got two.
func oneSignal(c Case) (own ownEnds) {
	for _, t := range c.Terminations {
		if slices.ContainsFunc(c.Timeline.EventsOf(timeline.Disruption, t.UID), func(e timeline.Event) bool { return e.Attrs["what"] == secondSigterm }) {
			continue
		}
		from := t.Drain.At - t.Drain.Err
		if _, gone, _ := listener(c, t, from); gone != 0 {
			own.shut = ownEnd{gone - t.Drain.At, t.Drain.Err + atOnce} // dials see it, which come now and then
		}
		// A probe notices what two instances do at the same time after D at different ones, a
		// period apart at most.
		for _, life := range families(endpointStates(c.Timeline, t.UID, MainService)) {
			at := firstUnserving(life, from)
			if after := at - t.Drain.At; at != 0 && (own.unserving.after == 0 || after < own.unserving.after) {
				own.unserving = ownEnd{after, t.Drain.Err + probePeriod(c)}
			}
		}
	}
	return own
}

// probePeriod is how far the looks of a readiness probe are apart; 0: nobody said.
func probePeriod(c Case) time.Duration {
	for _, e := range c.Timeline.EventsOf(timeline.Timers, "") {
		if d, err := time.ParseDuration(e.Attrs["probe"]); err == nil {
			return d
		}
	}
	return 0
}

// completesSince judges the slow requests that were begun at an instance after
// the second SIGTERM, until another instant.
func (g *gather) completesSince(c Case, t Ending, signal Instant, to time.Duration, whole map[string]bool) attempts {
	begun := begunIDs(c.Timeline)
	var w attempts
	for _, s := range c.Timeline.Samples {
		if !directTo(s, t.UID) || !slowOp(s) || untaken(s, begun) || s.Start < signal.At+signal.Err || s.Start > to {
			continue
		}
		if s.Start > to-signal.Err {
			// Within P or not: nobody knows.
			if s.Failed() {
				g.doubt("a request at %s broke within the uncertainty of the end of P after the second SIGTERM (±%s, %s)", t.Name, ms(signal.Err), signal.Source)
			}
			continue
		}
		if unanswered(s, begun) && arrived(s) > to-signal.Err-atOnce && s.End > to {
			continue // it was sent before the end, and may have come behind it
		}
		w.all++
		switch {
		case s.Failed():
			w.lost++
			g.lost(c, s, t.Name, "begun %s after the second SIGTERM: %s", ms(s.Start-signal.At), describe(s))
		case !whole[s.ID]:
			g.unended(s)
		}
	}
	return w
}

// secondSigterm is what its events are called (fixtures/disrupt).
const secondSigterm = "sigterm-again"

// secondSignal is when a second SIGTERM reached an instance: as it says
// itself, or else as the suite sent it.
func secondSignal(c Case, t Ending) (Instant, bool) {
	for _, e := range c.Timeline.EventsOf(timeline.Disruption, t.UID) {
		if e.Attrs["what"] != secondSigterm || e.Attrs["error"] != "" || e.At < t.Drain.At-t.Drain.Err {
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
