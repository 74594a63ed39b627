// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestDroppedWhenBack(t *testing.T) {
	on := func(s scene.Scene, at time.Duration, kind timeline.EventKind, uid string, attrs map[string]string) {
		s.Events = append(s.Events, timeline.Event{At: at, Source: "test", Kind: kind, Subject: uid, Name: uid, Node: "a", Attrs: attrs})
	}
	ends := func(s scene.Scene, uid string, at, took time.Duration) {
		s.Event(at, timeline.PodDeletion, uid, map[string]string{"grace": "15"})
		s.Event(at, timeline.DrainStart, uid, nil)
		s.Event(at+time.Second, timeline.ProcExit, uid, nil)
		s.Event(at+time.Second+took, timeline.NetGone, uid, nil)
	}
	looks := func(s scene.Scene, uid string, at time.Duration, set map[string]string) {
		attrs := map[string]string{"held": "", "keeps": "", "named": "false"}
		for k, v := range set {
			attrs[k] = v
		}
		on(s, at, timeline.NodeHolds, uid, attrs)
	}
	calls := func(s scene.Scene, at time.Duration, set map[string]string) {
		for _, command := range []string{"ADD", "DEL"} {
			attrs := map[string]string{"command": command, "took": "40ms"}
			for k, v := range set {
				attrs[k] = v
			}
			on(s, at, timeline.CNICall, "", attrs)
		}
	}
	with := func(took time.Duration, left, called map[string]string) func(scene.Scene) {
		return func(s scene.Scene) {
			both(s)
			ends(s, goneFirst, killedAt+time.Second, time.Second)
			ends(s, goneLast, agentKilledAt+time.Second, took)
			looks(s, goneFirst, servesAt+2*time.Second, nil)
			looks(s, goneLast, agentBackAt+2*time.Second, left)
			calls(s, servesAt+3*time.Second, nil)
			calls(s, agentBackAt+3*time.Second, called)
		}
	}
	is := func(k, v string) map[string]string { return map[string]string{k: v} }
	scene.Judge(t, judging(DroppedWhenBack()), []scene.Row{
		{Name: "nothing is left", Build: with(5*time.Second, nil, nil), Want: spec.Pass},
		{Name: "a listener", Build: with(5*time.Second, is("held", "listening@[::]:15008"), nil), Want: spec.Fail},
		{Name: "its network", Build: with(5*time.Second, is("keeps", "node-agent"), nil), Want: spec.Fail},
		{Name: "its name", Build: with(5*time.Second, is("named", "true"), nil), Want: spec.Fail},
		{Name: "a DEL without a bound", Build: with(7*time.Second, nil, nil), Want: spec.Fail},
		{Name: "another pod can't begin", Build: with(5*time.Second, nil, is("error", "no acknowledgement")), Want: spec.Fail},
		{Name: "another pod has to wait", Build: with(5*time.Second, nil, is("took", "3s")), Want: spec.Fail},
		{Name: "nobody looked", Build: func(s scene.Scene) {
			with(time.Second, nil, nil)(s)
			s.Drop(func(e timeline.Event) bool { return e.Kind == timeline.NodeHolds && e.Subject == goneLast })
		}, Want: spec.Inconclusive},
		{Name: "no other pod", Build: func(s scene.Scene) {
			with(time.Second, nil, nil)(s)
			s.Drop(func(e timeline.Event) bool { return e.Kind == timeline.CNICall })
		}, Want: spec.Inconclusive},
		{Name: "it was not gone", Build: func(s scene.Scene) {
			with(time.Second, nil, nil)(s)
			s.Drop(func(e timeline.Event) bool { return e.Kind == timeline.NetGone && e.Subject == goneLast })
		}, Want: spec.Fail},
	})
}
