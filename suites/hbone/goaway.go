// SPDX-License-Identifier: Apache-2.0

package hbone

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// RFC 9113 section 6.8: "Endpoints SHOULD always send a GOAWAY frame before
// closing a connection so that the remote peer can know whether a stream has been
// partially processed or not."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "hbone.goaway",
	Title: "A tunnel that ends with its pod gets a GOAWAY before its close, whenever after D that is",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "RFC 9113", Section: "section 6.8", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-6.8",
		Quote: "Endpoints SHOULD always send a GOAWAY frame before closing a connection so that the remote peer can know whether a stream has been partially processed or not.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "Without it the peer can retry none of its CONNECTs: each may have reached the app. A sidecar may outlive its app, so that its tunnels' end is not the app's: it is judged whenever it comes, from the pod's D on.",
	Causes: "The proxy exits at SIGTERM, or closes its tunnels instead of draining them.",
	Fix:    "Begin the end of each tunnel with a GOAWAY, and close none before it.",

	Topology: behaviour.Tunnelled, GatewaysToo: true, NodesToo: true,
	Disrupt:    behaviour.EndBoth,
	Traffic:    all,
	Checks:     []assertions.Check{assertions.SendsGoAway()},
	BrokenBy:   []spec.Fault{datapath.TunnelsUntold},
	Resolution: 60 * time.Millisecond,
})
