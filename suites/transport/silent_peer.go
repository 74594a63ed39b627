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

// A connection on which nothing was ever said has no end that anybody waits for:
// not its client, who may have forgotten it, and not a backend, which has not heard
// of it.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "tcp.silent-peer",
	Title: "A connection that has not said a word is closed soon, and keeps nobody",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc:   "project",
		Quote: "A connection that was accepted before D and has not said a word is served or closed soon after D; it neither hangs nor keeps the process to the deadline.",
	}},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.HTTP1},

	Why:    "Clients open connections ahead of need, and scanners open them for nothing. One of them is enough to stretch every rollout to its deadline, and what else runs then is cut.",
	Causes: "The drain waits for all connections, and knows how to end those with requests only; or the TLS handshake has no timeout of its own.",
	Fix:    "When the listener is closed, close what has not said a byte; end handshakes that don't come on.",

	Topology: behaviour.Mute, AppsToo: true,
	Disrupt: behaviour.EndBoth,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 20}, // when the listener goes
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Mute, Takes: 20 * time.Second}, Rate: 2},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.TLS1, Conns: flow.New, Op: flow.Mute, Takes: 20 * time.Second}, Rate: 2},
	},
	Checks:     []assertions.Check{assertions.ClosesSilent()},
	BrokenBy:   []spec.Fault{gateway.KeepsSilent, datapath.HidesSilentEnds},
	Resolution: 60 * time.Millisecond,
})
