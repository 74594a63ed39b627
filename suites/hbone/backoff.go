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

// toTurningAway are connections to a peer that takes no tunnels for a while.
var toTurningAway = load.Profile{Flow: flow.Flow{Path: flow.PeerTurnsAway, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 20}

// ztunnel issue 1191: "clientside pool backoff (which we arguably want anyway, since we
// could still have the same kind of backpressure problem if the dest ztunnel is down but
// the dest apps aren't) on consecutive failures".
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "hbone.backoff",
	Title: "A source whose tunnels are reset, or told to go at once, backs off: it does not dial for each of its app's connections",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "project", Section: "after ztunnel issue 1191", URL: "https://github.com/istio/ztunnel/issues/1191",
		Quote: "clientside pool backoff (which we arguably want anyway, since we could still have the same kind of backpressure problem if the dest ztunnel is down but the dest apps aren't) on consecutive failures",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "A proxy that is away while its app serves is away to all its peers at once, and each of them has connections to make. One handshake for each of these is what keeps it from coming back.",
	Causes: "A pool that knows tunnels that stand, and nothing of those that failed. A GOAWAY that counts as the end of a good tunnel, however soon it came.",
	Fix:    "Count the failures of a destination in a row, a GOAWAY before the first answer among them, and dial no sooner than a time that grows with them, up to a bound. Begin at once again when a CONNECT was answered.",

	Topology: behaviour.Sourcing, NodesToo: true,
	Disrupt:    behaviour.PeersMisbehave,
	Traffic:    []load.Profile{toTurningAway},
	Checks:     []assertions.Check{BacksOff(), ComesBack()},
	BrokenBy:   []spec.Fault{datapath.DialsForEach, datapath.GivesUpForGood},
	Resolution: 60 * time.Millisecond,
})

// dialsPer is for how many of its app's connections at least a source may dial once: one that does so
// for each, or tries each several times, is far above it, and one that doubles its wait far below.
const dialsPer = 5

// comesBackWithin is how long after the peer takes tunnels again a source may still wait: longer than
// it should ever.
const comesBackWithin = 11 * time.Second

// phase is a stretch of what a peer does by time.
type phase struct {
	name     string
	from, to time.Duration
}

// phases are those of a peer, the last one to the end.
func phases(c assertions.Case, path flow.Path) []phase {
	var out []phase
	for _, e := range saw(c, path, timeline.PeerPhase) {
		if n := len(out); n > 0 {
			out[n-1].to = e.At
		}
		out = append(out, phase{e.Attrs["phase"], e.At, forever})
	}
	return out
}

// BacksOff judges how often a source dials a peer that takes no tunnels, by the connections that its app
// makes meanwhile.
func BacksOff() assertions.Check {
	made := assertions.Floor{Name: "connections of the app while the peer takes no tunnels", N: 200}
	failed := assertions.Floor{Name: "dials that the peer turned away, in each of its ways", N: 1, Per: "way",
		Reason: "one that backs off dials a few times in eight seconds: that it dials at all shows that the peer was there to be dialled"}
	return assertions.Check{
		Name:     "dials of a peer that takes no tunnels",
		Expected: fmt.Sprintf("one dial at most for %d of the app's connections, whether the peer resets them or tells the tunnels to go at once", dialsPer),
		Floors:   []assertions.Floor{made, failed},
		Judge: func(c assertions.Case) spec.Finding {
			var y assertions.Tally
			dials := saw(c, flow.PeerTurnsAway, timeline.PeerDialled)
			conns := dialled(c, flow.PeerTurnsAway)
			all, some := 0, 0
			for _, p := range phases(c, flow.PeerTurnsAway) {
				if p.name == "" {
					continue
				}
				if p.to == forever {
					// The first dials of a phase follow each other closely: what is left of it says nothing.
					y.Doubt("the recording was stopped while the peer %s", p.name)
					continue
				}
				y.Span(p.from, p.to)
				n, k := 0, 0
				for _, s := range conns {
					if s.Start >= p.from && s.Start < p.to {
						n++
					}
				}
				for _, e := range dials {
					if e.At < p.from || e.At >= p.to {
						continue
					}
					if k++; k*dialsPer > n {
						y.Against(e.At, "", "", "dial %d while the peer %s, for %d connections of the app", k, p.name, n)
					}
				}
				all, some = all+n, some+k
				y.Least(failed, p.name, k)
			}
			y.Count(made, all)
			return y.Conclude(
				fmt.Sprintf("%d dials for %d of the app's connections", some, all),
				fmt.Sprintf("%d dials for %d of the app's connections", some, all))
		},
	}
}

// ComesBack judges whether a source is there again when its peer is: one that never dials again backs
// off too.
func ComesBack() assertions.Check {
	after := assertions.Floor{Name: fmt.Sprintf("connections of the app from %s after the peer takes tunnels again", comesBackWithin), N: 40,
		Reason: "what is left of the recording then: one that never dials again fails all of them"}
	return assertions.Check{
		Name:     "connections to a peer that takes tunnels again",
		Expected: fmt.Sprintf("each that begins %s after that, or later, is served", comesBackWithin),
		Floors:   []assertions.Floor{after},
		Judge: func(c assertions.Case) spec.Finding {
			var y assertions.Tally
			n := 0
			var first time.Duration
			for _, p := range phases(c, flow.PeerTurnsAway) {
				if p.name != "" {
					continue
				}
				for _, s := range dialled(c, flow.PeerTurnsAway) {
					if s.Start >= p.from && !s.Failed() && (first == 0 || s.End-p.from < first) {
						first = s.End - p.from
					}
					if s.Start < p.from+comesBackWithin {
						continue
					}
					n++
					y.Span(p.from, s.End)
					if s.Failed() {
						y.Failed(c, s, s.End, "", "%s after the peer took tunnels again", (s.End - p.from).Round(time.Millisecond))
					}
				}
			}
			y.Count(after, n)
			return y.Conclude(
				fmt.Sprintf("all %d were served, the first one %s after the peer took tunnels again", n, first.Round(time.Millisecond)),
				fmt.Sprintf("%d of %d failed", y.Culprits(), n))
		},
	}
}
