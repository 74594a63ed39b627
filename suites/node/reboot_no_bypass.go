// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/cni"
	"github.com/lastcall-dev/lastcall/fixtures/nodeagent"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
	"github.com/lastcall-dev/lastcall/suites/tunnel"
)

var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "node.reboot-no-bypass",
	Title: "When a node restarts without a drain, nothing leaves its pods in plain text, whether its agent or its proxy is there first",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Quote: "A node that restarts without a drain (kubelet, runtime, node proxy and pods come up in any order): no connection of an enrolled pod ever leaves in plain text.",
	}, {
		Doc: "istio issue 59155", URL: "https://github.com/istio/istio/issues/59155",
		Quote: "workloads that were running on a node that gets rebooted without draining may start sending traffic directly to the destination service (plain TCP) instead of via HBONE (port 15008).",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "After a power cut a node's pods, its agent and its proxy are started all at once, and nobody says in which order. Each pod has a new network, without the rules and listeners of the last one, while the API server still has it as a pod of the mesh. One whose app begins before that is so again goes past the mesh, in some meshes for as long as it lives: all it calls is served where plain text is taken, and each look at the control plane says that it is well.",
	Causes: "A plugin that lets a pod begin when its agent does not answer, so as to be in nobody's way. An agent that takes pods without rules for pods that will be told of later, or the API server's word that a pod is enrolled for rules in its network. A proxy that passes what it can't place yet.",
	Fix:    "Have ADD fail until the rules are written and the proxy serves the pod: the kubelet tries again. Keep what is known of pods' networks where a restart takes it away with them (/run). In the proxy, ask for workloads when discovery has said all that it knows.",

	Topology: behaviour.Staying,
	Disrupt:  behaviour.RestartNode,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 20},
		{Flow: flow.Flow{Path: flow.Outbound, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 30},
	},
	Checks:     []assertions.Check{NothingLeavesInPlainText()},
	BrokenBy:   []spec.Fault{cni.FailsOpen, nodeagent.LetsThrough, nodeproxy.PassesAtFirst},
	Resolution: 60 * time.Millisecond,
})

// restart is one of a node's: from down on nothing of it runs, from up on it comes back, and it is over at until.
type restart struct {
	name, node      string
	down, up, until time.Duration
}

// restartsIn are those of a recording that came back, in their order.
func restartsIn(c assertions.Case) []restart {
	var out []restart
	last := map[string]int{} // of a node, from 1 on
	for _, e := range c.Timeline.EventsOf(timeline.NodeRestart, "") {
		at := last[e.Node]
		switch e.Attrs["is"] {
		case timeline.NodeDown:
			if at > 0 {
				out[at-1].until = e.At
			}
			out = append(out, restart{name: fmt.Sprintf("restart %d of %s", len(out)+1, e.Node), node: e.Node, down: e.At, until: math.MaxInt64})
			last[e.Node] = len(out)
		case timeline.NodeUp:
			if at > 0 {
				out[at-1].up = e.At
			}
		}
	}
	return slices.DeleteFunc(out, func(r restart) bool { return r.up == 0 })
}

// during says whether an instant is one from which on the node was coming back.
func (r restart) during(at time.Duration) bool { return at >= r.up && at < r.until }

// order says when the node's agent and its proxy were there.
func (r restart) order(c assertions.Case) string {
	var said []string
	for _, row := range []struct {
		kind      timeline.EventKind
		is, whose string
	}{
		{timeline.NodeAgent, timeline.NodeAgentStarts, "its agent was started"},
		{timeline.NodeProxy, timeline.NodeProxyStarts, "its proxy was started"},
		{timeline.NodeProxy, timeline.NodeProxyServes, "which served"},
	} {
		for _, e := range c.Timeline.EventsOf(row.kind, "") {
			if e.Node == r.node && e.Attrs["is"] == row.is && r.during(e.At) {
				said = append(said, row.whose+" after "+short(e.At-r.up))
				break
			}
		}
	}
	return strings.Join(said, ", ")
}

// startedFirst counts the restarts in which a node's agent, or its proxy, was started before the other one.
func startedFirst(c assertions.Case, all []restart, kind timeline.EventKind) int {
	n := 0
	for _, r := range all {
		i := slices.IndexFunc(c.Timeline.Events, func(e timeline.Event) bool {
			starts := e.Kind == timeline.NodeAgent && e.Attrs["is"] == timeline.NodeAgentStarts || e.Kind == timeline.NodeProxy && e.Attrs["is"] == timeline.NodeProxyStarts
			return starts && e.Node == r.node && r.during(e.At)
		})
		if i >= 0 && c.Timeline.Events[i].Kind == kind {
			n++
		}
	}
	return n
}

// again is a pod of the node that has begun again.
type again struct {
	uid, name string
	ips       []string
	at        time.Duration // from when on its app may run
}

// pods are those whose networks the runtime has begun (timeline.CNIAdd), or, where nobody knows of that, whose containers run.
func (r restart) pods(c assertions.Case) []again {
	var out []again
	begins := func(e timeline.Event, ips []string) {
		i := slices.IndexFunc(out, func(a again) bool { return a.uid == e.Subject })
		if i < 0 {
			out = append(out, again{uid: e.Subject, name: e.Name, ips: ips, at: e.At})
		}
	}
	addresses := map[string][]string{}
	for _, e := range c.Timeline.Events {
		if e.Node != r.node || !r.during(e.At) {
			continue
		}
		switch e.Kind {
		case timeline.PodSeen:
			addresses[e.Subject] = append(addresses[e.Subject], e.IPs()...)
		case timeline.CNIAdd:
			if e.Attrs["error"] == "" {
				begins(e, strings.Fields(e.Attrs["ips"]))
			}
		case timeline.PodContainer:
			if e.Attrs["state"] == "running" {
				begins(e, addresses[e.Subject])
			}
		}
	}
	return out
}

// firstOf is how much of an app's life its first calls are looked for in.
const firstOf = time.Second

// NothingLeavesInPlainText judges what apps of a node's pods send out that has restarted without a drain.
func NothingLeavesInPlainText() assertions.Check {
	restarted := assertions.Floor{Name: "restarts of a node without a drain, after which it came back", N: 2, Reason: "one in which its agent is there first, and one in which its proxy is"}
	agents := assertions.Floor{Name: "of these, restarts in which its agent was started first", N: 1, Reason: "a proxy that comes to an agent that knows its pods"}
	proxies := assertions.Floor{Name: "of these, restarts in which its proxy was started first", N: 1, Reason: "one that has nobody to tell it whom it serves"}
	pods := assertions.Floor{Per: "restart", Name: "pods of the node that began again", N: 1, Reason: "each of them may be the only one that goes past the mesh"}
	first := assertions.Floor{Per: "pod", Name: fmt.Sprintf("connections that its app made in the first %s of its life", firstOf), N: 5, Reason: "30 a second, from its start on"}
	served := assertions.Floor{Per: "pod", Name: "connections of its app that were served", N: 60, Reason: "30 a second, for 5 s at least"}
	tunnels := assertions.Floor{Per: "pod", Name: "tunnels from it that the wire had", N: 1, Reason: "it shows that what passes is seen; a pool needs few of them"}
	return assertions.Check{
		Name:     "what leaves the pods of a node that has restarted without a drain",
		Expected: "from the first moment of an app's life on, no connection of its pod leaves in plain text: it goes into a tunnel, or it fails",
		Floors:   []assertions.Floor{restarted, agents, proxies, pods, first, served, tunnels},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all := restartsIn(c)
			tally.Count(restarted, len(all))
			tally.Count(agents, startedFirst(c, all, timeline.NodeAgent))
			tally.Count(proxies, startedFirst(c, all, timeline.NodeProxy))
			total, passed, made, early, well := 0, 0, 0, 0, 0
			said := ""
			for _, r := range all {
				some := r.pods(c)
				tally.Span(r.down, min(r.until, max(r.up, c.Tail)))
				tally.Least(pods, r.name, len(some))
				said += fmt.Sprintf("; %s: %s", r.name, r.order(c))
				for _, p := range some {
					total++
					plain, last := 0, p.at
					n, atFirst, fine := 0, 0, 0
					for _, s := range c.Timeline.Samples {
						if s.Stream.Flow().Path != flow.Outbound || s.Stream.Target() != p.uid || !r.during(s.Start) {
							continue
						}
						n++
						if s.Start < p.at+firstOf {
							atFirst++
						}
						if !s.Failed() {
							fine++
						}
					}
					seen := 0
					for _, e := range c.Timeline.EventsOf(timeline.Wire, "") {
						from, to := e.Attrs["from"], e.Attrs["to"]
						if e.Attrs["what"] != timeline.WireDialled || !r.during(e.At) || !at(from, p.ips) {
							continue
						}
						if tunnel.Takes(to) {
							seen++
							continue
						}
						plain, last = plain+1, e.At
						tally.Certain(e.At, p.name, "", "%s: %s after the node was back, and %s after %s could begin, a connection in plain text from %s to %s",
							r.name, short(e.At-r.up), short(e.At-p.at), p.name, from, to)
					}
					tally.Least(first, p.name, atFirst)
					tally.Least(served, p.name, fine)
					tally.Least(tunnels, p.name, seen)
					made, early, well = made+n, early+atFirst, well+fine
					said += fmt.Sprintf(", %s could begin after %s", p.name, short(p.at-r.up))
					if plain > 0 {
						passed++
						said += fmt.Sprintf(" (%d in plain text, the last one %s later)", plain, short(last-p.at))
					}
				}
			}
			tally.SeenWire(c)
			return tally.Conclude(
				fmt.Sprintf("of %s that began again the apps made %d connections, %d of them in the first %s of their lives; %d were served, and none left in plain text",
					assertions.Plural(total, "pod", "pods"), made, early, firstOf, well)+said,
				fmt.Sprintf("%s left %d of %s that began again in plain text", assertions.Plural(tally.Culprits(), "connection", "connections"), passed, assertions.Plural(total, "pod", "pods"))+said)
		},
	}
}
