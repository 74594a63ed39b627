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

// KEP-1672, Design Details: "serving is identical to ready except that it is
// set regardless of the terminating state of endpoints. This condition should
// be set to true for a ready endpoint that is terminating."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "pod.serving-while-able",
	Title: "Readiness stays true from D to D + P, as long as the terminating pod accepts",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Section: "after KEP-1672, Design Details", URL: "https://github.com/kubernetes/enhancements/tree/master/keps/sig-network/1672-tracking-terminating-endpoints",
		Quote: "serving is identical to ready except that it is set regardless of the terminating state of endpoints. This condition should be set to true for a ready endpoint that is terminating.",
	}, {
		Doc: "KEP-1669", Section: "Proposal", URL: "https://github.com/kubernetes/enhancements/tree/master/keps/sig-network/1669-proxy-terminating-endpoints",
		Quote: "all traffic should be sent to terminating Pods that are still Ready",
	}},
	Profile: spec.App,
	Labels:  []string{"core"},
	Needs:   []spec.Feature{spec.Services, spec.HTTP},

	Why:    "When all endpoints of a Service terminate, the service network falls back to those that still say `serving`. A pod that cuts its readiness at SIGTERM takes this last resort away although it could serve. KEP-1669 leaves a pod free to fail readiness at SIGTERM. This rule is stricter: a pod that still accepts should still say so for P, or its clients are refused when it is the last one. (What becomes of readiness when the listener goes is another matter: see pod.unready-before-closed.)",
	Causes: "A readiness handler that answers 503 as soon as SIGTERM arrives; a preStop hook that fails the health check as its first act.",
	Fix:    "Keep readiness true for P after the drain's begin, then fail it. What a load balancer in front polls may fail before: let it be another path than the readiness probe's.",

	Topology: behaviour.SlowDrain,
	Disrupt:  behaviour.DeleteEach,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 50},
	},
	Checks:     []assertions.Check{assertions.ServesWhileAccepting()},
	BrokenBy:   []spec.Fault{echo.UnreadyOnSigterm},
	Resolution: 20 * time.Millisecond,
})
