// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
	"github.com/lastcall-dev/lastcall/suites/tunnel"
)

// The proxies of both nodes go, and say GOAWAY a second later.
const (
	goesAt = scene.D + time.Second
	saidAt = goesAt + time.Second
)

// handOver has each node's proxy be replaced, with an instance there, to which something is then added.
func handOver(nodes []string, each func(s scene.Scene, uid string)) func(scene.Scene) {
	return handOverUntil(goneAt, nodes, each)
}

// handOverUntil is handOver of proxies that are gone at an instant.
func handOverUntil(gone time.Duration, nodes []string, each func(s scene.Scene, uid string)) func(scene.Scene) {
	return func(s scene.Scene) {
		for i, uid := range []string{scene.UID, scene.OtherUID} {
			node := []string{"a", "b"}[i]
			s.Events = append(s.Events, timeline.Event{At: time.Second, Source: "test", Kind: timeline.PodSeen, Subject: uid, Name: uid, Node: node, Attrs: map[string]string{"node": node}})
			each(s, uid)
		}
		for _, node := range nodes {
			replace(s, node, goesAt, gone)
		}
	}
}

var twoNodes = []string{"a", "b"}

// names is a GOAWAY that names the last stream.
func names(at time.Duration) timeline.Frame {
	f := frame(at, timeline.FrameGoAway)
	f.Attrs["last"] = "1"
	return f
}

func judgeReplaced(t *testing.T, of assertions.Check, rows []scene.Row) {
	t.Helper()
	check := OfReplaced(of)
	scene.Judge(t, func(tl *timeline.Timeline) spec.Finding { return check.Run(assertions.NewCase(tl, scene.P)) }, rows)
}

func TestFirstGoAwayOfReplaced(t *testing.T) {
	with := func(nodes []string, says ...timeline.Frame) func(scene.Scene) {
		return handOver(nodes, func(s scene.Scene, uid string) { standTo(s, uid, kept, 6, says...) })
	}
	open := frame(saidAt, timeline.FrameGoAway)
	judgeReplaced(t, assertions.FirstGoAwayMax(), []scene.Row{
		{Name: "two phases", Build: with(twoNodes, open, names(saidAt+time.Millisecond)), Want: spec.Pass},
		{Name: "it names the last stream at once", Build: with(twoNodes, names(saidAt)), Want: spec.Fail},
		{Name: "it named the last stream before the proxy was told to go", Build: with(twoNodes, names(goesAt-time.Second)), Want: spec.Inconclusive},
		{Name: "none", Build: with(twoNodes), Want: spec.Inconclusive},
		{Name: "of one proxy alone", Build: with(twoNodes[:1], open), Want: spec.Inconclusive},
		{Name: "of an instance that ends, and no proxy", Build: with(nil, open), Want: spec.Inconclusive},
	})
}

func TestRacingStreamsOfReplaced(t *testing.T) {
	// with are streams in one tunnel to each instance, that begin so long before their client hears of the GOAWAY.
	with := func(before time.Duration, set func(s scene.Scene, x *timeline.Sample)) func(scene.Scene) {
		return handOver(twoNodes, func(s scene.Scene, uid string) {
			for n := range 4 {
				at := saidAt - before + time.Duration(n)
				x := timeline.Sample{
					Stream: flow.To(racing.Flow, uid), ID: fmt.Sprint(uid, n), Conn: 1, Nth: n + 1, StreamID: uint32(2*n + 1), Due: at, Start: at, Sent: at,
					First: at + 80*time.Millisecond, End: at + 90*time.Millisecond, Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: uid, Status: 200,
				}
				if set != nil && n == 0 {
					set(s, &x)
				}
				s.Add(x)
			}
			f := frame(saidAt, timeline.FrameGoAway)
			f.Stream, f.Conn = flow.To(racing.Flow, uid), 1
			s.Frames = append(s.Frames, f)
		})
	}
	fails := func(by timeline.Outcome) func(scene.Scene, *timeline.Sample) {
		return func(_ scene.Scene, x *timeline.Sample) {
			x.Outcome, x.Phase, x.First = by, timeline.PhaseFirstByte, 0
		}
	}
	const crosses, long = 10 * time.Millisecond, 2 * time.Second
	judgeReplaced(t, assertions.RacingStreams(), []scene.Row{
		{Name: "served", Build: with(crosses, nil), Want: spec.Pass},
		{Name: "stranded", Build: with(crosses, func(s scene.Scene, x *timeline.Sample) {
			fails(timeline.Closed)(s, x)
			x.End = goneAt
		}), Want: spec.Fail},
		{Name: "reset", Build: with(crosses, fails(timeline.StreamReset)), Want: spec.Fail},
		{Name: "turned away", Build: with(crosses, fails(timeline.RefusedStream)), Want: spec.Pass},
		{Name: "turned away, and begun", Build: with(crosses, func(s scene.Scene, x *timeline.Sample) {
			fails(timeline.RefusedStream)(s, x)
			s.Ledger = append(s.Ledger, timeline.Entry{At: x.End, ID: x.ID, Step: timeline.Begin, Pod: x.Server})
		}), Want: spec.Fail},
		{Name: "over before", Build: with(long, nil), Want: spec.Inconclusive},
	})
}

func TestEndsWithTheLastOfReplaced(t *testing.T) {
	slow := load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.Reused, Op: flow.Slow, Takes: 3 * time.Second}}
	const last = saidAt + 2*time.Second
	with := func(end time.Duration) func(scene.Scene) {
		return handOver(twoNodes, func(s scene.Scene, uid string) {
			standTo(s, uid, slow, 6, frame(saidAt, timeline.FrameGoAway), names(saidAt+time.Millisecond), frame(end, timeline.FrameCloseNotify))
			for i, x := range s.Samples {
				if x.Server == uid {
					s.Samples[i].End = last
				}
			}
		})
	}
	judgeReplaced(t, tunnel.EndsWithTheLast(), []scene.Row{
		{Name: "with the last", Build: with(last + time.Millisecond), Want: spec.Pass},
		{Name: "long after the last", Build: with(last + tunnel.EndsWithin + time.Millisecond), Want: spec.Fail},
	})
}

// In a cluster nobody sees the word to a proxy but in its deletion, and its successor came seconds before that.
func TestReplacedInClusterSays(t *testing.T) {
	with := func(says ...timeline.Frame) func(scene.Scene) {
		return func(s scene.Scene) {
			rollOut{told: goesAt, gone: map[string]time.Duration{"proxy": goneAt}}.on(s, "a", "b")
			for i, uid := range []string{scene.UID, scene.OtherUID} {
				s.Event(2*time.Second, timeline.PodReady, uid, map[string]string{"ready": "true"})
				s.Events[len(s.Events)-1].Node = []string{"a", "b"}[i]
				standTo(s, uid, kept, 6, says...)
			}
		}
	}
	judgeReplaced(t, assertions.FirstGoAwayMax(), []scene.Row{
		{Name: "two phases", Build: with(frame(saidAt, timeline.FrameGoAway), names(saidAt+time.Millisecond)), Want: spec.Pass},
		{Name: "it names the last stream at once", Build: with(names(saidAt)), Want: spec.Fail},
		{Name: "it named the last stream before the deletion showed", Build: with(names(goesAt - 100*time.Millisecond)), Want: spec.Inconclusive},
	})
}
