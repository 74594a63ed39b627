// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestThroughTunnels(t *testing.T) {
	const ip = "10.1.2.3"
	look := func(peer, sockets string, from, to time.Duration) func(scene.Scene) {
		return func(s scene.Scene) {
			s.Event(0, timeline.PodSeen, scene.UID, map[string]string{"ip": ip})
			for at := from; at < to; at += 250 * time.Millisecond {
				s.Event(at, timeline.Sockets, "uid-probe", map[string]string{"peer": peer, "sockets": sockets})
			}
		}
	}
	const tunnel, open = ip + ":15008", "7/established/10.1.2.9:4001"
	broken := false
	check := ThroughTunnels(assertions.Check{Name: "a rule", Expected: "it is kept", Judge: func(c assertions.Case) spec.Finding {
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
