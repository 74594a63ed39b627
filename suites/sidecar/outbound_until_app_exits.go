// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// linkerd2 issue 10379: "at the very least, linkerd-proxy should not interfere with outgoing
// connections."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "sidecar.outbound-until-app-exits",
	Title: "An app's outbound connections work from the drain's start until the app's end",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Section: "after linkerd2 issue 10379", URL: "https://github.com/linkerd/linkerd2/issues/10379",
		Quote: "But at the very least, linkerd-proxy should not interfere with outgoing connections.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HTTP},

	Why:    "An app that drains still works: it answers what it has in hand, flushes what it keeps in memory, and tells others that it goes. For that it looks up and dials databases, queues and other apps. A sidecar that takes no more outbound connections, or answers no lookups, after SIGTERM makes each of these fail, and what was in hand is lost inside of the app, where no client can repeat it.",
	Causes: "A proxy that closes its outbound listener at SIGTERM together with the inbound one. A fixed wait that is shorter than the app's drain. A proxy that leaves when nobody is connected at the moment, or takes its app for gone because that has no socket then. One that takes its app's DNS lookups upon itself, and answers none from its SIGTERM on.",
	Fix:    "End the outbound side last: when the app's containers are gone, and not at the proxy's own SIGTERM. A native sidecar (an init container with restartPolicy: Always) is told to go after them. As a plain container let it wait for the app's end.",

	Topology:   behaviour.Beside,
	Disrupt:    behaviour.DeleteEach,
	Traffic:    append(slices.Clone(Calls), lookups),
	Checks:     []assertions.Check{CallsThroughProxy(CallsServed()), LookupsAnswered()},
	BrokenBy:   []spec.Fault{sidecar.RefusesAtSigterm, sidecar.OutboundEndsFirst, sidecar.LookupsEndFirst, sidecar.WaitsTooShort, sidecar.QuietTooShort, sidecar.HoldsWhenQuiet},
	Resolution: 60 * time.Millisecond,
})
