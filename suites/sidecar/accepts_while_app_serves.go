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

// linkerd2 issue 10379: "These processes must continue to process connections, as
// peers may not observe the pod's removal from a service immediately."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:     "sidecar.accepts-while-app-serves",
	Title:  "A sidecar accepts new connections for as long as its app does",
	Level:  spec.Must,
	Labels: []string{"core"},
	Refs: []spec.Ref{{
		Doc: "project", Section: "after linkerd2 issue 10379", URL: "https://github.com/linkerd/linkerd2/issues/10379",
		Quote: "These processes must continue to process connections, as peers may not observe the pod's removal from a service immediately.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HTTP},

	Why:    "An app that goes on accepting after SIGTERM does so because peers still dial it. A sidecar that stands in front of it and refuses them undoes that: to its clients the app is gone when it is told to go, however well it drains.",
	Causes: "A proxy that stops accepting at SIGTERM, which a plain container gets together with the app. One that waits for a time which is shorter than the app's drain. A drain that a preStop hook begins, before the app's own has ended.",
	Fix:    "Let the sidecar accept until the app's containers are gone: as a native sidecar (an init container with restartPolicy: Always) it is told to go after them. As a plain container let it wait for the app's end, and not for a time.",

	Topology: behaviour.BesideTwo,
	Disrupt:  behaviour.EndBoth,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 25},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2C, Conns: flow.New, Op: flow.Get}, Rate: 10},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Get}, Rate: 25},
	},
	Checks:     []assertions.Check{ThroughSidecar(assertions.AcceptsWhileAppDoes())},
	BrokenBy:   []spec.Fault{sidecar.RefusesAtSigterm, sidecar.WaitsTooShort},
	Resolution: 40 * time.Millisecond,
})
