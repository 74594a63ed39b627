// SPDX-License-Identifier: Apache-2.0

package hbone

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
	"github.com/lastcall-dev/lastcall/suites/tunnel"
)

// RFC 9113 section 6.8: "The sender of a GOAWAY frame might gracefully shut down
// a connection by sending a GOAWAY frame, maintaining the connection in an "open"
// state until all in-progress streams complete."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "hbone.goaway-keeps-inner",
	Title: "The connections in a tunnel go on behind its GOAWAY, and the tunnel closes when the last of them has ended",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "RFC 9113", Section: "section 6.8", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-6.8",
		Quote: "The sender of a GOAWAY frame might gracefully shut down a connection by sending a GOAWAY frame, maintaining the connection in an \"open\" state until all in-progress streams complete.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "A tunnel carries many of the peer's connections, which know nothing of it. One that is closed with them inside cuts them all at once; one that is never closed keeps the pod until it is killed, and then cuts what is left.",
	Causes: "A proxy that takes GOAWAY for the end: it resets what runs, or closes the connection a fixed time later. One that waits for its peer to close. One that cuts all that it has in hand when it is told to go, and says GOAWAY when nothing is left.",
	Fix:    "Behind the GOAWAY carry each stream to its own end, up to the deadline, and end the tunnel with the last of them.",

	Topology: behaviour.Tunnelled, GatewaysToo: true,
	Disrupt:    behaviour.EndBoth,
	Traffic:    []load.Profile{streaming},
	Checks:     []assertions.Check{assertions.BelowLastCompletes(), tunnel.EndsWithTheLast(), KeepsInHand()},
	BrokenBy:   []spec.Fault{datapath.GoAwayCutsInner, datapath.TunnelsOutstay, sidecar.CutsInHand},
	Resolution: 60 * time.Millisecond,
})

// KeepsInHand judges the connections that last and were in hand when an instance began to end, whether
// their tunnel gets a GOAWAY or not: the server may say one much later, when none of them is left, or never.
func KeepsInHand() assertions.Check {
	inHand := assertions.Floor{Per: "termination", Name: "connections in tunnels that were answered before D and last beyond it", N: 5,
		Reason: "they are what is in hand at one instant"}
	return assertions.Check{
		Name:     "connections in tunnels that are in hand at D",
		Expected: "each ends whole, or is cut at the deadline that was declared, whether its tunnel gets a GOAWAY or not",
		Floors:   []assertions.Floor{inHand},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all, over := 0, 0
			for t := range tally.Terminations(c) {
				tally.SpanDrain(c, t)
				n := 0
				for _, s := range c.Timeline.Samples {
					f := s.Stream.Flow()
					// What was to be over by D tells nothing, whole or not.
					if !tunnel.Direct(s, t) || f.Op != flow.Slow || s.First == 0 || s.First >= t.Earliest() || s.End <= t.Earliest() || s.First+f.Takes <= t.Drain.At+t.Drain.Err {
						continue
					}
					if s.Failed() && assertions.Outlasts(c, t, s) {
						over++
						continue
					}
					all++
					if s.Failed() {
						tally.Failed(c, s, s.End, t.Name, "%s", t.Clock(s.End))
					}
					if !s.Saturated {
						n++
					}
				}
				tally.Least(inHand, t.Name, n)
			}
			passed := fmt.Sprintf("all %d ended whole", all)
			if over > 0 {
				passed += fmt.Sprintf("; %d more took longer than the instance had, and were cut at its deadline", over)
			}
			return tally.Conclude(passed, fmt.Sprintf("%d of %s cut", tally.Culprits(), assertions.Plural(all, "connection that was in hand at D was", "connections that were in hand at D were")))
		},
	}
}
