// SPDX-License-Identifier: Apache-2.0

package hbone

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// RFC 9113 section 6.8: "Endpoints SHOULD always send a GOAWAY frame before
// closing a connection so that the remote peer can know whether a stream has been
// partially processed or not."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "hbone.idle-gets-goaway",
	Title: "A tunnel with nothing in it gets a GOAWAY too before it is closed",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "RFC 9113", Section: "section 6.8", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-6.8",
		Quote: "Endpoints SHOULD always send a GOAWAY frame before closing a connection so that the remote peer can know whether a stream has been partially processed or not.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "A pooled tunnel is silent most of the time, and the peer's next connection goes into it. Without a GOAWAY that one may be written into a tunnel that is gone.",
	Causes: "A proxy that closes idle tunnels at its end, and drains only those in use.",
	Fix:    "Say GOAWAY on each tunnel, whatever is in it.",

	Topology: behaviour.Tunnelled, GatewaysToo: true, NodesToo: true,
	Disrupt:    behaviour.EndBoth,
	Traffic:    []load.Profile{idle},
	Checks:     []assertions.Check{assertions.IdleGetsGoAway()},
	BrokenBy:   []spec.Fault{datapath.IdleTunnelsUntold},
	Resolution: 60 * time.Millisecond,
})
