// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/fixtures/gateway"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Where the server speaks first (SMTP, MySQL, SSH), a client that has connected
// has nothing to say before it has heard its server.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "tcp.server-first",
	Title: "A server-first protocol is not held by protocol detection during a drain",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc:   "project",
		Quote: "A server-first protocol is not held by protocol detection during a drain.",
	}},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.TCP},

	Why:    "A proxy that waits for the client to speak first, while the client waits for the server, makes each new connection take as long as its detection does. In a rollout that is every connection.",
	Causes: "Protocol detection by the first bytes; a drain that takes new connections through a slower path than before.",
	Fix:    "Connect to the backend at once and carry both directions; look at the first bytes as they pass. Or have the port's protocol declared.",

	Topology: behaviour.Talking, AppsToo: true,
	Disrupt: behaviour.EndBoth,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 20}, // what the baseline is taken from
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.TCP, Conns: flow.New, Op: flow.Talk, Takes: 3 * time.Second}, Rate: 5},
	},
	Checks:     []assertions.Check{assertions.ServerSpeaksFirst()},
	BrokenBy:   []spec.Fault{gateway.DetectsProtocol, datapath.AwaitsClient},
	Resolution: 60 * time.Millisecond,
})
