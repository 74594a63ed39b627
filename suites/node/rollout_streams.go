// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// streamTakes is how long a long stream is: longer than the proxies' deadline, so that some are cut at it and
// others, which end before it, are not.
const streamTakes = 20 * time.Second

var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "node.rollout-streams",
	Title: "A roll-out of the node proxies under load fails no request and ends no long stream before a proxy's deadline, nor then without a word",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Section: "after RFC 9113, section 6.8", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-6.8",
		Quote: "In a rolling restart of the node proxies no request fails; no stream ends before the proxy's drain deadline, and each that is cut at it is cut visibly.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HTTP1, spec.TCP, spec.WebSocket, spec.GRPC},

	Why:    "A node proxy carries the chats, watches and uploads of all apps on its node. Its update is nothing that any of these apps asked for, or hears of; a proxy that ends them by a timer of its own cuts them all at once, and all of them come back at once.",
	Causes: "The proxy ends what passes through it by a timer that is shorter than its deadline, or by none. It closes a connection that it gives up as if it were whole, so that half a file looks like all of it. It waits for the end of what never ends, and is killed with it.",
	Fix:    "Let each connection that the old proxy has end by itself, and cut what is left at its deadline, a little before its grace period ends: by RST to the app, and by RST_STREAM in the tunnel.",

	Topology: behaviour.Restreaming,
	Disrupt:  behaviour.ReplaceProxies,
	// 500 requests a second, and 200 streams at once.
	Traffic: slices.Concat(behaviour.FiveHundred, []load.Profile{
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.TCP, Conns: flow.New, Op: flow.Talk, Takes: streamTakes}, Rate: 4},
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.WebSocket, Takes: streamTakes}, Rate: 3},
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.H2C, Conns: flow.Shared, Op: flow.Bidi, Takes: streamTakes}, Rate: 3},
	}),
	Checks:     []assertions.Check{NoneFailsMeanwhile(), StreamsOutlast(), NoneIsKilled()},
	BrokenBy:   []spec.Fault{nodeproxy.CutsEarly, datapath.NeverCuts},
	Resolution: 60 * time.Millisecond,
})

// StreamsOutlast judges the long streams that were under way while node proxies were replaced: each came to its own
// end, or was cut at the deadline of a proxy, so that it shows.
func StreamsOutlast() assertions.Check {
	atOnce := assertions.Floor{Per: "proxy", Name: "long streams under way when the proxy was told to go", N: 150}
	passed := assertions.Floor{Name: "of all of them, those that came to their own end before that proxy was gone", N: 20, Reason: "some 10 end each second, and a drain takes 12 s"}
	return assertions.Check{
		Name:     "long streams that were under way while node proxies were replaced",
		Expected: "each comes to its own end, whole, or is cut at a proxy's deadline, and its client sees that",
		Floors:   []assertions.Floor{replacedFloor, atOnce, passed},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all := replacedIn(c)
			tally.Count(replacedFloor, seenGone(all))
			from, to := meanwhile(c, all)
			began := birthsIn(c)
			tally.Span(from, to)
			total, ended, within, cut, lost := 0, 0, 0, 0, 0
			standing := make([]int, len(all))
			for _, s := range c.Timeline.Samples {
				if f := s.Stream.Flow(); f.Path != flow.Service || f.Takes < streamTakes || s.End < from || s.Start > to {
					continue
				}
				total++
				drained := false // it ended while a proxy drained in which it may have been
				for i, r := range all {
					if s.Start < r.told && s.End > r.told {
						standing[i]++
						drained = drained || s.End < r.gone
					}
				}
				first := fmt.Sprintf("%s after it began, and ", (s.End - s.Start).Round(time.Millisecond))
				switch fateOf(&tally, c, all, s, began.of(s), s.Reached, first) {
				case served:
					ended++
					if drained {
						within++
					}
				case cutInTime:
					cut++
				case lostBefore:
					lost++
				}
			}
			for i, r := range all {
				tally.Least(atOnce, r.proxy, standing[i])
			}
			tally.Count(passed, within)
			return tally.Conclude(
				fmt.Sprintf("%d long streams came to their own end, and %d were cut at a proxy's deadline, which showed", ended, cut),
				fmt.Sprintf("%d of %d long streams were ended before a proxy's deadline, or so that it did not show", lost, total))
		},
	}
}

// NoneIsKilled judges how node proxies end that are replaced, and have connections that don't end by themselves.
func NoneIsKilled() assertions.Check {
	return assertions.Check{
		Name:     "how node proxies end that are replaced",
		Expected: "by themselves: none is there when its grace period is over, and is killed",
		Floors:   []assertions.Floor{replacedFloor},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all := replacedIn(c)
			tally.Count(replacedFloor, seenGone(all))
			for _, r := range all {
				tally.Span(r.told, r.gone)
				switch {
				case r.killed:
					tally.LateOn(c, r.node, r.gone, r.proxy, "", "%s after it was told to go it was still there, and was killed", (r.gone - r.told).Round(time.Millisecond))
				case r.unseen && r.gone > 0:
					tally.Doubt("nobody saw by which code %s ended", r.proxy)
				}
			}
			return tally.Conclude(
				fmt.Sprintf("all %d node proxies ended by themselves", len(all)),
				fmt.Sprintf("%d of %s had to be killed", tally.Culprits(), assertions.Plural(len(all), "node proxy", "node proxies")))
		},
	}
}
