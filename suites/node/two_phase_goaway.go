// SPDX-License-Identifier: Apache-2.0

package node

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
	"github.com/lastcall-dev/lastcall/suites/tunnel"
)

var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "node.two-phase-goaway",
	Title: "The first GOAWAY of a node proxy that is replaced leaves open which streams are served, what crosses it is answered, or known to be unprocessed, and each tunnel ends with the last that is in it",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "RFC 9113", Section: "section 6.8", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-6.8",
		Quote: "A server that is attempting to gracefully shut down a connection SHOULD send an initial GOAWAY frame with the last stream identifier set to 2^31-1 and a NO_ERROR code.",
	}, {
		Doc: "RFC 9113", Section: "section 6.8", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-6.8",
		Quote: "After allowing time for any in-flight stream creation (at least one round-trip time), the server MAY send another GOAWAY frame with an updated last stream identifier. This ensures that a connection can be cleanly shut down without losing requests.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "The apps behind a node proxy that is replaced go on, and so do those who call them: at the instant of its GOAWAY some of their connections are on their way into its tunnels, on every node of a roll-out. Where nobody answers them, or where they are turned away by a proxy that might have served them, an app sees its connection fail for an update that is none of its own.",
	Causes: "A proxy that names the last stream at once, as a server does that shuts down for an error. One that stops reading at its GOAWAY, because its successor listens, or ignores new streams without saying so. One that ends its tunnels at its deadline, and not when they are empty.",
	Fix:    "Say 2^31-1 and NO_ERROR first, serve what comes until the answer to a PING, and name the last stream then. End the tunnel with the last of what runs in it.",

	Topology: behaviour.StayingFew,
	Disrupt:  behaviour.ReplaceProxies,
	Traffic: []load.Profile{
		racing,
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.Reused, Op: flow.Get}, Rate: 20},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.Reused, Op: flow.Slow, Takes: 4 * time.Second}, Rate: 3},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.New, Op: flow.Idle, Takes: 20 * time.Second}, Rate: 1},
	},
	Checks: []assertions.Check{
		OfReplaced(assertions.FirstGoAwayMax()), OfReplaced(assertions.RacingStreams()), OfReplaced(assertions.BelowLastCompletes()), OfReplaced(tunnel.EndsWithTheLast()),
	},
	BrokenBy:   []spec.Fault{datapath.GoAwayNamesAtOnce, datapath.StrandsCrossing, nodeproxy.CutsEarly, datapath.TunnelsOutstay},
	Resolution: 60 * time.Millisecond,
})

// racing are connections over a long path, in tunnels that many share: of few each second six are on their way to each of
// two instances when its proxy says GOAWAY.
var racing = load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.Shared, Op: flow.Get, Delay: 5 * behaviour.RaceDelay}, Rate: 30}
