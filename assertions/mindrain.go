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

// leavesWithin is how long an instance may have been without any connection, in all,
// after its minimum: it looks every now and then, and its process has to end.
const leavesWithin = 5 * time.Second

// HoldsMinimum judges that an instance accepts new connections, and lives, for
// at least the minimum that it was given, whether it has connections or not, and
// leaves soon after it once it has none. The rule is the project's own: whoever
// sends connections to the instance may learn of the drain that late, and an
// instance without connections has still to be there for the next one.
func HoldsMinimum() Check {
	freshFloor := Floor{Per: "termination", Name: "new connections served in [D, D+minimum]", N: 50}
	emptyFloor := Floor{Name: "terminations with no connection at some time in [D, D+minimum]", N: 1,
		Reason: "an instance that always has a connection can't show that it waits without one",
	}
	return Check{
		Name:     "the minimum after D",
		Expected: fmt.Sprintf("the instance accepts for its minimum drain at least, also without any connection, and leaves when it has had none for %s in all after that", leavesWithin),
		Likely:   earlyEnd,
		Floors:   []Floor{freshFloor, emptyFloor},
		Needs:    []Evidence{Minimum},
		Judge: func(c Case) spec.Finding {
			var g gather
			least, without := c.MinDrain, 0
			ended := g.toll(c.terminated())
			for t := range ended.each() {
				until := t.Drain.At + least
				g.span(t.Drain.At, max(until, t.exitOr(until)))
				g.acceptsThrough(c, t, until)
				conns := lives(c, t)
				hole, known := vacancy(conns, t.Drain.At, until)
				if hole {
					without++
				}
				served := servedUntil(c, t, until)
				// Where nobody talked, nobody knows who else had a connection.
				g.stays(c, t, until, vacantFor(conns, until, leavesWithin), known && served > 0)
				ended.has(freshFloor, served)
			}
			g.count(emptyFloor, without)
			return g.conclude(
				fmt.Sprintf("it was held at each of %s, at %d of them without a connection for a while", ended, without),
				fmt.Sprintf("it was broken %s at %s", plural(g.failures(), "time", "times"), ended))
		},
	}
}

// acceptsThrough judges that an instance accepted until an instant that follows
// from its D. Where it stopped because it left, stays says so.
func (g *gather) acceptsThrough(c Case, t Ending, until time.Duration) {
	gone, ok := acceptsUntil(c, t)
	switch {
	// Its clock began within D's uncertainty, and may begin a little before ours.
	case !ok, t.Exit.Known() && gone == t.Exit.At, gone >= until-atOnce+t.Drain.Err:
	case gone >= until-atOnce-t.Drain.Err:
		g.doubt("%s stopped accepting within the uncertainty of its minimum's end (±%s, %s)", t.Name, ms(t.Drain.Err), t.Drain.Source)
	default:
		g.late(c, gone, t.Name, "", "%s: it accepted no more new connections, before its minimum was over", relative(gone, t))
	}
}

// stays judges when an instance left: not before its minimum, and by the instant at
// which it had been without a connection for leavesWithin after it. known is false where
// nobody saw some connection end.
func (g *gather) stays(c Case, t Ending, until, leave time.Duration, known bool) {
	slack := t.Exit.Err + t.Drain.Err
	switch {
	case !t.Exit.Known():
		g.doubt("nobody saw %s exit", t.Name)
	case t.Exit.At+slack < until-atOnce:
		g.culprit(t.Exit.At, t.Name, "", "D + %s: the process left, before its minimum was over", ms(t.Exit.At-t.Drain.At))
	case t.Exit.At-slack < until-atOnce:
		if t.Exit.At < until-atOnce {
			g.doubt("%s left within the uncertainty of its minimum's end (±%s)", t.Name, ms(slack))
		}
	case t.Exit.At-slack > leave && known:
		g.late(c, t.Exit.At, t.Name, "", "D + %s: the process left; by D + %s it had been without any connection for %s in all since its minimum had ended", ms(t.Exit.At-t.Drain.At), ms(leave-t.Drain.At), leavesWithin)
	case t.Exit.At-slack > leave:
		g.doubt("%s stayed for long, and nobody knows whether its connections had ended", t.Name)
	}
}

// servedUntil counts the new connections that an instance served from D on.
func servedUntil(c Case, t Ending, until time.Duration) int {
	n := 0
	for _, s := range c.Timeline.Samples {
		if directTo(s, t.UID) && onNewConns(s) && !slowOp(s) && !s.Failed() && !s.Saturated && arrival(s) >= t.Drain.At && arrival(s) <= until {
			n++
		}
	}
	return n
}

// stood is how long a connection to an instance stood. known is false where
// nobody saw its end: to is the last that was heard of it.
type stood struct {
	from, to time.Duration
	known    bool
}

// lives are the connections that an instance had, its own ones and those
// through a Service, by their begin.
func lives(c Case, t Ending) []stood {
	byKey := map[timeline.Connection]*stood{}
	ends := map[timeline.Connection]time.Duration{}
	for _, f := range c.Timeline.Frames {
		switch f.Kind {
		case timeline.FrameFIN, timeline.FrameRST, timeline.FrameClose:
			at := f.On()
			if _, there := ends[at]; !there {
				ends[at] = f.At
			}
		}
	}
	shut, closed := acceptsUntil(c, t)
	for _, s := range c.Timeline.Samples {
		// What was refused was no connection, and the suite's own look is over.
		if Scouts(s) || s.Conn == 0 || s.Phase == timeline.PhaseDial || !directTo(s, t.UID) && s.Reached != t.UID {
			continue
		}
		// Nor is what its kernel took for a listener that nobody accepts from any more.
		if closed && s.New() && arrival(s) >= shut && s.Failed() && s.First == 0 && !held(s) {
			continue
		}
		at := s.On()
		k := byKey[at]
		if k == nil {
			k = &stood{from: s.Start}
			byKey[at] = k
		}
		k.from = min(k.from, s.Start)
		k.to = max(k.to, s.End)
		// A connection for one request goes with it.
		k.known = onNewConns(s) && !held(s)
		if end, ok := ends[at]; ok {
			k.to, k.known = max(k.to, end+delay(s)), true
		}
	}
	out := make([]stood, 0, len(byKey))
	for _, k := range byKey {
		out = append(out, *k)
	}
	slices.SortFunc(out, func(a, b stood) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	return out
}

// vacantFor is the instant by which some connections, in the order of their begins, had
// left an instance empty for a while in all since from.
func vacantFor(conns []stood, from, while time.Duration) time.Duration {
	at := from
	for _, k := range conns {
		if gap := k.from - at; gap >= while {
			break
		} else if gap > 0 {
			while -= gap
		}
		at = max(at, k.to)
	}
	return at + while
}

// vacancy says whether some connections left an instance empty at some time in
// [from, to], and whether the ends of all are known.
func vacancy(conns []stood, from, to time.Duration) (empty, known bool) {
	known = true
	covered := from
	for _, k := range conns {
		if covered < to && k.from > covered {
			empty = true
		}
		end := k.to
		if !k.known {
			known, end = false, max(end, to)
		}
		covered = max(covered, end)
	}
	return empty || covered < to, known
}
