// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// readyAgainWithin is how long a container that runs again may take to be
// ready: a start of a second and the probe's period, several times over.
const readyAgainWithin = 15 * time.Second

// deletedMeanwhile doubts what a call to drain led to where a pod was deleted before it was
// ready again.
func (n *toll) deletedMeanwhile() {
	for _, e := range n.of {
		if e.Del.Known() {
			n.doubt("%s was deleted: nothing is known of its restart", e.Name)
		}
	}
}

// DrainsInPlace judges that a drain without a deletion is a drain: new
// connections are served for P, and what was in flight completes.
func DrainsInPlace() Check {
	newConns := Floor{Per: "drain call", Name: "new connections dialled at the pod in [D, D+P]", N: 50}
	inFlight := Floor{Per: "drain call and kind of request", Name: "in flight at D", N: 5, Reason: atOneInstant}
	return Check{
		Name:     "the drain by a drain call",
		Expected: "every new connection to the pod in [D, D+P] is served, and every request that was in flight at D ends whole",
		Floors:   []Floor{newConns, inFlight, keptUncounted("drain call")},
		Judge: func(c Case) spec.Finding {
			var g gather
			whole := wholeIDs(c.Timeline)
			kinds := g.slowKinds(c)
			called := g.toll(c.calledToDrain("drain call", "drain calls"))
			for e := range called.each() {
				g.span(e.Drain.At, e.Drain.At+c.P)
				fresh := g.accepts(c, e, e.Drain, "D", e.Drain.At+c.P)
				inflight, work := g.completes(c, e, e.Drain, "D", whole)
				called.add(fresh, work)
				called.has(newConns, fresh.sound)
				for _, k := range kinds {
					called.hasOf(k.String(), inFlight, inflight[k])
				}
			}
			called.deletedMeanwhile()
			called.bound(called.hit, called.sum.all, called.sum.lost)
			return g.conclude(
				fmt.Sprintf("all %d requests that were in flight at D or on new connections in [D, D+P] were served by the instances themselves, over %s", called.sum.all, called),
				fmt.Sprintf("%d of %s failed, at %d of %s", called.sum.lost, plural(called.sum.all, "request", "requests"), called.hit, called))
		},
	}
}

// ComesBack judges that a pod whose container drained and was restarted in it
// is ready again, and serves.
func ComesBack() Check {
	restartsFloor := Floor{Name: "restarts", N: 3, Reason: "a restart is one event: what it led to is counted in connections"}
	newConns := Floor{Per: "restart", Name: "new connections dialled at the pod within P of its being ready", N: 50}
	return Check{
		Name:     "the pod after its restart",
		Expected: "the pod is ready again within 15 s after its container runs again, its endpoint is ready again within P of that, and it serves every new connection from then on for P",
		Floors:   []Floor{restartsFloor, newConns},
		Judge: func(c Case) spec.Finding {
			var g gather
			end := LastSeen(c)
			called := g.toll(c.calledToDrain("restart", "restarts"))
			ready := 0
			for e := range called.each() {
				g.span(e.Drain.At, end)
				if e.Del.Known() || !g.readyAgain(c, e, end) {
					continue
				}
				ready++
				g.trafficReturns(c, e, end)
				w := g.accepts(c, e, e.Ready, "ready again", e.Ready.At+c.P)
				called.add(w)
				called.has(newConns, w.sound)
			}
			called.deletedMeanwhile()
			g.count(restartsFloor, ready)
			return g.conclude(
				fmt.Sprintf("%s ready again, with %d new connections served", plural(ready, "pod was", "pods were"), called.sum.all),
				fmt.Sprintf("%d of %s left a pod that does not serve as before; %d of %s failed", called.broken, called, called.sum.lost, plural(called.sum.all, "new connection", "new connections")))
		},
	}
}

// readyAgain says whether a pod was ready in time after its container ran again; where it was
// not, that is held against it, unless the recording ended first (end).
func (g *gather) readyAgain(c Case, e Ending, end time.Duration) bool {
	limit := e.Running.At + readyAgainWithin
	switch {
	case !e.Running.Known():
		g.doubt("the container of %s was not seen to run again", e.Name)
	case e.Ready.Known() && e.Ready.At <= limit:
		return true
	case end > limit:
		g.late(c, limit, e.Name, "", "the container ran again at D + %s, and 15 s later the pod was still not ready", ms(e.Running.At-e.Drain.At))
	default:
		g.doubt("%s was not ready again when the recording ended, %s after its restart", e.Name, ms(end-e.Running.At))
	}
	return false
}

// trafficReturns judges that the endpoint of a pod that is ready again becomes
// so too, in each address family, or has never been otherwise.
func (g *gather) trafficReturns(c Case, e Ending, end time.Duration) {
	gap := watchGap(c.Timeline, "endpointslices")
	until := e.Ready.At + e.Ready.Err + c.P
	lives := families(endpointStates(c.Timeline, e.UID, MainService))
	if len(lives) == 0 {
		g.doubt("no EndpointSlice ever showed %s", e.Name)
	}
	for _, life := range lives {
		ready, back := false, false
		for _, s := range life {
			if s.at > until {
				break
			}
			ready = s.ready && !s.gone
			back = back || ready && s.at >= e.Running.At
		}
		name := seat{MainService, life[0].family}.name(e)
		switch {
		case ready || back:
		case gap != "":
			g.doubt("the EndpointSlice watch has a gap: %s", gap)
		case end < until:
			g.doubt("the endpoint of %s was not ready again when the recording ended", name)
		default:
			g.late(c, until, name, "", "the pod was ready again at D + %s, and its endpoint was not within P of that", ms(e.Ready.At-e.Drain.At))
		}
	}
}

// LivenessHolds judges that a drain does not fail liveness.
func LivenessHolds() Check {
	lasted := Floor{Per: "drain call", Name: "seconds from D to the listener's end", N: 3,
		Reason: "absence can't be counted in requests: the kubelet asks once a second here, and three failures in a row are a restart",
	}
	kubeletTold := Floor{Per: "drain call", Name: "the kubelet's events about the pod since D", N: 1,
		Reason: "a failed probe is told by such an event: where none is seen of the restart either (Created, Started), none would be seen of it",
	}
	return Check{
		Name:     "liveness during the drain",
		Expected: "no liveness probe is answered with a failure from D on, and none fails while the pod accepts connections",
		Floors:   []Floor{lasted, kubeletTold},
		Judge: func(c Case) spec.Finding {
			var g gather
			if gap := watchGap(c.Timeline, "events"); gap != "" {
				g.doubt("the watch of the cluster's events has a gap: %s", gap)
			}
			called := g.toll(c.calledToDrain("drain", "drains"))
			for e := range called.each() {
				if !e.Exit.Known() {
					g.doubt("nobody saw the container of %s end", e.Name)
					continue
				}
				_, shut, _ := listener(c, e, e.Drain.At)
				if shut == 0 || shut > e.Exit.At {
					shut = e.Exit.At
				}
				g.span(e.Drain.At, e.Exit.At)
				called.has(lasted, int((shut-e.Drain.At)/time.Second))
				called.has(kubeletTold, g.livenessFailures(c, e, shut))
			}
			called.deletedMeanwhile()
			return g.conclude(
				"liveness held through "+called.String(),
				fmt.Sprintf("the kubelet saw liveness fail during %d of %s", called.broken, called))
		},
	}
}

// livenessFailures judges what the kubelet tells of an instance's liveness from D to its exit;
// shut is when its listener was gone. It counts the kubelet's events about the pod since D.
func (g *gather) livenessFailures(c Case, e Ending, shut time.Duration) (told int) {
	for _, said := range c.Timeline.EventsOf(timeline.ClusterEvent, e.UID) {
		if said.At < e.Drain.At {
			continue
		}
		told++
		if said.At > e.Exit.At+kubeletWatch || !aboutLiveness(said) {
			continue
		}
		// Behind the listener's end nobody can answer, on most
		// apps' one port: only an answer is held against it then.
		const text = "D + %s: %s: %s"
		since, reason, message := ms(said.At-e.Drain.At), said.Attrs["reason"], said.Attrs["message"]
		switch {
		case strings.Contains(message, "statuscode"), said.At < shut-atTheDoor && reason == "Killing":
			g.culprit(said.At, e.Name, "", text, since, reason, message)
		case said.At < shut-atTheDoor:
			// A probe that got no answer in its second.
			g.late(c, said.At, e.Name, "", text, since, reason, message)
		}
	}
	return told
}

// aboutLiveness says whether the kubelet speaks of a failed liveness probe.
// It has no other way to say so than the event's message.
func aboutLiveness(e timeline.Event) bool {
	m := e.Attrs["message"]
	switch e.Attrs["reason"] {
	case "Unhealthy":
		return strings.HasPrefix(m, "Liveness probe")
	case "Killing":
		return strings.Contains(m, "failed liveness probe")
	}
	return false
}
