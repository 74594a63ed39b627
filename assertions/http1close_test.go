// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// lastAnswers has six kept connections answered before D and once more at an
// instant, then closed by the server 5 ms later.
func lastAnswers(s *scene, at time.Duration, changes ...func(*timeline.Sample)) {
	times(6, func(i time.Duration) {
		s.dial("http1/reused/get").ask(9*sec+i).ask(at+i, changes...).hear(at+i+7*time.Millisecond, timeline.FrameFIN)
	})
}

func TestSaysClose(t *testing.T) {
	afterShut := wireShut + sec
	// grace has six connections that were answered while the server accepted,
	// and that it closed together with its listener.
	grace := func(s *scene) {
		times(6, func(i time.Duration) {
			s.dial("http1/reused/get").ask(wireD+sec+i).hear(wireShut, timeline.FrameFIN)
		})
	}
	// ends has six that were answered in that time, and ended with the process.
	ends := func(s *scene) {
		times(6, func(i time.Duration) {
			s.dial("http1/reused/get").ask(wireD+sec+i).hear(wireExit, timeline.FrameFIN)
		})
	}
	judgeWire(t, []wireCase{
		{"said", SaysClose(), func(s *scene) { s.doors(wireShut); lastAnswers(s, afterShut, saysClose) }, spec.Pass},
		{"not said", SaysClose(), func(s *scene) { s.doors(wireShut); lastAnswers(s, afterShut) }, spec.Fail},
		{"not said behind the listener's end, by one that SIGKILL ended", SaysClose(), func(s *scene) {
			s.killed()
			s.event(wireK+10*time.Millisecond, timeline.PodContainer, uid, map[string]string{"state": "terminated", "exitCode": "137"})
			s.doors(wireShut)
			times(6, func(i time.Duration) {
				s.dial("http1/reused/get").ask(wireK-sec+i).hear(wireK+5*time.Millisecond, timeline.FrameFIN)
			})
		}, spec.Inconclusive},
		{"not said just behind the listener's end, on a starved machine", SaysClose(), func(s *scene) {
			s.doors(wireShut)
			lastAnswers(s, wireShut+sec/5)
			s.each(func(x *timeline.Sample) { x.Saturated = x.Start > wireShut-sec })
		}, spec.Inconclusive},
		{"not said long behind it, on a starved machine", SaysClose(), func(s *scene) {
			s.doors(wireShut)
			lastAnswers(s, wireShut+NoCrossing+sec/5)
			s.each(func(x *timeline.Sample) { x.Saturated = x.Start > wireShut-sec })
		}, spec.Fail},
		{"one of many not said", SaysClose(), func(s *scene) {
			s.doors(wireShut)
			lastAnswers(s, afterShut, saysClose)
			s.dial("https1/reused/get").ask(9*sec).ask(afterShut).hear(afterShut+sec, timeline.FrameCloseNotify).hear(afterShut+sec, timeline.FrameFIN)
		}, spec.Fail},
		{"said from D on, although it accepts", SaysClose(), func(s *scene) { s.doors(wireShut); lastAnswers(s, wireD+sec, saysClose) }, spec.Pass},
		{"not said, and closed while it accepts", SaysClose(), func(s *scene) { s.doors(wireShut); lastAnswers(s, wireD+sec) }, spec.Fail},
		{"not said, and closed with the listener", SaysClose(), func(s *scene) { s.doors(wireShut); grace(s) }, spec.Inconclusive},
		{"accepts until its exit, and tells nobody", SaysClose(), func(s *scene) { s.doors(wireExit); ends(s) }, spec.Fail},
		{"accepts until its exit, and tells some", SaysClose(), func(s *scene) {
			s.doors(wireExit)
			ends(s)
			lastAnswers(s, wireD+sec, saysClose)
		}, spec.Pass},
		{"accepts until it is killed at K", SaysClose(), func(s *scene) {
			s.doors(wireExit)
			ends(s)
			s.shift(timeline.ProcExit, uid, wireExit+time.Minute)
		}, spec.Inconclusive},
		{"not said, and closed with the listener; said later", SaysClose(), func(s *scene) {
			s.doors(wireShut)
			grace(s)
			lastAnswers(s, afterShut, saysClose)
		}, spec.Pass},
		{"not said, and closed at once, of a server that goes on to accept", SaysClose(), func(s *scene) {
			lastAnswers(s, wireD+sec)
			s.drop(func(e timeline.Event) bool { return e.Kind == timeline.ProcExit })
		}, spec.Fail},
		{"the listener goes at D", SaysClose(), func(s *scene) { s.doors(wireD); lastAnswers(s, wireD+sec) }, spec.Fail},
		{"no answer after D", SaysClose(), func(s *scene) {
			s.doors(wireD)
			times(6, func(i time.Duration) {
				s.dial("http1/reused/get").ask(9*sec+i).hear(wireD+i, timeline.FrameFIN)
			})
		}, spec.Inconclusive},
		{"an answer that was begun before D", SaysClose(), func(s *scene) {
			s.doors(wireD)
			times(6, func(i time.Duration) {
				s.dial("http1/reused/slow/2s").ask(9*sec+i, until(11*sec+i)).hear(12*sec, timeline.FrameFIN)
			})
		}, spec.Inconclusive},
		{"an answer that a backend had written before D, and that its client read late", SaysClose(), func(s *scene) {
			s.doors(wireD)
			times(6, func(i time.Duration) {
				s.dial("http1/reused/get").ask(wireD-20*time.Millisecond).hear(wireD+90*time.Millisecond+i, timeline.FrameReset)
			})
			s.each(func(x *timeline.Sample) {
				if x.Start == wireD-20*time.Millisecond {
					x.First, x.End = wireD+80*time.Millisecond, wireD+81*time.Millisecond
				}
			})
		}, spec.Inconclusive},
		{"an answer that a backend had written before D, and that the server held", SaysClose(), func(s *scene) {
			s.doors(wireD)
			times(6, func(i time.Duration) {
				s.dial("http1/reused/get").ask(wireD-20*time.Millisecond).hear(wireD+3*sec+i, timeline.FrameFIN)
			})
			s.each(func(x *timeline.Sample) {
				if x.Start == wireD-20*time.Millisecond {
					x.First, x.End = wireD+2*sec, wireD+2*sec
				}
			})
		}, spec.Fail},
		{"an answer that left before D, and was far", SaysClose(), func(s *scene) {
			s.doors(wireD)
			times(6, func(i time.Duration) {
				s.dial("http1/reused/get/delay=20ms").ask(wireD-30*time.Millisecond+i/30).hear(12*sec, timeline.FrameFIN)
			})
		}, spec.Inconclusive},
		{"the client closed", SaysClose(), func(s *scene) {
			s.doors(wireD)
			times(6, func(i time.Duration) {
				s.dial("http1/reused/get").ask(afterShut+i).hear(afterShut+sec, timeline.FrameClose, "why", "idle")
			})
		}, spec.Inconclusive},
		{"cut in the middle", SaysClose(), func(s *scene) {
			s.doors(wireD)
			times(6, func(i time.Duration) {
				s.dial("http1/reused/slow/2s").ask(afterShut+i, cut(timeline.Reset, 15*sec)).hear(15*sec, timeline.FrameRST)
			})
		}, spec.Inconclusive},
		{"D is not known well, and all is after it", SaysClose(), func(s *scene) {
			s.doors(wireD)
			s.blurD(500 * time.Millisecond)
			lastAnswers(s, afterShut)
		}, spec.Fail},
		{"within the uncertainty of D", SaysClose(), func(s *scene) {
			s.doors(wireD)
			s.blurD(2 * sec)
			lastAnswers(s, wireD+sec)
		}, spec.Inconclusive},
	})
}

func TestClosesAfterSaying(t *testing.T) {
	// pairs are six connections on which two requests were sent at once, and the
	// answer to the first said close.
	pairs := func(s *scene, second ...func(*timeline.Sample)) {
		times(6, func(i time.Duration) {
			s.dial("http1/new/ahead/1s").ask(12*sec+i, saysClose).ask(12*sec+i, second...).hear(12*sec+i+3*time.Millisecond, timeline.FrameFIN)
		})
	}
	left := lost(timeline.BehindClose, 12*sec+200*time.Millisecond)
	// kept has six connections on which an answer at 12 s said close.
	kept := func(s *scene, then func(*talk, time.Duration)) {
		times(6, func(i time.Duration) {
			k := s.dial("http1/reused/get").ask(9*sec+i).ask(12*sec+i, saysClose)
			then(k, 12*sec+i+2*time.Millisecond)
		})
	}
	// said has those, and pairs of which only the first was processed.
	said := func(s *scene, then func(*talk, time.Duration)) {
		pairs(s, left)
		kept(s, then)
	}
	closed := func(k *talk, end time.Duration) { k.hear(end+time.Millisecond, timeline.FrameFIN) }
	judgeWire(t, []wireCase{
		{"closes", ClosesAfterSaying(), func(s *scene) { said(s, closed) }, spec.Pass},
		{"closes by close_notify", ClosesAfterSaying(), func(s *scene) {
			pairs(s, left)
			times(6, func(i time.Duration) {
				s.dial("https1/new/get").ask(12*sec+i, saysClose).hear(12*sec+i+3*time.Millisecond, timeline.FrameCloseNotify)
			})
		}, spec.Pass},
		{"closes late", ClosesAfterSaying(), func(s *scene) {
			said(s, func(k *talk, end time.Duration) { k.hear(end+3*sec, timeline.FrameFIN) })
		}, spec.Fail},
		{"never closes, and the client does", ClosesAfterSaying(), func(s *scene) {
			said(s, func(k *talk, end time.Duration) {
				k.hear(end+closesWithin+time.Millisecond, timeline.FrameClose, "why", "answered-close")
			})
		}, spec.Fail},
		{"the client was first", ClosesAfterSaying(), func(s *scene) {
			times(6, func(i time.Duration) {
				s.dial("http1/new/ahead/1s").ask(12*sec+i, saysClose).ask(12*sec+i, left).hear(12*sec+i+3*time.Millisecond, timeline.FrameClose, "why", "answered-close")
			})
			kept(s, func(k *talk, end time.Duration) {
				k.hear(end+time.Millisecond, timeline.FrameClose, "why", "answered-close")
			})
		}, spec.Inconclusive},
		{"nobody saw the end", ClosesAfterSaying(), func(s *scene) {
			times(6, func(i time.Duration) { s.dial("http1/new/ahead/1s").ask(12*sec+i, saysClose).ask(12*sec+i, left) })
			kept(s, func(*talk, time.Duration) {})
		}, spec.Inconclusive},
		{"one end was not seen", ClosesAfterSaying(), func(s *scene) {
			said(s, closed)
			s.dial("http1/reused/get").ask(12*sec, saysClose)
		}, spec.Pass},
		{"late on a starved machine", ClosesAfterSaying(), func(s *scene) {
			s.doors(wireShut)
			said(s, func(k *talk, end time.Duration) { k.hear(end+3*sec, timeline.FrameFIN) })
			s.each(func(x *timeline.Sample) { x.Saturated = true })
		}, spec.Inconclusive},
		{"nothing was sent ahead", ClosesAfterSaying(), func(s *scene) { kept(s, closed) }, spec.Inconclusive},
		{"what was sent ahead is answered", ClosesAfterSaying(), func(s *scene) { kept(s, closed); pairs(s) }, spec.Fail},
		{"one of many is answered", ClosesAfterSaying(), func(s *scene) {
			said(s, closed)
			s.dial("https1/new/ahead/1s").ask(12*sec, saysClose).ask(12*sec).hear(12*sec+3*time.Millisecond, timeline.FrameFIN)
		}, spec.Fail},
		{"what was sent ahead is begun, and not answered", ClosesAfterSaying(), func(s *scene) {
			said(s, closed)
			s.dial("http1/new/ahead/1s").ask(12*sec, saysClose).ask(12*sec, left).begun(12*sec+2*time.Millisecond).hear(12*sec+3*time.Millisecond, timeline.FrameFIN)
		}, spec.Fail},
		{"it was begun before the answer", ClosesAfterSaying(), func(s *scene) {
			said(s, closed)
			s.dial("http1/new/ahead/1s").ask(12*sec, saysClose).ask(12*sec, left).begun(12*sec).hear(12*sec+3*time.Millisecond, timeline.FrameFIN)
		}, spec.Pass},
		{"each was begun before the answer", ClosesAfterSaying(), func(s *scene) {
			times(6, func(i time.Duration) {
				s.dial("http1/new/ahead/1s").ask(12*sec+i, saysClose).ask(12*sec+i, left).begun(12*sec+i).hear(12*sec+i+3*time.Millisecond, timeline.FrameFIN)
			})
			kept(s, closed)
		}, spec.Pass},
		{"none is begun, and the ledger has a hole", ClosesAfterSaying(), func(s *scene) {
			said(s, closed)
			s.tl.Ledger = s.tl.Ledger[1:] // the begin of the first request
		}, spec.Inconclusive},
		{"one is answered, and the ledger has a hole", ClosesAfterSaying(), func(s *scene) {
			said(s, closed)
			s.tl.Ledger = s.tl.Ledger[1:]
			s.dial("https1/new/ahead/1s").ask(12*sec, saysClose).ask(12*sec).hear(12*sec+3*time.Millisecond, timeline.FrameFIN)
		}, spec.Fail},
		{"all are answered, and no answer says close", ClosesAfterSaying(), func(s *scene) {
			kept(s, closed)
			times(6, func(i time.Duration) { s.dial("http1/new/ahead/1s").ask(12*sec + i).ask(12*sec + i) })
		}, spec.Inconclusive},
	})
}
