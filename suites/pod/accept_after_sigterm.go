// SPDX-License-Identifier: Apache-2.0

// Package pod holds the behaviours of the workload and its lifecycle.
package pod

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/echo"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// linkerd2 issue 10379: "These processes must continue to process
// connections, as peers may not observe the pod's removal from a service
// immediately."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "pod.accept-after-sigterm",
	Title: "New connections to a terminating pod are served until the service network has moved on",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Section: "after linkerd2 issue 10379", URL: "https://github.com/linkerd/linkerd2/issues/10379",
		Quote: "These processes must continue to process connections, as peers may not observe the pod's removal from a service immediately.",
	}, {
		Doc: "Kubernetes documentation", Section: "Pod Termination Flow", URL: "https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination-flow",
		Quote: "At the same time as the kubelet is starting graceful shutdown of the Pod, the control plane evaluates whether to remove that shutting-down Pod from EndpointSlice objects",
	}},
	Profile: spec.App,
	Labels:  []string{"core"},
	Needs:   []spec.Feature{spec.Services, spec.HTTP},

	Why:    "SIGTERM and the pod's removal from the service network start at the same time and race each other. Until every node has the new endpoints, clients still dial the pod: whoever finds a closed listener sees a refused connection.",
	Causes: "The process closes its listener or exits in its SIGTERM handler, as most frameworks' \"graceful shutdown\" does by default.",
	Fix:    "Go on accepting for longer than the propagation takes (P, 3 s by default), then close the listener. If the app can't, let a preStop hook sleep for that long: its time comes out of the grace period.",

	Topology: behaviour.SlowDrain,
	Disrupt:  behaviour.DeleteEach,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 50},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2C, Conns: flow.New, Op: flow.Get}, Rate: 10},
		// A client that is far away dials before SIGTERM and arrives after it.
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get, Delay: behaviour.RaceDelay}, Rate: 10},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Get}, Rate: 25},
	},
	Checks:     []assertions.Check{assertions.AcceptsAfterDrain()},
	BrokenBy:   []spec.Fault{echo.CloseListener, echo.ExitOnSigterm, sidecar.RefusesAtSigterm, nodeproxy.RefusesOnceDeleted},
	Resolution: 20 * time.Millisecond,
})
