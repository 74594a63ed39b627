// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/gateway"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Seed 4: "When TCP listeners are used (rather than HTTP listeners), connections
// will not drain". A proxy can't tell an opaque stream's client to leave: what it
// can do is to let the stream come to its end.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "tcp.opaque",
	Title: "An opaque stream stays byte-exact until its end or the deadline",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Section: "after envoyproxy/gateway pull request 2633",
		Quote: "An opaque stream stays byte-exact until its end or the deadline.",
	}},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.TCP},

	Why:    "Databases, brokers and mail speak no HTTP, and nobody repeats half a transaction for them. A drain that forgets them is a crash, as often as there is a rollout.",
	Causes: "A drain that counts requests: opaque streams take no part in it, and are cut as soon as the last request has ended, or at once.",
	Fix:    "Count open streams as work in flight, and give them the whole of the drain's time.",

	Topology: behaviour.Talking, AppsToo: true,
	Disrupt:    behaviour.EndBoth,
	Traffic:    talksNearAndFar,
	Checks:     []assertions.Check{assertions.CarriesOpaque()},
	BrokenBy:   []spec.Fault{gateway.CutsOpaque, gateway.FreezesOpaque, sidecar.HurriesOut, nodeproxy.CutsOnceDeleted},
	Resolution: 60 * time.Millisecond,
})
