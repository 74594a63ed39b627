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
	// at has so many connections to each port answered in each tenth of a second.
	at := func(each map[string]string, from time.Duration, more func(scene.Scene), nodes ...string) func(scene.Scene) {
		return func(s scene.Scene) {
			for _, n := range nodes {
				replace(s, n, toldAt, goneAt)
				for at := toldAt - from; at <= toldAt+knockedAfter; at += toldEvery {
					for port, some := range each {
						tell(s, at, n, timeline.Knocks, map[string]string{"port": port, "n": some, "longest": "3ms"})
					}
				}
			}
			if more != nil {
				more(s)
			}
		}
	}
	with := func(each string, more func(scene.Scene), nodes ...string) func(scene.Scene) {
		return at(map[string]string{"15008": each, "15001": each, "15006": each}, knockedBefore, more, nodes...)
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
		{Name: "none", Build: with("100", nil, "a", "b"), Want: spec.Pass},
		{Name: "none, at two ports alone", Build: at(map[string]string{"15008": "200", "15001": "200"}, knockedBefore, nil, "a", "b"), Want: spec.Inconclusive},
		{Name: "none, and few at one port", Build: at(map[string]string{"15008": "180", "15001": "20", "15006": "180"}, knockedBefore, nil, "a", "b"), Want: spec.Inconclusive},
		{Name: "none, and few around the handoff", Build: func(s scene.Scene) {
			at(map[string]string{"15008": "50", "15001": "50", "15006": "50"}, 5*knockedBefore, nil, "a", "b")(s)
			for i, e := range s.Events { // the next proxies were started long before
				if e.Attrs["is"] == timeline.NodeProxyStarts {
					s.Events[i].At = 0
				}
			}
		}, Want: spec.Inconclusive},
		{Name: "one", Build: with("100", failing(toldAt+100*time.Millisecond, "b"), "a", "b"), Want: spec.Fail},
		{Name: "before it is told to go", Build: with("100", failing(toldAt-400*time.Millisecond, "a"), "a", "b"), Want: spec.Fail},
		{Name: "on another node", Build: with("100", failing(toldAt, "c"), "a", "b"), Want: spec.Pass},
		{Name: "long after", Build: with("100", failing(toldAt+4*time.Second, "a"), "a", "b"), Want: spec.Pass},
		{Name: "one that nobody answers", Build: with("100", hanging(toldAt+time.Second, "a"), "a", "b"), Want: spec.Fail},
		{Name: "one that nobody answers, begun long before", Build: with("100", hanging(toldAt-2*time.Second, "a"), "a", "b"), Want: spec.Pass},
		{Name: "too few", Build: with("50", nil, "a", "b"), Want: spec.Inconclusive},
		{Name: "only one was replaced", Build: with("100", nil, "a"), Want: spec.Inconclusive},
	})
}
