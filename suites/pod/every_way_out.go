// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/echo"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Kubernetes documentation, API-initiated Eviction: "API-initiated evictions
// respect your configured PodDisruptionBudgets and
// terminationGracePeriodSeconds."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "pod.every-way-out",
	Title: "Delete, evict, drain, scale down and roll out end a pod alike, and evictions keep to the budget",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "Kubernetes documentation", Section: "API-initiated Eviction", URL: "https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/",
		Quote: "API-initiated evictions respect your configured PodDisruptionBudgets and terminationGracePeriodSeconds.",
	}, {
		Doc: "Kubernetes documentation", Section: "API-initiated Eviction, How API-initiated eviction works", URL: "https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/#how-api-initiated-eviction-works",
		Quote: "429 Too Many Requests: the eviction is not currently allowed because of the configured PodDisruptionBudget.",
	}},
	Profile: spec.App,
	Needs:   []spec.Feature{spec.Pods, spec.Services, spec.HTTP},

	Why:    "A rollout is tested daily; the node upgrade at night that drains every node is not. A drain that holds for one way out and not for another fails when nobody looks, and a tool that deletes where it should evict takes away more pods at once than the application can spare.",
	Causes: "Draining that a deployment pipeline does beforehand instead of the pod itself. Node maintenance by `kubectl drain --disable-eviction`, or by scripts that delete pods. No PodDisruptionBudget, or one that matches no pod.",
	Fix:    "Put the drain into the pod: SIGTERM, or preStop. Then every way out has it. Give the application a PodDisruptionBudget. Let whatever empties nodes evict, and wait where that is refused. A budget does not hold back rollouts and scale-downs: maxUnavailable and the number of replicas do.",

	Topology: behaviour.Budgeted,
	Disrupt:  behaviour.EveryWay,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 25},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Slow, Takes: inflightTakes}, Rate: 6},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2C, Conns: flow.Reused, Op: flow.Slow, Takes: inflightTakes}, Rate: 6},
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 25},
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Get}, Rate: 35},
	},
	Checks:     []assertions.Check{assertions.EveryWayDrains(), assertions.HonoursBudget(), assertions.ServiceLosesNothing()},
	BrokenBy:   []spec.Fault{disrupt.IgnoresBudget, echo.ExitOnSigterm},
	Resolution: 60 * time.Millisecond,
})
