// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// What was recorded in November 2026, on a machine that had the time.
func TestEstimateIsWhatWasRecorded(t *testing.T) {
	get := load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 20}
	lasting := func(path flow.Path, conns flow.Conns, op flow.Op, rate float64, takes time.Duration) load.Profile {
		return load.Profile{Flow: flow.Flow{Path: path, Protocol: flow.HTTP1, Conns: conns, Op: op, Takes: takes}, Rate: rate}
	}
	talk := func(rate float64, takes time.Duration) load.Profile {
		return load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.TCP, Conns: flow.New, Op: flow.Talk, Takes: takes}, Rate: rate}
	}
	quick := SlowDrain // as the host stage has it
	quick.MinDrain, quick.Unready = 4*time.Second, 2*time.Second
	short := GatedShort // as it was then
	short.MinDrain, short.Deadline, short.Grace = 3*time.Second, 8*time.Second, 14*time.Second
	slow := lasting(flow.Direct, flow.Reused, flow.Slow, 6, 2*time.Second)
	for name, row := range map[string]struct {
		price    Price
		topology Topology
		disrupt  disrupt.Disruption
		traffic  []load.Profile
		took     float64 // s
	}{
		"a gateway that carries talks":     {OnHost, Gated, EndBoth, []load.Profile{get, talk(5, 3*time.Second)}, 37},
		"a gateway that cuts them":         {OnHost, short, EndBoth, []load.Profile{get, talk(2, 12*time.Second)}, 41},
		"one with nothing in flight":       {OnHost, GatedIdle, EndBoth, []load.Profile{get}, 29.9},
		"one with connections that idle":   {OnHost, Gated, EndBoth, []load.Profile{get, lasting(flow.Direct, flow.New, flow.Idle, 4, 20*time.Second)}, 28.3},
		"an app on a host":                 {OnHost, quick, DeleteEach, []load.Profile{get, slow}, 43.5},
		"an app that only K ends":          {OnHost, Exhausted, DeleteOne, []load.Profile{get, lasting(flow.Direct, flow.New, flow.Slow, 1, 14*time.Second)}, 54.2},
		"a kill":                           {OnHost, Gated, KillEach, []load.Profile{get, slow}, 15.1}, // 17.1 with a tail of P + 2 s
		"an app in a cluster":              {OnCluster, SlowDrain, DeleteEach, []load.Profile{get, slow}, 70.4},
		"an app whose hook takes its time": {OnCluster, Hooked, DeleteEach, []load.Profile{get, slow}, 52.8},
		"a node's shutdown":                {OnCluster, SlowDrain, ShutNode, []load.Profile{get, slow}, 42.1},
	} {
		s := Scenario{Topology: row.topology, Disrupt: row.disrupt, Traffic: row.traffic}
		if got := row.price.Estimate(s).Seconds(); got < 0.9*row.took || got > 1.1*row.took {
			t.Errorf("%s: %.1f s, and it took %.1f s", name, got, row.took)
		}
	}
}
