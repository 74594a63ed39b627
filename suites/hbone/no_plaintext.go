// SPDX-License-Identifier: Apache-2.0

package hbone

import (
	"fmt"
	"math"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
	"github.com/lastcall-dev/lastcall/suites/tunnel"
)

// The rule is the suite's own: no norm speaks of a mesh's promise.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "hbone.no-plaintext",
	Title: "Between two pods of the mesh nothing goes in plain text, whatever their tunnels do",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Section: "design", Quote: "Between two enrolled pods nothing goes in plain text, whatever restarts, once the source's discovery has said HBONE for the destination for at least P.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "Who put a pod into the mesh was promised that nobody reads along. A source that takes another way when its peer's proxy is away keeps that promise on quiet days only, and nobody sees that it was broken: all requests are served.",
	Causes: "A proxy that takes a peer whose tunnels fail for one outside of the mesh. One that passes everything on until it has heard from discovery. Redirect rules that go before the connections do.",
	Fix:    "Where discovery says HBONE, tunnel or fail.",

	Topology: behaviour.Sourcing, NodesToo: true,
	Disrupt:    behaviour.PeersMisbehave,
	Traffic:    []load.Profile{toTurningAway},
	Checks:     []assertions.Check{NothingInPlainText()},
	BrokenBy:   []spec.Fault{datapath.FallsBackToPlain},
	Resolution: 60 * time.Millisecond,
})

// NothingInPlainText judges what the node's wire had between pods of the mesh, while some took no
// tunnels and others cut them.
func NothingInPlainText() assertions.Check {
	tunnels := assertions.Floor{Name: "tunnels that the wire had", N: 3,
		Reason: "each shows that what passes is seen; a pool needs few of them"}
	wanted := assertions.Floor{Name: "connections of apps to peers that took no tunnels", N: 200}
	return assertions.Check{
		Name:     "what passes between pods of the mesh",
		Expected: "no connection is made, and no byte sent, but to the port of tunnels",
		Floors:   []assertions.Floor{tunnels, wanted},
		Judge: func(c assertions.Case) spec.Finding {
			var y assertions.Tally
			// What a source passes before it has heard who is in the mesh is no concern of this rule, and its pool's tunnels
			// are dialled by then.
			tunnel.Past(&y, c, c.Steady, math.MaxInt64)
			n := tunnel.Dialled(c, 0, math.MaxInt64)
			y.Span(c.Steady, max(c.Steady, c.Tail))
			k := 0
			for _, p := range phases(c, flow.PeerTurnsAway) {
				for _, s := range dialled(c, flow.PeerTurnsAway) {
					if p.name != "" && s.Start >= p.from && s.Start < p.to {
						k++
					}
				}
			}
			y.Count(tunnels, n)
			y.Count(wanted, k)
			return y.Conclude(
				fmt.Sprintf("the wire had %d tunnels and nothing else, while apps made %d connections to peers that took no tunnels", n, k),
				fmt.Sprintf("%d times something else than a tunnel passed between pods of the mesh", y.Culprits()))
		},
	}
}
