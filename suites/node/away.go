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

// manner is how a node's proxy comes to be away.
type manner struct {
	is  string // of which event (NodeProxy)
	was string // what it was
	at  string // what that was
}

var (
	byKill = manner{is: timeline.NodeProxyKilled, was: "killed", at: "the SIGKILL"}
	byExit = manner{is: timeline.NodeProxyGone, was: "gone", at: "its end"}
)

// away is a node's proxy that was killed, or its agent, until another one was there; or a proxy that has ended.
type away struct {
	// who is "proxy" or "agent", and name the name of the one that was killed.
	who, name, node string
	by              manner
	// killed: or has ended; started and back: when the next one's process began, and when it said that it serves, as far as it does.
	killed, started, back time.Duration
}

// awayIn are those of a recording that came back.
func awayIn(c assertions.Case, by manner) []away {
	var out []away
	for _, row := range []struct {
		who                   string
		kind                  timeline.EventKind
		killed, started, back string
	}{
		{"proxy", timeline.NodeProxy, by.is, timeline.NodeProxyStarts, timeline.NodeProxyServes},
		{"agent", timeline.NodeAgent, timeline.NodeAgentKilled, timeline.NodeAgentStarts, timeline.NodeAgentStarts},
	} {
		var open []away
		for _, e := range c.Timeline.EventsOf(row.kind, "") {
			is := e.Attrs["is"]
			if is == row.killed {
				open = append(open, away{who: row.who, by: by, name: e.Name, node: e.Node, killed: e.At})
				continue
			}
			i := slices.IndexFunc(open, func(a away) bool { return a.node == e.Node })
			if i < 0 {
				continue
			}
			if is == row.started {
				open[i].started = e.At
			}
			if is == row.back {
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
		return short(at-a.killed) + " after " + a.by.at
	}
	return short(a.killed-at) + " before " + a.by.at
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
