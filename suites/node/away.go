// SPDX-License-Identifier: Apache-2.0

package node

import (
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// crossing is what passes through node proxies, one of which is killed: through them, and in tunnels of our own
// client's, to each instance and from it.
var crossing = []load.Profile{
	{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 30},
	{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Slow, Takes: 2 * time.Second}, Rate: 6},
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 15},
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.New, Op: flow.Get}, Rate: 15},
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.Reused, Op: flow.Slow, Takes: 2 * time.Second}, Rate: 2},
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.New, Op: flow.Idle, Takes: 20 * time.Second}, Rate: 1},
	{Flow: flow.Flow{Path: flow.Outbound, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 15},
	{Flow: flow.Flow{Path: flow.Outbound, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Slow, Takes: 800 * time.Millisecond}, Rate: 2},
}

// manner is how a node's proxy, or its agent, comes to be away, and which events (NodeProxy, NodeAgent) say so.
type manner struct {
	who string // "proxy" or "agent"
	of  timeline.EventKind
	// is begins it. started: the next one's process began; back: it serves, as far as it says so.
	is, started, back string
	// was is what it was, and at what that was.
	was, at string
}

var (
	byKill      = manner{"proxy", timeline.NodeProxy, timeline.NodeProxyKilled, timeline.NodeProxyStarts, timeline.NodeProxyServes, "killed", "the SIGKILL"}
	byExit      = manner{"proxy", timeline.NodeProxy, timeline.NodeProxyGone, timeline.NodeProxyStarts, timeline.NodeProxyServes, "gone", "its end"}
	byStall     = manner{"proxy", timeline.NodeProxy, timeline.NodeProxyStopped, "", timeline.NodeProxyContinues, "stopped", "the SIGSTOP"} // and it is the same one that goes on
	agentKilled = manner{"agent", timeline.NodeAgent, timeline.NodeAgentKilled, timeline.NodeAgentStarts, timeline.NodeAgentStarts, "killed", "the SIGKILL"}
	agentTold   = manner{"agent", timeline.NodeAgent, timeline.NodeAgentTold, timeline.NodeAgentStarts, timeline.NodeAgentStarts, "told to go", "the word to it"}
)

// away is a node's proxy, or its agent, that was away until another one was there, or it went on itself.
type away struct {
	manner

	name, node string
	// killed: or whatever began it; started and back: as the manner has them.
	killed, started, back time.Duration
}

// awayIn are those of a recording that were away in one of some manners, and came back.
func awayIn(c assertions.Case, by ...manner) []away {
	var out []away
	for _, m := range by {
		var open []away
		for _, e := range c.Timeline.EventsOf(m.of, "") {
			is := e.Attrs["is"]
			if is == m.is {
				open = append(open, away{manner: m, name: e.Name, node: e.Node, killed: e.At})
				continue
			}
			i := slices.IndexFunc(open, func(a away) bool { return a.node == e.Node })
			if i < 0 {
				continue
			}
			if is == m.started {
				open[i].started = e.At
			}
			if is == m.back {
				open[i].back = e.At
				out = append(out, open[i])
				open = slices.Delete(open, i, i+1)
			}
		}
	}
	slices.SortFunc(out, func(a, b away) int { return int(a.killed - b.killed) })
	return out
}

// floor is that of proxies that were away so.
func (m manner) floor() assertions.Floor {
	return assertions.Floor{Name: "node proxies that were " + m.was + ", and of which another one came", N: 1, Reason: "a node has one"}
}

// awayFloor is that of all who were killed.
var awayFloor = assertions.Floor{Name: "node proxies and agents that were killed, and of which another one came", N: 2, Reason: "a node's proxy, and then its agent"}

// during says whether an instant is one at which it was away.
func (a away) during(at time.Duration) bool { return at >= a.killed && at < a.started }

// when says where an instant is on its way. An agent says nothing when it serves.
func (a away) when(at time.Duration) string {
	switch {
	case at >= a.back && a.back > a.started:
		return short(at-a.back) + " after the next one said that it serves"
	case at >= a.started:
		return short(at-a.started) + " after the next one was started"
	case at >= a.killed:
		return short(at-a.killed) + " after " + a.at
	}
	return short(a.killed-at) + " before " + a.at
}

func short(d time.Duration) string { return d.Round(time.Millisecond).String() }

// deleted is when each pod was deleted that was, by its UID.
func deleted(c assertions.Case) map[string]time.Duration {
	out := map[string]time.Duration{}
	for _, e := range c.Timeline.EventsOf(timeline.PodDeletion, "") {
		out[e.Subject] = e.At
	}
	return out
}
