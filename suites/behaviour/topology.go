// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/fixtures"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/echo"
	"github.com/lastcall-dev/lastcall/fixtures/slicewriter"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// The topologies that behaviours share. Behaviours with equal topologies and
// disruptions are recorded once, so a new one has its price.
var (
	// SlowDrain goes on accepting until T_endpoint + P + 5 s at the default
	// P of 3 s, because of a pod that is dead nothing can be shown.
	SlowDrain = Topology{
		Replicas: 3, MinDrain: 9 * time.Second, Unready: 3 * time.Second,
		Deadline: 25 * time.Second, Grace: 40 * time.Second,
	}
	// Rolling is paced by minReadySeconds so that 500 requests/s make 30,000
	// attempts between the first D and the last exit + P, also where pods start
	// within a second.
	Rolling = Topology{
		Replicas: 8, MinDrain: 5 * time.Second, Unready: 2 * time.Second,
		Deadline: 20 * time.Second, Grace: 30 * time.Second, MinReady: 8 * time.Second,
	}
)

// The disruptions that behaviours share.
var (
	// DeleteEach deletes the pods of SlowDrain one after the other: there is
	// one on each side of every path, so each path is seen to end.
	DeleteEach = disrupt.DeleteEach(SlowDrain.Replicas)
	// RollingUpdate replaces all pods of the Deployment.
	RollingUpdate = disrupt.RollingUpdate()
	// KillOne is the control.
	KillOne = disrupt.KillOne()
)

// DeafClients drops every failed sample before it is recorded, as a client
// does that retries behind your back. It breaks the suite itself.
// Must fail: pod.abrupt-death.
const DeafClients spec.Fault = "deaf-clients"

// Faults are all switches that `--fault` knows.
func Faults() []fixtures.Fault {
	return slices.Concat(echo.Faults(), slicewriter.Faults(), disrupt.Faults(), []fixtures.Fault{{
		Name: DeafClients, Component: "the suite's recorder",
		Does: "drops every failed sample, as a client does that retries behind your back", Breaks: []string{"pod.abrupt-death"},
	}})
}

// Estimate is about how long the recording takes, for people who wait.
func (s Scenario) Estimate() time.Duration {
	const up, steady, stop = 10 * time.Second, 4 * time.Second, 12 * time.Second
	ending := s.Topology.MinDrain + s.Topology.Unready + time.Second
	var disruption time.Duration
	switch s.Disrupt.Kind {
	case disrupt.Delete:
		disruption = time.Duration(s.Disrupt.Targets) * (ending + 2*time.Second)
	case disrupt.RollOut:
		disruption = time.Duration(s.Topology.Replicas)*(s.Topology.MinReady+1500*time.Millisecond) + ending
	default:
		disruption = 5 * time.Second
	}
	return up + steady + baselineFor + disruption + tailFor + stop
}
