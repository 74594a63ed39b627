// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
	"github.com/lastcall-dev/lastcall/suites/tunnel"
)

var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "node.controllers-restart",
	Title: "While the mesh's controllers are replaced, and while there is none, node proxies serve as before, and in tunnels alone",
	Level: spec.Must,
	Refs: []spec.Ref{whateverRestarts, {
		Doc: "Envoy documentation", Section: "Management Server Unreachability", URL: "https://www.envoyproxy.io/docs/envoy/latest/configuration/overview/mgmt_server",
		Quote: "When an Envoy instance loses connectivity with the management server, Envoy will latch on to the previous configuration while actively retrying in the background to reestablish the connection with the management server.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE, spec.Bench},

	Why:    "No byte of an app's passes through a controller. It is updated as often as the proxies, it has nodes of its own that go, and when all of it is away nobody has less to say to each other. A node's proxy that needs it for that turns its outage into one of each app; one that forgets who is in the mesh goes on in plain text, which nobody notices.",
	Causes: "A client of discovery that drops with its stream what it was told in it. A readiness probe, or a data path, that hangs on the connection to the controller. A first answer that is taken for all that there is before it is whole.",
	Fix:    "Keep what was last known until the next controller has said more. Resume by the versions of what is known (initial_resource_versions). Leave the controller out of what makes the proxy ready once it has served.",

	Topology:   behaviour.ResumingOnNodes,
	Disrupt:    behaviour.HandOver,
	Traffic:    crossing,
	Checks:     []assertions.Check{ServedWithoutControllers(), NothingBypassesWithoutControllers()},
	BrokenBy:   []spec.Fault{nodeproxy.RefusesUnheard, nodeproxy.PassesUnheard},
	Resolution: 60 * time.Millisecond,
})

// absence is a time in which a controller was away, or all of them: from when it was told to go, the last one of these, until it served
// again, the first one.
type absence struct{ from, to time.Duration }

// absences are those of each controller, and those of all of them at once, which have ended. first is when one was first told to go; the end
// of time where none was.
func absences(c assertions.Case) (each, all []absence, first time.Duration) {
	events := c.Timeline.EventsOf(timeline.Outage, "")
	controllers := map[string]bool{}
	for _, e := range events {
		controllers[e.Subject] = true
	}
	first = math.MaxInt64
	away := map[string]time.Duration{} // since when
	var alone time.Duration            // since when all are
	for _, e := range events {
		if from, is := away[e.Subject]; is {
			each = append(each, absence{from, e.At})
			if len(away) == len(controllers) {
				all = append(all, absence{alone, e.At})
			}
			delete(away, e.Subject)
		}
		if e.Attrs["up"] == "true" {
			continue
		}
		away[e.Subject], first = e.At, min(first, e.At)
		if len(away) == len(controllers) {
			alone = e.At
		}
	}
	return each, all, first
}

// The floors of what is seen while controllers go.
var (
	relieved = assertions.Floor{Name: "times that a controller was told to go, and came again", N: 4, Reason: "each of the two goes alone, and then both"}
	orphaned = assertions.Floor{Name: "times that there was no controller", N: 1, Reason: "both go at once a single time"}
)

// absencesOf are a recording's absences. It counts them.
func absencesOf(c assertions.Case, tally *assertions.Tally) (each, all []absence, first time.Duration) {
	each, all, first = absences(c)
	tally.Count(relieved, len(each))
	tally.Count(orphaned, len(all))
	for _, a := range each {
		tally.Span(first, max(a.to, c.Tail))
	}
	return each, all, first
}

// newThrough says whether a request is one of a connection of its own, which some node's proxy has to place.
func newThrough(s timeline.Sample) bool {
	f := s.Stream.Flow()
	return f.Conns == flow.New && f.Protocol != flow.HBONE && !s.Saturated
}

// ServedWithoutControllers judges all requests from when the first controller was told to go. What is to the address of a pod that was
// deleted, or from it, counts for nothing; what the Service leads there does, which the pod accepts until all have heard.
func ServedWithoutControllers() assertions.Check {
	fresh := assertions.Floor{Per: "time without one", Name: "new connections through node proxies meanwhile", N: 200, Reason: "90 a second, for some 5 s"}
	kept := assertions.Floor{Per: "time without one", Name: "requests that were under way when it began", N: 8, Reason: "some last for 2 s, to each instance and through the Service"}
	return assertions.Check{
		Name:     "requests while a mesh's controllers are replaced, and while there is none",
		Expected: "none fails, neither of those that were under way nor of the new ones, until the end",
		Floors:   []assertions.Floor{relieved, orphaned, fresh, kept},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			each, all, first := absencesOf(c, &tally)
			ended := deleted(c)
			total := 0
			for _, s := range c.Timeline.Samples {
				if uid := s.Stream.Target(); s.End >= first && !goneBy(ended, s.End, uid) {
					total++
					if s.Failed() {
						tally.Failed(c, s, s.End, uid, "%s", without(all, first, s.End))
					}
				}
			}
			for _, a := range all {
				opened, crossed := 0, 0
				for _, s := range c.Timeline.Samples {
					switch {
					case s.Start < a.from && s.End >= a.from:
						crossed++
					case s.Start >= a.from && s.Start < a.to && newThrough(s):
						opened++
					}
				}
				tally.Least(fresh, "all controllers", opened)
				tally.Least(kept, "all controllers", crossed)
			}
			return tally.Conclude(
				fmt.Sprintf("none of %d requests failed while controllers were replaced %s, and behind that", total, assertions.Plural(len(each), "time", "times")),
				fmt.Sprintf("%d of %s failed while controllers were replaced, or behind that", tally.Culprits(), assertions.Plural(total, "request", "requests")))
		},
	}
}

// without says where an instant is on the way of controllers that go.
func without(all []absence, first, at time.Duration) string {
	for _, a := range slices.Backward(all) {
		switch {
		case at >= a.to:
			return short(at-a.to) + " after there was a controller again"
		case at >= a.from:
			return short(at-a.from) + " after the last controller was told to go"
		}
	}
	return short(at-first) + " after the first controller was told to go"
}

// NothingBypassesWithoutControllers judges what the nodes' wire had between pods of the mesh from when the first controller was told to go.
func NothingBypassesWithoutControllers() assertions.Check {
	served := assertions.Floor{Per: "time without one", Name: "new connections through node proxies that were served meanwhile", N: 200, Reason: "90 a second, for some 5 s"}
	return assertions.Check{
		Name:     "what passes between pods of the mesh while its controllers are replaced, and while there is none",
		Expected: "no connection is made, and no byte sent, but to the port of tunnels",
		Floors:   []assertions.Floor{relieved, orphaned, served, seenTunnels},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			_, all, first := absencesOf(c, &tally)
			total := 0
			for _, a := range all {
				n := 0
				for _, s := range c.Timeline.Samples {
					if s.Start >= a.from && s.Start < a.to && newThrough(s) && !s.Failed() {
						n++
					}
				}
				tally.Least(served, "all controllers", n)
				total += n
			}
			tunnel.Past(&tally, c, first, tailOf(c))
			dialled := tunnel.Dialled(c, first, tailOf(c))
			tally.Count(seenTunnels, dialled)
			return tally.Conclude(
				fmt.Sprintf("the wire had %d new tunnels and nothing else, while %d new connections were served without a controller", dialled, total),
				fmt.Sprintf("%d times something passed between pods of the mesh without a tunnel", tally.Culprits()))
		},
	}
}
