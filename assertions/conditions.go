// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// shortLife is how long an instance must have lived after its deletion
// before its endpoint must have been seen terminating: the slice controller
// syncs within this in a cluster that is not starved.
const shortLife = 2 * time.Second

// earlyLimit is by how much the watch of the slices may be ahead of the pods'.
const earlyLimit = 5 * time.Second

// goneLimit is how long an endpoint may outlive its pod.
const goneLimit = 4 * time.Second

// LegalConditions judges the life of every endpoint that terminated, in each
// Service and address family apart: TTF or FFF while it lives, then FTT or FFT, then gone; and
// ready all the time where the Service publishes not-ready addresses.
func LegalConditions() Check {
	statesBefore := Floor{Per: "termination and Service", Name: "states seen before the deletion", N: 1,
		Reason: "demands an order of states of one endpoint, not a rate",
	}
	terminatingStates := Floor{Per: "termination and Service", Name: "terminating states seen", N: 1, Reason: "as above"}
	return Check{
		Name:     "ready, serving, terminating of each endpoint, merged over its slices",
		Expected: "serving follows the pod's Ready condition within P. Until the deletion terminating is false and ready equals serving; by P after it terminating is true and ready false, and so it stays until the endpoint goes, with its pod and not before. With publishNotReadyAddresses ready is always true",
		Floors:   []Floor{statesBefore, terminatingStates},
		Judge: func(c Case) spec.Finding {
			var g gather
			gap := watchGap(c.Timeline, "endpointslices")
			lives := 0
			ended := g.toll(c.terminated())
			for t := range ended.each() {
				for _, s := range seatsOf(c.Timeline, t.UID) {
					lives++
					live, terminating := g.life(c, t, s, gap)
					g.least(statesBefore, s.name(t), live)
					g.least(terminatingStates, s.name(t), terminating)
				}
			}
			if gap != "" {
				g.doubt("the EndpointSlice watch has a gap: %s", gap)
			}
			return g.conclude(
				fmt.Sprintf("%s of %s went through legal states only", plural(lives, "endpoint", "endpoints"), plural(len(ended.of), "pod", "pods")),
				plural(g.failures(), "illegal state or transition", "illegal states or transitions"))
		},
	}
}

// life judges one endpoint of a pod, and counts the states that were seen of
// it before it terminated and since.
func (g *gather) life(c Case, t Ending, in seat, gap string) (live, terminating int) {
	name := in.name(t)
	gone := false
	states := slices.DeleteFunc(endpointStates(c.Timeline, t.UID, in.service), func(s endpointState) bool { return s.family != in.family })
	for _, s := range states {
		g.span(s.at, s.at)
		since := s.at - t.Del.At
		when := offset("T_del", since)
		switch {
		case s.gone:
			gone = true
			if gap == "" {
				g.endpointEnds(c, t, s.at, name, terminating > 0)
			}
			continue
		case gone:
			g.culprit(s.at, name, "", "%s: %s after it was gone", when, s)
		case s.terminating && since < -earlyLimit-t.Del.Err:
			g.culprit(s.at, name, "", "%s: terminating, and nobody had deleted the pod", when)
		case terminating > 0 && !s.terminating:
			g.culprit(s.at, name, "", "%s: %s: terminating went back", when, s)
		case publishing[in.service]:
			if !s.ready {
				g.culprit(s.at, name, "", "%s: %s: ready is false, and the Service has publishNotReadyAddresses", when, s)
			}
		case s.terminating && s.ready:
			g.culprit(s.at, name, "", "%s: %s: ready while terminating", when, s)
		case !s.terminating && s.ready != s.serving:
			g.culprit(s.at, name, "", "%s: %s: ready and serving differ in an endpoint that does not terminate", when, s)
		}
		if s.terminating {
			if terminating == 0 && since > c.P+s.err && gap == "" {
				g.late(c, s.at, name, "", "terminating only %s after the deletion", ms(since))
			}
			terminating++
		} else {
			live++
		}
	}
	switch left := c.Tail - t.Gone.At; {
	case gone || !t.Gone.Known() || gap != "":
	case left > goneLimit:
		g.late(c, t.Gone.At, name, "", "the pod was gone, and its endpoint was still there %s later", ms(left))
	default:
		g.doubt("the recording ends before the endpoint of %s went", name)
	}
	if gap == "" && watchGap(c.Timeline, "pods") == "" {
		g.servingFollows(c, t, name, states)
	}
	return live, terminating
}

// endpointEnds judges the instant at which an endpoint went.
func (g *gather) endpointEnds(c Case, t Ending, at time.Duration, name string, terminated bool) {
	when := offset("T_del", at-t.Del.At)
	switch early := goneBefore(t, at); {
	case !terminated && at-t.Del.At > shortLife:
		g.culprit(at, name, "", "%s: gone without ever having been terminating", when)
	case early > 0:
		g.culprit(at, name, "", "%s: gone %s before its pod was", when, ms(early))
	case t.Gone.Known() && at-t.Gone.At > goneLimit:
		g.late(c, at, name, "", "%s: gone only %s after its pod was", when, ms(at-t.Gone.At))
	}
}

// goneBefore is by how much an endpoint that went at an instant left before its
// pod did; 0 where it may have been the pod's own end.
//
// KEP-1672: "any pod with a deletion timestamp will have condition.terminating
// = true", for as long as it is there, and whether or not it is ready.
func goneBefore(t Ending, at time.Duration) time.Duration {
	end := t.Exit.At - t.Exit.Err
	if t.Gone.Known() {
		end = min(end, t.Gone.At) // a pod may be forgotten before its process ends
	}
	if !t.Exit.Known() || end-at <= shortLife {
		return 0
	}
	return end - at
}

// servingFollows judges that `serving` is the pod's Ready condition, within P.
//
// KEP-1672: "the new `serving` condition is set based on pod readiness
// regardless of terminating state". That holds for Services with
// publishNotReadyAddresses too: those change `ready` alone.
func (g *gather) servingFollows(c Case, t Ending, name string, states []endpointState) {
	end := c.Tail
	if t.Gone.Known() {
		end = min(end, t.Gone.At)
	}
	pod := c.Timeline.EventsOf(timeline.PodReady, t.UID)
	for i := 0; i < len(states); {
		s, next := states[i], i+1
		for next < len(states) && !states[next].gone && states[next].serving == s.serving {
			next++ // it says the same of serving still
		}
		until := end
		if next < len(states) {
			until = min(until, states[next].at)
		}
		i = next
		if s.gone {
			continue
		}
		for n, e := range pod {
			from, to := max(s.at, e.At, c.Steady), until
			if n+1 < len(pod) {
				to = min(to, pod[n+1].At)
			}
			if ready := e.Attrs["ready"] == "true"; ready != s.serving && to-from > c.P {
				g.late(c, from+c.P, name, "", "%s: serving is %t, and for %s the pod's Ready condition has been %t", offset("T_del", from+c.P-t.Del.At), s.serving, c.P, ready)
				g.span(from, to)
			}
		}
	}
}

// seat is where a pod has an endpoint: a Service, in one address family.
type seat struct{ service, family string }

// name names the pod's endpoint there, for people.
func (s seat) name(t Ending) string {
	name := t.Name
	if s.service != MainService {
		name += " in " + s.service
	}
	if s.family != "" {
		name += " (" + s.family + ")"
	}
	return name
}

// seatsOf are all that the pod ever had, sorted; one in MainService it must.
func seatsOf(tl *timeline.Timeline, uid string) []seat {
	var out []seat
	for _, e := range tl.Events {
		isEndpoint := e.Kind == timeline.Endpoint || e.Kind == timeline.EndpointGone
		if s := (seat{e.Attrs["service"], e.Attrs["family"]}); isEndpoint && e.Subject == uid && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	if !slices.ContainsFunc(out, func(s seat) bool { return s.service == MainService }) {
		out = append(out, seat{service: MainService})
	}
	slices.SortFunc(out, func(a, b seat) int {
		return cmp.Or(cmp.Compare(a.service, b.service), cmp.Compare(a.family, b.family))
	})
	return out
}
