// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// hurryApart is how long after one proxy of a node the next one is told to go.
const hurryApart = 20 * time.Second

// hurry has two nodes' proxies be told to go, one for each grace period, each of which is gone as another says; a
// negative time is a kill.
func hurry(s scene.Scene, gone func(grace time.Duration) time.Duration) {
	for _, node := range []string{"a", "b"} {
		uid := map[string]string{"a": scene.UID, "b": scene.OtherUID}[node]
		s.Events = append(s.Events, timeline.Event{At: time.Second, Source: "test", Kind: timeline.PodSeen, Subject: uid, Name: uid, Node: node, Attrs: map[string]string{"node": node}})
		for n, grace := range disrupt.ProxyGraces() {
			name, told := fmt.Sprintf("proxy-%s-%d", node, n+1), toldAt+time.Duration(n)*hurryApart
			tell := func(at time.Duration, proxy, is string) {
				attrs := map[string]string{"is": is}
				if is == timeline.NodeProxyTold {
					attrs["grace"], attrs["kill"] = grace.String(), max(grace, 2*time.Second).String()
				}
				s.Events = append(s.Events, timeline.Event{At: at, Source: "test", Kind: timeline.NodeProxy, Subject: proxy, Name: proxy, Node: node, Attrs: attrs})
			}
			tell(told-500*time.Millisecond, fmt.Sprintf("proxy-%s-%d", node, n+2), timeline.NodeProxyStarts)
			tell(told, name, timeline.NodeProxyTold)
			after := gone(grace)
			if after < 0 {
				after = max(grace, 2*time.Second)
				tell(told+after, name, timeline.NodeProxyKilled)
			}
			tell(told+after, name, timeline.NodeProxyGone)
		}
	}
}

// inTime is how long after it was told a healthy proxy of the scenes cuts, and is gone.
func inTime(grace time.Duration) time.Duration { return grace - grace/4 + 100*time.Millisecond }

// cuts adds streams in tunnels that each proxy cuts, which set may change.
func cuts(s scene.Scene, set func(grace, told time.Duration, x *timeline.Sample)) {
	slow := flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.Reused, Op: flow.Slow, Takes: endless}
	for _, uid := range []string{scene.UID, scene.OtherUID} {
		for n, grace := range disrupt.ProxyGraces() {
			told := toldAt + time.Duration(n)*hurryApart
			for k := range 6 {
				at := told - 2*time.Second
				x := timeline.Sample{
					Stream: flow.To(slow, uid), ID: fmt.Sprint(uid, n, k), Conn: uint64(10*n + k + 1), Nth: 1, StreamID: 1, Due: at, Start: at, Sent: at, First: at + 1,
					End: told + inTime(grace) - 50*time.Millisecond, Outcome: timeline.StreamReset, Phase: timeline.PhaseBody, Server: uid, Status: 200,
				}
				if set != nil {
					set(grace, told, &x)
				}
				s.Add(x)
			}
		}
	}
}

func TestGoneBeforeKill(t *testing.T) {
	with := func(gone func(time.Duration) time.Duration) func(scene.Scene) {
		return func(s scene.Scene) { hurry(s, gone) }
	}
	scene.Judge(t, judging(GoneBeforeKill()), []scene.Row{
		{Name: "before it", Build: with(inTime), Want: spec.Pass},
		{Name: "the shortest just before the kubelet's minimum", Build: with(func(g time.Duration) time.Duration { return max(inTime(g), 1900*time.Millisecond) }), Want: spec.Pass},
		{Name: "never", Build: with(func(time.Duration) time.Duration { return -1 }), Want: spec.Fail},
		{Name: "never, with the shortest", Build: with(func(g time.Duration) time.Duration {
			if g == 0 {
				return -1
			}
			return inTime(g)
		}), Want: spec.Fail},
		{Name: "nobody was told", Build: func(scene.Scene) {}, Want: spec.Inconclusive},
		{Name: "with no grace period of their own", Build: func(s scene.Scene) { replace(s, "a", toldAt, goneAt); replace(s, "b", toldAt, goneAt) }, Want: spec.Inconclusive},
	})
}

func TestCutsShow(t *testing.T) {
	with := func(set func(grace, told time.Duration, x *timeline.Sample)) func(scene.Scene) {
		return func(s scene.Scene) {
			hurry(s, inTime)
			cuts(s, set)
		}
	}
	ends := func(as timeline.Outcome) func(grace, told time.Duration, x *timeline.Sample) {
		return func(_, _ time.Duration, x *timeline.Sample) { x.Outcome = as }
	}
	scene.Judge(t, judging(CutsShow()), []scene.Row{
		{Name: "by RST_STREAM", Build: with(nil), Want: spec.Pass},
		{Name: "by RST", Build: with(ends(timeline.Reset)), Want: spec.Pass},
		{Name: "as if it were whole", Build: with(ends(timeline.Truncated)), Want: spec.Fail},
		{Name: "by a FIN", Build: with(ends(timeline.Closed)), Want: spec.Fail},
		{Name: "long before the end of the grace period", Build: with(func(grace, told time.Duration, x *timeline.Sample) {
			if grace > tooEarly {
				x.End = told + 100*time.Millisecond
			}
		}), Want: spec.Fail},
		{Name: "at once, where there is no time", Build: with(func(grace, told time.Duration, x *timeline.Sample) {
			if grace <= tooEarly {
				x.End = told + time.Millisecond
			}
		}), Want: spec.Pass},
		{Name: "without a tunnel, by a FIN", Build: with(func(_, _ time.Duration, x *timeline.Sample) {
			if x.Conn%10 == 6 {
				x.Stream = flow.To(flow.Flow{Path: flow.Service, Protocol: flow.TCP, Conns: flow.New, Op: flow.Talk, Takes: endless}, "")
				x.Outcome = timeline.Truncated
			}
		}), Want: spec.Fail},
		{Name: "all came to their own ends", Build: with(ends(timeline.OK)), Want: spec.Inconclusive},
		{Name: "nobody was told", Build: func(s scene.Scene) { cuts(s, nil) }, Want: spec.Inconclusive},
	})
}
