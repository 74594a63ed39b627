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

// KEP-1669, Proposal: "all traffic should be sent to terminating Pods that are still
// Ready". So whoever closes the door says before that he is not ready.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "pod.unready-before-closed",
	Title: "Readiness fails before the listener closes, not together with it",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "project", Section: "after KEP-1669, Proposal", URL: "https://github.com/kubernetes/enhancements/tree/master/keps/sig-network/1669-proxy-terminating-endpoints",
		Quote: "all traffic should be sent to terminating Pods that are still Ready",
	}, {
		Doc: "Kubernetes documentation", Section: "Pod Termination Flow", URL: "https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination-flow",
		Quote: "If traffic draining on terminating Pod is needed, the actual readiness can be checked as a condition serving.",
	}},
	Profile: spec.App,
	Labels:  []string{"core"},
	Needs:   []spec.Feature{spec.Services, spec.HTTP},

	Why:    "When all endpoints of a Service terminate, the service network sends to those that still say `serving`. A pod whose listener goes while it still says so invites connections that it refuses, until a probe has failed and the EndpointSlice says it.",
	Causes: "The listener and the readiness handler are one and go together, at a signal or after a hook that sleeps: the probe can fail only after that. Or the readiness probe asks another port than the one that serves, which outlives it.",
	Fix:    "Fail readiness first, when P is over. Wait until the EndpointSlice says so: the probe's periodSeconds × failureThreshold, and 2 s more. Then close the listener. With a hook that sleeps: let it touch a file, or call a path, that fails the readiness probe, and sleep again.",

	Topology: behaviour.SlowDrain,
	Disrupt:  behaviour.DeleteEach,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 50},
	},
	Checks:     []assertions.Check{assertions.UnreadyBeforeClosed()},
	BrokenBy:   []spec.Fault{echo.ListenerBeforeReady, echo.CloseListener, echo.ExitOnSigterm},
	Resolution: 20 * time.Millisecond,
})
