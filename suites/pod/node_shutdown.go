// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/echo"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// KEP-2000, Proposal: "During the termination process, normal pod termination
// processes will apply, e.g. preStop Hooks will be called, `SIGTERM` to
// containers delivered, etc."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "pod.node-shutdown",
	Title: "A node that shuts down gracefully lets its pods drain as a deletion does",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "KEP-2000", Section: "Proposal, Implementation", URL: "https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/2000-graceful-node-shutdown",
		Quote: "During the termination process, normal pod termination processes will apply, e.g. preStop Hooks will be called, `SIGTERM` to containers delivered, etc.",
	}, {
		Doc: "Kubernetes documentation", Section: "Node Shutdowns, Graceful node shutdown", URL: "https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/#graceful-node-shutdown",
		Quote: "Kubelet ensures that pods follow the normal pod termination process during the node shutdown.",
	}},
	Profile: spec.App,
	Needs:   []spec.Feature{spec.Pods, spec.HTTP, spec.NodeShutdown},

	Why:    "A reclaimed spot instance, a cloud's scaling group and a plain `poweroff` end a node before anybody has drained it. No pod is deleted first, and each ends as Failed: it gets SIGTERM, and the node's time, which may be shorter than its own grace period. An app that waits for a deletionTimestamp is cut off, and its clients lose what was in flight.",
	Causes: "A drain that something outside the pod begins when it sees a deletionTimestamp. shutdownGracePeriod left at 0, where the node then kills everything at once, or shorter than the drain.",
	Fix:    "Begin the drain at SIGTERM or preStop. Set shutdownGracePeriod and shutdownGracePeriodCriticalPods in the kubelet's configuration so that their difference is longer than the longest drain on the node.",

	Topology: behaviour.SlowDrain,
	Disrupt:  behaviour.ShutNode,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 25},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Slow, Takes: inflightTakes}, Rate: 6},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2C, Conns: flow.Reused, Op: flow.Slow, Takes: inflightTakes}, Rate: 6},
	},
	Checks:     []assertions.Check{assertions.LeavesWithItsNode(), assertions.AcceptsAfterDrain(), assertions.CompletesInflight()},
	BrokenBy:   []spec.Fault{echo.ExitOnSigterm, echo.NeverLeaves},
	Resolution: 60 * time.Millisecond,
})
