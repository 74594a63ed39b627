// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// readinessLead bounds by how much readiness may go before the listener does,
// beyond P: the probe's period times its threshold, and its delivery.
const readinessLead = 3 * time.Second

// ServesWhileAccepting judges that the endpoint's `serving` stays true as
// long as the instance can be the last resort, and that it is false before
// the listener goes.
func ServesWhileAccepting() Check {
	const floorNew = 50
	return Check{
		Name:     "`serving` of the endpoint against the listener",
		Expected: "from D to D+P the endpoint says serving; it stops saying so before the listener closes, at most P + 3 s before",
		Floors: []Floor{
			{Name: "per termination: new connections dialled at the pod after D, until its listener closes", N: floorNew},
		},
		Judge: func(c Case) spec.Finding {
			var g gather
			gap := watchGap(c.Timeline, "endpointslices")
			wrong := 0
			for _, t := range c.Terminations {
				last, closed, n := listener(c, t, t.Drain.At)
				if closed == 0 {
					closed = t.Exit.At
				}
				g.span(t.Drain.At, max(closed, t.Drain.At+c.P))
				// Where the rule is broken by a listener that goes first,
				// there is no more evidence to be had.
				before := g.failures()
				states := endpointStates(c.Timeline, t.UID, mainService)
				if len(states) == 0 {
					g.doubt("no EndpointSlice ever showed %s", t.Name)
					continue
				}
				if t.Drain.Err > c.P/4 {
					g.doubt("D of %s is known only to ±%s (%s)", t.Name, ms(t.Drain.Err), t.Drain.Source)
				}
				for _, life := range families(states) {
					g.servesUntil(c, t, life, last, closed, gap)
				}
				if g.failures() > before {
					wrong++
				} else {
					g.least("new connections accepted after D", t.Name, n, floorNew)
				}
			}
			g.needTerminations(c)
			if gap != "" {
				g.doubt("the EndpointSlice watch has a gap: %s", gap)
			}
			g.finding.Cause = "Readiness is cut as the first act of the drain (then nothing is left to fall back on when all endpoints terminate), or the listener is closed before readiness has failed."
			return g.conclude(
				fmt.Sprintf("`serving` outlived D+P and ended before the listener, in %d of %s", len(c.Terminations), c.ends()),
				fmt.Sprintf("`serving` and the listener ended in the wrong order, or too far apart, in %d of %s", wrong, c.ends()))
		},
	}
}

// servesUntil judges the life of an instance's endpoint in one address family
// against its listener, which served for the last time at last and was gone at
// closed (0: nobody saw it go).
func (g *gather) servesUntil(c Case, t Termination, life []endpointState, last, closed time.Duration, gap string) {
	name := seat{mainService, life[0].family}.name(t)
	unserving, stays := firstUnserving(life, t.Drain.At, closed)
	switch {
	case unserving == 0 && closed == 0:
		g.doubt("neither the listener's nor `serving`'s end of %s was seen", name)
	case !stays:
		g.late(c, closed, name, "", "`serving` was true again when the listener went, at D + %s", ms(closed-t.Drain.At))
	case unserving == 0 && gap != "":
		// What was not seen may have been in the gap.
	case unserving == 0 || (closed != 0 && unserving > closed):
		when := "while `serving` was never seen false"
		if unserving != 0 {
			when = fmt.Sprintf("%s before `serving` was false", ms(unserving-closed))
		}
		g.late(c, closed, name, "", "the listener went at D + %s, %s", ms(closed-t.Drain.At), when)
	case unserving <= t.Drain.At-t.Drain.Err+c.P && last > unserving:
		g.late(c, unserving, name, "", "`serving` went false at D + %s, and the pod accepted until D + %s", ms(unserving-t.Drain.At), ms(last-t.Drain.At))
	case last-unserving > c.P+readinessLead:
		g.late(c, unserving, name, "", "`serving` went false at D + %s, %s before the last connection that the pod accepted", ms(unserving-t.Drain.At), ms(last-unserving))
	}
}

// endpointState is the conditions of an endpoint from an instant on.
type endpointState struct {
	at                          time.Duration
	ready, serving, terminating bool
	gone                        bool
	family                      string // of the address: each has a life of its own
}

func (s endpointState) String() string {
	if s.gone {
		return "gone"
	}
	return fmt.Sprintf("ready=%t serving=%t terminating=%t", s.ready, s.serving, s.terminating)
}

// mainService is the Service that "the" endpoint of a pod is of: a pod has one
// endpoint for each Service that selects it.
const mainService = "echo"

// publishing are the Services with publishNotReadyAddresses.
var publishing = map[string]bool{"publishing": true, "headless-publishing": true}

func ofService(e timeline.Event, service string) bool { return e.Attrs["service"] == service }

// endpointStates is the life of the pod's endpoint of a Service, as the watch
// showed it, in all address families.
func endpointStates(tl *timeline.Timeline, uid, service string) []endpointState {
	var out []endpointState
	for _, e := range tl.Events {
		if e.Subject != uid || !ofService(e, service) {
			continue
		}
		switch e.Kind {
		case timeline.Endpoint:
			out = append(out, endpointState{
				at: e.At, ready: e.Attrs["ready"] == "true",
				serving: e.Attrs["serving"] == "true", terminating: e.Attrs["terminating"] == "true",
				family: e.Attrs["family"],
			})
		case timeline.EndpointGone:
			out = append(out, endpointState{at: e.At, gone: true, family: e.Attrs["family"]})
		}
	}
	return out
}

// families are the lives of a pod's endpoint, one for each address family.
func families(states []endpointState) [][]endpointState {
	var out [][]endpointState
	for _, s := range states {
		i := slices.IndexFunc(out, func(life []endpointState) bool { return life[0].family == s.family })
		if i < 0 {
			i, out = len(out), append(out, nil)
		}
		out[i] = append(out[i], s)
	}
	return out
}

// firstUnserving is when `serving` was first false after from (0: never), and
// whether it stayed so until the listener was gone (0: it never was).
func firstUnserving(states []endpointState, from, closed time.Duration) (at time.Duration, stays bool) {
	stays = true
	for _, s := range states {
		if s.at < from || closed != 0 && s.at > closed {
			continue
		}
		out := s.gone || !s.serving
		if out && at == 0 {
			at = s.at
		}
		stays = at == 0 || out
	}
	if at == 0 {
		for _, s := range states {
			if s.at >= from && (s.gone || !s.serving) {
				return s.at, true
			}
		}
	}
	return at, stays
}

// watchGap says why transitions of a resource may be missing; "" if none are.
func watchGap(tl *timeline.Timeline, resource string) string {
	for _, e := range tl.EventsOf(timeline.WatchGap, resource) {
		return e.Attrs["why"]
	}
	return ""
}
