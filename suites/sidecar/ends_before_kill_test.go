// SPDX-License-Identifier: Apache-2.0

package sidecar

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

// killed has the app of the scene be killed at its exit, and its sidecar go some time before.
func killed(s scene.Scene, before time.Duration) {
	beside(scene.Exit - before)(s)
	s.Event(scene.Exit, timeline.PodContainer, scene.UID, map[string]string{"container": "echo", "state": "terminated", "exitCode": "137"})
}

func TestGoneBeforeKill(t *testing.T) {
	goes := func(before time.Duration) func(scene.Scene) {
		return func(s scene.Scene) { killed(s, before) }
	}
	check := GoneBeforeKill()
	scene.Judge(t, func(tl *timeline.Timeline) spec.Finding { return check.Run(assertions.NewCase(tl, scene.P)) }, []scene.Row{
		{Name: "before it", Build: goes(500 * time.Millisecond), Want: spec.Pass},
		{Name: "killed a moment before its app", Build: goes(10 * time.Millisecond), Want: spec.Fail},
		{Name: "killed a moment after its app", Build: goes(-10 * time.Millisecond), Want: spec.Fail},
		{Name: "killed, on a starved machine", Build: func(s scene.Scene) { killed(s, 0); starved(s, scene.Exit) }, Want: spec.Inconclusive},
		{Name: "its app ends by itself", Build: beside(scene.Exit), Want: spec.Inconclusive},
		{Name: "nobody saw it go", Build: func(s scene.Scene) {
			killed(s, time.Second)
			s.Drop(func(e timeline.Event) bool { return e.Attrs["container"] == "proxy" })
		}, Want: spec.Inconclusive},
	})
}

func TestToldBeforeKill(t *testing.T) {
	const at = scene.Exit - 500*time.Millisecond
	long := flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.Reused, Op: flow.Slow, Takes: 16 * time.Second}
	short := flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.Reused, Op: flow.Get}
	says := func(kind timeline.FrameKind, at time.Duration) timeline.Frame {
		return timeline.Frame{At: at, Kind: kind, Attrs: map[string]string{}}
	}
	goaway, notify := says(timeline.FrameGoAway, at), says(timeline.FrameCloseNotify, at+1)
	// stand has six tunnels of a kind be told something.
	stand := func(s scene.Scene, f flow.Flow, frames ...timeline.Frame) {
		for k := range 6 {
			x := timeline.Sample{
				Stream: flow.To(f, scene.UID), ID: fmt.Sprintf("%s-%d", f, k), Conn: uint64(k + 1), Nth: 1, StreamID: 1,
				Due: scene.D, Start: scene.D, Sent: scene.D, First: scene.D + 1, End: scene.D + 2, Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: scene.UID, Status: 200,
			}
			if f.Takes > 0 {
				x.End, x.Outcome, x.Phase = at, timeline.StreamReset, timeline.PhaseBody
			}
			s.Add(x)
			for _, frame := range frames {
				frame.Stream, frame.Conn = x.Stream, x.Conn
				s.Frames = append(s.Frames, frame)
			}
		}
	}
	with := func(frames ...timeline.Frame) func(scene.Scene) {
		return func(s scene.Scene) {
			killed(s, 500*time.Millisecond)
			stand(s, short, goaway, notify)
			stand(s, long, frames...)
		}
	}
	check := ToldBeforeKill()
	scene.Judge(t, func(tl *timeline.Timeline) spec.Finding { return check.Run(assertions.NewCase(tl, scene.P)) }, []scene.Row{
		{Name: "all", Build: with(goaway, notify), Want: spec.Pass},
		{Name: "its client left when it was told", Build: with(goaway, says(timeline.FrameClose, at+1)), Want: spec.Pass},
		{Name: "nothing", Build: with(says(timeline.FrameFIN, scene.Exit)), Want: spec.Fail},
		{Name: "no GOAWAY", Build: with(notify), Want: spec.Fail},
		{Name: "no close_notify", Build: with(goaway, says(timeline.FrameFIN, scene.Exit)), Want: spec.Fail},
		{Name: "a GOAWAY between the deletion and D", Build: func(s scene.Scene) {
			deletedEarly(s)
			with(says(timeline.FrameGoAway, scene.D-50*time.Millisecond), notify)(s)
		}, Want: spec.Pass},
		{Name: "nothing, on a node without CPU", Build: func(s scene.Scene) {
			with(says(timeline.FrameFIN, scene.Exit))(s)
			s.Starve("a", scene.Exit)
		}, Want: spec.Inconclusive},
		{Name: "no close_notify and a FIN before its app was killed, on a node without CPU", Build: func(s scene.Scene) {
			with(goaway, says(timeline.FrameFIN, at+1))(s)
			s.Starve("a", scene.Exit)
		}, Want: spec.Fail},
		{Name: "after its app was killed", Build: with(goaway, says(timeline.FrameCloseNotify, scene.Exit+1)), Want: spec.Fail},
		{Name: "after that, on a starved machine", Build: func(s scene.Scene) {
			with(goaway, says(timeline.FrameCloseNotify, scene.Exit+1))(s)
			starved(s, scene.Exit)
		}, Want: spec.Inconclusive},
		{Name: "none was at work", Build: func(s scene.Scene) { killed(s, time.Second); stand(s, short, goaway, notify) }, Want: spec.Inconclusive},
		{Name: "its app ends by itself", Build: func(s scene.Scene) { beside(scene.Exit)(s); stand(s, long, goaway, notify) }, Want: spec.Inconclusive},
	})
}
