// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestClosesSilent(t *testing.T) {
	const limit = wireShut + silentFor
	// stood are connections on which nothing is said, and how they end.
	stood := func(s *scene, n int, flow string, dialled, ended time.Duration, kind timeline.FrameKind) {
		times(n, func(i time.Duration) {
			s.dial(flow).ask(dialled+i, func(x *timeline.Sample) { x.Sent, x.First, x.Server = 0, 0, "" }).hear(ended, kind)
		})
	}
	good := func(s *scene) {
		s.doors(wireShut)
		stood(s, 3, "http1/new/mute/20s", 8*sec, wireShut+sec, timeline.FrameFIN)
		stood(s, 3, "https1/new/mute/20s", 8*sec, wireD, timeline.FrameRST)
	}
	and := func(build func(s *scene)) func(*scene) { return func(s *scene) { good(s); build(s) } }
	judgeWire(t, []wireCase{
		{"closed", ClosesSilent(), good, spec.Pass},
		{"closed at the deadline", ClosesSilent(), and(func(s *scene) {
			stood(s, 1, "https1/new/mute/20s", 9*sec, wireExit, timeline.FrameFIN)
		}), spec.Fail},
		{"reset at the deadline", ClosesSilent(), and(func(s *scene) {
			stood(s, 1, "http1/new/mute/20s", 9*sec, wireExit, timeline.FrameRST)
		}), spec.Fail},
		{"its client had enough of it", ClosesSilent(), and(func(s *scene) {
			stood(s, 1, "http1/new/mute/20s", 9*sec, limit+sec, timeline.FrameClose)
		}), spec.Fail},
		{"late, on a machine that was starved", ClosesSilent(), and(func(s *scene) {
			stood(s, 1, "http1/new/mute/20s", 9*sec, limit+sec, timeline.FrameFIN)
			s.each(func(x *timeline.Sample) { x.Saturated = x.Start > 15*sec })
		}), spec.Inconclusive},
		{"all clients left first", ClosesSilent(), func(s *scene) {
			s.doors(wireShut)
			stood(s, 6, "http1/new/mute/20s", 8*sec, limit-sec, timeline.FrameClose)
		}, spec.Inconclusive},
		{"dialled after D", ClosesSilent(), and(func(s *scene) {
			stood(s, 1, "http1/new/mute/20s", 11*sec, wireExit, timeline.FrameFIN)
		}), spec.Pass},
		{"gone before D", ClosesSilent(), func(s *scene) {
			s.doors(wireShut)
			stood(s, 6, "http1/new/mute/20s", 8*sec, 9*sec, timeline.FrameFIN)
		}, spec.Inconclusive},
		{"one dial was refused long before the listener's end", ClosesSilent(), and(func(s *scene) {
			s.add(timeline.Sample{Stream: flow.Named("direct/http1/new/get@" + uid), ID: "alone", Start: wireD + sec/2, End: wireD + sec/2 + 1, Outcome: timeline.Refused, Phase: timeline.PhaseDial})
			stood(s, 1, "http1/new/mute/20s", 9*sec, limit-1, timeline.FrameFIN)
		}), spec.Pass},
		{"idle ones are another's", ClosesSilent(), and(func(s *scene) {
			s.dial("http1/new/idle/20s").ask(8*sec).hear(wireExit, timeline.FrameRST)
		}), spec.Pass},
		{"the listener stays to the exit, which may have waited for them", ClosesSilent(), func(s *scene) {
			s.doors(wireExit)
			stood(s, 6, "http1/new/mute/20s", 8*sec, wireExit, timeline.FrameRST)
		}, spec.Inconclusive},
		{"the listener stays to nearly the exit, which may have waited for them", ClosesSilent(), func(s *scene) {
			s.doors(wireExit - atTheDoor/2)
			stood(s, 6, "http1/new/mute/20s", 8*sec, wireExit-atTheDoor/2, timeline.FrameRST)
		}, spec.Inconclusive},
		{"the listener stays to the exit, which was before its time was up", ClosesSilent(), func(s *scene) {
			s.doors(wireExit)
			s.shift(timeline.ProcExit, uid, wireD+silentFor+sec)
			stood(s, 6, "http1/new/mute/20s", 8*sec, wireD+silentFor+sec, timeline.FrameRST)
		}, spec.Pass},
		{"its client hears nothing, also behind the exit, as where the kernel waits for the first byte", ClosesSilent(), func(s *scene) {
			s.doors(wireShut)
			s.shift(timeline.ProcExit, uid, wireShut+2*sec)
			stood(s, 6, "http1/new/mute/20s", 8*sec, limit+sec, timeline.FrameClose)
		}, spec.Inconclusive},
		{"all is over soon", ClosesSilent(), func(s *scene) {
			s.doors(wireD + atOnce)
			stood(s, 6, "http1/new/mute/20s", 8*sec, wireD+atOnce, timeline.FrameRST)
		}, spec.Pass},
		{"the listener stays to the exit, and they don't", ClosesSilent(), func(s *scene) {
			s.doors(wireExit)
			stood(s, 6, "http1/new/mute/20s", 8*sec, wireD+sec, timeline.FrameFIN)
		}, spec.Pass},
	})
}

// What is silent was never a request: no ledger has it, and no death is seen on
// it.
func TestMuteIsNoRequest(t *testing.T) {
	s := quiet()
	s.dial("http1/new/mute/20s").ask(8*sec, func(x *timeline.Sample) { x.Server = "" })
	s.tl.Ledger = nil
	if r := Reconcile(&s.tl); r.Attempts != 0 || len(r.Unaccounted) > 0 {
		t.Errorf("the ledger is asked for it: %+v", r)
	}
	if seen := Sighted(NewCase(&s.tl, s.p)); len(seen) > 0 {
		t.Errorf("it is to see a death: %v", seen)
	}
}
