// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// recordTTL is how long a name's answer may be kept: the kubernetes plugin's
// `ttl 30` of the Corefile that kubeadm writes. That file (as of 1.34) also
// keeps the cache from the cluster's own names (`disable success`), so that the
// server's answers follow the slices at once; older ones may lag by the TTL.
const recordTTL = 30 * time.Second

// StaysPublished judges that the endpoints of a Service that publishes
// not-ready addresses stay ready, whatever their pods say.
func StaysPublished() Check {
	terminatingStates := Floor{Per: "termination and Service", Name: "terminating states seen", N: 1,
		Reason: "demands states of one endpoint, not a rate",
	}
	return Check{
		Name:     "`ready` of the endpoints of Services with publishNotReadyAddresses",
		Expected: "ready stays true while the pod terminates, and after its readiness was cut, until the endpoint goes with its pod",
		Floors:   []Floor{terminatingStates},
		Judge: func(c Case) spec.Finding {
			var g gather
			gap := watchGap(c.Timeline, "endpointslices")
			ended := g.toll(c.terminated())
			for t := range ended.each() {
				for _, service := range []flow.Path{flow.Publishing, flow.HeadlessPublishing} {
					terminating := 0
					for _, s := range endpointStates(c.Timeline, t.UID, string(service)) {
						g.span(s.at, s.at)
						name, when := seat{service: string(service)}.name(t), offset("T_del", s.at-t.Del.At)
						if early := goneBefore(t, s.at); s.gone && early > 0 && gap == "" {
							g.culprit(s.at, name, "", "%s: gone %s before its pod was", when, ms(early))
						}
						if !s.gone && !s.ready {
							g.culprit(s.at, name, "", "%s: %s: ready is false, and the Service has publishNotReadyAddresses", when, s)
						}
						if s.terminating {
							terminating++
						}
					}
					g.least(terminatingStates, seat{service: string(service)}.name(t), terminating)
				}
			}
			if gap != "" {
				g.doubt("the EndpointSlice watch has a gap: %s", gap)
			}
			return g.conclude(
				"ready stayed true in "+ended.String(),
				fmt.Sprintf("ready was false, or the endpoint went before its pod, %s", plural(g.failures(), "time", "times")))
		},
	}
}

// ReachesPublished judges that the service network goes on giving a terminating
// pod's address, where the Service publishes not-ready addresses.
func ReachesPublished() Check {
	const floor = 60
	// From the watch's word on the readiness to the rules of each node.
	const told = 500 * time.Millisecond
	halves := Floor{Per: "termination", Name: "new connections offered in half of the time from T_endpoint + P until it stopped accepting", N: floor,
		Reason: "demands a presence: of five endpoints the pod is one, and that none of 60 connections reaches it by chance has a probability of 2 in a million",
	}
	unreadyButOpen := Floor{Name: "new connections offered while a terminating pod accepted and was not ready", N: floor,
		Reason: "as above; of all terminations together, because a pod accepts for only 3 s after its readiness went, of which the probe took one",
	}
	return Check{
		Name:     "new connections through a Service with publishNotReadyAddresses",
		Expected: "a share of the new connections goes on reaching the terminating pod, from T_endpoint + P until it stops accepting, also when it is no longer ready",
		Floors:   []Floor{halves, unreadyButOpen},
		Judge: func(c Case) spec.Finding {
			var g gather
			served := servers(c.Timeline)
			total, reached := 0, 0
			unready, met, last := 0, 0, time.Duration(0)
			ended := g.toll(c.terminated())
			for t := range ended.each() {
				known := terminatingSince(c, t, string(flow.Publishing))
				from := known.at + c.P
				to, ok := acceptsUntil(c, t)
				if !ok || to <= from {
					g.doubt("%s was not seen to accept after T_endpoint + P: "+deadPod, t.Name)
					continue
				}
				g.span(from, to)
				mid := from + (to-from)/2
				for _, half := range []spec.Window{{From: from, To: mid}, {From: mid, To: to}} {
					n, hits := publishedTo(c, t, served, half)
					total, reached = total+n, reached+hits
					if hits == 0 && n >= floor {
						g.late(c, half.To, t.Name, "", "%s to + %s: none of %d new connections reached the terminating pod, and it accepted", known.tell(half.From), ms(half.To-known.origin), n)
					}
					ended.has(halves, n)
				}
				if at, saw := seenUnready(c.Timeline, t); saw {
					n, hits := publishedTo(c, t, served, spec.Window{From: max(from, at+told), To: to})
					unready, met, last = unready+n, met+hits, to
				}
			}
			if met == 0 && unready >= floor {
				g.late(c, last, string(flow.Publishing), "", "none of %d new connections reached a terminating pod that accepted and had ceased to be ready", unready)
			}
			g.count(unreadyButOpen, unready)
			return g.conclude(
				fmt.Sprintf("%d of %d new connections reached the terminating pods, and %d of %d those that were not ready any more", reached, total, met, unready),
				fmt.Sprintf("the terminating pods' addresses were no longer given, in %s of time", plural(g.failures(), "stretch", "stretches")))
		},
	}
}

// publishedTo counts the new connections that were offered in a window to the
// Service that publishes not-ready addresses, and those that reached a pod.
func publishedTo(c Case, t Ending, served map[string]string, w spec.Window) (n, hits int) {
	for _, s := range c.Timeline.Samples {
		if s.Stream.Flow().Path != flow.Publishing || !onNewConns(s) || s.Saturated || !w.Contains(s.Start) {
			continue
		}
		n++
		if s.Reached == t.UID || served[s.ID] == t.UID {
			hits++
		}
	}
	return n, hits
}

// seenUnready is when the pods' watch first showed an instance that drains as
// not ready.
func seenUnready(tl *timeline.Timeline, t Ending) (at time.Duration, ok bool) {
	for _, e := range tl.EventsOf(timeline.PodReady, t.UID) {
		if e.Attrs["ready"] == "false" && e.At >= t.Drain.At-t.Drain.Err {
			return e.At, true
		}
	}
	return 0, false
}

// NamesPublished judges the answers of the cluster's DNS: a headless name that
// publishes not-ready addresses keeps a terminating pod's, a plain one drops it.
func NamesPublished() Check {
	const floorBefore = 10
	listed := Floor{Per: "termination and name", Name: "answers with the pod's address in the 3 s before its deletion", N: floorBefore,
		Reason: "shows that the name has the address: a state and no rate",
	}
	publishingFloor := Floor{Per: "termination", Name: "answers of the publishing name between the deletion and the exit", N: 50,
		Reason: "a name server's answer is a state, and no draw: it is asked 10 times a second",
	}
	plainFloor := Floor{Per: "termination", Name: "answers of the plain name without the address after T_endpoint + P, while the pod ran", N: 20,
		Reason: "as above",
	}
	return Check{
		Name:     "the answers to two headless names",
		Expected: "with publishNotReadyAddresses each answer holds the terminating pod's address until it exits; without it the address is gone from all answers by T_endpoint + 30 s (the answers' TTL) + P, and while the pod still runs",
		Floors:   []Floor{listed, publishingFloor, plainFloor},
		Judge: func(c Case) spec.Finding {
			var g gather
			missing, stale := 0, 0
			worst := time.Duration(0)
			ended := g.toll(c.terminated())
			for t := range ended.each() {
				own := addresses(c.Timeline, t.UID)
				exit := t.exitOr(0)
				if exit == 0 {
					g.doubt("nobody saw %s exit", t.Name)
					continue
				}
				exit -= t.Exit.Err
				known := terminatingSince(c, t, string(flow.Headless))
				g.span(min(t.Del.At, known.at), exit)
				kept := 0
				last := known.at
				var without []time.Duration
				before := map[flow.Path]int{}
				for _, s := range c.Timeline.Samples {
					name := s.Stream.Flow().Path
					if s.Failed() || s.Stream.Flow().Op != flow.Lookup || name != flow.Headless && name != flow.HeadlessPublishing {
						continue
					}
					has := holds(s, own)
					switch {
					case s.Start < t.Del.At:
						if has && s.Start >= t.Del.At-3*time.Second {
							before[name]++
						}
					case name == flow.HeadlessPublishing && s.End < exit:
						kept++
						// What the name never had it can't lose.
						if !has && before[name] >= floorBefore {
							missing++
							g.culprit(s.Start, t.Name, s.ID, "T_del + %s: the answer lacks the pod's address, and the Service has publishNotReadyAddresses", ms(s.Start-t.Del.At))
						}
					case name == flow.Headless && has:
						last = max(last, s.Start)
						if s.Start > known.at+recordTTL+c.P {
							stale++
							g.span(s.Start, s.Start)
							g.late(c, s.Start, t.Name, s.ID, "%s: the answer still holds the address of the terminating pod", known.tell(s.Start))
						}
					case name == flow.Headless && s.End < exit && s.Start > known.at+c.P:
						without = append(without, s.Start)
					}
				}
				dropped := 0
				for _, at := range without {
					if at > last {
						dropped++
					}
				}
				worst = max(worst, last-known.at)
				for _, name := range []flow.Path{flow.Headless, flow.HeadlessPublishing} {
					ended.hasOf(string(name), listed, before[name])
				}
				ended.has(publishingFloor, kept)
				ended.has(plainFloor, dropped)
			}
			return g.conclude(
				fmt.Sprintf("the publishing name kept the address, and the plain one gave it for at most %s after T_endpoint", ms(worst)),
				fmt.Sprintf("%s a published address, %d gave a terminating pod's for longer than TTL + P", plural(missing, "answer lacked", "answers lacked"), stale))
		},
	}
}

// addresses are all addresses that anybody named a pod by, but for those that
// another pod had too: what a name gives then is nobody's.
func addresses(tl *timeline.Timeline, uid string) map[netip.Addr]bool {
	owner := map[netip.Addr]string{}
	for _, e := range tl.Events {
		for _, ip := range e.IPs() {
			a, err := netip.ParseAddr(ip)
			if err != nil {
				continue
			}
			a = a.Unmap()
			if was, taken := owner[a]; taken && was != e.Subject {
				owner[a] = ""
				continue
			}
			owner[a] = e.Subject
		}
	}
	out := map[netip.Addr]bool{}
	for a, of := range owner {
		if of == uid {
			out[a] = true
		}
	}
	return out
}

// holds says whether an answer has one of the addresses.
func holds(s timeline.Sample, own map[netip.Addr]bool) bool {
	for _, text := range s.Answers {
		if a, err := netip.ParseAddr(text); err == nil && own[a.Unmap()] {
			return true
		}
	}
	return false
}
