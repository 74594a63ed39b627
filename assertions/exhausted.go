// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

const (
	// killEarly is how much before K, as the watch shows T_del, the kubelet
	// may kill: it may have heard of the deletion before we did.
	killEarly = 500 * time.Millisecond
	// killLate is how much later than K it may.
	killLate = 2 * time.Second
	// dueSlack is by how much the end of a request may differ from what its
	// duration promised: pieces go out every 100 ms, and lateness adds to it.
	dueSlack = 500 * time.Millisecond
)

// LosesOnlyOverlong judges that a grace period that does not suffice costs
// only the work that was longer than it: the process stays until K while such
// work is in flight, it is gone right after, and whatever broke was due after
// its end and longer than the grace period.
func LosesOnlyOverlong() Check {
	inFlight := Floor{Per: "kind of overlong request", Name: "in flight at the exit", N: 5,
		Reason: "requests that are longer than a grace period can only be had at a low rate: rate times the seconds in which one can be begun that outlives the pod, from its length before K until the listener closes",
	}
	doneInTime := Floor{Per: "kind of shorter request", Name: "done during the drain", N: 5,
		Reason: "slow requests are few at a time, as in pod.inflight-completes",
	}
	cut := Floor{Name: "requests lost at K", N: 1,
		Reason: "without a loss the grace period was not exhausted, and nothing is known of what happens then",
	}
	return Check{
		Name:     "work and exit when the grace period does not suffice",
		Expected: "the process ends at K and not earlier while work is in flight, at most 2 s after K, and a request fails only if it was in flight then, had longer to go, and is longer than the grace period",
		Likely:   earlyEnd,
		Floors:   []Floor{inFlight, doneInTime, cut},
		Judge: func(c Case) spec.Finding {
			var g gather
			due, stayed := 0, 0
			ended := g.toll(c.terminated())
			for t := range ended.each() {
				if !t.Exit.Known() || t.Grace == 0 {
					g.doubt("the exit of %s or its grace period was not seen", t.Name)
					continue
				}
				var w attempts
				exit := t.Exit.At
				g.span(t.Drain.At, max(exit, t.Kill))
				// The kubelet's clock runs from about D on: where the watch showed
				// the deletion later than that, K is earlier than it says.
				kill := max(t.Kill-kubeletWatch, min(t.Kill, t.Drain.At+t.Grace)) - killEarly
				early := exit+t.Exit.Err < kill
				over, short := map[flow.Flow]int{}, map[flow.Flow]int{}
				for _, s := range underWay(c, t, t.Drain.At-t.Drain.Err) {
					w.all++
					outlives := s.Start+takes(s) > exit
					if s.Failed() {
						g.span(s.End, s.End) // a client sees the exit a little later
					}
					switch {
					case !s.Failed():
						short[s.Stream.Flow()] += sound(s)
						continue
					case early && exit+t.Exit.Err >= kill-t.Drain.Err:
						g.doubt("%s was gone at %s with work in flight, and D is known only to ±%s (%s), and K no better", t.Name, againstKill(exit, t.Kill), ms(t.Drain.Err), t.Drain.Source)
					case early:
						// With work in hand nobody leaves because he is slow.
						w.lost++
						g.culprit(s.End, t.Name, s.ID, "the process was gone at %s, with this in flight: %s", againstKill(exit, t.Kill), describe(s))
					case s.End < exit-t.Exit.Err-dueSlack:
						w.lost++
						g.culprit(s.End, t.Name, s.ID, "broke at D + %s, %s before the process was gone: %s", ms(s.End-t.Drain.At), ms(exit-s.End), describe(s))
					case s.Start+takes(s) < exit-t.Exit.Err-dueSlack:
						w.lost++
						g.late(c, s.End, t.Name, s.ID, "should have ended %s before the process did: %s", ms(exit-s.Start-takes(s)), describe(s))
					case takes(s) <= t.Grace:
						w.lost++
						g.culprit(s.End, t.Name, s.ID, "begun at %s, takes %s: the pod took on work that it had no time left for (its grace period is %s): %s", offset("D", s.Start-t.Drain.At), takes(s), t.Grace, describe(s))
					default:
						due++
					}
					if outlives {
						over[s.Stream.Flow()] += sound(s)
					}
				}
				ended.add(w)
				wrong := g.failures()
				if late := exit - t.Exit.Err - t.Kill; late > killLate {
					g.late(c, exit, t.Name, "", "the process was not gone until %s", againstKill(exit, t.Kill))
				}
				stayed += g.failures() - wrong
				for _, k := range slowStreams(c.Timeline) {
					if k.Takes > t.Grace {
						ended.hasOf(k.String(), inFlight, over[k])
					} else {
						ended.hasOf(k.String(), doneInTime, short[k])
					}
				}
			}
			g.count(cut, due)
			total, lost := ended.sum.all, ended.sum.lost
			ended.bound(ended.hit, total, lost)
			return g.conclude(
				fmt.Sprintf("lost at K: %s, longer than the grace period; the other %d ended whole", plural(due, "request", "requests"), total-due),
				both(lost, fmt.Sprintf("%d of %s failed that need not have, at %d of %s", lost, plural(total, "request", "requests"), ended.hit, ended),
					stayed, fmt.Sprintf("%d of %s outlived K by more than %s", stayed, plural(len(ended.of), "process", "processes"), killLate)))
		},
	}
}

func sound(s timeline.Sample) int {
	if s.Saturated {
		return 0
	}
	return 1
}

// SparesSiblings judges that a pod that is killed at K costs nobody else
// anything: neither the other pods, nor the Service once P is over.
func SparesSiblings() Check {
	newConns := Floor{Per: "termination", Name: "new connections offered to the Service in [D+P, exit+P]", N: 200}
	reusedConns := Floor{Per: "termination", Name: "requests on reused connections offered to the Service in [D+P, exit+P]", N: 200}
	atOthers := Floor{Name: "requests at each other pod since D", N: 5,
		Reason: "overlong requests come at a low rate: what is asked is whether any of them breaks",
	}
	return Check{
		Name:     "requests at the other pods and through the Service",
		Expected: "no request at another pod fails, and none through the Service that was sent later than D+P",
		Floors:   []Floor{newConns, reusedConns, atOthers},
		Judge: func(c Case) spec.Finding {
			var g gather
			total, lost := 0, 0
			gone := map[string]bool{}
			for _, t := range c.Terminations {
				gone[t.UID] = true
			}
			ended := g.toll(c.terminated())
			for t := range ended.each() {
				from, to := t.Drain.At+t.Drain.Err+c.P, t.exitOr(t.Kill)+c.P
				g.span(t.Drain.At, to)
				// Those that were there at D, one that falls silent then included.
				// A replacement may come too late to be asked much.
				others := map[string]int{}
				for _, s := range c.Timeline.Samples {
					target := s.Stream.Target()
					sibling := s.Stream.Flow().Path == flow.Direct && target != "" && !gone[target]
					if sibling && s.Start < t.Drain.At {
						others[target] = 0
					}
					switch {
					case sibling && s.End >= t.Drain.At && s.Start <= to:
						if _, there := others[target]; there && s.Start >= t.Drain.At {
							others[target] += sound(s)
						}
					case throughService(s) && s.Start >= from && s.Start <= to:
					default:
						continue
					}
					total++
					if s.Failed() {
						lost++
						g.span(s.Start, to)
						g.failed(c, s, s.Start, nameOf(c, target), "%s of %s: %s", relative(s.Start, t), t.Name, describe(s))
					}
				}
				if len(others) == 0 {
					g.doubt("no other pod was dialled directly")
				}
				for uid, n := range others {
					g.least(atOthers, nameOf(c, uid), n)
				}
				fresh, reused := offered(c.Timeline, from, to)
				ended.has(newConns, fresh)
				ended.has(reusedConns, reused)
				if c.Tail < to {
					g.doubt("the load ended %s before exit + P of %s", ms(to-c.Tail), t.Name)
				}
			}
			return g.conclude(
				fmt.Sprintf("none of %d requests elsewhere failed", total),
				fmt.Sprintf("%d of %s elsewhere failed", lost, plural(total, "request", "requests")))
		},
	}
}

// nameOf is a pod's name, or its UID where nobody told it.
func nameOf(c Case, uid string) string {
	for _, e := range c.Timeline.Events {
		if e.Subject == uid && e.Name != "" {
			return e.Name
		}
	}
	return uid
}

// EndpointGoes judges that the endpoint of an instance that was killed does
// not stay behind.
func EndpointGoes() Check {
	terminatingEndpoints := Floor{Name: "endpoints seen to terminate", N: 1, Reason: "one pod is killed: its endpoint is one object, not a rate"}
	return Check{
		Name:     "the endpoint of the killed pod",
		Expected: "no EndpointSlice of the Service lists the pod when the recording ends, P after its exit or later",
		Floors:   []Floor{terminatingEndpoints},
		Judge: func(c Case) spec.Finding {
			var g gather
			gap := watchGap(c.Timeline, "endpointslices")
			if gap != "" {
				g.doubt("the EndpointSlice watch has a gap: %s", gap)
			}
			all, seen := 0, 0
			ended := g.toll(c.terminated())
			for t := range ended.each() {
				end := LastSeen(c)
				g.span(t.Drain.At, end)
				if !t.Exit.Known() {
					g.doubt("nobody saw %s exit", t.Name)
					continue
				}
				for _, life := range families(endpointStates(c.Timeline, t.UID, MainService)) {
					all++
					if slices.ContainsFunc(life, func(s endpointState) bool { return s.terminating }) {
						seen++
					}
					name := seat{MainService, life[0].family}.name(t)
					switch {
					case life[len(life)-1].gone || gap != "":
					case end < t.Exit.At+t.Exit.Err+c.P:
						g.doubt("the recording ends before P after the exit of %s", name)
					default:
						g.late(c, end, name, "", "the endpoint was still listed %s after the exit", ms(end-t.Exit.At))
					}
				}
			}
			g.count(terminatingEndpoints, seen)
			return g.conclude(
				plural(seen, "endpoint was", "endpoints were")+" gone in the end",
				fmt.Sprintf("%d of %s stayed behind", g.failures(), plural(all, "endpoint", "endpoints")))
		},
	}
}
