// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/gateway"
	"github.com/lastcall-dev/lastcall/fixtures/shutdown"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Seed 4: a preStop hook of the kubelet's can't reach a port on the loopback
// interface, and the way out that offers itself is to bind it to all addresses.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "gateway.admin-closed",
	Title: "What begins the drain, or ends the process, can't be reached from another pod, nor by GET",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Section: "after linkerd issue 10379 and envoyproxy/gateway pull request 2633",
		Quote: "Drain and shutdown can't be reached from another pod; POST only.",
	}, {
		Doc: "envoyproxy/gateway pull request 2633", URL: "https://github.com/envoyproxy/gateway/pull/2633",
		Quote: "HTTP requests cannot be made to a port bound to 127.0.0.1 (I've tried this) so requests to the Envoy admin port would require it be exposed which would pose a security risk.",
	}},
	Profile: spec.Gateway,
	Needs:   []spec.Feature{spec.HTTP, spec.Admin},

	Why:    "Whoever reaches the drain call can end each gateway of a cluster, one request each. A GET is sent by scanners, crawlers and whoever clicks on a link, and means no harm.",
	Causes: "An admin listener bound to all addresses, so that an httpGet hook of the kubelet's can reach it; paths that are served whatever the method is.",
	Fix:    "Bind it to the loopback interface, answer only POST, and have the hook run beside it: an exec hook, or a container of the same pod that waits for the drain.",

	Topology: behaviour.Gated,
	Disrupt:  behaviour.IntrudeOnOne,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 25},
	},
	Checks:     []assertions.Check{assertions.AdminClosed()},
	BrokenBy:   []spec.Fault{gateway.OpenAdmin, shutdown.HookAnswersAnybody},
	Resolution: 60 * time.Millisecond,
})
