// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
	"github.com/lastcall-dev/lastcall/suites/tunnel"
)

// RFC 9113 section 6.8: "Endpoints SHOULD always send a GOAWAY frame before closing a connection so that the remote peer
// can know whether a stream has been partially processed or not." When a sidecar has to is the project's.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "sidecar.ends-before-kill",
	Title: "A plain sidecar whose app outlives the grace period ends its tunnels and itself before both are killed",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "project", Section: "sidecars",
		Quote: "A sidecar that can't tell whether its app is gone ends itself cleanly 1 s before K.",
	}, {
		Doc: "RFC 9113", Section: "section 6.8", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-6.8",
		Quote: "Endpoints SHOULD always send a GOAWAY frame before closing a connection so that the remote peer can know whether a stream has been partially processed or not.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "A sidecar that stays as long as its app does is killed with an app that does not end. Its kernel closes the tunnels then, and says nothing: the peers can't know what of their connections was processed, and dial an address where nobody is.",
	Causes: "The sidecar waits for its app's end without a bound, or for what passes through it. It does not know its pod's grace period. It takes a margin from that, and where it is shorter than the margin the difference is a huge number.",
	Fix:    "Give the sidecar the pod's grace period. A little before that ends let it accept no more, say GOAWAY on each tunnel, cut what still runs by RST_STREAM, and close by close_notify; and bound the margin by the grace period.",

	Topology: behaviour.BesideExhausted,
	Disrupt:  behaviour.EndBoth,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.Reused, Op: flow.Get}, Rate: 20},
		// These last longer than the grace period.
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.Reused, Op: flow.Slow, Takes: 14 * time.Second}, Rate: 2},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.New, Op: flow.Idle, Takes: 20 * time.Second}, Rate: 2},
	},
	Checks:     []assertions.Check{GoneBeforeKill(), ToldBeforeKill()},
	BrokenBy:   []spec.Fault{datapath.NeverCuts, datapath.MarginWraps, datapath.TunnelsUntold},
	Resolution: 60 * time.Millisecond,
})

// killedApart is how far apart the exits of two containers may be that were killed together.
const killedApart = 100 * time.Millisecond

// killedAt is K of an instance whose app did not end by itself: when that was killed. What is known of K otherwise is when
// the deletion was seen.
func killedAt(y *assertions.Tally, t assertions.Ending) (k time.Duration, known bool) {
	if !t.Exit.Known() || !t.Killed() {
		y.Doubt("nobody saw the app of %s be killed at the end of its grace period", t.Name)
		return 0, false
	}
	return t.Exit.At, true
}

// GoneBeforeKill judges the exits of sidecars whose apps were killed at K.
func GoneBeforeKill() assertions.Check {
	seen := assertions.Floor{Per: "termination", Name: "exits of the sidecar", N: 1, Reason: "a pod ends once"}
	return assertions.Check{
		Name:     "the exit of a sidecar whose app is killed at the end of its grace period",
		Expected: fmt.Sprintf("it is gone by itself, more than %s before that", killedApart),
		Floors:   []assertions.Floor{seen},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all := 0
			var least time.Duration
			for t := range tally.Terminations(c) {
				k, known := killedAt(&tally, t)
				if !known {
					continue
				}
				tally.Span(t.Drain.At, k)
				exits := ofSidecar(c, besideApp(c, t))
				tally.Least(seen, t.Name, len(exits))
				for _, e := range exits {
					left := k - e.At
					if left+t.Exit.Err+e.Err <= killedApart {
						tally.LateOn(c, t.Node, k, t.Name, "", "%s: %s of %s went with its app, which was killed", t.Clock(e.At), e.Attrs["container"], t.Name)
					}
					if all++; all == 1 || left < least {
						least = left
					}
				}
			}
			return tally.Conclude(
				fmt.Sprintf("%s: the last was gone %s before its app was killed", assertions.Plural(all, "sidecar", "sidecars"), least.Round(time.Millisecond)),
				fmt.Sprintf("%d of %s stayed until it was killed", tally.Culprits(), assertions.Plural(all, "sidecar", "sidecars")))
		},
	}
}

// standsUntil is how long before K a tunnel stood that its sidecar has to end.
const standsUntil = 2 * time.Second

// ToldBeforeKill judges the tunnels that stood shortly before the end of an app's grace period.
func ToldBeforeKill() assertions.Check {
	stood := assertions.ConnectionsPerTermination(fmt.Sprintf("tunnels that stood %s before the app was killed", standsUntil))
	busy := assertions.Floor{Per: "termination", Name: "of these, tunnels with a connection in them that was longer than the grace period", N: 5,
		Reason: "at 2 a second some 20 were begun before the sidecar accepts no more"}
	return assertions.Check{
		Name:     fmt.Sprintf("tunnels that stood %s before the app was killed", standsUntil),
		Expected: "GOAWAY and then close_notify come on each before that",
		Floors:   []assertions.Floor{stood, busy},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all := 0
			var last time.Duration // before the kill
			for t := range tally.Terminations(c) {
				k, known := killedAt(&tally, t)
				if !known {
					continue
				}
				tally.Span(k-standsUntil, k)
				n, long := 0, 0
				for _, one := range tunnel.To(c, t) {
					if !one.StoodAt(k-standsUntil) || one.ToldBefore(t.Earliest()) || one.Deserted(k) {
						continue
					}
					n++
					if one.Stream.Flow().Takes > t.Grace && !one.Silent() {
						long++
					}
					switch lacks, said := one.Farewell(t.Earliest(), k); {
					case lacks != "":
						// Whoever is there until then may be killed with it.
						one.Lacked(&tally, c, k-killedApart, t.Name, "%s: %s %s when the app was killed", t.Clock(k), one, lacks)
					case said > k:
						tally.Late(c, k, t.Name, one.Samples[0].ID, "%s: %s was told %s after the app was killed", t.Clock(said), one, (said - k).Round(time.Millisecond))
					case said > 0 && (last == 0 || k-said < last):
						last = k - said
					}
				}
				all += n
				tally.Least(stood, t.Name, n)
				tally.Least(busy, t.Name, long)
			}
			return tally.Conclude(
				fmt.Sprintf("all %d got GOAWAY and close_notify, the last of them %s before the app was killed", all, last.Round(time.Millisecond)),
				fmt.Sprintf("%d of %s not told all before the app was killed", tally.Culprits(), assertions.Plural(all, "tunnel was", "tunnels were")))
		},
	}
}
