// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/deploy"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Deployment API, RollingUpdateDeployment.maxUnavailable: "ensuring that the
// total number of pods available at all times during the update is at least
// 70% of desired pods" (of a value of 30%).
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "rollout.never-below",
	Title: "A rolling update never leaves fewer pods ready than was planned for",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "Deployment API", Section: "RollingUpdateDeployment.maxUnavailable", URL: "https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/deployment-v1/",
		Quote: "Example: when this is set to 30%, the old ReplicaSet can be scaled down to 70% of desired pods immediately when the rolling update starts. Once new pods are ready, old ReplicaSet can be scaled down further, followed by scaling up the new ReplicaSet, ensuring that the total number of pods available at all times during the update is at least 70% of desired pods.",
	}, {
		Doc: "Kubernetes documentation", Section: "Deployments, Max Unavailable", URL: "https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#max-unavailable",
		Quote: "`.spec.strategy.rollingUpdate.maxUnavailable` is an optional field that specifies the maximum number of Pods that can be unavailable during the update process.",
	}},
	Profile: spec.App,
	Needs:   []spec.Feature{spec.Pods, spec.Services, spec.HTTP},

	Why:    "A service is sized so that a certain number of pods carries the load. One moment with fewer overloads those that are left, and that is the moment at which requests fail: an average over the rollout does not show it.",
	Causes: "A Deployment that was left at the default of 25% unavailable, or to which a chart or an operator gave another strategy than was planned for; new pods that lose their readiness again; something else that deletes pods during the rollout.",
	Fix:    "Set maxUnavailable to what the capacity plan allows, 0 with a surge of 1 where every pod is needed. If the strategy is right, look at who deleted the pod that is named, and at why new pods ceased to be ready.",

	Topology: behaviour.Rolling,
	Disrupt:  behaviour.RollingUpdate,
	// The pods are counted by their watch; the load is what they are there for.
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 40},
	},
	Checks:     []assertions.Check{assertions.NeverBelow(behaviour.Rolling.Unavailable)},
	BrokenBy:   []spec.Fault{deploy.HastyStrategy},
	Resolution: 60 * time.Millisecond,
})
