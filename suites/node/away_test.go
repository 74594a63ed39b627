// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// In the scenes node a's proxy is killed at D, and its agent when the proxy has been back for long. One pod of the
// node is deleted meanwhile each time, and one more begins.
const (
	killedAt      = scene.D
	startedAt     = scene.D + 5*time.Second
	servesAt      = scene.D + 5500*time.Millisecond
	agentKilledAt = scene.D + 20*time.Second
	agentBackAt   = scene.D + 30*time.Second
	sceneEnds     = scene.D + 40*time.Second
)

// The pods of the scenes: two are on node a and one is on b, and each of two is replaced by another.
const (
	stays, elsewhere    = scene.UID, scene.OtherUID
	goneFirst, newFirst = "uid-gone-first", "uid-new-first"
	goneLast, newLast   = "uid-gone-last", "uid-new-last"
)

// crash has who is away be away, where it is "proxy", "agent" or both.
func crash(s scene.Scene, who ...string) {
	s.Drop(func(e timeline.Event) bool { return e.Subject == scene.UID }) // it stays
	on := func(at time.Duration, kind timeline.EventKind, name, node string, attrs map[string]string) {
		s.Events = append(s.Events, timeline.Event{At: at, Source: "test", Kind: kind, Subject: name, Name: name, Node: node, Attrs: attrs})
	}
	for n, uid := range []string{stays, elsewhere, goneFirst, newFirst, goneLast, newLast} {
		node := "a"
		if uid == elsewhere {
			node = "b"
		}
		on(time.Duration(n), timeline.PodSeen, uid, node, map[string]string{"ip": fmt.Sprintf("10.0.0.%d", n+1), "node": node})
	}
	for _, w := range who {
		if w == "proxy" {
			on(killedAt, timeline.NodeProxy, "proxy-1", "a", map[string]string{"is": timeline.NodeProxyKilled})
			on(startedAt, timeline.NodeProxy, "proxy-2", "a", map[string]string{"is": timeline.NodeProxyStarts})
			on(servesAt, timeline.NodeProxy, "proxy-2", "a", map[string]string{"is": timeline.NodeProxyServes})
		} else {
			on(agentKilledAt, timeline.NodeAgent, "agent", "a", map[string]string{"is": timeline.NodeAgentKilled})
			on(agentBackAt, timeline.NodeAgent, "agent", "a", map[string]string{"is": timeline.NodeAgentStarts})
		}
	}
}

func both(s scene.Scene) { crash(s, "proxy", "agent") }

// dials adds requests of a stream, each 20 ms, from before the SIGKILL to the end: those to or from node a fail
// while it has no proxy. set may change each.
func dials(s scene.Scene, of flow.Flow, uid string, set func(*timeline.Sample)) {
	for at, n := killedAt-time.Second, 0; at < sceneEnds; at, n = at+20*time.Millisecond, n+1 {
		x := timeline.Sample{
			Stream: flow.To(of, uid), ID: fmt.Sprint(of, uid, n), Conn: uint64(n + 1), Nth: 1, Due: at, Start: at, Dial: at + 1, Sent: at + 1, First: at + 2, End: at + 3,
			Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: uid, Status: 200,
		}
		if uid != elsewhere && at >= killedAt && at < servesAt {
			x.Outcome, x.Phase = timeline.Refused, timeline.PhaseDial
		}
		if set != nil {
			set(&x)
		}
		s.Add(x)
	}
}
