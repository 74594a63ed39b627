// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// linkerd2 issue 10379 has clients that are not in the mesh and keep a pool on the ClusterIP: what the
// data paths know of endpoints does not help these, kube-proxy sends them.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "sidecar.unmeshed-rollout",
	Title: "A rolling update of pods with sidecars fails no request of clients outside of the mesh",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Section: "after linkerd2 issue 10379", URL: "https://github.com/linkerd/linkerd2/issues/10379",
		Quote: "These processes must continue to process connections, as peers may not observe the pod's removal from a service immediately.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Pods, spec.Services, spec.HTTP},

	Why:    "Not everybody who calls an app is in its mesh: an ingress, a job, a team that has not moved yet. They come by the Service's address with a pool of connections, and hear of a pod's end from kube-proxy only, later than the mesh does.",
	Causes: "A sidecar that relies on its peers' discovery: it refuses plain text as soon as the mesh knows. One that ends the kept connections of its app's clients and says nothing in HTTP, which it does not read.",
	Fix:    "Let the sidecar take plain text for as long as tunnels, and leave the end of kept connections to the app, which knows its protocol. As a native sidecar it does so by its place in the order of the end.",

	Topology: behaviour.BesideRolling,
	Disrupt:  behaviour.RollingUpdate,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 10},
		{Flow: flow.Flow{Path: flow.Unmeshed, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 40},
		{Flow: flow.Flow{Path: flow.Unmeshed, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Get}, Rate: 40},
		{Flow: flow.Flow{Path: flow.Unmeshed, Protocol: flow.H2C, Conns: flow.Reused, Op: flow.Get}, Rate: 10},
		// What a pod has in hand when it is told to go.
		{Flow: flow.Flow{Path: flow.Unmeshed, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Slow, Takes: 4 * time.Second}, Rate: 4},
		{Flow: flow.Flow{Path: flow.Unmeshed, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.WebSocket, Takes: 8 * time.Second}, Rate: 1},
		{Flow: flow.Flow{Path: flow.Unmeshed, Protocol: flow.TCP, Conns: flow.New, Op: flow.Talk, Takes: 8 * time.Second}, Rate: 1},
	},
	Checks:     []assertions.Check{assertions.ZeroFailedUnmeshed(), InHandFromOutside()},
	BrokenBy:   []spec.Fault{sidecar.RefusesAtSigterm, sidecar.HurriesOut},
	Resolution: 60 * time.Millisecond,
})

// InHandFromOutside judges what clients outside of the mesh had under way, and what takes a while, when a pod was told to go: it came to its
// own end. Whose it was when it was cut nobody says.
func InHandFromOutside() assertions.Check {
	inHand := assertions.Floor{Name: "requests and streams from outside of the mesh that whoever ended had in hand at D", N: 10,
		Reason: "of some 32 at a time eight pods have four each; a vendor's that takes neither WebSockets nor TCP has two",
	}
	return assertions.Check{
		Name:     "what clients outside of the mesh had under way at D",
		Expected: "each request and each stream came to its own end, whole",
		Floors:   []assertions.Floor{inHand},
		Likely:   likelySidecar,
		Judge: func(c assertions.Case) spec.Finding {
			var y assertions.Tally
			all, broken := map[string]bool{}, map[string]bool{}
			ended, own, hit := 0, 0, 0
			for t := range y.Terminations(c) {
				ended++
				y.Span(t.Drain.At, max(t.Drain.At, t.Exit.At))
				cut := 0
				for _, s := range c.Timeline.Samples {
					f := s.Stream.Flow()
					if f.Path != flow.Unmeshed || f.Takes == 0 || s.Phase == timeline.PhaseDial || s.Start >= t.Drain.At-t.Drain.Err || s.End <= t.Earliest() {
						continue
					}
					all[s.ID] = true
					if s.Reached == t.UID && s.End > t.Drain.At+t.Drain.Err {
						own++
					}
					if s.Failed() {
						cut = 1
						if !broken[s.ID] {
							broken[s.ID] = true
							y.Failed(c, s, s.End, t.Name, "%s", t.Clock(s.End))
						}
					}
				}
				hit += cut
			}
			y.Count(inHand, own)
			f := y.Conclude(
				fmt.Sprintf("all %d that were under way while pods were replaced came to their own end, %d of them at who ended, over %s", len(all), own, assertions.Plural(ended, "termination", "terminations")),
				fmt.Sprintf("%d of %d that were under way while pods were replaced did not come to their own end", len(broken), len(all)))
			f.Bounds = spec.BoundsOf(ended, hit, len(all), len(broken))
			return f
		},
	}
}
