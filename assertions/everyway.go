// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// ways are those in which Kubernetes ends a pod on purpose, as
// fixtures/disrupt names them.
var ways = []string{"delete", "evict", "drain", "scale-down", "rollout"}

const (
	// dialledBefore is for how long before its D an instance must have been
	// dialled to count as evidence.
	dialledBefore = 3 * time.Second
	// budgetLag bounds how much later than a pod's readiness the budget's
	// controller allows for it.
	budgetLag = 2 * time.Second
)

// EveryWayDrains judges that an instance drains alike by whichever way it is
// ended.
func EveryWayDrains() Check {
	dialledPods := Floor{Per: "way", Name: "pods ended and dialled at their own address", N: 1,
		Reason: "a way is taken once; what it did is counted in requests",
	}
	newConns := Floor{Per: "way", Name: "new connections dialled at the pod in [D, D+P]", N: 50}
	inFlight := Floor{Per: "way and kind of request", Name: "in flight at D", N: 5, Reason: atOneInstant}
	return Check{
		Name:     "the drain by each way out",
		Expected: "whether a pod is deleted, evicted, drained off its node, scaled away or rolled out: every new connection to it in [D, D+P] is served, every request that was in flight at D ends whole, and it is given the same grace period and leaves by itself within it",
		Likely:   earlyEnd,
		Floors:   []Floor{dialledPods, newConns, inFlight, keptUncounted("way")},
		Judge: func(c Case) spec.Finding {
			var g gather
			whole := wholeIDs(c.Timeline)
			kinds := g.slowKinds(c)
			by, dialled := map[string]int{}, map[string]int{}
			grace := graceOf(c, ways[0])
			ended := g.toll(c.terminated())
			for t := range ended.each() {
				g.span(t.Drain.At, t.exitOr(t.Drain.At+c.P))
				way := wayOf(c, t)
				if way == "" {
					g.doubt("nobody knows what ended %s", t.Name)
				}
				by[way]++
				fresh := g.accepts(c, t, t.Drain, way+", D", t.Drain.At+c.P)
				inflight, work := g.completes(c, t, t.Drain, "D ("+way+")", whole)
				ended.add(fresh, work)
				// A pod that came as a replacement and went again before it
				// was dialled for a while is no evidence of anything.
				counts := dialledSince(c, t, t.Drain.At-dialledBefore)
				if counts {
					if way != "" && grace != 0 && t.Grace != 0 && t.Grace != grace {
						g.certain(t.Drain.At, t.Name, "", "%s gave a grace period of %s, and %s gave %s", way, t.Grace, ways[0], grace)
					}
					g.leftBefore(c, t, t.Kill)
				}
				if !counts {
					continue
				}
				dialled[way]++
				ended.hasOf(way, newConns, fresh.sound)
				for _, k := range kinds {
					ended.hasOf(way+", "+k.String(), inFlight, inflight[k])
				}
			}
			for _, way := range ways {
				g.countOf(way, dialledPods, dialled[way])
				if by[way] == 0 {
					g.doubt("no pod was seen to be ended by %s", way)
				}
			}
			all, lost := ended.sum.all, ended.sum.lost
			ended.bound(ended.broken, all, lost)
			return g.conclude(
				fmt.Sprintf("all %d requests that were in flight at D or on new connections in [D, D+P] were served by the instances themselves, over %s by %d ways", all, ended, len(ways)),
				fmt.Sprintf("%d of %s went wrong; %d of %s failed", ended.broken, ended, lost, plural(all, "request", "requests")))
		},
	}
}

// graceOf is the grace period of the pods that a way ended, 0 where nobody saw
// it.
func graceOf(c Case, way string) time.Duration {
	for _, t := range c.Terminations {
		if wayOf(c, t) == way && t.Grace != 0 {
			return t.Grace
		}
	}
	return 0
}

// dialledSince says whether an instance's own address was dialled before an
// instant.
func dialledSince(c Case, t Ending, at time.Duration) bool {
	for _, s := range c.Timeline.Samples {
		if s.Start > at {
			return false
		}
		if directTo(s, t.UID) {
			return true
		}
	}
	return false
}

// wayOf is the way by which an instance was ended: what was done to itself,
// or else the last thing before it that was done to its Deployment.
func wayOf(c Case, t Ending) string {
	way, drained := "", false
	for _, e := range c.Timeline.EventsOf(timeline.Disruption, "") {
		what := e.Attrs["what"]
		if e.At > t.Del.At || e.Attrs["error"] != "" || e.Attrs["refused"] == "true" {
			continue
		}
		mine := e.Subject == t.UID
		switch what {
		case "drain":
			drained = true
		case "evict":
			if mine && drained {
				return "drain"
			}
			if mine {
				return what
			}
		case "delete":
			drained = false
			if mine {
				return what
			}
		case "scale-down", "rollout":
			way, drained = what, false
		}
	}
	return way
}

// HonoursBudget judges that evictions keep to the PodDisruptionBudget.
func HonoursBudget() Check {
	evictedFloor := Floor{Name: "evictions carried out", N: 1, Reason: "an eviction is one request, and one of each kind tells"}
	refusals := Floor{Name: "evictions refused", N: 1, Reason: "as above"}
	return Check{
		Name:     "evictions against the PodDisruptionBudget",
		Expected: "an eviction that the budget does not allow is refused, and no ready pod is evicted while disruptionsAllowed is 0",
		Floors:   []Floor{evictedFloor, refusals},
		Judge: func(c Case) spec.Finding {
			var g gather
			done, refused := 0, 0
			for _, e := range c.Timeline.EventsOf(timeline.Disruption, "") {
				if e.Attrs["what"] != "evict" {
					continue
				}
				g.span(e.At, e.At+c.P)
				switch {
				case e.Attrs["refused"] == "true":
					refused++
				case e.Attrs["error"] != "":
					g.doubt("the eviction of %s failed: %s", e.Name, e.Attrs["error"])
				case e.Attrs["allowed"] == "":
					g.doubt("nobody saw what the budget allowed when %s was evicted", e.Name)
				case e.Attrs["allowed"] != "0":
					done++
				case !wasReady(c.Timeline, e.Subject, e.At):
					// PodDisruptionBudgetSpec.unhealthyPodEvictionPolicy may let it go.
					done++
				case readyAround(c, e):
					g.doubt("a pod became ready as %s was evicted: the budget may just have allowed it", e.Name)
				default:
					done++
					g.culprit(e.At, e.Name, "", "was evicted while the budget allowed no disruption")
				}
			}
			g.count(evictedFloor, done)
			g.count(refusals, refused)
			return g.conclude(
				fmt.Sprintf("carried out as the budget allowed: %s; refused: %d", plural(done, "eviction", "evictions"), refused),
				fmt.Sprintf("%d of %s broke the budget", g.failures(), plural(done, "eviction", "evictions")))
		},
	}
}

// wasReady says whether a pod was at an instant, as the watch had shown it by then; one
// of which nothing was shown was.
func wasReady(tl *timeline.Timeline, uid string, at time.Duration) bool {
	ready := true
	for _, e := range tl.EventsOf(timeline.PodReady, uid) {
		if e.At > at {
			break
		}
		ready = e.Attrs["ready"] == "true"
	}
	return ready
}

// readyAround says whether another pod became ready so shortly before an
// eviction that what the budget allowed may have changed under it.
func readyAround(c Case, evict timeline.Event) bool {
	took, err := time.ParseDuration(evict.Attrs["took"])
	if err != nil {
		took = 0
	}
	for _, e := range c.Timeline.EventsOf(timeline.PodReady, "") {
		if e.Subject != evict.Subject && e.Attrs["ready"] == "true" && e.At >= evict.At-budgetLag && e.At <= evict.At+took {
			return true
		}
	}
	return false
}

// ServiceLosesNothing judges that nothing that goes through the Service fails
// while pods are ended.
func ServiceLosesNothing() Check {
	return Check{
		Name:     "requests through the Service while pods are ended",
		Expected: "no request through the Service fails, from the first disruption to the last exit + P",
		Likely:   earlyEnd,
		Floors:   []Floor{newAround, reusedAround},
		Judge: func(c Case) spec.Finding {
			var g gather
			ended := g.toll(c.terminated())
			ended.need()
			if len(ended.of) == 0 {
				return g.conclude("", "")
			}
			w := window(c)
			w.From = min(w.From, c.Disturbed)
			g.span(w.From, w.To)
			sent, lost, hit := 0, 0, map[string]bool{}
			for _, s := range c.Timeline.Samples {
				if !throughService(s) || s.Start > w.To || s.End < w.From {
					continue
				}
				sent++
				if s.Failed() {
					lost++
					t := nearest(c.Terminations, s.Start)
					hit[t.UID] = true
					g.span(s.Start, w.To)
					g.lost(c, s, t.Name, "%s of %s (%s): %s", relative(s.Start, t), t.Name, wayOf(c, t), describe(s))
				}
			}
			if c.Tail < w.To {
				g.doubt("the load ended %s before the last exit + P", ms(w.To-c.Tail))
			}
			for t := range ended.each() {
				if !t.Exit.Known() {
					g.doubt("nobody saw %s exit", t.Name)
				}
				fresh, reused := offered(c.Timeline, t.Drain.At, t.exitOr(t.Drain.At)+c.P)
				ended.has(newAround, fresh)
				ended.has(reusedAround, reused)
			}
			ended.bound(len(hit), sent, lost)
			return g.conclude(
				fmt.Sprintf("0 of %d requests failed over %s", sent, ended),
				fmt.Sprintf("%d of %s failed, around %d of %s", lost, plural(sent, "request", "requests"), len(hit), ended))
		},
	}
}
