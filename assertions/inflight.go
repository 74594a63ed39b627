// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// CompletesInflight judges that what was begun at the instance before D ends
// byte-exact, at the client and in the ledger.
func CompletesInflight() Check {
	inFlight := Floor{Per: "termination and kind of request", Name: "in flight at D", N: 5,
		Reason: atOneInstant + ": 4 kinds in 2 protocols at 5 each are at least 30 cut bodies for each termination of an app that cuts them",
	}
	return Check{
		Name:     "requests in flight at D",
		Expected: "every reply, chunked body, upload and 100-continue that was begun before D ends whole, byte for byte, and the backends' own ledger says so too",
		Likely:   earlyEnd,
		Floors:   []Floor{inFlight},
		Needs:    []Evidence{Lasting},
		Judge: func(c Case) spec.Finding {
			var g gather
			whole := wholeIDs(c.Timeline)
			kinds := g.slowKinds(c)
			ended := g.toll(c.terminated())
			for t := range ended.each() {
				g.span(t.Drain.At, t.exitOr(t.Drain.At+c.P))
				inflight, w := g.completes(c, t, t.Drain, "D", whole)
				ended.add(w)
				for _, k := range kinds {
					ended.hasOf(k.String(), inFlight, inflight[k])
				}
			}
			total, lost := ended.sum.all, ended.sum.lost
			ended.bound(ended.hit, total, lost)
			return g.conclude(
				fmt.Sprintf("all %d slow requests that the instances themselves had in hand at D ended whole", total),
				fmt.Sprintf("%d of %s in flight at D failed, at %d of %s", lost, plural(total, "request", "requests"), ended.hit, ended))
		},
	}
}

// completes judges what was in flight at an instance at an instant, by the
// name of called. It counts what was, by kind of request.
func (g *gather) completes(c Case, t Ending, at Instant, called string, whole map[string]bool) (map[flow.Flow]int, attempts) {
	inflight, begun := map[flow.Flow]int{}, begunIDs(c.Timeline)
	believed := false // a client's word that its request was not taken
	var w attempts
	for _, s := range c.Timeline.Samples {
		if !directTo(s, t.UID) || !slowOp(s) {
			continue
		}
		if s.Start >= at.At+at.Err || s.End <= at.At-at.Err {
			continue
		}
		if untaken(s, begun) {
			believed = true
			continue
		}
		if s.Failed() && (s.Phase == timeline.PhaseDial || s.Phase == timeline.PhaseTLS) {
			continue // it was never in hand
		}
		// What was begun before, and went with the process, was in flight when that was told.
		withIt := s.Failed() && t.Exit.Known() && s.Start < at.At-at.Err && s.End >= t.Exit.At-t.Exit.Err-atOnce
		if s.Start >= at.At-at.Err || s.End <= at.At+at.Err && !withIt {
			// In flight or not: nobody knows.
			if s.Failed() {
				g.doubt("a request at %s broke within the uncertainty of %s (±%s, %s)", t.Name, called, ms(at.Err), at.Source)
			}
			continue
		}
		if came := arrived(s); unanswered(s, begun) && came > at.At-at.Err-atOnce {
			if came < at.At+at.Err {
				g.doubt("a request reached %s %s before %s and was never answered, and nobody says that it was begun: whether the instance had read it by then nobody can tell", t.Name, ms(at.At-came), called)
			}
			continue // or it was sent behind it, on a connection that was over
		}
		w.all++
		if !s.Saturated {
			w.sound++
			inflight[s.Stream.Flow()]++
		}
		switch {
		case s.Failed():
			w.lost++
			g.failed(c, s, s.End, t.Name, "begun %s before %s, broke %s after it: %s", ms(at.At-s.Start), called, ms(s.End-at.At), describe(s))
		case !whole[s.ID]:
			g.unended(s)
		}
	}
	if believed {
		g.unbegun(c.Timeline, begun)
	}
	return inflight, w
}

// arrived is when a request can have reached its peer, at the soonest: where it is written at once, not
// before it was. What is begun is not yet written: that may be by a tenth of a second later where a
// machine is busy, and a server that ends what is idle (net/http's Shutdown) ends its connection meanwhile. Its stream may have
// been opened sooner (opened), as in a tunnel.
func arrived(s timeline.Sample) time.Duration {
	at := max(s.Start, s.Dial)
	if op := s.Stream.Flow().Op; op == flow.Slow || op == flow.Chunked {
		at = max(at, s.Sent)
	}
	return at + delay(s)
}

// unended doubts an answer that no backend says it gave whole.
func (g *gather) unended(s timeline.Sample) {
	g.doubt("no backend's ledger has the end of a request that the client saw answered (%s)", s.ID)
}

// unfinished doubts a ledger that has not the end of every request that a client saw
// answered: what it has not of another one proves nothing.
func (g *gather) unfinished(tl *timeline.Timeline, whole map[string]bool) {
	if first, n := unaccounted(tl, whole); n > 0 {
		g.unended(first)
	}
}

// unaccounted counts the requests that a client saw answered and that are not among
// those that a ledger has, wherever in the recording, and gives the first.
func unaccounted(tl *timeline.Timeline, has map[string]bool) (first timeline.Sample, n int) {
	for _, s := range tl.Samples {
		if s.Failed() || has[s.ID] || asks(s) || mute(s) {
			continue
		}
		if n == 0 {
			first = s
		}
		n++
	}
	return first, n
}

// wholeIDs are the requests that a backend says it ended whole. Where nobody keeps a ledger,
// they are those that a client saw end whole.
func wholeIDs(tl *timeline.Timeline) map[string]bool {
	if plain(tl) {
		return answeredIDs(tl)
	}
	whole := map[string]bool{}
	for id := range wholeAt(tl) {
		whole[id] = true
	}
	return whole
}

// wholeAt is when a backend had written its whole answer to a request.
func wholeAt(tl *timeline.Timeline) map[string]time.Duration {
	out := map[string]time.Duration{}
	for _, e := range tl.Ledger {
		if e.Step == timeline.Done && e.Whole {
			out[e.ID] = e.At
		}
	}
	return out
}

// slowKinds are the kinds of slow requests to the instances. That there are none
// is a doubt.
func (g *gather) slowKinds(c Case) []flow.Flow {
	kinds := slowStreams(c.Timeline)
	if len(kinds) == 0 {
		g.doubt("no slow requests were sent to the pods")
	}
	return kinds
}

// slowStreams are the kinds of slow direct streams in the recording, sorted.
func slowStreams(tl *timeline.Timeline) []flow.Flow {
	seen := map[flow.Flow]bool{}
	for _, s := range tl.Samples {
		if s.Stream.Flow().Path == flow.Direct && slowOp(s) {
			seen[s.Stream.Flow()] = true
		}
	}
	return slices.SortedFunc(maps.Keys(seen), flow.Compare)
}
