// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestStreamsOutlast(t *testing.T) {
	const deadline = 6 * time.Second
	long := flow.To(flow.Flow{Path: flow.Service, Protocol: flow.TCP, Conns: flow.New, Op: flow.Talk, Takes: streamTakes}, "")
	with := func(n int, set func(*timeline.Sample), nodes ...string) func(scene.Scene) {
		return func(s scene.Scene) {
			for _, node := range nodes {
				replace(s, node, toldAt, goneAt)
			}
			for i := range n {
				x := timeline.Sample{
					Stream: long, ID: fmt.Sprint("long", i), Conn: uint64(i + 1), Nth: 1, Due: toldAt - time.Second, Start: toldAt - time.Second, Sent: toldAt - time.Second,
					First: toldAt - 1, End: toldAt + time.Second, Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: scene.UID,
				}
				if set != nil && i < 10 {
					set(&x)
				}
				s.Add(x)
			}
		}
	}
	ended := func(at time.Duration, o timeline.Outcome) func(*timeline.Sample) {
		return func(x *timeline.Sample) { x.End, x.Outcome, x.Phase = at, o, timeline.PhaseBody }
	}
	judge := func(tl *timeline.Timeline) spec.Finding {
		c := assertions.NewCase(tl, scene.P)
		c.Deadline = deadline
		return StreamsOutlast().Run(c)
	}
	scene.Judge(t, judge, []scene.Row{
		{Name: "all come to their end", Build: with(160, nil, "a", "b"), Want: spec.Pass},
		{Name: "cut at the deadline", Build: with(160, ended(toldAt+deadline, timeline.Reset), "a", "b"), Want: spec.Pass},
		{Name: "cut before it", Build: with(160, ended(toldAt+deadline/2, timeline.Reset), "a", "b"), Want: spec.Fail},
		{Name: "cut at it as if they were whole", Build: with(160, ended(toldAt+deadline, timeline.Truncated), "a", "b"), Want: spec.Fail},
		{Name: "cut behind the proxy's end", Build: with(160, ended(goneAt+4*time.Second, timeline.Reset), "a", "b"), Want: spec.Fail},
		{Name: "none ended while a proxy drained", Build: func(s scene.Scene) {
			with(160, nil, "a", "b")(s)
			for i := range s.Samples {
				s.Samples[i].End = goneAt + time.Second
			}
		}, Want: spec.Inconclusive},
		{Name: "those that ended while a proxy drained had begun later", Build: func(s scene.Scene) {
			with(320, nil, "a", "b")(s)
			for i := range s.Samples {
				if x := &s.Samples[i]; i < 160 {
					x.End = goneAt + time.Second
				} else {
					x.Start, x.Due, x.Sent, x.First = toldAt+1, toldAt+1, toldAt+1, toldAt+2
				}
			}
		}, Want: spec.Inconclusive},
		{Name: "too few", Build: with(100, nil, "a", "b"), Want: spec.Inconclusive},
		{Name: "only one was replaced", Build: with(160, nil, "a"), Want: spec.Inconclusive},
	})
}

func TestNoneIsKilled(t *testing.T) {
	killed := func(node string) func(scene.Scene) {
		return func(s scene.Scene) {
			s.Events = append(s.Events, timeline.Event{
				At: goneAt - 1, Source: "test", Kind: timeline.NodeProxy, Subject: "proxy-" + node, Name: "proxy-" + node, Node: node,
				Attrs: map[string]string{"is": timeline.NodeProxyKilled},
			})
		}
	}
	with := func(more ...func(scene.Scene)) func(scene.Scene) {
		return func(s scene.Scene) {
			replace(s, "a", toldAt, goneAt)
			replace(s, "b", toldAt, goneAt)
			for _, m := range more {
				m(s)
			}
		}
	}
	scene.Judge(t, judging(NoneIsKilled()), []scene.Row{
		{Name: "by themselves", Build: with(), Want: spec.Pass},
		{Name: "one is killed", Build: with(killed("a")), Want: spec.Fail},
		{Name: "one is killed, on a node without CPU", Build: with(killed("a"), func(s scene.Scene) { s.Starve("a", goneAt) }), Want: spec.Inconclusive},
		{Name: "one is killed, and another node is without CPU", Build: with(killed("a"), func(s scene.Scene) { s.Starve("b", goneAt) }), Want: spec.Fail},
		{Name: "one that is no proxy of these", Build: with(killed("c")), Want: spec.Pass},
		{Name: "one of two was told to go", Build: func(s scene.Scene) { replace(s, "a", toldAt, goneAt) }, Want: spec.Inconclusive},
	})
	// In a cluster their exit codes say it.
	for _, tc := range []struct {
		code int
		want spec.Verdict
	}{{0, spec.Pass}, {143, spec.Pass}, {137, spec.Fail}, {-1, spec.Inconclusive}} {
		c := assertions.NewCase(&timeline.Timeline{}, scene.P)
		for _, node := range []string{"a", "b"} {
			c.Proxies = append(c.Proxies, assertions.Ending{
				Name: "proxy-" + node, Node: node, Cause: assertions.CauseDeletion, ExitCode: tc.code,
				Del: assertions.Instant{At: toldAt, Source: "test"}, Exit: assertions.Instant{At: goneAt, Source: "test"},
			})
		}
		if got := NoneIsKilled().Run(c); got.Verdict != tc.want {
			t.Errorf("exit code %d: %s, want %s: %s", tc.code, got.Verdict, tc.want, got.Actual)
		}
	}
}
