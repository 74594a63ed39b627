// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// istio issue 51855: "I do not believe we should be seeing `connection: close` for these outbound
// requests." A drain is for clients who have somewhere else to go; an app has no other sidecar.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "sidecar.outbound-not-drained",
	Title: "While the app lives, no outbound connection that it keeps is told to go",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Section: "after istio issue 51855", URL: "https://github.com/istio/istio/issues/51855",
		Quote: "I do not believe we should be seeing `connection: close` for these outbound requests.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HTTP},

	Why:    "A drain tells clients to move to another instance. An app that is told so by its own sidecar has nowhere to move: it gives up a pool that works, opens it anew over the same sidecar in the middle of its shutdown, and each call that was about to use one of the old connections may fail.",
	Causes: "A proxy whose drain knows no direction: it sends Connection: close and GOAWAY on all of its listeners, or ends idle connections of all of them.",
	Fix:    "Let the drain begin on the inbound side only. The outbound side is left alone until the app is gone.",

	Topology:   behaviour.Beside,
	Disrupt:    behaviour.DeleteEach,
	Traffic:    Calls,
	Checks:     []assertions.Check{CallsThroughProxy(CallsNotDrained())},
	BrokenBy:   []spec.Fault{sidecar.OutboundDrained},
	Resolution: 60 * time.Millisecond,
})
