// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// The field's setting of that kind is Istio's EXIT_ON_ZERO_ACTIVE_CONNECTIONS: a sidecar that is told
// to go leaves when it has no connection any more, instead of after a fixed time.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "sidecar.truthful-zero",
	Title: "A sidecar that leaves at zero connections leaves then, and not before",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Section: "sidecars",
		Quote: "Exit on zero connections: early when idle, waits while one lives, waits when it can't tell.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HTTP1},

	Why:    "Who has a sidecar leave at zero connections trusts its count with what is in hand: a connection that is not counted is cut, or loses its way for the next one, while its app still works. And one that never sees its zero costs each pod its whole grace period.",
	Causes: "Only one side is counted: the listeners and not the app's own connections, or tunnels and not the plain ones. A count that is asked of another process, whose silence is read as zero. A count of connections that a pool keeps open for itself.",
	Fix:    "Count what passes both ways, at the instant at which nothing more is accepted. Where the count can't be had, go on as if one connection lived, until the app is gone.",

	Topology: behaviour.BesideAtZero,
	Disrupt:  behaviour.DeleteUncounted,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 25},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Slow, Takes: 2 * time.Second}, Rate: 5},
		{Flow: flow.Flow{Path: flow.Outbound, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Upload, Takes: 2 * time.Second}, Rate: 2},
	},
	Checks: []assertions.Check{TruthfulZero()},
	BrokenBy: []spec.Fault{
		sidecar.CountsInboundOnly, sidecar.CountsOutboundOnly, sidecar.TakesUnreadForZero, sidecar.StaysAtZero,
	},
	Resolution: 60 * time.Millisecond,
})

const (
	// staysFor is for how long after D a sidecar is looked at that has a reason to stay: its app accepts
	// for a second more.
	staysFor = 5 * time.Second
	// goneWithin is how long after D one may be there that has none. The peers of its tunnels are told
	// to go, and have their time for that.
	goneWithin = 3 * time.Second
)

// zeroCase is what a sidecar has to count at D.
type zeroCase string

const (
	nothing   zeroCase = "nothing that lasts"
	outgoing  zeroCase = "what its app sends out"
	incoming  zeroCase = "what comes in"
	uncounted zeroCase = "a count that it can't read"
)

// zeroCases are all, in their order.
var zeroCases = []zeroCase{nothing, outgoing, incoming, uncounted}

// TruthfulZero judges sidecars that leave at zero connections, by what their peers meet and by the exits
// of their processes: one that has nothing in hand at D goes within goneWithin, before its app; one
// that has, or can't tell, accepts for as long as its app does.
func TruthfulZero() assertions.Check {
	seen := map[zeroCase]assertions.Floor{}
	var floors []assertions.Floor
	for _, z := range zeroCases {
		seen[z] = assertions.Floor{Name: "terminations of sidecars that have at D " + string(z), N: 1, Reason: "there is one for each case"}
		floors = append(floors, seen[z])
	}
	offered := assertions.Floor{Per: "termination", Name: fmt.Sprintf("short requests offered within %s of D where the sidecar has to stay", staysFor), N: 50}
	return assertions.Check{
		Name:     "sidecars that leave at zero connections",
		Expected: fmt.Sprintf("with nothing in hand at D it is gone within %s, while its app is there; with a connection either way, or where it can't tell, it accepts as long as its app does", goneWithin),
		Floors:   append(floors, offered),
		Likely:   likelySidecar,
		Judge: func(c assertions.Case) spec.Finding {
			var y assertions.Tally
			soonest, served := time.Duration(0), 0
			cases := map[zeroCase]int{}
			for t := range y.Terminations(c) {
				z := zeroOf(c, t)
				cases[z]++
				if z == nothing {
					y.Span(t.Drain.At, t.Drain.At+goneWithin)
					soonest = max(soonest, leavesEarly(&y, c, t))
					continue
				}
				y.Span(t.Drain.At, t.Drain.At+staysFor)
				n := stays(&y, c, t, z)
				y.Least(offered, t.Name, n)
				served += n
			}
			for _, z := range zeroCases {
				y.Count(seen[z], cases[z])
			}
			return y.Conclude(
				fmt.Sprintf("with nothing in hand it was gone %s after D; the others served all of %s within %s", soonest.Round(time.Millisecond), assertions.Plural(served, "short request", "short requests"), staysFor),
				fmt.Sprintf("the count was not the truth, or not heeded, in %s", assertions.Plural(y.Culprits(), "way", "ways")))
		},
	}
}

// zeroOf is what the sidecar of an instance has to count at D.
func zeroOf(c assertions.Case, t assertions.Ending) zeroCase {
	for _, e := range c.Timeline.EventsOf(timeline.Disruption, t.UID) {
		if e.Attrs["what"] == string(disrupt.DeleteUncounted) && e.Attrs["error"] == "" {
			return uncounted
		}
	}
	for _, s := range c.Timeline.Samples {
		if s.Stream.Target() != t.UID || !livesAtD(s, t) {
			continue
		}
		if s.Stream.Flow().Path == flow.Outbound {
			return outgoing
		}
		return incoming
	}
	return nothing
}

// livesAtD says whether a request that lasts is in hand at D, or was cut between the deletion and D.
func livesAtD(s timeline.Sample, t assertions.Ending) bool {
	cut := s.Failed() && s.End > t.Earliest()
	return s.Stream.Flow().Takes > 0 && s.Start < t.Drain.At-t.Drain.Err && (s.End > t.Drain.At+t.Drain.Err || cut)
}

// leavesEarly judges a sidecar that has nothing in hand, and says how long after D it was gone.
func leavesEarly(y *assertions.Tally, c assertions.Case, t assertions.Ending) time.Duration {
	exits := besideApp(c, t)
	if len(exits) == 0 || !t.Exit.Known() {
		y.Doubt("nobody saw both the app of %s and its sidecar exit", t.Name)
		return 0
	}
	if t.Exit.At-t.Exit.Err < t.Drain.At+goneWithin {
		y.Doubt("the app of %s was gone %s after D: whether its sidecar would have left without that is not known", t.Name, (t.Exit.At - t.Drain.At).Round(time.Millisecond))
	}
	after := exits[0].At - t.Drain.At
	if after-exits[0].Err-t.Drain.Err > goneWithin {
		y.Late(c, t.Drain.At+goneWithin, t.Name, "", "%s: the sidecar of %s is gone, though it had nothing in hand at D", t.Clock(exits[0].At), t.Name)
	}
	return after
}

// stays judges a sidecar that has a reason to stay, and says how many short requests it was offered.
func stays(y *assertions.Tally, c assertions.Case, t assertions.Ending, z zeroCase) int {
	n, end := 0, t.Drain.At+staysFor
	for _, s := range c.Timeline.Samples {
		if s.Stream.Target() != t.UID {
			continue
		}
		short := s.Stream.Flow().Path == flow.Direct && s.Stream.Flow().Op == flow.Get
		switch {
		case short && s.Start >= t.Drain.At+t.Drain.Err && s.Start < end:
			if !s.Saturated {
				n++
			}
		case livesAtD(s, t):
		default:
			continue
		}
		if s.Failed() {
			y.Failed(c, s, s.Start, t.Name, "%s, with %s", t.Clock(s.Start), z)
		}
	}
	for _, e := range besideApp(c, t) {
		if e.At+e.Err < end {
			y.Against(e.At, t.Name, "", "%s: the sidecar of %s is gone, with %s", t.Clock(e.At), t.Name, z)
		}
	}
	return n
}
