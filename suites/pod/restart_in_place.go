// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/fixtures/echo"
	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Kubernetes documentation, Pod Lifecycle: "If you want your container to be
// able to take itself down for maintenance, you can specify a readiness probe
// that checks an endpoint specific to readiness that is different from the
// liveness probe."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "pod.restart-in-place",
	Title: "A container that drains and restarts in its pod serves again, and its liveness holds meanwhile",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Section: "after the Kubernetes documentation, When should you use a readiness probe?", URL: "https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#when-should-you-use-a-readiness-probe",
		Quote: "If you want your container to be able to take itself down for maintenance, you can specify a readiness probe that checks an endpoint specific to readiness that is different from the liveness probe.",
	}, {
		Doc: "Kubernetes documentation", Section: "Pod Lifecycle, Types of probe", URL: "https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#types-of-probe",
		Quote: "If the liveness probe fails, the kubelet kills the container, and the container is subjected to its restart policy.",
	}},
	Profile: spec.App,
	Needs:   []spec.Feature{spec.Pods, spec.Services, spec.HTTP},

	Why:    "Not every drain ends with the pod: a process is told to drain and reload, or gets a SIGTERM from something in its container, and the kubelet starts it again in the same pod. If the drain is still remembered then, a working container gets no traffic for ever, and nothing restarts it. And a drain that fails its liveness probe is ended by the kubelet: SIGTERM, and SIGKILL after the grace period.",
	Causes: "A \"draining\" file on a volume that outlives the container, or an entry in a registry that nobody takes back. One handler for liveness and readiness. A sidecar that takes the restart of its app for the end of its pod.",
	Fix:    "Keep the state of the drain in the process and nowhere else, or clear it at the start. Let liveness say only that the process works, on a port that outlives the drain; readiness says whether it wants traffic.",

	Topology: behaviour.Restarting,
	Disrupt:  behaviour.DrainCalls,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 35},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Slow, Takes: inflightTakes}, Rate: 6},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2C, Conns: flow.Reused, Op: flow.Slow, Takes: inflightTakes}, Rate: 6},
	},
	Checks:     []assertions.Check{assertions.DrainsInPlace(), assertions.ComesBack(), assertions.LivenessHolds()},
	BrokenBy:   []spec.Fault{echo.LivezFails, echo.DrainSticks, echo.ExitOnSigterm, sidecar.TakesRestartForEnd, datapath.ForsakesRefusing},
	Resolution: 60 * time.Millisecond,
})
