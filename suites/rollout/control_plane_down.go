// SPDX-License-Identifier: Apache-2.0

package rollout

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

// Kubernetes documentation, Troubleshooting Clusters, on an API server that
// crashes: "existing pods and services should continue to work normally".
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "rollout.control-plane-down",
	Title: "A drain goes on untouched while the control plane is away",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc:   "project",
		Quote: "API server or controller restarts in mid drain, after the removal has reached every node: the data plane's drain is not touched.",
	}, {
		Doc: "Kubernetes documentation", Section: "Troubleshooting Clusters, API server VM shutdown or apiserver crashing", URL: "https://kubernetes.io/docs/tasks/debug/debug-cluster/#specific-scenarios",
		Quote: "existing pods and services should continue to work normally, unless they depend on the Kubernetes API",
	}},
	Profile: spec.App,
	Needs:   []spec.Feature{spec.Pods, spec.Services, spec.HTTP, spec.ControlPlane},

	Why:    "Control planes are upgraded while applications are rolled out, and a managed one restarts when its provider likes. A pod that is on its way out has all it needs on its own node: if its drain leans on the API server, each upgrade of the control plane costs requests.",
	Causes: "A process that closes its listener at SIGTERM (then the control plane has nothing to do with it); a preStop hook or a sidecar that asks the API server whether its endpoint is gone; a service network that drops endpoints, or rewrites all of them, when its watch breaks.",
	Fix:    "Let the drain run by its own clock: accept for P or longer, finish what is in flight, and leave before the grace period ends. A component that watches the API server must go on with what it saw last when the watch breaks.",

	// The outage begins 4 s after the deletion: P and a second for the
	// EndpointSlice. SlowDrain then has 8 s to go.
	Topology: behaviour.SlowDrain,
	Disrupt:  behaviour.DeleteInOutage,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 40},
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Get}, Rate: 40},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 50},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Get}, Rate: 25},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Slow, Takes: 2 * time.Second}, Rate: 6},
	},
	Checks:     []assertions.Check{assertions.DrainsThroughOutage(behaviour.SlowDrain.MinDrain + behaviour.SlowDrain.Unready)},
	BrokenBy:   []spec.Fault{echo.CloseListener, sidecar.RefusesAtSigterm, nodeproxy.RefusesOnceDeleted},
	Resolution: 60 * time.Millisecond,
})
