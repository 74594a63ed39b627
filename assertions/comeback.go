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

// comeback is a drain without a deletion, after which the container came back
// in its pod. Of its termination Del, Grace and Kill are not known.
type comeback struct {
	Termination
	Running Instant // the container runs again
	Ready   Instant // the pod is ready again
	// deleted: the pod was deleted before it was back.
	deleted bool
}

// comebacks are what the drain calls of a recording led to, in their order.
func comebacks(c Case) []comeback {
	var out []comeback
	for _, call := range c.Timeline.EventsOf(timeline.Disruption, "") {
		if call.Attrs["what"] != "drain-call" || call.Attrs["error"] != "" {
			continue
		}
		out = append(out, comebackOf(c, call))
	}
	return out
}

func comebackOf(c Case, call timeline.Event) comeback {
	took, err := time.ParseDuration(call.Attrs["took"])
	if err != nil {
		took = 0
	}
	r := comeback{Termination: Termination{UID: call.Subject, Name: call.Name, Node: call.Node, ExitCode: -1}}
	set := func(i *Instant, e timeline.Event, err time.Duration) {
		if !i.Known() {
			*i = Instant{At: e.At, Err: max(e.Err, err), Source: e.Source}
		}
	}
	var told Instant // the end by the API server, where no witness saw it
	for _, e := range c.Timeline.Events {
		if e.Subject != call.Subject || e.At < call.At {
			continue
		}
		ended := r.Exit.Known() || told.Known()
		switch e.Kind {
		case timeline.DrainStart:
			set(&r.Drain, e, 0)
		case timeline.ProcExit:
			if !r.Running.Known() {
				set(&r.Exit, e, 0)
			}
		case timeline.PodContainer:
			switch {
			case e.Attrs["state"] == "terminated" && !r.Running.Known():
				set(&told, e, kubeletWatch)
			case e.Attrs["state"] == "running" && ended:
				set(&r.Running, e, 0)
			}
		case timeline.PodReady:
			if e.Attrs["ready"] == "true" && ended {
				set(&r.Ready, e, 0)
			}
		case timeline.PodDeletion:
			r.deleted = r.deleted || !r.Ready.Known()
		}
	}
	if !r.Exit.Known() {
		r.Exit = told
	}
	if !r.Drain.Known() {
		r.Drain = Instant{At: call.At, Err: took, Source: call.Source + " (drain call)"}
	}
	return r
}

// needComebacks doubts a recording in which nothing was called to drain, or in
// which a pod that was has been deleted.
func (g *gather) needComebacks(rs []comeback) {
	if len(rs) == 0 {
		g.doubt("no pod was called to drain")
	}
	for _, r := range rs {
		if r.deleted {
			g.doubt("%s was deleted: nothing is known of its restart", r.Name)
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
			rs := comebacks(c)
			all, lost, hit := 0, 0, 0
			for _, r := range rs {
				g.span(r.Drain.At, r.Drain.At+c.P)
				fresh := g.accepts(c, r.Termination, r.Drain, "D", r.Drain.At+c.P)
				inflight, work := g.completes(c, r.Termination, r.Drain, "D", whole)
				if fresh.lost+work.lost > 0 {
					hit++
				}
				all, lost = all+fresh.all+work.all, lost+fresh.lost+work.lost
				g.least(newConns, r.Name, fresh.sound)
				for _, k := range kinds {
					g.leastOf(k.String(), inFlight, r.Name, inflight[k])
				}
			}
			g.needComebacks(rs)
			g.finding.Bounds = BoundsOf(len(rs), hit, all, lost)
			return g.conclude(
				fmt.Sprintf("all %d requests that were in flight at D or on new connections in [D, D+P] were served by the instances themselves, over %s", all, plural(len(rs), "drain call", "drain calls")),
				fmt.Sprintf("%d of %s failed, at %d of %s", lost, plural(all, "request", "requests"), hit, plural(len(rs), "drain call", "drain calls")))
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
			rs := comebacks(c)
			end := lastSeen(c)
			gap := watchGap(c.Timeline, "endpointslices")
			ready, bad, all, lost := 0, 0, 0, 0
			for _, r := range rs {
				g.span(r.Drain.At, end)
				if r.deleted {
					continue
				}
				if !r.Running.Known() {
					g.doubt("the container of %s was not seen to run again", r.Name)
					continue
				}
				limit := r.Running.At + readyAgainWithin
				switch {
				case r.Ready.Known() && r.Ready.At <= limit:
				case end > limit:
					g.late(c, limit, r.Name, "", "the container ran again at D + %s, and 15 s later the pod was still not ready", ms(r.Running.At-r.Drain.At))
					bad++
					continue
				default:
					g.doubt("%s was not ready again when the recording ended, %s after its restart", r.Name, ms(end-r.Running.At))
					continue
				}
				before := g.failures()
				g.trafficReturns(c, r, end, gap)
				w := g.accepts(c, r.Termination, r.Ready, "ready again", r.Ready.At+c.P)
				all, lost = all+w.all, lost+w.lost
				g.least(newConns, r.Name, w.sound)
				ready++
				if g.failures() > before {
					bad++
				}
			}
			g.needComebacks(rs)
			g.count(restartsFloor, ready)
			return g.conclude(
				fmt.Sprintf("%s ready again, with %d new connections served", plural(ready, "pod was", "pods were"), all),
				fmt.Sprintf("%d of %s left a pod that does not serve as before; %d of %s failed", bad, plural(len(rs), "restart", "restarts"), lost, plural(all, "new connection", "new connections")))
		},
	}
}

// trafficReturns judges that the endpoint of a pod that is ready again becomes
// so too, in each address family, or has never been otherwise.
func (g *gather) trafficReturns(c Case, r comeback, end time.Duration, gap string) {
	until := r.Ready.At + r.Ready.Err + c.P
	lives := families(endpointStates(c.Timeline, r.UID, mainService))
	if len(lives) == 0 {
		g.doubt("no EndpointSlice ever showed %s", r.Name)
	}
	for _, life := range lives {
		ready, back := false, false
		for _, s := range life {
			if s.at > until {
				break
			}
			ready = s.ready && !s.gone
			back = back || ready && s.at >= r.Running.At
		}
		name := seat{mainService, life[0].family}.name(r.Termination)
		switch {
		case ready || back:
		case gap != "":
			g.doubt("the EndpointSlice watch has a gap: %s", gap)
		case end < until:
			g.doubt("the endpoint of %s was not ready again when the recording ended", name)
		default:
			g.late(c, until, name, "", "the pod was ready again at D + %s, and its endpoint was not within P of that", ms(r.Ready.At-r.Drain.At))
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
			rs := comebacks(c)
			failed := 0
			for _, r := range rs {
				if !r.Exit.Known() {
					g.doubt("nobody saw the container of %s end", r.Name)
					continue
				}
				_, shut, _ := listener(c, r.Termination, r.Drain.At)
				if shut == 0 || shut > r.Exit.At {
					shut = r.Exit.At
				}
				g.span(r.Drain.At, r.Exit.At)
				before, told := g.failures(), 0
				g.least(lasted, r.Name, int((shut-r.Drain.At)/time.Second))
				for _, e := range c.Timeline.EventsOf(timeline.ClusterEvent, r.UID) {
					if e.At < r.Drain.At {
						continue
					}
					told++
					if e.At > r.Exit.At+kubeletWatch || !aboutLiveness(e) {
						continue
					}
					// Behind the listener's end nobody can answer, on most
					// apps' one port: only an answer is held against it then.
					const text = "D + %s: %s: %s"
					since, reason, message := ms(e.At-r.Drain.At), e.Attrs["reason"], e.Attrs["message"]
					switch {
					case strings.Contains(message, "statuscode"), e.At < shut-atTheDoor && reason == "Killing":
						g.culprit(e.At, r.Name, "", text, since, reason, message)
					case e.At < shut-atTheDoor:
						// A probe that got no answer in its second.
						g.late(c, e.At, r.Name, "", text, since, reason, message)
					}
				}
				g.least(kubeletTold, r.Name, told)
				if g.failures() > before {
					failed++
				}
			}
			g.needComebacks(rs)
			return g.conclude(
				"liveness held through "+plural(len(rs), "drain", "drains"),
				fmt.Sprintf("the kubelet saw liveness fail during %d of %s", failed, plural(len(rs), "drain", "drains")))
		},
	}
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
