// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func judge(k assertions.Check) func(*timeline.Timeline) spec.Finding {
	return func(tl *timeline.Timeline) spec.Finding { return k.Run(assertions.NewCase(tl, scene.P)) }
}

// starved has the machine be so from a little before D on.
func starved(s scene.Scene) {
	s.Through("direct/https1/new/get@"+scene.UID, 50, func(x *timeline.Sample) { x.Saturated = x.Start > scene.D-time.Second })
}

func TestInjects(t *testing.T) {
	tries := func(odd time.Duration, result string) func(scene.Scene) {
		return func(s scene.Scene) {
			for at := scene.D - 2*time.Second; at < scene.Exit+scene.P+2*time.Second; at += 50 * time.Millisecond {
				attrs := map[string]string{"result": timeline.TriedInjected}
				if at == odd {
					attrs = map[string]string{"result": result, "why": "connection refused"}
				}
				s.Event(at, timeline.PodTried, "", attrs)
			}
		}
	}
	scene.Judge(t, judge(Injects()), []scene.Row{
		{Name: "each with its sidecar", Build: tries(0, ""), Want: spec.Pass},
		{Name: "one is refused", Build: tries(scene.D+100*time.Millisecond, timeline.TriedRefused), Want: spec.Fail},
		{Name: "one is bare", Build: tries(scene.Exit, timeline.TriedBare), Want: spec.Fail},
		{Name: "one is refused on a machine that was starved just then", Build: func(s scene.Scene) {
			tries(scene.D+100*time.Millisecond, timeline.TriedRefused)(s)
			starved(s)
		}, Want: spec.Inconclusive},
		{Name: "one is bare on a machine that was starved just then", Build: func(s scene.Scene) {
			tries(scene.Exit, timeline.TriedBare)(s)
			starved(s)
		}, Want: spec.Fail},
		{Name: "one is refused when the news is everywhere", Build: tries(scene.Exit+scene.P+100*time.Millisecond, timeline.TriedRefused), Want: spec.Pass},
		{Name: "one is refused before D", Build: tries(scene.D-100*time.Millisecond, timeline.TriedRefused), Want: spec.Pass},
		{Name: "one of a node's proxy is bare", Build: func(s scene.Scene) {
			tries(0, "")(s)
			s.Event(scene.D+time.Second, timeline.PodTried, "", map[string]string{"result": timeline.TriedBare, "dataplane": "node"})
		}, Want: spec.Fail},
		{Name: "half of them are a node's proxy's", Build: func(s scene.Scene) {
			tries(0, "")(s)
			for at := scene.D; at < scene.Exit; at += 100 * time.Millisecond {
				s.Event(at, timeline.PodTried, "", map[string]string{"result": timeline.TriedInjected, "dataplane": "node"})
			}
		}, Want: spec.Pass},
		{Name: "too few are a node's proxy's", Build: func(s scene.Scene) {
			tries(0, "")(s)
			s.Event(scene.D+time.Second, timeline.PodTried, "", map[string]string{"result": timeline.TriedInjected, "dataplane": "node"})
		}, Want: spec.Inconclusive},
		{Name: "none is tried", Build: func(scene.Scene) {}, Want: spec.Inconclusive},
	})
}

func TestEachServerStays(t *testing.T) {
	const webhook, discovery = "direct/https1/new/get@" + scene.UID, "direct/xds/new/discover@" + scene.UID
	asked := func(rate map[string]int, of string, from, to time.Duration) func(scene.Scene) {
		return func(s scene.Scene) {
			for name, n := range rate {
				s.Through(name, n, func(x *timeline.Sample) {
					x.Nth, x.Server = 1, ""
					if name == of && x.Start >= from && x.Start < to {
						x.Outcome, x.Phase, x.Status = timeline.Refused, timeline.PhaseDial, 0
					}
				})
			}
		}
	}
	both := map[string]int{webhook: 50, discovery: 40}
	const last = scene.D + scene.P
	var ofWebhook, ofDiscovery []scene.Row
	for _, row := range []struct {
		name           string
		build          func(scene.Scene)
		hook, discover spec.Verdict
	}{
		{"both go on", asked(both, "", 0, 0), spec.Pass, spec.Pass},
		{"the webhook closes at D", asked(both, webhook, scene.D, scene.Exit), spec.Fail, spec.Pass},
		{"discovery closes at D", asked(both, discovery, scene.D, scene.Exit), spec.Pass, spec.Fail},
		{"discovery refuses one", asked(both, discovery, scene.D+time.Second, scene.D+time.Second+25*time.Millisecond), spec.Pass, spec.Fail},
		{"discovery closes when the news is everywhere", asked(both, discovery, last+time.Millisecond, scene.Exit), spec.Pass, spec.Pass},
		{"nobody asks discovery", asked(map[string]int{webhook: 50}, "", 0, 0), spec.Pass, spec.Inconclusive},
		{"discovery is asked seldom", asked(map[string]int{webhook: 50, discovery: 10}, "", 0, 0), spec.Pass, spec.Inconclusive},
		{"nobody asks the webhook", asked(map[string]int{discovery: 40}, "", 0, 0), spec.Inconclusive, spec.Pass},
	} {
		ofWebhook = append(ofWebhook, scene.Row{Name: row.name, Build: row.build, Want: row.hook})
		ofDiscovery = append(ofDiscovery, scene.Row{Name: row.name, Build: row.build, Want: row.discover})
	}
	scene.Judge(t, judge(webhookStays), ofWebhook)
	scene.Judge(t, judge(discoveryStays), ofDiscovery)
}

func TestHandsOver(t *testing.T) {
	held := func(s scene.Scene, at time.Duration, by string) {
		s.Event(at, timeline.LeaseHeld, "uid-lease", map[string]string{"holder": by, "lasts": "15"})
	}
	scene.Judge(t, judge(HandsOver()), []scene.Row{
		{Name: "given back and taken", Build: func(s scene.Scene) {
			held(s, time.Second, scene.UID)
			held(s, scene.D+time.Second, "")
			held(s, scene.D+2*time.Second, scene.OtherUID)
		}, Want: spec.Pass},
		{Name: "given back as the deletion shows, before D is known", Build: func(s scene.Scene) {
			s.Drop(func(e timeline.Event) bool { return e.Kind == timeline.DrainStart })
			s.Event(scene.D+60*time.Millisecond, timeline.DrainStart, scene.UID, map[string]string{"trigger": "SIGTERM"})
			held(s, time.Second, scene.UID)
			s.Event(scene.D+50*time.Millisecond, timeline.LeaseHeld, "uid-lease", map[string]string{"holder": "", "lasts": "1"})
			held(s, scene.D+55*time.Millisecond, scene.OtherUID)
		}, Want: spec.Pass},
		{Name: "given back, and taken late", Build: func(s scene.Scene) {
			held(s, time.Second, scene.UID)
			held(s, scene.D+time.Second, "")
			held(s, scene.D+6*time.Second, scene.OtherUID)
		}, Want: spec.Fail},
		{Name: "kept", Build: func(s scene.Scene) { held(s, time.Second, scene.UID) }, Want: spec.Fail},
		{Name: "stopped before anybody had to lead", Build: func(s scene.Scene) {
			held(s, time.Second, scene.UID)
			s.Drop(func(e timeline.Event) bool {
				return e.Attrs["what"] == assertions.MarkTail || e.Kind == timeline.ProcExit
			})
		}, Want: spec.Inconclusive},
		{Name: "taken when it had run out", Build: func(s scene.Scene) {
			held(s, time.Second, scene.UID)
			held(s, scene.D+15*time.Second, scene.OtherUID)
		}, Want: spec.Fail},
		{Name: "taken when it had run out, on a machine that was starved just then", Build: func(s scene.Scene) {
			held(s, time.Second, scene.UID)
			held(s, scene.D+15*time.Second, scene.OtherUID)
			s.Through("direct/https1/new/get@"+scene.UID, 50, func(x *timeline.Sample) { x.Saturated = x.Start > scene.D+12*time.Second })
		}, Want: spec.Fail},
		{Name: "another one led all the time", Build: func(s scene.Scene) { held(s, time.Second, scene.OtherUID) }, Want: spec.Inconclusive},
		{Name: "it had led before", Build: func(s scene.Scene) {
			held(s, time.Second, scene.UID)
			held(s, 2*time.Second, scene.OtherUID)
		}, Want: spec.Inconclusive},
		{Name: "nobody leads", Build: func(scene.Scene) {}, Want: spec.Inconclusive},
	})
}
