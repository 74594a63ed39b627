// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// The time is the project's.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "node.leaves-when-done",
	Title: "A node proxy that is replaced leaves when its last stream has ended, whoever is connected and says nothing",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "project", Section: "node proxies",
		Quote: "A node proxy that is replaced leaves when nothing passes through it any more. Who is connected and has said nothing, not even in TLS, does not keep it.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "The next node of a roll-out waits for the proxy of this one. A connection that a port scan, a health check of a balancer, or a client that died has left open says nothing for ever: who waits for it takes its whole deadline, on each node, and two proxies' memory for as long.",
	Causes: "The proxy counts what it has accepted, and not what leads somewhere. A TLS handshake that nobody begins has no bound, or one that is as long as the deadline.",
	Fix:    "Give who is connected and says nothing a second or two from SIGTERM on, then close it; leave when the last stream, and with it the last tunnel, has ended.",

	Topology:   behaviour.StayingFew,
	Disrupt:    behaviour.ReplaceProxies,
	Traffic:    []load.Profile{whileGoing, unsaying},
	Checks:     []assertions.Check{LeavesWhenDone()},
	BrokenBy:   []spec.Fault{nodeproxy.KeptByMute},
	Resolution: 100 * time.Millisecond,
})

// whileGoing are requests of which some are under way at any instant, and unsaying connections on which nothing comes.
var (
	whileGoing = load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.Reused, Op: flow.Slow, Takes: 4 * time.Second}, Rate: 3}
	unsaying   = load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.New, Op: flow.Mute, Takes: 20 * time.Second}, Rate: 2}
)

// doneWithin is how long behind the end of the last stream that it had when it was told to go a proxy may be there: some more may have
// begun before its peers heard of that, which take a second longer.
const doneWithin = 4 * time.Second

// unsaidFor is how long before that a connection may have begun on which nothing has come, and which no server has given up yet.
const unsaidFor = 5 * time.Second

// LeavesWhenDone judges when node proxies that are replaced have gone, by the streams in their tunnels.
func LeavesWhenDone() assertions.Check {
	streams := assertions.Floor{Per: "proxy", Name: "requests in tunnels to its workloads that were under way when it was told to go", N: 5, Reason: "three begin in a second at each of them, and take four"}
	unsaid := assertions.Floor{Per: "proxy", Name: fmt.Sprintf("connections to its workloads' port for tunnels on which nothing came, begun in the last %s before", unsaidFor), N: 5, Reason: "two begin in a second at each of them; its successor has some"}
	return assertions.Check{
		Name:     "when node proxies that are replaced leave",
		Expected: fmt.Sprintf("%s behind the end of the last request that was under way when they were told to go at the latest, or at their deadline, where that is sooner", doneWithin),
		Floors:   []assertions.Floor{replacedFloor, streams, unsaid},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all, on := replacedIn(c), nodesOf(c)
			tally.Count(replacedFloor, seenGone(all))
			var longest time.Duration
			judged := 0
			for _, r := range all {
				some, n, mutes, done := false, 0, 0, r.told // some: our client dials somebody on its node
				for _, s := range c.Timeline.Samples {
					f := s.Stream.Flow()
					if !f.Protocol.Tunnels() || on[s.Stream.Target()] != r.node {
						continue
					}
					some = true
					switch {
					case s.Start >= r.told:
					case f.Op == flow.Mute && !s.Failed() && s.Start > r.told-unsaidFor: // it is over when it stands
						mutes++
					case f.Op == flow.Slow && s.End > r.told:
						n++
						done = max(done, s.End)
					}
				}
				if !some {
					continue // a cluster has such nodes
				}
				judged++
				tally.Least(streams, r.proxy, n)
				tally.Least(unsaid, r.proxy, mutes)
				if r.gone == 0 {
					continue // which the floor of those that went tells
				}
				tally.Span(r.told, r.gone)
				took := r.gone - done
				longest = max(longest, took)
				if took > doneWithin {
					tally.LateOn(c, r.node, r.gone, r.proxy, "", "it left %s behind the end of the last request that it had, %s after it was told to go", short(took), short(r.gone-r.told))
				}
			}
			proxies := assertions.Plural(judged, "node proxy", "node proxies")
			return tally.Conclude(
				fmt.Sprintf("all %s had gone %s behind the end of the last request that each had", proxies, short(longest)),
				fmt.Sprintf("%d of %s stayed when they had nothing left to do", tally.Culprits(), proxies))
		},
	}
}
