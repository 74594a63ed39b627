// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Of a sidecar more ways lead there than of a gateway: what comes in for the pod it carries itself, and
// what it dials in the pod is the pod's own to everybody who listens there.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "sidecar.admin-closed",
	Title: "What begins a sidecar's drain, or ends it, can't be reached from another pod, nor by GET",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Section: "after linkerd2 issue 10379 and envoyproxy/gateway pull request 2633",
		Quote: "Drain and shutdown can't be reached from another pod; POST only.",
	}, {
		Doc: "envoyproxy/gateway pull request 2633", URL: "https://github.com/envoyproxy/gateway/pull/2633",
		Quote: "HTTP requests cannot be made to a port bound to 127.0.0.1 (I've tried this) so requests to the Envoy admin port would require it be exposed which would pose a security risk.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.HTTP1, spec.HBONE, spec.Admin},

	Why:    "A sidecar stands in each pod of a mesh. Whoever reaches its drain call takes any app out of service, one request each, though that app goes on; and a GET is sent by scanners and crawlers that mean no harm.",
	Causes: "An admin listener at all addresses, so that an httpGet hook of the kubelet's can reach it: the sidecar carries to it what comes in. A tunnel's CONNECT that is taken at its word when it asks for 127.0.0.1. Paths that are served whatever the method is.",
	Fix:    "Bind it to the loopback interface, and answer only POST. Connect who comes in a tunnel to the pod's own addresses, and to nothing that is the loopback. Let a hook call it by exec.",

	Topology: behaviour.BesideWaiting,
	Disrupt:  behaviour.IntrudeOnOne,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 25},
	},
	Checks:     []assertions.Check{assertions.AdminClosed()},
	BrokenBy:   []spec.Fault{sidecar.AdminEverywhere, sidecar.AdminByGet, sidecar.LoopbackByTunnel},
	Resolution: 60 * time.Millisecond,
})
