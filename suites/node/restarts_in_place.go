// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "node.restarts-in-place",
	Title: "A node proxy that is told to go with nobody beside it serves on up to its deadline, and connections fail from its end until the next one serves, and no longer",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "project", Quote: "At SIGTERM the old one looks for another listener in that namespace; without one it goes on accepting.",
	}, {
		Doc: "RFC 9113", Section: "section 6.8", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-6.8",
		Quote: "A server that is attempting to gracefully shut down a connection SHOULD send an initial GOAWAY frame with the last stream identifier set to 2^31-1 and a NO_ERROR code.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE, spec.Bench},

	Why:    "A DaemonSet without a surge deletes a node's proxy first, and starts the next one when it is gone. The apps of the node go on meanwhile, and nobody else serves them: a proxy that accepts nothing from SIGTERM on makes an outage of its whole drain of what need be one of a second or two.",
	Causes: "The proxy closes its listeners at SIGTERM, as a server does that a balancer takes out of turn: here there is no other one. It takes the empty node for a successor. It ends what runs at once, since the next one is to come soon.",
	Fix:    "Roll out with a surge (maxSurge: 1, maxUnavailable: 0). Where that can't be, have the proxy look at SIGTERM whether another one listens, and serve on until it does, or until the deadline; then cut what is left so that it shows, and go.",

	Topology:   behaviour.Staying,
	Disrupt:    behaviour.RestartInPlace,
	Traffic:    crossing,
	Checks:     []assertions.Check{ServesAlone(), TunnelsAreTold(1), OnlyTheGap(byExit)},
	BrokenBy:   []spec.Fault{nodeproxy.RefusesOnceTold, nodeproxy.CutsAtSigterm, datapath.TunnelsUntold, nodeproxy.ReadyEarly},
	Resolution: 60 * time.Millisecond,
})

// ServesAlone judges what a proxy has, and what it takes, that was told to go with nobody beside it.
func ServesAlone() assertions.Check {
	alone := assertions.Floor{Name: "node proxies that were told to go with nobody beside them, and were gone", N: 1, Reason: "a node has one"}
	fresh := assertions.Floor{Name: "new connections to workloads of the node, or from them, while its proxy went", N: 300, Reason: "some 90 a second, up to its deadline"}
	kept := assertions.Floor{Name: "requests that were under way when it was told to go, and ended behind that", N: 8, Reason: "some last for 2 s, to each instance of the node, from it and through the Service"}
	return assertions.Check{
		Name:     "requests while a node's proxy goes with nobody beside it",
		Expected: "none fails, neither of those that were under way nor of the new ones, up to the proxy's deadline; what it has then is cut so that it shows",
		Floors:   []assertions.Floor{alone, fresh, kept},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all, on, began := replacedIn(c), nodesOf(c), birthsIn(c)
			turns := turningsIn(c, all)
			total, lost, cut, opened, crossed, went := 0, 0, 0, 0, 0, 0
			for _, r := range all {
				if r.gone == 0 || !r.alone() {
					continue
				}
				went++
				until := min(r.gone, r.told+c.ProxyDeadline()) - around // its last moment is not judged: what comes then may meet its end
				tally.Span(r.told, r.gone)
				for _, s := range c.Timeline.Samples {
					if s.End < r.told || s.Start > until || turns.excuse(s) {
						continue
					}
					total++
					uid := s.Stream.Target()
					switch fateOf(&tally, c, all, s, began.of(s), uid, "") {
					case cutInTime:
						cut++
						continue
					case lostBefore:
						lost++
						continue
					}
					if on[uid] == r.node && s.Start >= r.told && s.Stream.Flow().Conns == flow.New && !s.Saturated {
						opened++
					}
					if s.Start < r.told && s.End > r.told+time.Second {
						crossed++
					}
				}
			}
			tally.Count(alone, went)
			tally.Count(fresh, opened)
			tally.Count(kept, crossed)
			return tally.Conclude(
				fmt.Sprintf("none of %d requests failed while a node's proxy went with nobody beside it; %d were cut at its deadline", total, cut),
				fmt.Sprintf("%d of %s failed while a node's proxy went with nobody beside it", lost, assertions.Plural(total, "request", "requests")))
		},
	}
}
