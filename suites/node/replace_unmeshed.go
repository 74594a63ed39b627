// SPDX-License-Identifier: Apache-2.0

package node

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Who is not in the mesh has no proxy of its own that would dial again, and no tunnel in which it could be told.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "node.replace-unmeshed",
	Title: "A node proxy that is replaced fails no request of clients outside of the mesh",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Section: "after linkerd2 issue 10379", URL: "https://github.com/linkerd/linkerd2/issues/10379",
		Quote: "These processes must continue to process connections, as peers may not observe the pod's removal from a service immediately.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Pods, spec.Services, spec.HTTP1},

	Why:    "Not everybody who calls an app is in its mesh: an ingress, a job, a team that has not moved yet. What they send comes to a port of the node proxy's too, in plain text, and no endpoint changes while that is replaced: kube-proxy sends them there all the time.",
	Causes: "The old proxy hands over its port for tunnels, and closes the one for plain text at its SIGTERM, with what waits there. It ends what passes without a tunnel at once, because it has nobody to tell.",
	Fix:    "Hand over each port in one way: open the new proxy's beside the old one's, and close the old ones when all are there. Let what passes end by itself, in a tunnel or not, up to the deadline.",

	Topology: behaviour.Staying,
	Disrupt:  behaviour.ReplaceProxies,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Unmeshed, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 40},
		{Flow: flow.Flow{Path: flow.Unmeshed, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Get}, Rate: 10},
		{Flow: flow.Flow{Path: flow.Unmeshed, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Slow, Takes: 6 * time.Second}, Rate: 2},
	},
	Checks:     []assertions.Check{NoneFailsOutsideMeanwhile()},
	BrokenBy:   []spec.Fault{nodeproxy.StopsInboundFirst},
	Resolution: 60 * time.Millisecond,
})
