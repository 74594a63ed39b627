// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestThroughSidecar(t *testing.T) {
	const ip = "10.1.2.3"
	look := func(peer, sockets string, from, to time.Duration) func(scene.Scene) {
		return func(s scene.Scene) {
			s.Event(0, timeline.PodSeen, scene.UID, map[string]string{"ip": ip, "ips": ip + " fd00::3"})
			for at := from; at < to; at += 250 * time.Millisecond {
				s.Event(at, timeline.Sockets, "uid-probe", map[string]string{"peer": peer, "sockets": sockets})
			}
		}
	}
	const tunnel, open = ip + ":15008", "7/established/10.1.2.9:4001"
	broken := false
	check := ThroughSidecar(assertions.Check{Name: "a rule", Expected: "it is kept", Judge: func(c assertions.Case) spec.Finding {
		var tally assertions.Tally
		for t := range tally.Terminations(c) {
			if broken {
				tally.Late(c, t.Drain.At, t.Name, "", "it is broken")
			}
		}
		return tally.Conclude("it was kept", "it was broken")
	}})
	judge := func(tl *timeline.Timeline) spec.Finding { return check.Run(assertions.NewCase(tl, scene.P)) }
	scene.Judge(t, judge, []scene.Row{
		{Name: "a tunnel", Build: look(tunnel, open, scene.D-before, scene.D), Want: spec.Pass},
		{Name: "a tunnel to its other address", Build: look("[fd00::3]:15008", open, scene.D-before, scene.D), Want: spec.Pass},
		{Name: "none", Build: look(tunnel, "", scene.D-before, scene.D), Want: spec.Inconclusive},
		{Name: "one that is closed", Build: look(tunnel, "7/close-wait/10.1.2.9:4001", scene.D-before, scene.D), Want: spec.Inconclusive},
		{Name: "to the app itself", Build: look(ip+":8080", open, scene.D-before, scene.D), Want: spec.Inconclusive},
		{Name: "to another pod", Build: look("10.1.2.4:15008", open, scene.D-before, scene.D), Want: spec.Inconclusive},
		{Name: "long before", Build: look(tunnel, open, scene.D-2*before, scene.D-before), Want: spec.Inconclusive},
		{Name: "only behind D", Build: look(tunnel, open, scene.D+1, scene.Exit), Want: spec.Inconclusive},
	})
	broken = true
	scene.Holds(t, judge(scene.Quiet().Timeline), spec.Fail) // whatever way they came
}

// vendors says whose the sidecar is: its vendor's, which brings no tunnels.
func vendors(s scene.Scene) {
	s.Event(0, timeline.Marker, "", map[string]string{"what": assertions.MarkSubject, "container": "echo", "sidecar": "proxy"})
}

// asked adds requests on a path, which somebody passed on or nobody did.
func asked(s scene.Scene, path flow.Path, target string, relayed bool, from, to time.Duration) {
	stream := flow.To(flow.Flow{Path: path, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, target)
	for at := from; at < to; at += 100 * time.Millisecond {
		s.Add(timeline.Sample{
			Stream: stream, ID: stream.String() + at.String(), Conn: 1, Nth: 1, Due: at, Start: at, End: at + time.Millisecond,
			Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: target, Relayed: relayed,
		})
	}
}

// Of a vendor's sidecar what the app saw counts, and tunnels of whomever don't.
func TestThroughAVendorsSidecar(t *testing.T) {
	kept := assertions.Check{Name: "a rule", Expected: "it is kept", Judge: func(assertions.Case) spec.Finding {
		return spec.Finding{Verdict: spec.Pass, Actual: "it was kept"}
	}}
	for path, check := range map[flow.Path]assertions.Check{flow.Direct: ThroughSidecar(kept), flow.Outbound: CallsThroughProxy(kept)} {
		other := map[flow.Path]flow.Path{flow.Direct: flow.Outbound, flow.Outbound: flow.Direct}[path]
		row := func(path flow.Path, target string, relayed bool, from, to time.Duration) func(scene.Scene) {
			return func(s scene.Scene) {
				vendors(s)
				asked(s, path, target, relayed, from, to)
			}
		}
		t.Run(string(path), func(t *testing.T) {
			scene.Judge(t, judged(check), []scene.Row{
				{Name: "through it", Build: row(path, scene.UID, true, scene.D-before, scene.D), Want: spec.Pass},
				{Name: "past it", Build: row(path, scene.UID, false, scene.D-before, scene.D), Want: spec.Inconclusive},
				{Name: "through another's", Build: row(path, scene.OtherUID, true, scene.D-before, scene.D), Want: spec.Inconclusive},
				{Name: "the other way", Build: row(other, scene.UID, true, scene.D-before, scene.D), Want: spec.Inconclusive},
				{Name: "long before", Build: row(path, scene.UID, true, scene.D-2*before, scene.D-before-time.Second), Want: spec.Inconclusive},
				{Name: "only behind D", Build: row(path, scene.UID, true, scene.D+1, scene.Exit), Want: spec.Inconclusive},
				{Name: "past it, when it has left with its redirect", Build: func(s scene.Scene) {
					row(path, scene.UID, true, scene.D-before, scene.D+time.Second)(s)
					asked(s, path, scene.UID, false, scene.D+time.Second, scene.Exit)
				}, Want: spec.Fail},
				{Name: "the other way past it", Build: func(s scene.Scene) {
					row(path, scene.UID, true, scene.D-before, scene.D+time.Second)(s)
					asked(s, other, scene.UID, false, scene.D-before, scene.Exit)
				}, Want: spec.Pass},
				{Name: "a tunnel", Build: func(s scene.Scene) {
					vendors(s)
					s.Event(0, timeline.PodSeen, scene.UID, map[string]string{"ip": "10.1.2.3"})
					for at := scene.D - before; at < scene.D; at += 250 * time.Millisecond {
						s.Event(at, timeline.Sockets, "uid-probe", map[string]string{"peer": "10.1.2.3:15008", "sockets": "7/established/10.1.2.9:4001"})
					}
				}, Want: spec.Inconclusive},
				{Name: "relayed in the suite's own mesh", Build: func(s scene.Scene) {
					asked(s, path, scene.UID, true, scene.D-before, scene.D)
				}, Want: spec.Inconclusive},
			})
		})
	}
}
