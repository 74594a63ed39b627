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
	// early is a new one that is reset at once at an instant.
	early := func(at time.Duration) func(*timeline.Sample) {
		return func(s *timeline.Sample) {
			if s.ID == "new30" {
				s.Due, s.Start, s.Sent, s.First, s.End = at, at, at, 0, at+2
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
	// tunnelled is lasting of one in a tunnel, which ends without an RST_STREAM.
	tunnelled := func(whole bool) func(*timeline.Sample) {
		return func(s *timeline.Sample) {
			if s.ID == "new0" {
				lasting(timeline.Truncated)(s)
				s.Stream, s.StreamID, s.EndStream = flow.To(kept.Flow, scene.UID), 1, whole
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
		{Name: "those behind the word were sent late, and others came before it", Build: func(s scene.Scene) {
			with(func(x *timeline.Sample) { x.Saturated = x.Start >= toldAt }, "a", "b")(s)
			for n := range 400 { // while the successors start
				at := toldAt - 400*time.Millisecond + time.Duration(n)
				s.Add(timeline.Sample{
					Stream: flow.To(through[0].Flow, ""), ID: fmt.Sprint("before", n), Conn: uint64(n + 1000), Nth: 1, Due: at, Start: at, Sent: at, First: at + 1, End: at + 2,
					Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: scene.UID, Status: 200,
				})
			}
		}, Want: spec.Inconclusive},
		{Name: "one before a successor is there", Build: with(early(toldAt-700*time.Millisecond), "a", "b"), Want: spec.Pass},
		{Name: "one that a successor takes in vain before the other is told to go", Build: with(early(toldAt-300*time.Millisecond), "a", "b"), Want: spec.Fail},
		{Name: "cut at the deadline", Build: with(lasting(timeline.Reset), "a", "b"), Want: spec.Pass},
		{Name: "ended at the deadline, as if it were whole", Build: with(lasting(timeline.Truncated), "a", "b"), Want: spec.Fail},
		{Name: "a tunnel's, cut with its tunnel at the deadline", Build: with(tunnelled(false), "a", "b"), Want: spec.Pass},
		{Name: "a tunnel's, ended at the deadline as if it were whole", Build: with(tunnelled(true), "a", "b"), Want: spec.Fail},
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
		{Name: "only one was replaced", Build: with(nil, "a"), Want: spec.Inconclusive},
		{Name: "none went", Build: func(s scene.Scene) { calls(s, nil) }, Want: spec.Inconclusive},
	})
}

// What comes from outside of the mesh is another rule's than what comes from within.
func TestNoneFailsOutsideMeanwhile(t *testing.T) {
	outside := flow.Flow{Path: flow.Unmeshed, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}
	relayed := true
	build := func(outsideFails, insideFails bool) func(scene.Scene) {
		return func(s scene.Scene) {
			replace(s, "a", toldAt, goneAt)
			replace(s, "b", toldAt, goneAt)
			for is, fails := range map[bool]bool{true: outsideFails, false: insideFails} {
				calls(s, func(x *timeline.Sample) {
					if is {
						x.Stream, x.ID, x.Relayed = flow.To(outside, ""), "outside-"+x.ID, relayed
					}
					if fails && x.Start == toldAt+time.Second {
						x.Outcome, x.Phase = timeline.Reset, timeline.PhaseFirstByte
					}
				})
			}
		}
	}
	for name, c := range map[string]struct {
		outsideFails, insideFails bool
		outside, inside           spec.Verdict
	}{
		"none":            {false, false, spec.Pass, spec.Pass},
		"one from within": {false, true, spec.Pass, spec.Fail},
		"one of outside":  {true, false, spec.Fail, spec.Pass},
	} {
		scene.Judge(t, judging(NoneFailsOutsideMeanwhile()), []scene.Row{{Name: name, Build: build(c.outsideFails, c.insideFails), Want: c.outside}})
		scene.Judge(t, judging(NoneFailsMeanwhile()), []scene.Row{{Name: name, Build: build(c.outsideFails, c.insideFails), Want: c.inside}})
	}
	relayed = false
	scene.Judge(t, judging(NoneFailsOutsideMeanwhile()), []scene.Row{{Name: "past the proxies", Build: build(false, false), Want: spec.Inconclusive}})
	scene.Judge(t, judging(NoneFailsOutsideMeanwhile()), []scene.Row{{Name: "nobody came", Build: func(s scene.Scene) {
		replace(s, "a", toldAt, goneAt)
		replace(s, "b", toldAt, goneAt)
		calls(s, nil)
	}, Want: spec.Inconclusive}})
}

// rollOut is how a cluster shows that the pods of a DaemonSet are replaced.
type rollOut struct {
	told  time.Duration            // the watch shows the deletion
	gone  map[string]time.Duration // when the containers of the old pods exit
	alone bool                     // the next pod comes when the old one has gone
}

// on replaces those of some nodes.
func (r rollOut) on(s scene.Scene, nodes ...string) {
	s.Event(0, timeline.Marker, "", map[string]string{"what": assertions.MarkProxies, "workload": "DaemonSet/proxy"})
	on := func(at time.Duration, kind timeline.EventKind, pod, node string, attrs map[string]string) {
		s.Events = append(s.Events, timeline.Event{At: at, Source: "test", Kind: kind, Subject: pod, Name: pod, Node: node, Attrs: attrs})
	}
	for _, node := range nodes {
		old, next, seen := "old-"+node, "next-"+node, r.told-2*time.Second
		if r.alone {
			seen = goneAt + time.Second
		}
		on(time.Second, timeline.PodSeen, old, "", map[string]string{"owner": "DaemonSet/proxy"})
		on(time.Second, timeline.PodContainer, old, node, map[string]string{"state": "running"})
		on(seen, timeline.PodSeen, next, "", map[string]string{"owner": "DaemonSet/proxy"})
		on(seen+time.Second, timeline.PodContainer, next, node, map[string]string{"state": "waiting"})
		on(r.told, timeline.PodDeletion, old, node, map[string]string{"grace": "20"})
		on(r.told+50*time.Millisecond, timeline.ClusterEvent, old, node, map[string]string{"reason": "Killing"})
		for container, at := range r.gone {
			on(at, timeline.ProcExit, old, node, map[string]string{"container": container})
		}
	}
}

// In a cluster nobody but the watch tells when a proxy was told to go, and when it was gone the exit of its container.
func TestNoneFailsMeanwhileInCluster(t *testing.T) {
	const deadline = 6 * time.Second
	gone := func(after time.Duration, more ...time.Duration) rollOut {
		r := rollOut{told: toldAt, gone: map[string]time.Duration{"proxy": toldAt + after}}
		for _, m := range more {
			r.gone["shipper"] = toldAt + m
		}
		return r
	}
	// cut has a request on a connection that began at an instant be cut at another.
	cut := func(r rollOut, began, at time.Duration, more ...func(*timeline.Sample)) func(scene.Scene) {
		return func(s scene.Scene) {
			r.on(s, "a", "b")
			calls(s, func(x *timeline.Sample) {
				to := toldAt + at
				switch x.ID {
				case "new20":
					x.Start, x.Due, x.Sent, x.First, x.End = toldAt+began, toldAt+began, toldAt+began, toldAt+began+1, toldAt+began+2
				case "new21":
					x.Start, x.Due, x.Sent, x.First, x.End = to-3, to-3, to-2, to-1, to
					x.Conn, x.Nth, x.Outcome, x.Phase = 21, 2, timeline.Reset, timeline.PhaseBody
				}
				for _, set := range more {
					set(x)
				}
			})
		}
	}
	// starved has a third of what is sent around then be late.
	starved := func(from time.Duration) func(*timeline.Sample) {
		return func(x *timeline.Sample) { x.Saturated = x.Start >= toldAt+from && x.Start < toldAt+from+time.Second }
	}
	judge := func(tl *timeline.Timeline) spec.Finding {
		c := assertions.NewCase(tl, scene.P)
		c.Deadline = deadline
		return NoneFailsMeanwhile().Run(c)
	}
	scene.Judge(t, judge, []scene.Row{
		{Name: "cut at the deadline", Build: cut(gone(deadline+50*time.Millisecond), 0, deadline), Want: spec.Pass},
		{Name: "cut at the deadline, and another container of the pod went at once", Build: cut(gone(deadline+50*time.Millisecond, 50*time.Millisecond), 0, deadline), Want: spec.Pass},
		{Name: "cut before it", Build: cut(gone(deadline+50*time.Millisecond), 0, deadline/2), Want: spec.Fail},
		{Name: "cut before it, when the watch may have been late", Build: cut(gone(deadline+50*time.Millisecond), 0, deadline-2*time.Second, starved(0)), Want: spec.Inconclusive},
		{Name: "cut before it, when the machine was busy later", Build: cut(gone(deadline+50*time.Millisecond), 0, deadline-2*time.Second, starved(4*time.Second)), Want: spec.Fail},
		{Name: "cut long before it, when the watch may have been late", Build: cut(gone(deadline+50*time.Millisecond), 0, deadline-starvedBy-time.Millisecond, starved(0)), Want: spec.Fail},
		// The deadline counts from SIGTERM, which comes when a hook of 3 s is over.
		{Name: "cut at the deadline behind a preStop hook, begun in that", Build: cut(gone(9050*time.Millisecond), 2500*time.Millisecond, 9*time.Second), Want: spec.Pass},
		{Name: "cut at the deadline behind a preStop hook, begun a moment behind that", Build: cut(gone(9050*time.Millisecond), 4500*time.Millisecond, 9*time.Second), Want: spec.Pass},
		{Name: "cut at the deadline behind a preStop hook, begun long behind that", Build: cut(gone(9050*time.Millisecond), 5500*time.Millisecond, 9*time.Second), Want: spec.Fail},
		{Name: "begun in a preStop hook as long as the deadline, and cut at that", Build: cut(gone(11050*time.Millisecond), 5600*time.Millisecond, 11*time.Second), Want: spec.Pass},
		{Name: "begun long behind such a hook", Build: cut(gone(11050*time.Millisecond), 7500*time.Millisecond, 11*time.Second), Want: spec.Fail},
		{Name: "cut at the deadline, begun long behind the deletion", Build: cut(gone(deadline+50*time.Millisecond), 2500*time.Millisecond, deadline), Want: spec.Fail},
	})
}

// What comes in tunnels before the watch shows a deletion is turned away for no reason, but that the watch may be late.
func TestTunnelsAnewInCluster(t *testing.T) {
	opens := flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.New, Op: flow.Get}
	// turned has a second of new tunnels to an instance on the second node, whose proxy is told to go a second behind the first,
	// be turned away before that; says is when those that stood heard of it.
	with := func(busy bool, says ...timeline.Frame) func(scene.Scene) {
		return func(s scene.Scene) {
			rollOut{told: toldAt, gone: map[string]time.Duration{"proxy": goneAt}}.on(s, "a")
			rollOut{told: toldAt + time.Second, gone: map[string]time.Duration{"proxy": goneAt}}.on(s, "b")
			calls(s, func(x *timeline.Sample) { x.Saturated = busy && x.Start >= toldAt && x.Start < toldAt+2*time.Second })
			for i, uid := range []string{scene.UID, scene.OtherUID} {
				s.Event(time.Second, timeline.PodReady, uid, map[string]string{"ready": "true"})
				s.Events[len(s.Events)-1].Node = []string{"a", "b"}[i]
				for n := range 300 {
					at := toldAt + time.Duration(n)*50*time.Millisecond
					x := timeline.Sample{
						Stream: flow.To(opens, uid), ID: fmt.Sprint(uid, n), Conn: uint64(n + 1), Nth: 1, StreamID: 1, Due: at, Start: at, Sent: at, First: at + 1, End: at + 2,
						Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: uid, Status: 200,
					}
					if i == 1 && at > toldAt+100*time.Millisecond && at < toldAt+400*time.Millisecond {
						x.Outcome, x.Phase, x.First = timeline.GoAway, timeline.PhaseFirstByte, 0
					}
					s.Add(x)
				}
				standTo(s, uid, silent, 1, says...)
			}
		}
	}
	check := NoneFailsMeanwhile(anew)
	scene.Judge(t, func(tl *timeline.Timeline) spec.Finding { return check.Run(assertions.NewCase(tl, scene.P)) }, []scene.Row{
		{Name: "by a proxy that says nothing", Build: with(false), Want: spec.Fail},
		{Name: "behind its GOAWAY, on a machine with time", Build: with(false, frame(toldAt+100*time.Millisecond, timeline.FrameGoAway)), Want: spec.Fail},
		{Name: "behind its GOAWAY, on a busy machine", Build: with(true, frame(toldAt+100*time.Millisecond, timeline.FrameGoAway)), Want: spec.Inconclusive},
	})
}

// Who opens tunnels while proxies are replaced may be turned away when one of them begins to go, and not for long.
func TestTunnelsAnew(t *testing.T) {
	opens := flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.New, Op: flow.Get}
	keeps := flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.Reused, Op: flow.Get}
	// with has 20 new tunnels a second to an instance on each node, of which those to the first may be changed.
	with := func(set func(*timeline.Sample), says ...timeline.Frame) func(scene.Scene) {
		return func(s scene.Scene) {
			calls(s, nil)
			for i, uid := range []string{scene.UID, scene.OtherUID} {
				node := []string{"a", "b"}[i]
				replace(s, node, toldAt, goneAt)
				s.Event(time.Second, timeline.PodReady, uid, map[string]string{"ready": "true"})
				s.Events[len(s.Events)-1].Node = node
				for n := range 300 {
					at := toldAt - time.Second + time.Duration(n)*50*time.Millisecond
					x := timeline.Sample{
						Stream: flow.To(opens, uid), ID: fmt.Sprint(uid, n), Conn: uint64(n + 1), Nth: 1, StreamID: 1, Due: at, Start: at, Sent: at, First: at + 1, End: at + 2,
						Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: uid, Status: 200,
					}
					if set != nil && uid == scene.UID {
						set(&x)
					}
					s.Add(x)
				}
				standTo(s, uid, silent, 1, says...)
			}
		}
	}
	turned := func(from, to time.Duration, by timeline.Outcome) func(*timeline.Sample) {
		return func(x *timeline.Sample) {
			if x.Start >= toldAt+from && x.Start < toldAt+to {
				x.Outcome, x.Phase, x.First = by, timeline.PhaseFirstByte, 0
			}
		}
	}
	check := NoneFailsMeanwhile(anew)
	scene.Judge(t, func(tl *timeline.Timeline) spec.Finding { return check.Run(assertions.NewCase(tl, scene.P)) }, []scene.Row{
		{Name: "all are served", Build: with(nil), Want: spec.Pass},
		{Name: "turned away at first", Build: with(turned(0, takenUntil, timeline.GoAway)), Want: spec.Pass},
		{Name: "turned away all the time", Build: with(turned(0, 10*time.Second, timeline.GoAway)), Want: spec.Fail},
		{Name: "refused all the time", Build: with(turned(0, 10*time.Second, timeline.RefusedStream)), Want: spec.Fail},
		{Name: "turned away long after, when the tunnels hear of it", Build: with(turned(4*time.Second, 4*time.Second+takenUntil, timeline.GoAway), frame(toldAt+4*time.Second, timeline.FrameGoAway)), Want: spec.Pass},
		{Name: "turned away long after, for no reason", Build: with(turned(4*time.Second, 4*time.Second+takenUntil, timeline.GoAway), frame(toldAt, timeline.FrameGoAway)), Want: spec.Fail},
		{Name: "turned away in a tunnel that had carried another", Build: with(func(x *timeline.Sample) {
			if x.Start >= toldAt+5*time.Second {
				x.Stream, x.Nth, x.StreamID, x.Conn = flow.To(keeps, scene.UID), 2, 3, 1
			}
			if x.Start == toldAt+6*time.Second {
				x.Outcome, x.Phase, x.First = timeline.GoAway, timeline.PhaseFirstByte, 0
			}
		}), Want: spec.Pass},
		{Name: "turned away in tunnels that had carried others, long after the proxies had gone", Build: with(func(x *timeline.Sample) {
			if x.Start >= toldAt+5*time.Second {
				x.Stream, x.Nth, x.StreamID, x.Conn = flow.To(keeps, scene.UID), 2, 3, 1
			}
			if x.Start > goneAt+takenUntil {
				x.Outcome, x.Phase, x.First = timeline.RefusedStream, timeline.PhaseFirstByte, 0
			}
		}), Want: spec.Fail},
		{Name: "late, for want of CPU", Build: with(func(x *timeline.Sample) { x.Saturated = x.Start >= toldAt+takenUntil }), Want: spec.Inconclusive},
		{Name: "none is opened any more", Build: with(func(x *timeline.Sample) {
			if x.Start >= toldAt+takenUntil {
				x.Stream = flow.To(through[0].Flow, "")
			}
		}), Want: spec.Inconclusive},
	})
}

func TestTunnelsAreTold(t *testing.T) {
	check := TunnelsAreTold(2)
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
	starved := func(build func(scene.Scene)) func(scene.Scene) {
		return func(s scene.Scene) {
			build(s)
			s.Starve("a", goneAt)
		}
	}
	fails := []scene.Row{
		{Name: "never, on a node without CPU", Build: starved(with()), Want: spec.Inconclusive},
		{Name: "no close_notify, on a node without CPU", Build: starved(with(frame(then, timeline.FrameGoAway), frame(then, timeline.FrameFIN))), Want: spec.Fail},
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
	as := func(alone bool, says ...timeline.Frame) func(scene.Scene) {
		return func(s scene.Scene) {
			rollOut{told: at, gone: map[string]time.Duration{"proxy": goneAt}, alone: alone}.on(s, "a", "b", "control")
			// Two instances, one on each of two nodes.
			for i, uid := range []string{scene.UID, scene.OtherUID} {
				s.Event(time.Second, timeline.PodSeen, uid, map[string]string{"owner": "ReplicaSet/echo-1"})
				s.Event(2*time.Second, timeline.PodReady, uid, map[string]string{"ready": "true"})
				s.Events[len(s.Events)-1].Node = []string{"a", "b"}[i]
				standTo(s, uid, silent, 12, says...)
			}
		}
	}
	with := func(says ...timeline.Frame) func(scene.Scene) { return as(false, says...) }
	check := TunnelsAreTold(2)
	scene.Judge(t, func(tl *timeline.Timeline) spec.Finding { return check.Run(assertions.NewCase(tl, scene.P)) }, []scene.Row{
		// The watch shows a deletion when the kubelet may have acted on it.
		{Name: "told at once", Build: with(frame(at-time.Millisecond, timeline.FrameGoAway), frame(at+time.Millisecond, timeline.FrameCloseNotify)), Want: spec.Pass},
		{Name: "told before any successor came, as a late watch has it", Build: with(frame(at-1500*time.Millisecond, timeline.FrameGoAway), frame(at+time.Millisecond, timeline.FrameCloseNotify)), Want: spec.Pass},
		{Name: "told before any successor came, and no close_notify", Build: with(frame(at-1500*time.Millisecond, timeline.FrameGoAway), frame(at+time.Millisecond, timeline.FrameFIN)), Want: spec.Fail},
		{Name: "never", Build: with(), Want: spec.Fail},
		{Name: "alone, and told at once", Build: as(true, frame(at-time.Millisecond, timeline.FrameGoAway), frame(at+time.Millisecond, timeline.FrameCloseNotify)), Want: spec.Pass},
		{Name: "alone, and told before the deletion, as a late watch has it", Build: as(true, frame(at-time.Second, timeline.FrameGoAway), frame(at+time.Millisecond, timeline.FrameCloseNotify)), Want: spec.Pass},
		{Name: "told to go for their age before that", Build: as(true, frame(at-2*starvedBy, timeline.FrameGoAway), frame(at+time.Millisecond, timeline.FrameCloseNotify)), Want: spec.Inconclusive},
		{Name: "alone, and never told", Build: as(true), Want: spec.Fail},
	})
}
