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
	return Check{
		Name:     "ready, serving, terminating of each endpoint, merged over its slices",
		Expected: "TTF ⇄ FFF while the pod lives, then FTT ⇄ FFT, then gone; never ready while terminating, unless the Service publishes not-ready addresses: then always ready; and terminating never goes back",
		Floors: []Floor{
			{Name: "per termination and Service: states seen before the deletion", N: 1, Reason: "demands an order of states of one endpoint, not a rate"},
			{Name: "per termination and Service: terminating states seen", N: 1, Reason: "as above"},
		},
		Judge: func(c Case) spec.Finding {
			var g gather
			gap := watchGap(c.Timeline, "endpointslices")
			lives := 0
			for _, t := range c.Terminations {
				for _, s := range seatsOf(c.Timeline, t.UID) {
					lives++
					live, terminating := g.life(c, t, s, gap)
					g.least("states before it terminated", s.name(t), live, 1)
					g.least("terminating states", s.name(t), terminating, 1)
				}
			}
			g.needTerminations(c)
			if gap != "" {
				g.doubt("the EndpointSlice watch has a gap: %s", gap)
			}
			g.finding.Cause = "Whoever writes the EndpointSlices (the built-in controller, or one of your own for a Service without a selector) derives the conditions otherwise than the API defines them."
			return g.conclude(
				fmt.Sprintf("%d endpoints of %d pods went through legal states only", lives, len(c.Terminations)),
				fmt.Sprintf("%d illegal states or transitions", g.failures()))
		},
	}
}

// life judges one endpoint of a pod, and counts the states that were seen of
// it before it terminated and since.
func (g *gather) life(c Case, t Termination, in seat, gap string) (live, terminating int) {
	name := in.name(t)
	gone := false
	for _, s := range endpointStates(c.Timeline, t.UID, in.service) {
		if s.family != in.family {
			continue
		}
		g.span(s.at, s.at)
		rel := ms(s.at - t.Del.At)
		switch {
		case s.gone:
			gone = true
			if terminating == 0 && s.at-t.Del.At > shortLife && gap == "" {
				g.culprit(s.at, name, "", "T_del + %s: gone without ever having been terminating", rel)
			}
			continue
		case gone:
			g.culprit(s.at, name, "", "T_del + %s: %s after it was gone", rel, s)
		case s.terminating && s.at < t.Del.At-earlyLimit:
			g.culprit(s.at, name, "", "T_del - %s: terminating, and nobody had deleted the pod", -rel)
		case terminating > 0 && !s.terminating:
			g.culprit(s.at, name, "", "T_del + %s: %s: terminating went back", rel, s)
		case publishing[in.service]:
			if !s.ready {
				g.culprit(s.at, name, "", "T_del + %s: %s: not ready, and the Service publishes not-ready addresses", rel, s)
			}
		case s.terminating && s.ready:
			g.culprit(s.at, name, "", "T_del + %s: %s: ready while terminating", rel, s)
		case !s.terminating && s.ready != s.serving:
			g.culprit(s.at, name, "", "T_del + %s: %s: ready and serving differ in an endpoint that does not terminate", rel, s)
		}
		if s.terminating {
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
	return live, terminating
}

// seat is where a pod has an endpoint: a Service, in one address family.
type seat struct{ service, family string }

// name names the pod's endpoint there, for people.
func (s seat) name(t Termination) string {
	name := t.Name
	if s.service != mainService {
		name += " in " + s.service
	}
	if s.family != "" {
		name += " (" + s.family + ")"
	}
	return name
}

// seatsOf are all that the pod ever had, sorted; one in mainService it must.
func seatsOf(tl *timeline.Timeline, uid string) []seat {
	var out []seat
	for _, e := range tl.Events {
		isEndpoint := e.Kind == timeline.Endpoint || e.Kind == timeline.EndpointGone
		if s := (seat{e.Attrs["service"], e.Attrs["family"]}); isEndpoint && e.Subject == uid && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	if !slices.ContainsFunc(out, func(s seat) bool { return s.service == mainService }) {
		out = append(out, seat{service: mainService})
	}
	slices.SortFunc(out, func(a, b seat) int {
		return cmp.Or(cmp.Compare(a.service, b.service), cmp.Compare(a.family, b.family))
	})
	return out
}
