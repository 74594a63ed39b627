// SPDX-License-Identifier: Apache-2.0

package hbone

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// toMoving are connections to a peer that tells its tunnels to go, and takes new ones.
var toMoving = load.Profile{Flow: flow.Flow{Path: flow.PeerMoves, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 20}

// ztunnel issue 1191: "Maybe I have recency bias after exploring istio/istio#51855, where
// similar logic caused the app to disable pooling which caused effectively a DOS."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "hbone.pooling-stays-on",
	Title: "While a peer drains connections are still pooled: at most 5 new tunnels for 100 new connections",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "project", Section: "after ztunnel issue 1191", URL: "https://github.com/istio/ztunnel/issues/1191",
		Quote: "similar logic caused the app to disable pooling which caused effectively a DOS",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "A handshake costs hundreds of times what a stream does. A pod that drains is sent to for as long as not all have heard of it; if each connection of that time brings a tunnel of its own, the moment of the rollout is that of the highest load, on both sides.",
	Causes: "A pool that takes a GOAWAY for the destination's, and not for the tunnel's. One that keeps no tunnel to an endpoint that terminates.",
	Fix:    "Take the tunnel that was told to go out of the pool, and put the one in that takes its place.",

	Topology: behaviour.Sourcing, NodesToo: true,
	Disrupt:    behaviour.PeersMisbehave,
	Traffic:    []load.Profile{toMoving},
	Checks:     []assertions.Check{PoolsThroughGoAways()},
	BrokenBy:   []spec.Fault{datapath.TunnelForEach},
	Resolution: 60 * time.Millisecond,
})

// tunnelsPer100 is how many tunnels may be opened for 100 connections.
const tunnelsPer100 = 5

// PoolsThroughGoAways judges how many tunnels a source opens to a peer that tells its tunnels to go
// every few seconds, and takes new ones.
func PoolsThroughGoAways() assertions.Check {
	told := assertions.Floor{Name: "tunnels that the peer told to go", N: 5,
		Reason: "one every four seconds: each is seen to be replaced by one"}
	made := assertions.Floor{Name: "connections of the app while the peer tells its tunnels to go", N: 300}
	return assertions.Check{
		Name:     "tunnels to a peer that tells its tunnels to go",
		Expected: fmt.Sprintf("at most %d new ones for 100 of the app's connections, each of which is served", tunnelsPer100),
		Floors:   []assertions.Floor{told, made},
		Judge: func(c assertions.Case) spec.Finding {
			var y assertions.Tally
			from, _ := began(&y, c, flow.PeerMoves)
			gone := map[string]bool{}
			for _, e := range saw(c, flow.PeerMoves, timeline.PeerGoAway) {
				gone[e.Attrs["conn"]] = true
			}
			n, failed := 0, 0
			for _, s := range dialled(c, flow.PeerMoves) {
				if s.Start < from {
					continue
				}
				n++
				y.Span(from, s.End)
				if s.Failed() {
					failed++
					y.Failed(c, s, s.End, "", "%s", since(s.End, from))
				}
			}
			if c.Tail == 0 {
				y.Doubt("the recording was stopped: how many tunnels its connections would have had is not known")
			}
			k := 0
			for _, e := range saw(c, flow.PeerMoves, timeline.PeerDialled) {
				if e.At < from {
					continue
				}
				if k++; 100*k > tunnelsPer100*n && c.Tail != 0 {
					y.Against(e.At, "", "", "%s: tunnel %d, for %d connections", since(e.At, from), k, n)
				}
			}
			y.Count(told, len(gone))
			y.Count(made, n)
			return y.Conclude(
				fmt.Sprintf("%d tunnels for %d connections, all of which were served, while the peer told %d to go", k, n, len(gone)),
				fmt.Sprintf("%d tunnels for %d connections, of which %d failed", k, n, failed))
		},
	}
}
