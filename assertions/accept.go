// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// AcceptsAfterDrain judges that an instance serves new connections, dialled
// at its own address, in [D, D+P]: those of streams that open one for each
// request, and those that streams of kept connections open meanwhile.
func AcceptsAfterDrain() Check {
	return servesNew(within("P", func(c Case) time.Duration { return c.P }))
}

// AcceptsUntil is AcceptsAfterDrain until a time of the caller's after D, in place of P. own
// are floors, by their names, that take the place of the check's.
func AcceptsUntil(after time.Duration, own ...Floor) Check {
	return servesNew(within(after.String(), func(Case) time.Duration { return after }), own...)
}

// AcceptsWhileAppDoes is AcceptsAfterDrain for as long as the app behind the address accepts, as it
// says itself (timeline.DrainListenerClosed); where it says nothing of that, until D + P. What fails between
// the deletion and D is lost too: who is beside the app may hear of that first.
func AcceptsWhileAppDoes() Check {
	return servesNew(stretch{
		window: "from D until the app accepts no more", broke: "while the app accepted", before: true,
		end: AppAccepts,
	})
}

// AppAccepts is until when the app behind an instance's address accepts: less what is on its way to a listener
// that closes. Where it says nothing of that it is D + P.
func AppAccepts(c Case, t Ending) time.Duration {
	if shut, said := t.SaysShut(c); said {
		return shut - atTheDoor
	}
	return t.Drain.At + c.P
}

// AcceptsAt is AcceptsAfterDrain of one of an instance's servers alone, by its name and the protocol that is spoken
// to no other: each has a listener of its own.
func AcceptsAt(server string, spoken flow.Protocol) Check {
	of := within("P", func(c Case) time.Duration { return c.P })
	of.server, of.spoken = server, spoken
	return servesNew(of)
}

// stretch is for how long from D on new connections are judged: in words, and until when. before: what fails
// between the deletion and D is lost too.
type stretch struct {
	window, broke string
	before        bool
	end           func(Case, Ending) time.Duration
	// server is the one that is judged, by what is spoken to it; "": all of the instance's are.
	server string
	spoken flow.Protocol
}

func within(called string, after func(Case) time.Duration) stretch {
	return stretch{
		window: fmt.Sprintf("in [D, D+%s]", called), broke: fmt.Sprintf("within %s of the drain's start", called),
		end: func(c Case, t Ending) time.Duration { return t.Drain.At + after(c) },
	}
}

func servesNew(of stretch, own ...Floor) Check {
	newConns := Floor{Per: "termination", Name: "new connections dialled at " + cmp.Or(of.server, "the pod") + " " + of.window, N: 50}.OrOwn(own)
	keptConns := Floor{Per: "termination", Name: "requests on kept connections", N: 0,
		Reason: "a conformant server says Connection: close from D on, so kept connections can't be had 200 times after it; the behaviour is about new ones",
	}.OrOwn(own)
	return Check{
		Name:     "new connections to " + cmp.Or(of.server, "the instance itself") + " " + of.window,
		Expected: "every new connection to " + cmp.Or(of.server, "the terminating pod") + " " + of.window + " is accepted and its request answered",
		Likely:   earlyEnd,
		Floors:   []Floor{newConns, keptConns},
		Judge: func(c Case) spec.Finding {
			var g gather
			c = c.spoken(of.spoken)
			ended := g.toll(c.terminated())
			for t := range ended.each() {
				end := of.end(c, t)
				g.span(t.Drain.At, end)
				w := g.accepts(c, t, t.Drain, "D", end)
				g.watchedUntil(c, t, end)
				var before attempts
				if of.before {
					before = g.refusedBefore(c, t)
				}
				ended.add(w, before)
				ended.has(newConns, w.sound)
			}
			total, lost := ended.sum.all, ended.sum.lost
			ended.bound(ended.hit, max(ended.sum.sound, lost), lost)
			return g.conclude(
				fmt.Sprintf("all %d new connections with a short request, dialled at %s in the windows of %s, were served", total, cmp.Or(of.server, "the instances themselves"), ended),
				fmt.Sprintf("%d of %s failed %s, at %d of %s", lost, plural(total, "new connection", "new connections"), of.broke, ended.hit, ended))
		},
	}
}

// refusedBefore judges the new connections that failed at an instance's own address between its deletion and D.
func (g *gather) refusedBefore(c Case, t Ending) attempts {
	var w attempts
	for _, s := range c.Timeline.Samples {
		at := arrival(s)
		if !s.Failed() || !directTo(s, t.UID) || slowOp(s) || !s.New() || at < t.Earliest() || at >= t.Drain.At-t.Drain.Err {
			continue
		}
		w.all++
		w.lost++
		g.failed(c, s, at, t.Name, "%s: %s", offset("D", at-t.Drain.At), describe(s))
	}
	return w
}

// watchedUntil doubts that dials show until an instant what an instance does: nobody dials
// when the load is over, and who answers when it has left is another one.
func (g *gather) watchedUntil(c Case, t Ending, end time.Duration) {
	switch {
	case t.Exit.Known() && t.Exit.At+t.Exit.Err < end:
		g.doubt("%s left at D + %s, and what was dialled after that is not known to be it", t.Name, ms(t.Exit.At-t.Drain.At))
	case c.Tail != 0 && c.Tail < end:
		g.doubt("the load ended at D + %s of %s, and it is judged until D + %s", ms(c.Tail-t.Drain.At), t.Name, ms(end-t.Drain.At))
	}
}

// accepts judges the new connections that reached an instance's own address
// from an instant on, by the name of called, until another.
func (g *gather) accepts(c Case, t Ending, from Instant, called string, to time.Duration) attempts {
	var w attempts
	var failed []timeline.Sample
	for _, s := range c.Timeline.Samples {
		// Slow replies are another behaviour's; a new connection is judged by
		// a request that is over at once.
		if !directTo(s, t.UID) || slowOp(s) || !s.New() {
			continue
		}
		at := arrival(s)
		if at < from.At-from.Err || at > to+from.Err {
			continue
		}
		inside := at >= from.At+from.Err && at <= to
		if s.Failed() {
			if at > to-atOnce && s.End > to+from.Err {
				continue // it was sent before the end, and may have come behind it
			}
			failed = append(failed, s)
		}
		if inside || s.Failed() {
			w.all++
		}
		if inside && !s.Saturated {
			w.sound++
		}
	}
	slices.SortStableFunc(failed, func(a, b timeline.Sample) int { return cmp.Compare(arrival(a), arrival(b)) })
	switch {
	case len(failed) == 0:
	case oneInside(failed, from, to):
		w.lost = len(failed)
		for _, s := range failed {
			text := fmt.Sprintf("%s: %s", offset(called, arrival(s)-from.At), describe(s))
			if outlived(c, t, s) {
				g.unless(g.starved(c, s.Start, s.End), arrival(s), t.Name, s.ID, "%s", text)
				continue
			}
			g.failed(c, s, arrival(s), t.Name, "%s", text)
		}
	default:
		w.all -= len(failed)
		g.doubt("a connection to %s failed within the uncertainty of %s or of what follows from it (±%s, %s)", t.Name, called, ms(from.Err), from.Source)
	}
	if from.Err > c.P/4 {
		g.doubt("%s of %s is known only to ±%s (%s)", called, t.Name, ms(from.Err), from.Source)
	}
	return w
}

// outlived says whether a request was begun long enough before the listener's end, as the instance
// says it, to be surely taken, and failed only behind it: it may have met that end because it was late.
func outlived(c Case, t Ending, s timeline.Sample) bool {
	for _, e := range c.Timeline.EventsOf(timeline.DrainListenerClosed, t.UID) {
		if arrival(s) <= e.At-e.Err-atTheDoor && s.End >= e.At-e.Err {
			return true
		}
	}
	return false
}

// oneInside says whether one of some samples at least, in the order of their
// arrival, came between from and to, wherever in its uncertainty from lies: to
// moves with it. There must be no place for such a window before the first of
// them, between two, or behind the last.
func oneInside(of []timeline.Sample, from Instant, to time.Duration) bool {
	length := to - from.At
	before := from.At - from.Err
	for _, s := range of {
		if arrival(s)-before > length {
			return false
		}
		before = arrival(s)
	}
	return before >= from.At+from.Err
}

// arrival is when an attempt's dial reached the system: a stream with a delay
// holds its SYN back for so long (load/probe, stream.connect).
func arrival(s timeline.Sample) time.Duration { return s.Start + delay(s) }

func ms(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// offset says how long after something, or before it, an instant is.
func offset(from string, by time.Duration) string {
	if by < 0 {
		return fmt.Sprintf("%s - %s", from, ms(-by))
	}
	return fmt.Sprintf("%s + %s", from, ms(by))
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
func listener(c Case, t Ending, from time.Duration) (last, gone time.Duration, served int) {
	return listenerBy(c, t, from, notServed)
}

// notServed says that a dial failed, however.
func notServed(s timeline.Sample) bool { return s.Failed() }

// turned says whether a new connection to an instance met no listener: who answers took it, whatever he says. Of an app
// behind a sidecar that says nothing of the app's.
func turned(c Case) func(timeline.Sample) bool {
	return func(s timeline.Sample) bool { return s.Failed() && (s.Outcome != timeline.Status || c.Beside() != "") }
}

// listenerBy is listener, by what says that a dial failed.
func listenerBy(c Case, t Ending, from time.Duration, failed func(timeline.Sample) bool) (last, gone time.Duration, served int) {
	var dials []timeline.Sample
	for _, s := range c.Timeline.Samples {
		if !directTo(s, t.UID) || !onNewConns(s) || slowOp(s) || arrival(s) < from {
			continue
		}
		dials = append(dials, s)
		if failed(s) {
			continue
		}
		last = max(last, arrival(s))
		if !s.Saturated {
			served++
		}
	}
	return last, goneAt(byArrival(dials), failed), served
}

// byArrival orders dials by when they reached the instance, which is their start then.
func byArrival(dials []timeline.Sample) []timeline.Sample {
	for i := range dials {
		dials[i].Start = arrival(dials[i])
	}
	slices.SortStableFunc(dials, func(a, b timeline.Sample) int { return cmp.Compare(a.Start, b.Start) })
	return dials
}

// goneAt is the first of the dials, in their order, from which on at least half of
// those within listenerWindow failed; 0: none of them.
func goneAt(dials []timeline.Sample, failed func(timeline.Sample) bool) time.Duration {
	for i, s := range dials {
		if !failed(s) {
			continue
		}
		lost, all := 0, 0
		for _, next := range dials[i:] {
			if next.Start > s.Start+listenerWindow {
				break
			}
			all++
			if failed(next) {
				lost++
			}
		}
		if 2*lost >= all {
			return s.Start
		}
	}
	return 0
}
