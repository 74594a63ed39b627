// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// What runs is cut because no grace period is long enough: RFC 9113 section 8.5: "a proxy MUST send a TCP segment with
// the RST bit set if it detects an error with the stream or the HTTP/2 connection."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "node.deadline",
	Title: "A node proxy cuts what still runs a little before its grace period ends, so that it shows, and is gone before it would be killed",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Quote: "Clean forced close a little before K, also with a grace period of 0 or 1 s: never later than K.",
	}, {
		Doc: "RFC 9113", Section: "section 8.5", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-8.5",
		Quote: "Correspondingly, a proxy MUST send a TCP segment with the RST bit set if it detects an error with the stream or the HTTP/2 connection.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE, spec.TCP, spec.Bench},

	Why:    "Some connections never end by themselves: a watch, a subscription, a pool. When the grace period of a node proxy is over, SIGKILL ends them all, and the kernel closes what the proxy had open as if it were whole: nothing is told in the tunnels, and half a file looks like all of it.",
	Causes: "The proxy waits for its connections without a bound, or with one that does not know the grace period. It takes a margin from the grace period, and where that is shorter than the margin the difference is a huge number, or none. It ends what it cuts by a FIN, or by END_STREAM.",
	Fix:    "Cut a little before the grace period ends: RST_STREAM in the tunnels and an RST to the apps, then GOAWAY and close_notify; and bound the margin by the grace period.",

	Topology: behaviour.Staying,
	Disrupt:  behaviour.HurryProxies,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 20},
		// These last longer than any proxy has.
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.TCP, Conns: flow.New, Op: flow.Talk, Takes: endless}, Rate: 4},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.Reused, Op: flow.Slow, Takes: endless}, Rate: 2},
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.New, Op: flow.Idle, Takes: 20 * time.Second}, Rate: 1.5},
	},
	Checks:     []assertions.Check{GoneBeforeKill(), CutsShow(), TunnelsAreTold(bothNodes)},
	BrokenBy:   []spec.Fault{datapath.NeverCuts, datapath.MarginWraps, nodeproxy.CutsAsEnds},
	Resolution: 60 * time.Millisecond,
})

// endless is longer than any of the grace periods.
const endless = 12 * time.Second

// tooEarly is how long before the end of its grace period a proxy may cut.
const tooEarly = 2 * time.Second

// hurried is a proxy that was told to go, with so much time.
type hurried struct {
	replaced
	grace, kill time.Duration // from told on
}

func (h hurried) String() string { return fmt.Sprintf("%s (grace period %s)", h.proxy, h.grace) }

// since says when something was.
func (h hurried) since(at time.Duration) string {
	return fmt.Sprintf("%s after %s was told to go", (at - h.told).Round(time.Millisecond), h)
}

// hurriedIn are those of a recording, but for whose times nobody knows.
func hurriedIn(c assertions.Case) []hurried {
	var out []hurried
	for _, r := range replacedIn(c) {
		h := hurried{replaced: r}
		var err error
		for _, e := range c.Timeline.EventsOf(timeline.NodeProxy, r.proxy) {
			if e.Attrs["is"] != timeline.NodeProxyTold {
				continue
			}
			if h.grace, err = time.ParseDuration(e.Attrs["grace"]); err == nil {
				h.kill, err = time.ParseDuration(e.Attrs["kill"])
			}
		}
		if err == nil {
			out = append(out, h)
		}
	}
	return out
}

// hurriedFloor is that of proxies with little time.
var hurriedFloor = assertions.Floor{Name: "node proxies with a grace period of their own that were told to go, and were gone", N: 2 * len(disrupt.ProxyGraces()),
	Reason: "on each of two nodes one for each grace period"}

// countHurried counts them.
func countHurried(tally *assertions.Tally, all []hurried) {
	n := 0
	for _, h := range all {
		if h.gone > 0 {
			n++
		}
		tally.Span(h.told, max(h.gone, h.told+h.kill))
	}
	tally.Count(hurriedFloor, n)
}

// GoneBeforeKill judges when proxies were gone that had something running which did not end.
func GoneBeforeKill() assertions.Check {
	return assertions.Check{
		Name:     "when node proxies are gone that have connections which don't end",
		Expected: "before SIGKILL comes: when the grace period is over, or after 2s where that is longer",
		Floors:   []assertions.Floor{hurriedFloor},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all := hurriedIn(c)
			countHurried(&tally, all)
			var least time.Duration // before its kill
			for i, h := range all {
				if h.killed {
					tally.Late(c, h.told+h.kill, h.proxy, "", "%s: it was still there, and was killed", h.since(h.told+h.kill))
					continue
				}
				if left := h.told + h.kill - h.gone; h.gone > 0 && (i == 0 || left < least) {
					least = left
				}
			}
			return tally.Conclude(
				fmt.Sprintf("all %d node proxies were gone before they would have been killed, the last one by %s", len(all), least.Round(time.Millisecond)),
				fmt.Sprintf("%d of %s had to be killed", tally.Culprits(), assertions.Plural(len(all), "node proxy", "node proxies")))
		},
	}
}

// CutsShow judges what was under way when proxies were told to go, and did not come to its own end.
func CutsShow() assertions.Check {
	cut := assertions.Floor{Per: "proxy", Name: "streams in tunnels that were under way when the proxy was told to go, and were cut", N: 5, Reason: "4 begin each second on each node, and a proxy serves for 5 s at least"}
	return assertions.Check{
		Name: "what still runs when a node proxy has no more time",
		Expected: fmt.Sprintf("it is cut by RST_STREAM in a tunnel, or by an RST, and in tunnels not earlier than %s before the grace period ends",
			tooEarly),
		Floors: []assertions.Floor{hurriedFloor, cut},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all, on := hurriedIn(c), nodesOf(c)
			countHurried(&tally, all)
			total := 0
			in := make([]int, len(all))
			for _, s := range c.Timeline.Samples {
				// A request may have been on its way to a proxy that has begun to go.
				if s.First == 0 || s.Stream.Flow().Takes == 0 || turnedAway(s) {
					continue
				}
				of := -1 // whose it was
				for i, h := range all {
					tunnel := s.Stream.Flow().Path == flow.Direct
					if s.First < h.told && s.End >= h.told && s.End <= h.gone+starvedBy && (!tunnel || on[s.Stream.Target()] == h.node && s.Start < h.beside) {
						of = i
						break
					}
				}
				if of < 0 || !s.Failed() {
					continue
				}
				h := all[of]
				total++
				switch s.Outcome {
				case timeline.Reset, timeline.StreamReset:
				default:
					tally.Failed(c, s, s.End, h.proxy, "%s, cut so that it does not show", h.since(s.End))
					continue
				}
				if s.Stream.Flow().Path != flow.Direct {
					continue
				}
				in[of]++
				if early := h.told + h.grace - tooEarly; s.End < early {
					tally.Failed(c, s, s.End, h.proxy, "%s, %s before the grace period ends", h.since(s.End), (h.told + h.grace - s.End).Round(time.Millisecond))
				}
			}
			for i, h := range all {
				tally.Least(cut, h.proxy, in[i])
			}
			return tally.Conclude(
				fmt.Sprintf("all %d that still ran were cut so that it showed", total),
				fmt.Sprintf("%d of %s so that it does not show, or too early", tally.Culprits(), assertions.Plural(total, "that still ran was cut", "that still ran were cut")))
		},
	}
}
