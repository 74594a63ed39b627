// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestHoldsMinimum(t *testing.T) {
	exitAt := func(s *scene, at time.Duration) {
		s.shift(timeline.ProcExit, uid, at)
	}
	// held is a connection that stands until an instant.
	held := func(s *scene, until time.Duration) {
		s.dial("h2c/new/idle/30s").ask(9*sec).hear(until, timeline.FrameFIN)
	}
	judgeWire(t, []wireCase{
		{"holds it, and leaves", HoldsMinimum(), func(s *scene) { s.doors(wireShut); exitAt(s, wireShut+sec) }, spec.Pass},
		{"stays for a connection", HoldsMinimum(), func(s *scene) {
			s.doors(wireShut)
			s.dial("http1/reused/slow/2s").ask(12*sec, until(wireExit)).hear(wireExit, timeline.FrameFIN)
		}, spec.Pass},
		{"a scout came by before", HoldsMinimum(), func(s *scene) {
			s.doors(wireShut)
			exitAt(s, wireShut+sec)
			s.add(timeline.Sample{Stream: flow.Named("scout/service/http1/new/get"), ID: "scout-1", Conn: 1, Nth: 1, Start: sec, Dial: sec, End: sec + 1, Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: uid})
		}, spec.Pass},
		{"accepts for too short", HoldsMinimum(), func(s *scene) { s.doors(12 * sec); exitAt(s, wireShut+sec) }, spec.Fail},
		{"stops to accept within the uncertainty of the minimum's end", HoldsMinimum(), func(s *scene) {
			s.blurD(sec)
			s.doors(wireD + minDrain - sec/2)
			exitAt(s, wireShut+sec)
		}, spec.Inconclusive},
		{"leaves too early", HoldsMinimum(), func(s *scene) { s.doors(12 * sec); exitAt(s, 12*sec) }, spec.Fail},
		{"stays although it has none", HoldsMinimum(), func(s *scene) { s.doors(wireShut) }, spec.Fail},
		{"stops accepting and keeps its listener, so that its kernel goes on", HoldsMinimum(), func(s *scene) {
			s.doors(wireExit)
			s.each(func(x *timeline.Sample) {
				if x.Start >= wireShut && x.Start < wireExit {
					x.Outcome, x.Phase, x.First, x.End, x.Server = timeline.Timeout, timeline.PhaseFirstByte, 0, x.Start+10*sec, ""
				}
			})
		}, spec.Fail},
		{"stays, and goes on accepting", HoldsMinimum(), func(s *scene) { s.doors(wireExit) }, spec.Fail},
		{"stays for one after the other", HoldsMinimum(), func(s *scene) {
			s.doors(wireExit)
			for at := 11 * sec; at < wireExit; at += sec {
				s.dial("http1/reused/slow/1s").ask(at, until(at+sec)).hear(at+sec, timeline.FrameFIN)
			}
		}, spec.Pass},
		{"stays, and nobody knows whether it has one", HoldsMinimum(), func(s *scene) {
			s.doors(wireShut)
			s.dial("http1/reused/get").ask(12 * sec)
		}, spec.Inconclusive},
		{"always has a connection", HoldsMinimum(), func(s *scene) {
			s.doors(wireShut)
			held(s, 15*sec)
			exitAt(s, 15*sec+sec)
		}, spec.Inconclusive},
		{"nobody saw the exit", HoldsMinimum(), func(s *scene) {
			s.doors(wireShut)
			s.drop(func(e timeline.Event) bool { return e.Kind == timeline.ProcExit })
		}, spec.Inconclusive},
		{"the exit is not known well", HoldsMinimum(), func(s *scene) {
			s.doors(12*sec + 900*time.Millisecond)
			exitAt(s, 12*sec+900*time.Millisecond)
			for i := range s.tl.Events {
				if s.tl.Events[i].Kind == timeline.ProcExit {
					s.tl.Events[i].Err = sec
				}
			}
		}, spec.Inconclusive},
		{"too few dials", HoldsMinimum(), func(s *scene) {
			exitAt(s, wireShut+sec)
			s.dial("http1/new/get").ask(12 * sec)
		}, spec.Inconclusive},
		{"stays long on a starved machine", HoldsMinimum(), func(s *scene) {
			s.doors(wireShut)
			s.each(func(x *timeline.Sample) { x.Saturated = x.Start > 17*sec })
		}, spec.Inconclusive},
	})
}
