// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/deploy"
	"github.com/lastcall-dev/lastcall/fixtures/echo"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Kubernetes documentation, Container Lifecycle Hooks: "This grace period
// applies to the total time it takes for both the `PreStop` hook to execute
// and for the Container to stop normally."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "pod.prestop-spends-grace",
	Title: "The preStop hook's time comes out of the grace period, and a pod whose hook fails still drains",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "Kubernetes documentation", Section: "Container Lifecycle Hooks, Hook handler execution", URL: "https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/#hook-handler-execution",
		Quote: "This grace period applies to the total time it takes for both the `PreStop` hook to execute and for the Container to stop normally.",
	}, {
		Doc: "Kubernetes documentation", Section: "Container Lifecycle Hooks, Container hooks", URL: "https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/#container-hooks",
		Quote: "The Pod's termination grace period countdown begins before the `PreStop` hook is executed, so regardless of the outcome of the handler, the container will eventually terminate within the Pod's termination grace period.",
	}},
	Profile: spec.App,
	Needs:   []spec.Feature{spec.Pods, spec.HTTP},

	Why:    "A sleep in preStop is the usual remedy against refused connections, and it is not free: the grace period counts from the deletion. An app that counts the whole of it from SIGTERM is killed in the middle of its work, but only when the work is long. And a hook that fails must not cost the drain: SIGTERM comes all the same.",
	Causes: "A preStop sleep that was added later, with terminationGracePeriodSeconds left as it was. A shutdown timeout in the app that equals the grace period. A hook script whose error ends the process.",
	Fix:    "Make the grace period longer than hook, drain and the longest request together. Set the app's shutdown timeout to the grace period minus the hook's time, and some seconds less. Let the hook never end the process, and check that what it calls exists in the container.",

	Topology: behaviour.Hooked,
	Disrupt:  behaviour.DeleteEach,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 25},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Slow, Takes: inflightTakes}, Rate: 6},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2C, Conns: flow.Reused, Op: flow.Slow, Takes: inflightTakes}, Rate: 6},
	},
	Checks:     []assertions.Check{assertions.HookEndsInSigterm(), assertions.AcceptsThroughHook(), assertions.FinishesBeforeKill()},
	BrokenBy:   []spec.Fault{echo.ForgetsHook, echo.ExitOnSigterm, deploy.HookLeftOut},
	Resolution: 60 * time.Millisecond,
})
