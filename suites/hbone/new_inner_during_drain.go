// SPDX-License-Identifier: Apache-2.0

package hbone

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
	"github.com/lastcall-dev/lastcall/suites/tunnel"
)

// linkerd2 issue 10379: "These processes must continue to process connections, as
// peers may not observe the pod's removal from a service immediately."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "hbone.new-inner-during-drain",
	Title: "While its pod drains and the app accepts, a peer can open connections, in the tunnels that it has and in new ones",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Section: "after linkerd2 issue 10379", URL: "https://github.com/linkerd/linkerd2/issues/10379",
		Quote: "These processes must continue to process connections, as peers may not observe the pod's removal from a service immediately.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "Peers send to a pod until each of them has heard that it goes, and the app accepts for that long. Whatever the tunnels between them do meanwhile, they may not take that back: a tunnel that takes no more connections is no loss only if another can be opened.",
	Causes: "A proxy that closes its listener when it says GOAWAY, or at SIGTERM, while the app behind it accepts.",
	Fix:    "Take tunnels, and connections in them, for as long as the app accepts. Where tunnels are told to go before, take new ones.",

	Topology: behaviour.Tunnelled, GatewaysToo: true,
	Disrupt:    behaviour.EndBoth,
	Traffic:    []load.Profile{opened, used},
	Checks:     []assertions.Check{ConnectsWhileAccepted()},
	BrokenBy:   []spec.Fault{sidecar.RefusesAtSigterm},
	Resolution: 60 * time.Millisecond,
})

// ConnectsWhileAccepted judges the short connections in tunnels from D on for as long as the app
// accepts: as it says itself (timeline.DrainListenerClosed), and for P where it says nothing. In a
// tunnel that stood one may be turned away as not processed, since a new tunnel can be had for it.
func ConnectsWhileAccepted() assertions.Check {
	fresh := assertions.Floor{Per: "termination", Name: "connections in tunnels of their own, from D until the app accepts no more", N: 50}
	kept := assertions.Floor{Per: "termination", Name: "connections in tunnels that are kept, from D until the app accepts no more", N: 50,
		Reason: "a client that is told to leave its tunnels has none to keep, and opens new ones",
	}
	return assertions.Check{
		Name:     "new connections in tunnels, from D until the app accepts no more",
		Expected: "each is served; in a tunnel that is kept it may be turned away as not processed",
		Floors:   []assertions.Floor{fresh, kept},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all, away := 0, 0
			for t := range tally.Terminations(c) {
				until := assertions.AppAccepts(c, t) // before P is over too: what the app refuses is its own
				shut, said := t.SaysShut(c)
				tally.Span(t.Drain.At, until)
				n := map[flow.Conns]int{}
				for _, s := range c.Timeline.Samples {
					f := s.Stream.Flow()
					if !tunnel.Direct(s, t) || f.Op != flow.Get || s.Start < t.Drain.At+t.Drain.Err || s.Start > until {
						continue
					}
					switch {
					case s.Failed() && f.Conns != flow.New && s.Outcome.SafeToRetry():
						away++
						continue
					case s.Failed() && said && s.End > shut:
						// On a machine without time half a second is not enough for its way to the app.
						tally.Late(c, s.End, t.Name, s.ID, "%s: %s, %s after the app's listener closed: %s: %s", t.Clock(s.End), s.Stream.Kind(), (s.End - shut).Round(time.Millisecond), s.Outcome, s.Err)
					case s.Failed():
						tally.Failed(c, s, s.End, t.Name, "%s: %s: %s: %s", t.Clock(s.End), s.Stream.Kind(), s.Outcome, s.Err)
					}
					all++
					if !s.Saturated {
						n[f.Conns]++
					}
				}
				tally.Least(fresh, t.Name, n[flow.New])
				tally.Least(kept, t.Name, n[flow.Reused])
			}
			passed := fmt.Sprintf("all %d were served", all)
			if away > 0 {
				passed += fmt.Sprintf("; %d more were turned away as not processed", away)
			}
			return tally.Conclude(passed, fmt.Sprintf("%d of %s failed while the app accepted", tally.Culprits(), assertions.Plural(all, "new connection", "new connections")))
		},
	}
}
