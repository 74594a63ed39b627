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

// Kubernetes documentation, Termination of Pods: "If the kubelet or the
// container runtime's management service is restarted while waiting for
// processes to terminate, the cluster retries from the start including the
// full original grace period." The second try is a second SIGTERM.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "pod.second-sigterm",
	Title: "A second SIGTERM changes nothing",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "project", Section: "after the Kubernetes documentation, Termination of Pods", URL: "https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination",
		Quote: "If the kubelet or the container runtime's management service is restarted while waiting for processes to terminate, the cluster retries from the start including the full original grace period.",
	}},
	Profile: spec.App,
	Needs:   []spec.Feature{spec.HTTP},

	Why:    "SIGTERM can come twice: the kubelet or the container runtime restarts in mid drain and begins anew; a drain without a deletion fails its liveness probe; a preStop script sends one too. An app that takes the second for \"now, at once\" drops what it promised to finish at the first.",
	Causes: "A signal handler that exits on the second signal, as controller-runtime's SetupSignalHandler and many command line frameworks do for an impatient Ctrl-C. A handler that is taken away after the first signal, so that the default action kills the process.",
	Fix:    "Let SIGTERM begin the drain once and ignore all that follow. If a second signal must end the process at once, make it SIGINT, unless that is the image's STOPSIGNAL or the container's stopSignal.",

	Topology: behaviour.SlowDrain,
	Disrupt:  behaviour.DeleteTwice,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 25},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Slow, Takes: inflightTakes}, Rate: 6},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2C, Conns: flow.Reused, Op: flow.Slow, Takes: inflightTakes}, Rate: 6},
	},
	Checks:     []assertions.Check{assertions.IgnoresSecondSignal()},
	BrokenBy:   []spec.Fault{echo.SecondSigtermExits},
	Resolution: 60 * time.Millisecond,
})
