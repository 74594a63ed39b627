// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "node.plain-tcp-end",
	Title: "A client without a tunnel sees the end of its connections when the workload is gone, and does not hang",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "project", Quote: "A peer without HBONE sees FIN or RST when the workload's interface goes, and does not hang.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE, spec.HTTP1, spec.TCP, spec.WebSocket, spec.Bench},

	Why:    "Not everybody who calls a workload is in the mesh: a monitoring system, an ingress, a database's replica. What they have open to it ends in the node's proxy, which stays when the workload has gone. A client that hears neither FIN nor RST before the interface goes has a connection to nobody: it waits for an answer until a timeout of its own, and where it has none, for ever.",
	Causes: "An app that was killed at the end of its grace period leaves connections open, which its kernel ends in the proxy, and not at the client. The proxy hands that on late, or drops its half of the connection together with the workload's network, from where nothing goes out any more.",
	Fix:    "Hand the end of one half on to the other at once; when the workload is removed, reset what still stands before you acknowledge that.",

	Topology: behaviour.Plain,
	Disrupt:  behaviour.EndBoth,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 20},
		// These last for longer than their app has.
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.TCP, Conns: flow.New, Op: flow.Talk, Takes: outlives}, Rate: 2},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.WebSocket, Takes: outlives}, Rate: 1},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Slow, Takes: outlives}, Rate: 2},
	},
	Checks:     []assertions.Check{PlainEndsAreSeen()},
	BrokenBy:   []spec.Fault{nodeproxy.KeepsPlain},
	Resolution: 60 * time.Millisecond,
})

// outlives is longer than the grace period of who is ended, and seenWithin is how long after the interface of a
// workload its clients may see the end of their connections: it was on its way before.
const (
	outlives   = 15 * time.Second
	seenWithin = 500 * time.Millisecond
	// withExit is how long before a process's end is seen its sockets may have been closed: its kernel does that first, and
	// who waits for the process may have to wait for a core.
	withExit = 100 * time.Millisecond
)

// PlainEndsAreSeen judges the connections without a tunnel that stood when the app had exited.
func PlainEndsAreSeen() assertions.Check {
	stood := assertions.Floor{Per: "termination", Name: "connections without a tunnel that stood when the app had exited", N: 10,
		Reason: "5 begin each second that are to last for longer than the app does",
	}
	return assertions.Check{
		Name:     stood.Name,
		Expected: fmt.Sprintf("the client of each sees its end, by FIN or RST, %s after the workload's interface has gone at the latest", seenWithin),
		Floors:   []assertions.Floor{stood},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all := 0
			var last time.Duration // from the app's exit
			for t := range tally.Terminations(c) {
				if !t.Exit.Known() || !t.Net.Known() {
					tally.Doubt("%s: nobody saw when its app had exited, or when its interface went", t.Name)
					continue
				}
				tally.Span(t.Exit.At-t.Exit.Err, t.Net.At+seenWithin)
				n := 0
				for _, s := range c.Timeline.Samples {
					f := s.Stream.Flow()
					if f.Path != flow.Direct || f.Protocol.Tunnels() || s.Stream.Target() != t.UID || !s.Failed() {
						continue
					}
					// An answer had begun, and its end was not to come before the app's.
					if s.First == 0 || s.First >= t.Exit.At || s.End < t.Exit.At-t.Exit.Err-withExit {
						continue
					}
					n++
					switch {
					case s.Outcome == timeline.Timeout:
						tally.Late(c, t.Net.At+seenWithin, t.Name, s.ID, "%s: %s had seen no end, and gave up %s after the interface had gone", t.Clock(s.End), s.Stream.Kind(), (s.End - t.Net.At).Round(time.Millisecond))
					case s.End > t.Net.At+t.Net.Err+seenWithin:
						tally.Late(c, t.Net.At+seenWithin, t.Name, s.ID, "%s: %s saw its end %s after the interface had gone", t.Clock(s.End), s.Stream.Kind(), (s.End - t.Net.At).Round(time.Millisecond))
					default:
						last = max(last, s.End-t.Exit.At)
					}
				}
				all += n
				tally.Least(stood, t.Name, n)
			}
			return tally.Conclude(
				fmt.Sprintf("the clients of all %d saw their ends, the last one %s after the exit", all, last.Round(time.Millisecond)),
				fmt.Sprintf("the clients of %d of %d did not see their ends", tally.Culprits(), all))
		},
	}
}
