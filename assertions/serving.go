// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// acceptedConns is the evidence of the two rules on readiness: of a pod that accepts nothing
// after D neither shows anything.
var acceptedConns = Floor{Per: "termination", Name: "new connections accepted after D, until its listener closes", N: 50}

// ServesWhileAccepting judges that the endpoint's `serving` stays true from D to
// D + P, as long as the instance accepts: so long it may be the last resort.
func ServesWhileAccepting() Check {
	return Check{
		Name:     "`serving` of the endpoint in [D, D+P]",
		Expected: "from D to D+P, as long as the pod accepts new connections, its endpoint says serving",
		Floors:   []Floor{acceptedConns},
		Judge: func(c Case) spec.Finding {
			var g gather
			wrong := g.readiness(c, notServed, func(t Ending, last, _ time.Duration) {
				g.span(t.Drain.At, t.Drain.At+c.P)
				if t.Drain.Err > c.P/4 {
					g.doubt("D of %s is known only to ±%s (%s)", t.Name, ms(t.Drain.Err), t.Drain.Source)
				}
				for _, life := range g.lives(c, t) {
					g.servesUntil(c, t, life, last)
				}
			})
			return g.conclude(
				fmt.Sprintf("`serving` stayed true until D + P, or as long as the pod accepted, in %d of %s", len(c.Terminations), c.ends()),
				fmt.Sprintf("`serving` went false before D + P while the pod accepted, in %d of %s", wrong, c.ends()))
		},
	}
}

// UnreadyBeforeClosed judges that the endpoint says serving no more when the
// instance's listener goes.
func UnreadyBeforeClosed() Check {
	return Check{
		Name:     "`serving` of the endpoint when the listener closes",
		Expected: "the endpoint stops saying serving before the pod's listener closes, and not together with it",
		Floors:   []Floor{acceptedConns},
		Judge: func(c Case) spec.Finding {
			var g gather
			wrong := g.readiness(c, turned(c), func(t Ending, _, closed time.Duration) {
				if closed == 0 {
					closed = t.Exit.At
				}
				g.span(t.Drain.At, max(closed, t.Drain.At))
				for _, life := range g.lives(c, t) {
					g.unreadyBefore(c, t, life, closed)
				}
			})
			return g.conclude(
				fmt.Sprintf("`serving` was false before the listener went, in %d of %s", len(c.Terminations), c.ends()),
				fmt.Sprintf("the listener went while the endpoint said serving, in %d of %s", wrong, c.ends()))
		},
	}
}

// readiness judges each termination by when its listener served for the last time, and when
// it was gone (0: nobody saw that), by what says that a dial failed, and says how many break the rule. Where one does, there
// is no more evidence to be had.
func (g *gather) readiness(c Case, failed func(timeline.Sample) bool, judge func(t Ending, last, closed time.Duration)) (wrong int) {
	ended := g.toll(c.terminated())
	for t := range ended.each() {
		last, closed, n := listenerBy(c, t, t.Drain.At, failed)
		before := g.failures()
		judge(t, last, closed)
		if g.failures() > before {
			wrong++
		} else {
			ended.has(acceptedConns, n)
		}
	}
	return wrong
}

// lives are those of an instance's endpoint, one for each address family; what may be
// missing from them is a doubt.
func (g *gather) lives(c Case, t Ending) [][]endpointState {
	if gap := watchGap(c.Timeline, "endpointslices"); gap != "" {
		g.doubt("the EndpointSlice watch has a gap: %s", gap)
	}
	states := endpointStates(c.Timeline, t.UID, MainService)
	if len(states) == 0 {
		g.doubt("no EndpointSlice ever showed %s", t.Name)
	}
	return families(states)
}

// servesUntil judges one life of an instance's endpoint: it says serving until D + P,
// or until the instance served the last new connection.
func (g *gather) servesUntil(c Case, t Ending, life []endpointState, last time.Duration) {
	name := seat{MainService, life[0].family}.name(t)
	unserving, unsure := time.Duration(0), time.Duration(0)
	if i := slices.IndexFunc(life, func(s endpointState) bool { return s.at >= t.Drain.At-t.Drain.Err && s.unserving() }); i >= 0 {
		unserving, unsure = life[i].at, life[i].err
	}
	switch end := t.Drain.At + c.P; {
	case unserving > min(last, end) && unserving-unsure < min(last, end):
		g.doubt("`serving` of %s was seen false at %s, by a watch that had been away for %s", name, relative(unserving, t), ms(unsure))
	case unserving == 0 || unserving >= last || unserving > end+t.Drain.Err:
	case unserving <= end-t.Drain.Err:
		g.late(c, unserving, name, "", "`serving` went false at %s, and the pod accepted until D + %s", relative(unserving, t), ms(last-t.Drain.At))
	default:
		g.doubt("`serving` of %s went false within the uncertainty of D + P (±%s, %s)", name, ms(t.Drain.Err), t.Drain.Source)
	}
}

// unreadyBefore judges one life of an instance's endpoint: it does not say serving when
// the listener is gone (0: nobody saw it go).
func (g *gather) unreadyBefore(c Case, t Ending, life []endpointState, closed time.Duration) {
	name := seat{MainService, life[0].family}.name(t)
	if closed == 0 {
		g.doubt("nobody saw the listener of %s go", name)
		return
	}
	i := slices.IndexFunc(life, func(s endpointState) bool { return s.at > closed })
	if i < 0 {
		i = len(life)
	}
	switch {
	case i == 0:
		g.doubt("no EndpointSlice showed %s before its listener went", name)
	case life[i-1].unserving():
	case watchGap(c.Timeline, "endpointslices") != "":
		// What was not seen may have been in the gap.
	case i < len(life) && life[i].unserving() && life[i].at-life[i].err <= closed:
		g.doubt("the listener of %s went at %s, and `serving` was seen false %s later, by a watch that had been away for %s", name, relative(closed, t), ms(life[i].at-closed), ms(life[i].err))
	default:
		when := "while `serving` was never seen false"
		if after := firstUnserving(life, closed); after != 0 {
			when = fmt.Sprintf("%s before `serving` was false", ms(after-closed))
		}
		g.late(c, closed, name, "", "the listener went at %s, %s", relative(closed, t), when)
	}
}

// endpointState is the conditions of an endpoint from an instant on.
type endpointState struct {
	at                          time.Duration
	err                         time.Duration // how much earlier it may have been
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

// MainService is the Service that "the" endpoint of a pod is of: a pod has one
// endpoint for each Service that selects it.
const MainService = "echo"

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
				at: e.At, err: e.Err, ready: e.Attrs["ready"] == "true",
				serving: e.Attrs["serving"] == "true", terminating: e.Attrs["terminating"] == "true",
				family: e.Attrs["family"],
			})
		case timeline.EndpointGone:
			out = append(out, endpointState{at: e.At, err: e.Err, gone: true, family: e.Attrs["family"]})
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

// unserving says whether nobody is sent there who looks for an endpoint that serves.
func (s endpointState) unserving() bool { return s.gone || !s.serving }

// firstUnserving is when `serving` was first seen to go false after an instant; 0: never.
func firstUnserving(states []endpointState, from time.Duration) time.Duration {
	for _, s := range states {
		if s.at >= from && s.unserving() {
			return s.at
		}
	}
	return 0
}

// watchGap says why transitions of a resource may be missing; "" if none are.
func watchGap(tl *timeline.Timeline, resource string) string {
	for _, e := range tl.EventsOf(timeline.WatchGap, resource) {
		return e.Attrs["why"]
	}
	return ""
}
