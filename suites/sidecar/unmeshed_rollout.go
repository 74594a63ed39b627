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

// linkerd2 issue 10379 has clients that are not in the mesh and keep a pool on the ClusterIP: what the
// data paths know of endpoints does not help these, kube-proxy sends them.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "sidecar.unmeshed-rollout",
	Title: "A rolling update of pods with sidecars fails no request of clients outside of the mesh",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Section: "after linkerd2 issue 10379", URL: "https://github.com/linkerd/linkerd2/issues/10379",
		Quote: "These processes must continue to process connections, as peers may not observe the pod's removal from a service immediately.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Pods, spec.Services, spec.HTTP},

	Why:    "Not everybody who calls an app is in its mesh: an ingress, a job, a team that has not moved yet. They come by the Service's address with a pool of connections, and hear of a pod's end from kube-proxy only, later than the mesh does.",
	Causes: "A sidecar that relies on its peers' discovery: it refuses plain text as soon as the mesh knows. One that ends the kept connections of its app's clients and says nothing in HTTP, which it does not read.",
	Fix:    "Let the sidecar take plain text for as long as tunnels, and leave the end of kept connections to the app, which knows its protocol. As a native sidecar it does so by its place in the order of the end.",

	Topology: behaviour.BesideRolling,
	Disrupt:  behaviour.RollingUpdate,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 10},
		{Flow: flow.Flow{Path: flow.Unmeshed, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 50},
		{Flow: flow.Flow{Path: flow.Unmeshed, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Get}, Rate: 50},
		{Flow: flow.Flow{Path: flow.Unmeshed, Protocol: flow.H2C, Conns: flow.Reused, Op: flow.Get}, Rate: 20},
	},
	Checks:     []assertions.Check{assertions.ZeroFailedUnmeshed()},
	BrokenBy:   []spec.Fault{sidecar.RefusesAtSigterm},
	Resolution: 60 * time.Millisecond,
})
