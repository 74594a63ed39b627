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
	Checks:     []assertions.Check{assertions.BelowLastCompletes(), EndsWithTheLast(), KeepsInHand()},
	BrokenBy:   []spec.Fault{datapath.GoAwayCutsInner, datapath.TunnelsOutstay, sidecar.CutsInHand},
	Resolution: 60 * time.Millisecond,
})

// endsWithin is how long a tunnel may stand with nothing in it, behind its GOAWAY: a peer's
// last frames, and a wait for the answer to a PING, take less.
const endsWithin = 2 * time.Second

// namesWithin is how long after its first GOAWAY a server may take to name the tunnel's last stream,
// as h2.goaway-final has it: before that the peer may open connections, and none is known to be the
// last.
const namesWithin = 10 * time.Second

// EndsWithTheLast judges when tunnels end that were told to go while connections were open in them:
// not before the last of these, and soon after that is known to be the last.
func EndsWithTheLast() assertions.Check {
	ended := assertions.ConnectionsPerTermination("tunnels that got a GOAWAY with a connection open in them, and that the server ended")
	return assertions.Check{
		Name:     "the end of tunnels that got a GOAWAY with a connection open in them",
		Expected: fmt.Sprintf("the server ends each behind the last connection in it, and %s after that, and after the GOAWAY that names the last stream, at most", endsWithin),
		Floors:   []assertions.Floor{ended},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all := 0
			var slowest time.Duration
			for t := range tally.Terminations(c) {
				tally.SpanDrain(c, t)
				n := 0
				for _, k := range tunnel.To(c, t) {
					told, ok := k.GoAway()
					if !ok || told < t.Drain.At-t.Drain.Err || k.Stream.Flow().Conns == flow.New { // which the client ends itself
						continue
					}
					var last time.Duration // end of what was open then
					open, id := 0, ""
					for _, s := range k.Samples {
						if s.Start < told && s.End > told && !s.Failed() {
							open++
						}
						if s.End > last {
							last, id = s.End, s.ID
						}
					}
					end, over := k.End()
					known := max(last, k.Named(told+namesWithin))
					limit := known + endsWithin
					switch {
					case open == 0:
						continue
					case over && end < last:
						// What that cut is its requests' to tell, and the other check's.
						n++
					case over && end <= limit:
						n++
						slowest = max(slowest, end-known)
					case !over && k.Left() < limit:
						continue // the client did not wait for it
					// Without a tail the recording was stopped, and nobody saw how long it would have stood.
					case over || c.Tail > limit:
						n++
						tally.Late(c, limit, t.Name, id, "%s: %s still stood, %s after the last connection in it had ended and was known to be the last", t.Clock(limit), k, endsWithin)
					}
				}
				all += n
				tally.Least(ended, t.Name, n)
			}
			return tally.Conclude(
				fmt.Sprintf("all %d tunnels that got a GOAWAY with a connection open in them ended within %s of the last one", all, slowest.Round(time.Millisecond)),
				fmt.Sprintf("%d of %s outstayed the last connection in them", tally.Culprits(), assertions.Plural(all, "tunnel", "tunnels")))
		},
	}
}

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
