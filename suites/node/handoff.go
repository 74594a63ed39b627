// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"strconv"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/fixtures/redirect"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "node.handoff",
	Title: "While a node proxy is replaced there is no instant without a listener: of connections a millisecond apart none fails",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Quote: "In a restart there is no instant without a listener; the old one stops accepting only when the new one is ready (1 ms connects).",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE, spec.Knocks},

	Why:    "All that the apps of a node send out, and all that comes in for them, goes to ports of its proxy. Where nobody listens for some milliseconds, each connection of that time is refused or reset, on every pod of the node, at each update of the mesh; too seldom to be seen in a test with ten requests a second, and each day on a large cluster.",
	Causes: "The old proxy closes its ports before the new one has opened its own. It closes them while connections wait there that it has not accepted, or whose handshake is not over: the kernel resets these. It takes connections, and drops those that lead nowhere yet when its drain begins.",
	Fix:    "Open the ports of the new proxy beside the old one's (SO_REUSEPORT), and close the old ones when both are there, with net.ipv4.tcp_migrate_req=1 in the workload's network, so that what waits goes to the new one; or hand the listening sockets over. Serve what was accepted until it leads somewhere.",

	Topology:   behaviour.Staying,
	Disrupt:    behaviour.ReplaceProxies,
	Traffic:    through,
	Checks:     []assertions.Check{NoneKnocksInVain()},
	BrokenBy:   []spec.Fault{nodeproxy.StopsFirst, nodeproxy.StopsInboundFirst},
	Resolution: time.Millisecond,
})

// What counts of the connections around a handoff: from so long before its proxy is told to go until so long behind it.
const (
	knockedBefore = 1250 * time.Millisecond
	knockedAfter  = 1750 * time.Millisecond
)

// NoneKnocksInVain judges the connections, a millisecond apart, to the ports of a workload whose node's proxy is replaced.
func NoneKnocksInVain() assertions.Check {
	answered := assertions.Floor{Per: "proxy and port", Name: "connections to that port of a workload around the handoff", N: 2500, Reason: "a millisecond apart, for 3 s, of which a busy machine lets some fall out"}
	plain := assertions.Floor{Per: "proxy", Name: "connections to a workload without a tunnel around the handoff", N: 600, Reason: "four milliseconds apart, for 3 s"}
	return assertions.Check{
		Name:     "connections a millisecond apart around a handoff",
		Expected: "each is accepted and answered: at the port for tunnels in TLS, without a tunnel by the server that is dialled, in the workload from outside of the mesh, and from within the workload elsewhere",
		Floors:   []assertions.Floor{replacedFloor, answered, plain},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all := replacedIn(c)
			tally.Count(replacedFloor, seenGone(all))
			total, lost := 0, 0
			var longest time.Duration
			for _, r := range all {
				near, to := r.told-knockedBefore, r.told+knockedAfter
				from := min(r.beside, near)
				tally.Span(from, to)
				n := map[string]int{} // by port, of those around it
				sum := 0
				for _, e := range c.Timeline.Events {
					if e.Node != r.node || e.At < from {
						continue
					}
					switch e.Kind {
					case timeline.Knocks:
						if e.At > to+toldEvery {
							continue
						}
						if some, err := strconv.Atoi(e.Attrs["n"]); err == nil {
							sum += some
							if e.At >= near {
								n[e.Attrs["port"]] += some
							}
						}
						if took, err := time.ParseDuration(e.Attrs["longest"]); err == nil {
							longest = max(longest, took)
						}
					case timeline.KnockFailed:
						// It is told of when it is given up: what nobody answers, seconds after it began.
						took, err := time.ParseDuration(e.Attrs["took"])
						if err != nil {
							tally.Doubt("a connection that failed says that it took %q: %v", e.Attrs["took"], err)
						}
						began := e.At - took
						if began < from || began > to {
							continue
						}
						sum++
						if began >= near {
							n[e.Attrs["port"]]++
						}
						lost++
						text := fmt.Sprintf("%s: port %s of %s, after %s: %s", beside(all, began), e.Attrs["port"], e.Name, e.Attrs["took"], e.Attrs["why"])
						if took >= hangs {
							tally.Late(c, began, r.proxy, "", "%s", text)
						} else {
							tally.Against(began, r.proxy, "", "%s", text)
						}
					}
				}
				total += sum
				tally.Least(plain, r.proxy, n[inboundPort])
				for _, port := range []string{strconv.Itoa(redirect.TunnelPort), strconv.Itoa(redirect.OutboundPort)} {
					tally.Least(answered, r.proxy+", port "+port, n[port])
				}
			}
			return tally.Conclude(
				fmt.Sprintf("none of %d connections around %s failed; the longest took %s", total, assertions.Plural(len(all), "handoff", "handoffs"), longest.Round(time.Millisecond)),
				fmt.Sprintf("%d of %d connections around %s failed", lost, total, assertions.Plural(len(all), "handoff", "handoffs")))
		},
	}
}

// inboundPort is where a node's proxy takes connections to a workload that are in no tunnel.
var inboundPort = strconv.Itoa(redirect.InboundPort)

// hangs is how long a connection that fails takes where nobody has answered it at all. Everything else is an answer
// that no lack of CPU makes.
const hangs = time.Second

// toldEvery is how long after an answer it is told of.
const toldEvery = 100 * time.Millisecond
