// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// availableGrain is by how much a pod that counts as available may have been
// ready for less than minReadySeconds, as the watch shows it: the controller
// counts from a timestamp whose seconds are cut off (1 s), and the watch shows
// the pod ready later than the kubelet's stamp says (1 s).
const availableGrain = 2 * time.Second

// ServesOnceReady judges that a rolling update's new pods get new connections
// through the Service as soon as they are ready, and not only when they are
// available.
func ServesOnceReady() Check {
	newConns := Floor{Per: "new pod", Name: "new connections offered to the Service within P of its readiness", N: 200}
	reusedConns := Floor{Per: "new pod", Name: "requests on reused connections", N: 0, Reason: "only a new connection can go to a pod that is new"}
	becameReady := Floor{Name: "new pods that became ready", N: 2,
		Reason: "an instant of each new pod is judged, and not a rate; fewer than the Deployment's replicas are inconclusive besides",
	}
	return Check{
		Name:     "the first new connection through the Service to each new pod",
		Expected: "within P of its readiness, and so before minReadySeconds have made it available, each new pod gets new connections through the Service",
		Floors:   []Floor{newConns, reusedConns, becameReady},
		Needs:    []Evidence{Named},
		Judge: func(c Case) spec.Finding {
			var g gather
			r, ok := g.rollingUpdate(c)
			if !ok {
				return g.conclude("", "")
			}
			ready, slowest := 0, time.Duration(0)
			for _, p := range r.pods {
				if p.seen < r.begin {
					continue
				}
				at := p.firstReady()
				if at == 0 {
					g.doubt("%s was never seen ready", p.name)
					continue
				}
				until := at + c.P
				if minReady := r.saysAt(at).minReady; minReady <= c.P {
					g.doubt("minReadySeconds (%s) is not longer than P (%s): nothing tells ready from available", minReady, c.P)
				}
				if _, still := p.readySince(until); !still || until > r.end {
					g.doubt("%s was not seen ready for as long as P", p.name)
					continue
				}
				ready++
				offered, first := 0, time.Duration(0)
				for _, s := range c.Timeline.Samples {
					if !throughService(s) || !s.New() {
						continue
					}
					if onNewConns(s) && !s.Saturated && s.Start >= at && s.Start <= until {
						offered++
					}
					if s.Reached == p.uid && first == 0 {
						first = s.Start
					}
				}
				g.least(newConns, p.name, offered)
				if first == 0 || first > until {
					g.late(c, until, p.name, "", "no new connection through the Service reached it within P of being ready: %s; %s", whenFirst(first, at), whenListed(c.Timeline, p.uid, at))
					continue
				}
				slowest = max(slowest, first-at)
			}
			g.count(becameReady, ready)
			return g.conclude(
				fmt.Sprintf("each of %d new pods got new connections at most %s after it was ready", ready, ms(slowest)),
				fmt.Sprintf("of %s, %d had no new connection within %s of being ready", plural(ready, "new pod", "new pods"), g.failures(), c.P))
		},
	}
}

// WaitsForAvailable judges that a rolling update takes an old pod away only
// while enough of the others are available, by what its Deployment says.
func WaitsForAvailable() Check {
	deletionsFloor := Floor{Name: "deletions of ready pods", N: 2,
		Reason: "a number of pods at every deletion is judged, and not a rate; a recording that shows fewer pods replaced than the Deployment has is inconclusive besides",
	}
	return Check{
		Name:     "each deletion of a ready pod against the others that are available",
		Expected: "at each deletion, at least (replicas minus maxUnavailable) of the other pods have been ready for minReadySeconds, give or take 2 s (the API's timestamps are no finer)",
		Floors:   []Floor{deletionsFloor},
		Judge: func(c Case) spec.Finding {
			var g gather
			r, ok := g.rollingUpdate(c)
			if !ok {
				return g.conclude("", "")
			}
			judged := 0
			for _, d := range r.deletions() {
				if _, was := d.readySince(d.left - 1); !was {
					continue // what was not ready took nothing with it
				}
				says := r.saysAt(d.left)
				if says.minReady <= availableGrain {
					g.doubt("minReadySeconds (%s) is no longer than the error of what is known of readiness (%s)", says.minReady, availableGrain)
					continue
				}
				judged++
				available, youngest := 0, replica{}
				var young time.Duration
				for _, p := range r.pods {
					since, ready := p.readySince(d.left)
					if !ready {
						continue
					}
					// Who was ready when the rolling update began is not
					// what it has to wait for.
					if p.seen < r.begin && since < r.begin || d.left-since >= says.minReady-availableGrain {
						available++
					}
					if since > young {
						youngest, young = p, since
					}
				}
				need := says.replicas - says.unavailable
				if available < need {
					g.late(c, d.left, d.name, "", "deleted while %s available, and the Deployment promises %d; the youngest, %s, had been ready for %s of %s",
						plural(available, "of the other pods was", "of the other pods were"), need, youngest.name, ms(d.left-young), says.minReady)
				}
			}
			g.count(deletionsFloor, judged)
			return g.conclude(
				fmt.Sprintf("each of %d deletions came when enough of the other pods were available", judged),
				fmt.Sprintf("%d of %s did not wait until enough of the other pods were available", g.failures(), plural(judged, "deletion", "deletions")))
		},
	}
}

func (p replica) firstReady() time.Duration {
	for _, r := range p.ready {
		if r.is {
			return r.at
		}
	}
	return 0
}

func whenFirst(first, ready time.Duration) string {
	if first == 0 {
		return "none ever came"
	}
	return "the first came at " + offset("Ready", first-ready)
}

// whenListed says when the pod's EndpointSlice first said that it was ready.
func whenListed(tl *timeline.Timeline, uid string, ready time.Duration) string {
	for _, e := range tl.EventsOf(timeline.Endpoint, uid) {
		if e.Attrs["service"] == MainService && e.Attrs["ready"] == "true" {
			return "its EndpointSlice said ready at " + offset("Ready", e.At-ready)
		}
	}
	return "no EndpointSlice ever said that it was ready"
}
