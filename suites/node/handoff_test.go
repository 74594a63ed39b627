// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestNoneKnocksInVain(t *testing.T) {
	check := NoneKnocksInVain()
	tell := func(s scene.Scene, at time.Duration, node string, kind timeline.EventKind, attrs map[string]string) {
		s.Events = append(s.Events, timeline.Event{At: at, Source: "test", Kind: kind, Subject: scene.UID, Name: scene.UID, Node: node, Attrs: attrs})
	}
	with := func(each string, more func(scene.Scene), nodes ...string) func(scene.Scene) {
		return func(s scene.Scene) {
			for _, n := range nodes {
				replace(s, n, toldAt, goneAt)
				for at := toldAt - knockedBefore; at <= toldAt+knockedAfter; at += toldEvery {
					tell(s, at, n, timeline.Knocks, map[string]string{"port": "15008", "n": each, "longest": "3ms"})
				}
			}
			if more != nil {
				more(s)
			}
		}
	}
	failing := func(at time.Duration, node string) func(scene.Scene) {
		return func(s scene.Scene) {
			tell(s, at, node, timeline.KnockFailed, map[string]string{"port": "15001", "why": "connect: connection refused", "took": "1ms"})
		}
	}
	// hanging begins at an instant, and is given up three seconds later.
	hanging := func(at time.Duration, node string) func(scene.Scene) {
		return func(s scene.Scene) {
			tell(s, at+3*time.Second, node, timeline.KnockFailed, map[string]string{"port": "15008", "why": "connected, and not answered: connection timed out", "took": "3s"})
		}
	}
	scene.Judge(t, func(tl *timeline.Timeline) spec.Finding { return check.Run(assertions.NewCase(tl, scene.P)) }, []scene.Row{
		{Name: "none", Build: with("200", nil, "a", "b"), Want: spec.Pass},
		{Name: "one", Build: with("200", failing(toldAt+100*time.Millisecond, "b"), "a", "b"), Want: spec.Fail},
		{Name: "before it is told to go", Build: with("200", failing(toldAt-400*time.Millisecond, "a"), "a", "b"), Want: spec.Fail},
		{Name: "on another node", Build: with("200", failing(toldAt, "c"), "a", "b"), Want: spec.Pass},
		{Name: "long after", Build: with("200", failing(toldAt+4*time.Second, "a"), "a", "b"), Want: spec.Pass},
		{Name: "one that nobody answers", Build: with("200", hanging(toldAt+time.Second, "a"), "a", "b"), Want: spec.Fail},
		{Name: "one that nobody answers, begun long before", Build: with("200", hanging(toldAt-2*time.Second, "a"), "a", "b"), Want: spec.Pass},
		{Name: "too few", Build: with("100", nil, "a", "b"), Want: spec.Inconclusive},
		{Name: "only one was replaced", Build: with("200", nil, "a"), Want: spec.Inconclusive},
	})
}
