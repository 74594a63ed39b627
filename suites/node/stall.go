// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "node.stall",
	Title: "A node proxy that stands still for two seconds loses nothing: what is sent meanwhile waits, and is answered when it goes on",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "project", Section: "disruptions of node proxies",
		Quote: "A node proxy that stands still for a moment loses nothing: its kernel takes what comes, and it serves that when it goes on.",
	}, {
		Doc: "RFC 9113", Section: "section 6.7", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-6.7",
		Quote: "The PING frame (type=0x06) is a mechanism for measuring a minimal round-trip time from the sender, as well as determining whether an idle connection is still functional.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE, spec.Bench},

	Why:    "A process stands still when its node has no CPU for it, when its machine is moved or its memory is swapped in, and when its limit of CPU is used up. Its kernel goes on: connections are made, and what is sent is kept. All of it can be served a moment later, and is lost only to who goes by a clock alone.",
	Causes: "Timers that ran out meanwhile are looked at before the sockets are read: the answer to a PING is there, and its tunnel is ended because none has come. Peers, or an agent, that give up within a second or two.",
	Fix:    "Read what is there before a timer counts, or start the timer anew when the process has stood still. Give keepalives and acknowledgements more time than a busy machine may take.",

	Topology:   behaviour.Staying,
	Disrupt:    behaviour.RestartInPlace,
	Traffic:    crossing,
	Checks:     []assertions.Check{StallUnfelt()},
	BrokenBy:   []spec.Fault{nodeproxy.TakesStallForSilence},
	Resolution: 60 * time.Millisecond,
})

// stalledFor is how long behind a stall what waited is answered, and new connections are as ever.
const stalledFor = 3 * time.Second

// StallUnfelt judges what passes while a node's proxy stands still, and shortly behind that.
func StallUnfelt() assertions.Check {
	stood := assertions.Floor{Name: "node proxies that stood still, and went on", N: 1, Reason: "a node has one"}
	waited := assertions.Floor{Name: "requests to workloads of the node, or from them, that waited until it went on", N: 50, Reason: "some 90 begin each second; without them it never stood still"}
	return assertions.Check{
		Name:     "requests while a node's proxy stands still",
		Expected: fmt.Sprintf("none fails of those that were under way, of those that begin meanwhile, and of those that begin within %s behind that", stalledFor),
		Floors:   []assertions.Floor{stood, waited},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			on := nodesOf(c)
			all, total, n := awayIn(c, byStall), 0, 0
			for _, a := range all {
				tally.Span(a.killed, a.back+stalledFor)
				for _, s := range c.Timeline.Samples {
					if s.End < a.killed || s.Start > a.back+stalledFor {
						continue
					}
					total++
					switch uid := s.Stream.Target(); {
					case s.Failed():
						tally.Failed(c, s, s.End, uid, "%s after %s stood still, and %s after it went on", short(s.End-a.killed), a.name, short(s.End-a.back))
					case on[uid] == a.node && s.Start < a.back-stalledLeast && s.Start >= a.killed && s.End >= a.back:
						n++
					}
				}
			}
			tally.Count(stood, len(all))
			tally.Count(waited, n)
			return tally.Conclude(
				fmt.Sprintf("none of %d requests failed, %d of which waited until the proxy went on", total, n),
				fmt.Sprintf("%d of %s failed while a node's proxy stood still, or just behind that", tally.Culprits(), assertions.Plural(total, "request", "requests")))
		},
	}
}

// stalledLeast is how long a request has waited at least that counts as one that did.
const stalledLeast = 200 * time.Millisecond
