// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/echo"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
	"github.com/lastcall-dev/lastcall/fixtures/slicewriter"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// overlong is longer than the grace period of the topology: what is begun just
// before the deletion, and even some time after it, can't end before K.
const overlong = 14 * time.Second

// Kubernetes documentation, Pod Termination Flow: "When the grace period
// expires, if there is still any container running in the Pod, the kubelet
// triggers forcible shutdown."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "pod.grace-exhausted",
	Title: "When the grace period does not suffice, only the work that is longer than it is lost",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Section: "after the Kubernetes documentation, Pod Termination Flow", URL: "https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination-flow",
		Quote: "When the grace period expires, if there is still any container running in the Pod, the kubelet triggers forcible shutdown. The container runtime sends `SIGKILL` to any processes still running in any container in the Pod.",
	}, {
		Doc: "Kubernetes documentation", Section: "API-initiated Eviction", URL: "https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/#how-api-initiated-eviction-works",
		Quote: "After the grace period for the Pod expires, the kubelet forcefully terminates the local Pod.",
	}},
	Profile: spec.App,
	Needs:   []spec.Feature{spec.Services, spec.HTTP},

	Why:    "Some requests outlive every grace period: a large download, a long poll. Nothing can save them, but nothing else must be lost with them: an app that can't finish everything must still finish what it can, and its end must not harm other pods or leave an endpoint behind.",
	Causes: "A drain that closes all connections as soon as its own short timeout ends. An exit at SIGTERM. A supervisor in the container that kills its child early. An app that does not hear SIGTERM and takes on work until it is killed.",
	Fix:    "Stay until all work is done or the kubelet kills the process: a deadline of the app's own that ends earlier gives up work that it could still do. Stop accepting early enough that what is begun can end. Lengthen terminationGracePeriodSeconds when real requests are longer.",

	Topology: behaviour.Exhausted,
	Disrupt:  behaviour.DeleteOne,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Slow, Takes: overlong}, Rate: 1.8},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2C, Conns: flow.Reused, Op: flow.Slow, Takes: overlong}, Rate: 1.8},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Slow, Takes: inflightTakes}, Rate: 4},
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 25},
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Get}, Rate: 35},
	},
	Checks:     []assertions.Check{assertions.LosesOnlyOverlong(), assertions.SparesSiblings(), assertions.EndpointGoes()},
	BrokenBy:   []spec.Fault{echo.CutBodies, echo.ExitOnSigterm, disrupt.TakesSibling, slicewriter.KeepGone, sidecar.HurriesOut, nodeproxy.CutsOnceDeleted},
	Resolution: 60 * time.Millisecond,
})
