// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/cni"
	"github.com/lastcall-dev/lastcall/fixtures/nodeagent"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/fixtures/redirect"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
	"github.com/lastcall-dev/lastcall/suites/tunnel"
)

var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "node.enrol-while-down",
	Title: "A pod that begins while its node's proxy or agent is away waits until it is served, and never runs without",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Quote: "A pod that starts while the proxy is down stalls, then works; it never runs unproxied.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE, spec.Bench},

	Why:    "Pods are placed on a node whether its proxy runs or not: a node that was just made, or whose proxy was killed, is where they come first. What such a pod's app sends out before anybody carries it goes out in plain text, past all that the mesh promises, and its peers see somebody without an identity. Nobody is told: all requests are served.",
	Causes: "A plugin or an agent that takes a proxy which does not answer for a mesh that is not there, and lets the pod begin. Rules that are written when the proxy has taken the pod, and an ADD that does not wait for that.",
	Fix:    "Write the rules first. Have ADD succeed when the proxy has acknowledged the pod, and fail when that takes too long: the runtime begins the pod again.",

	Topology:   behaviour.Staying,
	Disrupt:    behaviour.CrashNode,
	Traffic:    crossing,
	Checks:     []assertions.Check{ServedOrNotBegun(), NewcomersAreMeshed()},
	BrokenBy:   []spec.Fault{nodeagent.LetsThrough, nodeproxy.NewcomersOnly, cni.FailsOpen, nodeproxy.PassesAtFirst},
	Resolution: 60 * time.Millisecond,
})

// newcomer is a pod whose network was first to begin while its node's proxy or agent was away.
type newcomer struct {
	uid, name string
	ips       []string
	adds      []timeline.Event // timeline.CNIAdd
}

// taken is the ADD that succeeded.
func (n newcomer) taken() (timeline.Event, bool) {
	i := slices.IndexFunc(n.adds, func(e timeline.Event) bool { return e.Attrs["error"] == "" })
	if i < 0 {
		return timeline.Event{}, false
	}
	return n.adds[i], true
}

// newcomers are those of a time at which somebody was away.
func newcomers(c assertions.Case, a away) []newcomer {
	var out []newcomer
	for _, e := range c.Timeline.EventsOf(timeline.CNIAdd, "") {
		if i := slices.IndexFunc(out, func(n newcomer) bool { return n.uid == e.Subject }); i >= 0 {
			out[i].adds = append(out[i].adds, e)
			continue
		}
		took, err := time.ParseDuration(e.Attrs["took"])
		if e.Node == a.node && err == nil && a.during(e.At-took) {
			out = append(out, newcomer{uid: e.Subject, name: e.Name, ips: strings.Fields(e.Attrs["ips"]), adds: []timeline.Event{e}})
		}
	}
	return out
}

// newcomerFloor is that of pods that began.
var newcomerFloor = assertions.Floor{Per: "who was away", Name: "pods of the node that were first to begin meanwhile", N: 1, Reason: "one replaces a pod that is deleted"}

// takenWithin is how long after who was away is back a pod that waits may wait still. Where an ADD has failed just
// before, the runtime calls the next one a second later.
const takenWithin = 4 * time.Second

// ServedOrNotBegun judges the begin of pods whose node's proxy or agent is away.
func ServedOrNotBegun() assertions.Check {
	return assertions.Check{
		Name: "ADD of pods whose node's proxy or agent is away",
		Expected: fmt.Sprintf("it does not succeed before both are there; when it does, the pod's connections are redirected, and somebody listens for them; that is so %s after who was away is back",
			takenWithin),
		Floors: []assertions.Floor{awayFloor, newcomerFloor},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all := awayIn(c, byKill, agentKilled)
			tally.Count(awayFloor, len(all))
			said := ""
			total, tries, wrong := 0, 0, 0
			for _, a := range all {
				some := newcomers(c, a)
				tally.Least(newcomerFloor, a.name, len(some))
				for _, n := range some {
					total++
					tries += len(n.adds)
					before := tally.Culprits()
					e, is := n.taken()
					tally.Span(a.killed, max(e.At, a.back))
					switch {
					case !is:
						wrong++
						tally.Against(n.adds[len(n.adds)-1].At, n.name, "", "the %s was away: %s never began: %s", a.who, n.name, n.adds[len(n.adds)-1].Attrs["error"])
						continue
					case e.At < a.started:
						tally.Against(e.At, n.name, "", "the %s was away: ADD of %s succeeded %s, and the next one was started %s later", a.who, n.name, a.when(e.At), short(a.started-e.At))
					case e.At > a.back+takenWithin:
						tally.Late(c, e.At, n.name, "", "the %s was away: ADD of %s succeeded %s", a.who, n.name, a.when(e.At))
					}
					held, looked := e.Attrs["held"]
					if !looked || e.Attrs["redirects"] == "" {
						tally.Doubt("the %s was away: nobody looked at the network of %s when its ADD had succeeded", a.who, n.name)
					}
					if e.Attrs["redirects"] == "false" {
						tally.Against(e.At, n.name, "", "the %s was away: when ADD of %s had succeeded nothing redirected its connections", a.who, n.name)
					}
					if without := unserved(held); looked && without != "" {
						tally.Against(e.At, n.name, "", "the %s was away: when ADD of %s had succeeded nobody listened on %s", a.who, n.name, without)
					}
					if tally.Culprits() > before {
						wrong++
					}
					said += fmt.Sprintf("; the %s was away: ADD was over %s, and the app ready %s later", a.who, a.when(e.At), short(ready(c, n.uid)-e.At))
				}
			}
			return tally.Conclude(
				fmt.Sprintf("%s not begun before all were there, in %s", assertions.Plural(total, "pod was", "pods were"), assertions.Plural(tries, "ADD", "ADDs"))+said,
				fmt.Sprintf("%d of %s began before somebody served it, or long after that, or never", wrong, assertions.Plural(total, "pod", "pods"))+said)
		},
	}
}

// ready is when an instance was first ready.
func ready(c assertions.Case, uid string) time.Duration {
	for _, e := range c.Timeline.EventsOf(timeline.PodReady, uid) {
		if e.Attrs["ready"] == "true" {
			return e.At
		}
	}
	return 0
}

// unserved are the ports of the mesh's in a pod on which nobody listens, by the sockets that somebody holds there.
func unserved(held string) string {
	var out []string
	for _, port := range []uint16{redirect.OutboundPort, redirect.InboundPort, redirect.TunnelPort} {
		listens := func(word string) bool {
			return strings.HasPrefix(word, "listening@") && strings.HasSuffix(word, ":"+strconv.Itoa(int(port)))
		}
		if !slices.ContainsFunc(strings.Fields(held), listens) {
			out = append(out, strconv.Itoa(int(port)))
		}
	}
	return strings.Join(out, ", ")
}

// NewcomersAreMeshed judges what such pods send out and what reaches them, as their apps have it and as the wire has.
func NewcomersAreMeshed() assertions.Check {
	out := assertions.Floor{Per: "pod", Name: "connections that its app made", N: 30, Reason: "15 a second, from when it is ready until the end"}
	in := assertions.Floor{Per: "pod", Name: "requests through the Service that it answered", N: 10, Reason: "a fourth of 36 a second"}
	tunnels := assertions.Floor{Per: "pod", Name: "tunnels to it or from it that the wire had", N: 1, Reason: "it shows that what passes is seen; a pool needs few of them"}
	return assertions.Check{
		Name:     "what pods send out and answer that began while their node's proxy or agent was away",
		Expected: "each connection of their apps is served, from the first one on, and to them and from them nothing passes on the wire but tunnels",
		Floors:   []assertions.Floor{awayFloor, newcomerFloor, out, in, tunnels},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all := awayIn(c, byKill, agentKilled)
			tally.Count(awayFloor, len(all))
			total, sum := 0, 0
			for _, a := range all {
				some := newcomers(c, a)
				tally.Least(newcomerFloor, a.name, len(some))
				for _, n := range some {
					total++
					tally.Span(a.killed, c.Tail)
					made, answered, seen := 0, 0, 0
					for _, s := range c.Timeline.Samples {
						switch {
						case s.Stream.Flow().Path == flow.Outbound && s.Stream.Target() == n.uid:
							made++
							if s.Failed() {
								tally.Failed(c, s, s.Start, n.name, "the %s was away when it was to begin: %s", a.who, a.when(s.Start))
							}
						case s.Server == n.uid && s.Stream.Flow().Path == flow.Service:
							answered++
						}
					}
					for _, e := range c.Timeline.EventsOf(timeline.Wire, "") {
						from, to := e.Attrs["from"], e.Attrs["to"]
						if e.Attrs["what"] != timeline.WireDialled || e.At < a.killed || !at(from, n.ips) && !at(to, n.ips) { // or another one had its address
							continue
						}
						if tunnel.Takes(to) {
							seen++
							continue
						}
						tally.Against(e.At, n.name, "", "the %s was away when it was to begin: %s, a connection without a tunnel from %s to %s", a.who, a.when(e.At), from, to)
					}
					tally.Least(out, n.name, made)
					tally.Least(in, n.name, answered)
					tally.Least(tunnels, n.name, seen)
					sum += made + answered
				}
			}
			tally.SeenWire(c)
			return tally.Conclude(
				fmt.Sprintf("all %d connections and requests of %s went through tunnels", sum, assertions.Plural(total, "pod", "pods")),
				fmt.Sprintf("%s made without a tunnel, or not served", assertions.Plural(tally.Culprits(), "connection was", "connections were")))
		},
	}
}
