// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// In the scenes node a restarts twice, and one pod of it begins again each time, at another address. One of node b
// stays.
var restartScene = []struct{ down, up, begins time.Duration }{
	{scene.D, scene.D + time.Second, scene.D + 6*time.Second},
	{scene.D + 12*time.Second, scene.D + 13*time.Second, scene.D + 18*time.Second},
}

// restarting has node a restart. What a pod sends out begins so long after it could begin, every 30 ms, and is served
// but for what set changes.
func restarting(s scene.Scene, late time.Duration, set func(*timeline.Sample)) {
	s.Drop(func(e timeline.Event) bool { return e.Subject == scene.UID }) // it goes without a word
	on := func(at time.Duration, kind timeline.EventKind, subject string, attrs map[string]string) {
		s.Events = append(s.Events, timeline.Event{At: at, Source: "test", Kind: kind, Subject: subject, Name: subject, Node: "a", Attrs: attrs})
	}
	for nth, r := range restartScene {
		on(r.down, timeline.NodeRestart, "a", map[string]string{"is": timeline.NodeDown})
		on(r.up, timeline.NodeRestart, "a", map[string]string{"is": timeline.NodeUp})
		agent := r.up + time.Second // the second time behind the proxy
		on(agent, timeline.NodeAgent, "agent", map[string]string{"is": timeline.NodeAgentStarts})
		on(agent+time.Second-time.Duration(nth)*1500*time.Millisecond, timeline.NodeProxy, "proxy", map[string]string{"is": timeline.NodeProxyStarts})
		on(r.begins, timeline.NodeProxy, "proxy", map[string]string{"is": timeline.NodeProxyServes})
		ip := fmt.Sprintf("10.0.1.%d", nth)
		on(r.up+2*time.Second, timeline.CNIAdd, stays, map[string]string{"ips": ip + " fd00::1", "error": "no agent answers"})
		on(r.begins, timeline.CNIAdd, stays, map[string]string{"ips": ip + " fd00::1"})
		for at, n := r.begins+late, 0; at < r.begins+5*time.Second; at, n = at+30*time.Millisecond, n+1 {
			x := timeline.Sample{
				Stream: flow.To(sendsOut, stays), ID: fmt.Sprint(nth, "-", n), Conn: uint64(n + 1), Nth: 1, Due: at, Start: at, Sent: at + 1, First: at + 2, End: at + 3,
				Outcome: timeline.OK, Phase: timeline.PhaseDone, Status: 200, Server: "uid-peer",
			}
			if set != nil {
				set(&x)
			}
			s.Add(x)
		}
		dialled(s, r.begins+time.Second, ip+":40000", "10.0.2.1:15008")
	}
}

// dialled has the wire show the begin of a connection.
func dialled(s scene.Scene, at time.Duration, from, to string) {
	s.Event(at, timeline.Wire, "", map[string]string{"what": timeline.WireDialled, "from": from, "to": to})
}

func TestNothingLeavesInPlainText(t *testing.T) {
	with := func(more func(scene.Scene)) func(scene.Scene) {
		return func(s scene.Scene) {
			restarting(s, 100*time.Millisecond, nil)
			more(s)
		}
	}
	last := restartScene[1]
	scene.Judge(t, judging(NothingLeavesInPlainText()), []scene.Row{
		{Name: "in tunnels", Build: with(func(scene.Scene) {}), Want: spec.Pass},
		{Name: "in plain text at first", Build: with(func(s scene.Scene) { dialled(s, last.begins+150*time.Millisecond, "10.0.1.1:40001", "10.0.2.1:8080") }), Want: spec.Fail},
		{Name: "in plain text, in the other family, after the first restart", Build: with(func(s scene.Scene) {
			dialled(s, restartScene[0].begins+4*time.Second, "[fd00::1]:40001", "[fd00::9]:8080")
		}), Want: spec.Fail},
		{Name: "before its ADD had succeeded", Build: with(func(s scene.Scene) { dialled(s, last.up+time.Second, "10.0.1.1:40001", "10.0.2.1:8080") }), Want: spec.Fail},
		{Name: "another node's", Build: with(func(s scene.Scene) { dialled(s, last.begins, "10.0.2.2:40001", "10.0.2.1:8080") }), Want: spec.Pass},
		{Name: "to it", Build: with(func(s scene.Scene) { dialled(s, last.begins, "10.0.2.1:40001", "10.0.1.1:8080") }), Want: spec.Pass},
		{Name: "what failed before there was a tunnel", Build: func(s scene.Scene) {
			restarting(s, 100*time.Millisecond, func(x *timeline.Sample) {
				if x.Start > last.begins && x.Start < last.begins+time.Second {
					x.Outcome, x.Phase = timeline.Refused, timeline.PhaseDial
				}
			})
		}, Want: spec.Pass},
		{Name: "nearly all failed", Build: func(s scene.Scene) {
			restarting(s, 100*time.Millisecond, func(x *timeline.Sample) {
				if x.Start > last.begins+time.Second {
					x.Outcome, x.Phase = timeline.Reset, timeline.PhaseFirstByte
				}
			})
		}, Want: spec.Inconclusive},
		{Name: "containers, where nobody knows of ADD", Build: with(func(s scene.Scene) {
			runs(s)
			dialled(s, last.begins+time.Second, "10.0.1.1:40001", "10.0.2.1:8080")
		}), Want: spec.Fail},
		{Name: "containers, and tunnels", Build: with(runs), Want: spec.Pass},
		{Name: "its agent came first each time", Build: with(func(s scene.Scene) {
			s.Drop(func(e timeline.Event) bool {
				return e.At > last.up && e.Kind == timeline.NodeProxy && e.Attrs["is"] == timeline.NodeProxyStarts
			})
		}), Want: spec.Inconclusive},
		{Name: "it called late", Build: func(s scene.Scene) { restarting(s, 1100*time.Millisecond, nil) }, Want: spec.Inconclusive},
		{Name: "it never began again", Build: with(func(s scene.Scene) {
			s.Drop(func(e timeline.Event) bool { return e.Kind == timeline.CNIAdd && e.At > last.up })
		}), Want: spec.Inconclusive},
		{Name: "it never came back", Build: with(func(s scene.Scene) {
			s.Drop(func(e timeline.Event) bool { return e.Kind == timeline.NodeRestart && e.At == last.up })
		}), Want: spec.Inconclusive},
		{Name: "the wire shows nothing", Build: with(func(s scene.Scene) {
			s.Drop(func(e timeline.Event) bool { return e.Kind == timeline.Wire })
		}), Want: spec.Inconclusive},
		{Name: "the wire was not seen whole", Build: with(func(s scene.Scene) {
			s.Event(last.up, timeline.WatchGap, "wire", map[string]string{"why": "3 packets were missed"})
		}), Want: spec.Inconclusive},
	})
}

// runs has containers run where ADD was told of.
func runs(s scene.Scene) {
	for i, e := range s.Events {
		if e.Kind != timeline.CNIAdd || e.Attrs["error"] != "" {
			continue
		}
		s.Events[i].Kind, s.Events[i].Attrs = timeline.PodContainer, map[string]string{"state": "running", "container": "echo"}
		seen := e
		seen.At, seen.Kind, seen.Attrs = e.At-time.Second, timeline.PodSeen, map[string]string{"ip": map[bool]string{true: "10.0.1.0", false: "10.0.1.1"}[e.At < restartScene[1].down]}
		s.Events = append(s.Events, seen)
	}
}
