// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestClosesIdleFirst(t *testing.T) {
	const near, distant = "http1/new/idle/30s", "http1/reused/get/delay=20ms"
	// idle has twelve connections of a flow that stood at D.
	idle := func(s *scene, flow string, then func(*talk, time.Duration)) {
		times(12, func(i time.Duration) { then(s.dial(flow).ask(9*sec+i), i) })
	}
	fin := func(at time.Duration) func(*talk, time.Duration) {
		return func(k *talk, i time.Duration) { k.hear(at+i, timeline.FrameFIN) }
	}
	// pools are those that the race needs: all are answered once more, with
	// close, and ended.
	pools := func(s *scene) {
		idle(s, distant, func(k *talk, i time.Duration) {
			k.ask(11*sec+i, saysClose).hear(11*sec+i+50*time.Millisecond, timeline.FrameFIN)
		})
	}
	// all is what a pass stands on.
	all := func(s *scene) { pools(s); idle(s, near, fin(15*sec)) }
	// race is a request on a far connection that met the server's FIN, which it
	// sent at 11 s, by the instant at which it was sent.
	race := func(s *scene, sent time.Duration, o timeline.Outcome) {
		s.dial(distant).ask(9*sec).ask(sent, lost(o, 11*sec+far+time.Millisecond)).hear(11*sec+far, timeline.FrameFIN)
	}
	judgeWire(t, []wireCase{
		{"closed in time", ClosesIdleFirst(), func(s *scene) { pools(s); idle(s, near, fin(15*sec)) }, spec.Pass},
		{"it keeps none", ClosesIdleFirst(), func(s *scene) {
			times(6, func(i time.Duration) {
				s.dial("http1/reused/get").ask(wireD-sec/2+i, saysClose).hear(wireD-sec/2+i+sec/100, timeline.FrameFIN)
			})
		}, spec.Pass},
		{"it keeps one of them", ClosesIdleFirst(), func(s *scene) {
			times(6, func(i time.Duration) {
				s.dial("http1/reused/get").ask(wireD-sec/2+i, saysClose).hear(wireD-sec/2+i+sec/100, timeline.FrameFIN)
			})
			s.dial("http1/reused/get").ask(wireD - sec/2)
		}, spec.Inconclusive},
		{"no far pools", ClosesIdleFirst(), func(s *scene) { idle(s, near, fin(15*sec)) }, spec.Inconclusive},
		{"no silent ones", ClosesIdleFirst(), pools, spec.Inconclusive},
		{"a FIN at the exit may be the kernel's", ClosesIdleFirst(), func(s *scene) {
			pools(s)
			idle(s, near, func(k *talk, _ time.Duration) { k.hear(wireExit-time.Millisecond, timeline.FrameFIN) })
		}, spec.Inconclusive},
		{"a FIN at SIGKILL is the kernel's", ClosesIdleFirst(), func(s *scene) {
			pools(s)
			s.killed()
			s.event(wireK+10*time.Millisecond, timeline.PodContainer, uid, map[string]string{"state": "terminated", "exitCode": "137"})
			idle(s, near, func(k *talk, _ time.Duration) { k.hear(wireK, timeline.FrameFIN) })
		}, spec.Fail},
		{"so it may in TLS", ClosesIdleFirst(), func(s *scene) {
			pools(s)
			idle(s, "https1/new/idle/30s", func(k *talk, _ time.Duration) { k.hear(wireExit-time.Millisecond, timeline.FrameFIN) })
		}, spec.Inconclusive},
		{"a close_notify at the exit is the process's own", ClosesIdleFirst(), func(s *scene) {
			pools(s)
			idle(s, near, func(k *talk, _ time.Duration) { k.hear(wireExit-time.Millisecond, timeline.FrameFIN) })
			idle(s, "https1/new/idle/30s", func(k *talk, _ time.Duration) {
				k.hear(wireExit-time.Millisecond, timeline.FrameCloseNotify).hear(wireExit-time.Millisecond, timeline.FrameFIN)
			})
		}, spec.Pass},
		{"in plaintext only: those in TLS are left to the kernel", ClosesIdleFirst(), func(s *scene) {
			all(s)
			idle(s, "https1/new/idle/30s", func(k *talk, _ time.Duration) { k.hear(wireExit-time.Millisecond, timeline.FrameFIN) })
		}, spec.Inconclusive},
		{"both", ClosesIdleFirst(), func(s *scene) { all(s); idle(s, "https1/new/idle/30s", fin(15*sec)) }, spec.Pass},
		{"RST at the exit", ClosesIdleFirst(), func(s *scene) {
			pools(s)
			idle(s, near, func(k *talk, _ time.Duration) { k.hear(wireExit, timeline.FrameRST) })
		}, spec.Fail},
		{"the client was first", ClosesIdleFirst(), func(s *scene) {
			idle(s, distant, func(k *talk, i time.Duration) { k.hear(12*sec+i, timeline.FrameClose, "why", "idle") })
		}, spec.Inconclusive},
		{"ended before D", ClosesIdleFirst(), func(s *scene) {
			all(s)
			s.dial(near).ask(8*sec).hear(9*sec, timeline.FrameRST)
		}, spec.Pass},
		{"a request on its way is lost", ClosesIdleFirst(), func(s *scene) { pools(s); race(s, 11*sec-far/2, timeline.Reset) }, spec.Fail},
		{"so is one that had arrived", ClosesIdleFirst(), func(s *scene) { pools(s); race(s, 11*sec-5*far, timeline.Closed) }, spec.Fail},
		{"one that was sent when the client knew", ClosesIdleFirst(), func(s *scene) { all(s); race(s, 11*sec+far+1, timeline.Closed) }, spec.Pass},
		{"one that got no answer in time is not a race", ClosesIdleFirst(), func(s *scene) {
			all(s)
			s.dial(distant).ask(9*sec).ask(11*sec, lost(timeline.Timeout, 13*sec))
		}, spec.Pass},
		{"lost long before D", ClosesIdleFirst(), func(s *scene) {
			all(s)
			s.dial(distant).ask(7*sec).ask(8*sec, lost(timeline.Reset, 8*sec+far)).hear(8*sec+far, timeline.FrameRST)
		}, spec.Pass},
		{"lost within the uncertainty of D", ClosesIdleFirst(), func(s *scene) {
			s.blurD(2 * sec)
			idle(s, near, fin(15*sec))
			idle(s, distant, func(k *talk, i time.Duration) {
				k.ask(13*sec+i, saysClose).hear(13*sec+i+50*time.Millisecond, timeline.FrameFIN)
			})
			s.dial(distant).ask(7*sec).ask(11*sec, lost(timeline.Reset, 11*sec+far)).hear(11*sec+far, timeline.FrameRST)
		}, spec.Inconclusive},
		{"nobody saw the exit", ClosesIdleFirst(), func(s *scene) {
			pools(s)
			s.drop(func(e timeline.Event) bool { return e.Kind == timeline.ProcExit })
		}, spec.Inconclusive},
	})
}

func TestRaceRate(t *testing.T) {
	s := quiet()
	times(12, func(i time.Duration) {
		s.dial("http1/reused/get/delay=20ms").ask(9*sec+i).ask(11*sec+i, saysClose).hear(11*sec+i+50*time.Millisecond, timeline.FrameFIN)
	})
	times(4, func(i time.Duration) {
		s.dial("http1/reused/get/delay=20ms").ask(9*sec+i).ask(12*sec, lost(timeline.Reset, 12*sec+40*time.Millisecond)).hear(12*sec+10*time.Millisecond, timeline.FrameFIN)
	})
	f := s.run(ClosesIdleFirst())
	if f.Verdict != spec.Fail || f.Bounds.Lost != 4 || f.Bounds.Requests != 16 || f.Bounds.Affected != 1 {
		t.Fatalf("verdict %v, bounds %+v: %s", f.Verdict, f.Bounds, f.Actual)
	}
}
