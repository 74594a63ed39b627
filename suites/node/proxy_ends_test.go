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

// Both proxies of the scenes are told to go, and are gone.
const (
	toldAt = 8 * time.Second
	goneAt = 18 * time.Second
)

// replace is what happens to a node's proxy.
func replace(s scene.Scene, node string, told, gone time.Duration) {
	tell := func(at time.Duration, proxy, is string) {
		s.Events = append(s.Events, timeline.Event{At: at, Source: "test", Kind: timeline.NodeProxy, Subject: proxy, Name: proxy, Node: node, Attrs: map[string]string{"is": is}})
	}
	tell(told-500*time.Millisecond, "next-"+node, timeline.NodeProxyStarts)
	tell(told, "proxy-"+node, timeline.NodeProxyTold)
	tell(gone, "proxy-"+node, timeline.NodeProxyGone)
}

// calls adds requests through the Service, of which each nth may be changed.
func calls(s scene.Scene, set func(*timeline.Sample)) {
	for n := range 400 {
		at := toldAt + time.Duration(n)*20*time.Millisecond
		x := timeline.Sample{
			Stream: flow.To(through[0].Flow, ""), ID: fmt.Sprint("new", n), Conn: uint64(n + 1), Nth: 1, Due: at, Start: at, Sent: at, First: at + 1, End: at + 2,
			Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: scene.UID, Status: 200,
		}
		if n < 20 { // these were under way
			x.Start, x.Due, x.Sent, x.First, x.End = toldAt-time.Second, toldAt-time.Second, toldAt-time.Second, toldAt-time.Second, toldAt+2*time.Second
		}
		if set != nil {
			set(&x)
		}
		s.Add(x)
	}
}

func TestNoneFailsMeanwhile(t *testing.T) {
	check := NoneFailsMeanwhile()
	with := func(set func(*timeline.Sample), nodes ...string) func(scene.Scene) {
		return func(s scene.Scene) {
			for _, n := range nodes {
				replace(s, n, toldAt, goneAt)
			}
			calls(s, set)
		}
	}
	failing := func(from, to time.Duration) func(*timeline.Sample) {
		return func(s *timeline.Sample) {
			if s.Start >= from && s.Start < to {
				s.Outcome, s.Phase = timeline.Reset, timeline.PhaseFirstByte
			}
		}
	}
	// lasting ends one that was under way when the proxies were told to go, at their deadline.
	lasting := func(by timeline.Outcome) func(*timeline.Sample) {
		return func(s *timeline.Sample) {
			if s.ID == "new0" {
				s.End, s.Outcome, s.Phase = toldAt+6*time.Second, by, timeline.PhaseBody
			}
		}
	}
	// turned has a tunnel of its own be told to go, before there was anything in it.
	turned := func(at time.Duration) func(*timeline.Sample) {
		return func(x *timeline.Sample) {
			if x.Start == at {
				x.Stream, x.Outcome, x.Phase = flow.To(through[3].Flow, scene.UID), timeline.GoAway, timeline.PhaseFirstByte
			}
		}
	}
	judge := func(tl *timeline.Timeline) spec.Finding {
		c := assertions.NewCase(tl, scene.P)
		c.Deadline = 6 * time.Second
		return check.Run(c)
	}
	scene.Judge(t, judge, []scene.Row{
		{Name: "none", Build: with(nil, "a", "b"), Want: spec.Pass},
		{Name: "one of the new", Build: with(failing(toldAt+time.Second, toldAt+time.Second+20*time.Millisecond), "a", "b"), Want: spec.Fail},
		{Name: "one that was under way", Build: with(failing(toldAt-time.Second, toldAt-time.Second+1), "a", "b"), Want: spec.Fail},
		{Name: "cut at the deadline", Build: with(lasting(timeline.Reset), "a", "b"), Want: spec.Pass},
		{Name: "ended at the deadline, as if it were whole", Build: with(lasting(timeline.Truncated), "a", "b"), Want: spec.Fail},
		{Name: "a new one, when the deadline is over", Build: with(failing(toldAt+6*time.Second, toldAt+6*time.Second+20*time.Millisecond), "a", "b"), Want: spec.Fail},
		{Name: "on a connection that began before, when the deadline is over", Build: func(s scene.Scene) {
			with(failing(toldAt+6*time.Second, toldAt+6*time.Second+20*time.Millisecond), "a", "b")(s)
			for i, x := range s.Samples {
				if x.Failed() { // it is the second request on that of the first of all
					s.Samples[i].Stream, s.Samples[i].Conn, s.Samples[i].Nth = s.Samples[0].Stream, s.Samples[0].Conn, 2
				}
			}
		}, Want: spec.Pass},
		{Name: "new ones that got no connection, when the deadline is over", Build: with(func(x *timeline.Sample) {
			if n := (x.Start - toldAt) / (20 * time.Millisecond); x.Start == toldAt+400*time.Millisecond || n == 300 {
				x.Conn = 0
			}
			if x.Start == toldAt+6*time.Second {
				x.Outcome, x.Phase = timeline.Reset, timeline.PhaseDial
			}
		}, "a", "b"), Want: spec.Fail},
		{Name: "when the last proxy has just gone", Build: with(func(x *timeline.Sample) {
			if x.ID == "new399" {
				x.Start, x.Due, x.Sent, x.End = goneAt+time.Second, goneAt+time.Second, goneAt+time.Second, goneAt+time.Second+1
				x.Outcome, x.Phase = timeline.Refused, timeline.PhaseDial
			}
		}, "a", "b"), Want: spec.Fail},
		{Name: "a tunnel of its own, turned away by who has just been told to go", Build: with(turned(toldAt+time.Second), "a", "b"), Want: spec.Pass},
		{Name: "a tunnel of its own, turned away long after that", Build: with(turned(toldAt+4*time.Second), "a", "b"), Want: spec.Fail},
		{Name: "only one was replaced", Build: with(nil, "a"), Want: spec.Inconclusive},
		{Name: "none went", Build: func(s scene.Scene) { calls(s, nil) }, Want: spec.Inconclusive},
	})
}

func TestTunnelsAreTold(t *testing.T) {
	check := TunnelsAreTold()
	with := func(says ...timeline.Frame) func(scene.Scene) {
		return func(s scene.Scene) {
			const at = scene.D + time.Second // the tunnels of stand begin before D
			s.Events = append(s.Events, timeline.Event{At: time.Second, Source: "test", Kind: timeline.PodSeen, Subject: scene.UID, Name: scene.UID, Node: "a", Attrs: map[string]string{"node": "a"}})
			replace(s, "a", at, goneAt)
			replace(s, "b", at, goneAt)
			stand(s, silent, 12, says...)
		}
	}
	const then = scene.D + 2*time.Second
	fails := []scene.Row{
		{Name: "never", Build: with(), Want: spec.Fail},
		{Name: "no close_notify", Build: with(frame(then, timeline.FrameGoAway), frame(then, timeline.FrameFIN)), Want: spec.Fail},
		{Name: "no GOAWAY", Build: with(frame(then, timeline.FrameCloseNotify)), Want: spec.Fail},
		// The other node has none to show.
		{Name: "told, of one node", Build: with(frame(then, timeline.FrameGoAway), frame(then, timeline.FrameCloseNotify)), Want: spec.Inconclusive},
		{Name: "ended by the client that was told, of one node", Build: with(frame(then, timeline.FrameGoAway), frame(then+1, timeline.FrameClose)), Want: spec.Inconclusive},
	}
	scene.Judge(t, func(tl *timeline.Timeline) spec.Finding { return check.Run(assertions.NewCase(tl, scene.P)) }, fails)
}

// In a cluster the proxies are pods of a DaemonSet: what is replaced their own ends say. One that serves none of
// those to whom our client has tunnels has none to tell.
func TestReplacedInCluster(t *testing.T) {
	const at = scene.D + time.Second
	with := func(says ...timeline.Frame) func(scene.Scene) {
		return func(s scene.Scene) {
			s.Event(0, timeline.Marker, "", map[string]string{"what": assertions.MarkProxies, "workload": "DaemonSet/proxy"})
			on := func(at time.Duration, kind timeline.EventKind, pod, node string, attrs map[string]string) {
				s.Events = append(s.Events, timeline.Event{At: at, Source: "test", Kind: kind, Subject: pod, Name: pod, Node: node, Attrs: attrs})
			}
			for _, node := range []string{"a", "b", "control"} {
				old, next := "old-"+node, "next-"+node
				on(time.Second, timeline.PodSeen, old, "", map[string]string{"owner": "DaemonSet/proxy"})
				on(time.Second, timeline.PodContainer, old, node, map[string]string{"state": "running"})
				on(at-2*time.Second, timeline.PodSeen, next, "", map[string]string{"owner": "DaemonSet/proxy"})
				on(at-time.Second, timeline.PodContainer, next, node, map[string]string{"state": "waiting"})
				on(at, timeline.PodDeletion, old, node, map[string]string{"grace": "20"})
				on(at+50*time.Millisecond, timeline.ClusterEvent, old, node, map[string]string{"reason": "Killing"})
				on(goneAt, timeline.ProcExit, old, node, nil)
			}
			// Two instances, one on each of two nodes.
			for i, uid := range []string{scene.UID, scene.OtherUID} {
				on(time.Second, timeline.PodSeen, uid, "", map[string]string{"owner": "ReplicaSet/echo-1"})
				on(2*time.Second, timeline.PodReady, uid, []string{"a", "b"}[i], map[string]string{"ready": "true"})
				standTo(s, uid, silent, 12, says...)
			}
		}
	}
	check := TunnelsAreTold()
	scene.Judge(t, func(tl *timeline.Timeline) spec.Finding { return check.Run(assertions.NewCase(tl, scene.P)) }, []scene.Row{
		// The watch shows a deletion when the kubelet may have acted on it.
		{Name: "told at once", Build: with(frame(at-time.Millisecond, timeline.FrameGoAway), frame(at+time.Millisecond, timeline.FrameCloseNotify)), Want: spec.Pass},
		{Name: "told before any successor came", Build: with(frame(at-1500*time.Millisecond, timeline.FrameGoAway), frame(at+time.Millisecond, timeline.FrameCloseNotify)), Want: spec.Fail},
		{Name: "never", Build: with(), Want: spec.Fail},
	})
}
