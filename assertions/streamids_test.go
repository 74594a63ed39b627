// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// status is an answer of another status, read to its end or not.
func status(code int, phase timeline.Phase) func(*timeline.Sample) {
	return func(x *timeline.Sample) { x.Outcome, x.Phase, x.Status = timeline.Status, phase, code }
}

func TestGoAwayNeverRises(t *testing.T) {
	series := func(lasts ...string) func(*scene) {
		return func(s *scene) {
			h2pool(s, "h2c/reused/get", func(k *talk) {
				for i, last := range lasts {
					k.goAway(11*sec+time.Duration(i)*100*time.Millisecond, last)
				}
			})
		}
	}
	judgeWire(t, []wireCase{
		{"falls", GoAwayNeverRises(), series("max", "3", "1"), spec.Pass},
		{"stays", GoAwayNeverRises(), series("3", "3"), spec.Pass},
		{"only one", GoAwayNeverRises(), series("3"), spec.Pass},
		{"rises", GoAwayNeverRises(), series("1", "3"), spec.Fail},
		{"rises to where it had been", GoAwayNeverRises(), series("max", "1", "max"), spec.Fail},
		{"none", GoAwayNeverRises(), series(), spec.Inconclusive},
		{"rises, whenever D was", GoAwayNeverRises(), func(s *scene) { s.blurD(3 * sec); series("1", "3")(s) }, spec.Fail},
	})
}

func TestAboveLastUnprocessed(t *testing.T) {
	// crossing has a second stream on each of six connections that were told
	// that the first was the last.
	crossing := func(s *scene, then func(*talk)) {
		h2pool(s, "h2c/reused/get/delay=20ms", func(k *talk) {
			k.ask(11*sec, lost(timeline.GoAway, 11*sec+far)).goAway(11*sec+far, "1")
			then(k)
		})
	}
	again := AboveLastUnprocessed() // one recording may not change what is asked of the next
	judgeWire(t, []wireCase{
		{"unprocessed", AboveLastUnprocessed(), func(s *scene) { crossing(s, func(*talk) {}) }, spec.Pass},
		{"none above", again, func(s *scene) {
			h2pool(s, "h2c/reused/get", func(k *talk) { k.goAway(11*sec, "max").goAway(12*sec, "1") })
		}, spec.Pass},
		{"begun", AboveLastUnprocessed(), func(s *scene) { crossing(s, func(k *talk) { k.begun(11 * sec) }) }, spec.Fail},
		{"answered", AboveLastUnprocessed(), func(s *scene) {
			h2pool(s, "h2c/reused/get", func(k *talk) { k.ask(11*sec).goAway(12*sec, "1") })
		}, spec.Fail},
		{"begun before a later GOAWAY said so", AboveLastUnprocessed(), func(s *scene) {
			h2pool(s, "h2c/reused/get", func(k *talk) { k.ask(11*sec).goAway(12*sec, "3").goAway(13*sec, "1") })
		}, spec.Fail},
		{"never opened", again, func(s *scene) {
			h2pool(s, "h2c/reused/get", func(k *talk) {
				k.goAway(11*sec, "1").ask(11*sec+1, lost(timeline.GoAway, 11*sec+2), func(x *timeline.Sample) { x.Sent, x.Phase = 0, timeline.PhaseWrite })
			})
		}, spec.Inconclusive}, // it named its last stream, and nobody had one above it
		{"the ledger's tail is missing", AboveLastUnprocessed(), func(s *scene) { crossing(s, func(*talk) {}); s.tl.Ledger = nil }, spec.Inconclusive},
		{"the ledger lacks another stream's request", AboveLastUnprocessed(), func(s *scene) {
			s.dial("http1/reused/get").ask(8 * sec)
			s.tl.Ledger = nil
			crossing(s, func(*talk) {})
		}, spec.Inconclusive},
		{"what no ledger has is not missing in it", AboveLastUnprocessed(), func(s *scene) {
			s.dial("http1/new/check").ask(8 * sec)
			s.tl.Ledger = nil
			crossing(s, func(*talk) {})
		}, spec.Pass},
	})
}

func TestBelowLastCompletes(t *testing.T) {
	// open has six streams that were open at the GOAWAY, at 11 s, and ended then.
	open := func(s *scene, flow string, end time.Duration, changes ...func(*timeline.Sample)) {
		h2pool(s, flow, func(k *talk) {
			k.ask(10*sec+900*time.Millisecond, append([]func(*timeline.Sample){until(end)}, changes...)...).goAway(11*sec, "3").hear(end, timeline.FrameFIN)
		})
	}
	judgeWire(t, []wireCase{
		{"completes", BelowLastCompletes(), func(s *scene) { open(s, "h2c/reused/slow/2s", 13*sec) }, spec.Pass},
		{"is cut", BelowLastCompletes(), func(s *scene) { open(s, "h2c/reused/slow/2s", 12*sec, cut(timeline.Truncated, 12*sec)) }, spec.Fail},
		{"is reset", BelowLastCompletes(), func(s *scene) {
			h2pool(s, "h2c/reused/slow/2s", func(k *talk) {
				k.ask(10*sec+900*time.Millisecond, lost(timeline.StreamReset, 12*sec)).begun(10*sec+901*time.Millisecond).goAway(11*sec, "3").hear(12*sec, timeline.FrameFIN)
			})
		}, spec.Fail},
		{"is reset, begun before the client knew and written then", BelowLastCompletes(), func(s *scene) {
			open(s, "h2c/reused/slow/2s", 13*sec)
			h2pool(s, "h2c/reused/get", func(k *talk) {
				k.ask(11*sec-1, lost(timeline.Timeout, 21*sec), func(x *timeline.Sample) { x.Sent = 11*sec + 1 }).goAway(11*sec, "3")
			})
		}, spec.Pass},
		{"is reset, in some buffer, and no backend has heard of it", BelowLastCompletes(), func(s *scene) {
			open(s, "h2c/reused/slow/2s", 13*sec)
			open(s, "h2c/reused/slow/2s", 12*sec, lost(timeline.StreamReset, 12*sec))
		}, spec.Pass},
		{"is reset, and the ledger that has no word of it has a hole", BelowLastCompletes(), func(s *scene) {
			open(s, "h2c/reused/slow/2s", 13*sec)
			open(s, "h2c/reused/slow/2s", 12*sec, lost(timeline.StreamReset, 12*sec))
			s.tl.Ledger = s.tl.Ledger[1:]
		}, spec.Inconclusive},
		{"a call is reset, and no backend has heard of it", BelowLastCompletes(), func(s *scene) {
			open(s, "h2c/reused/slow/2s", 13*sec)
			open(s, "h2c/reused/grpc-unary", 12*sec, lost(timeline.StreamReset, 12*sec))
		}, spec.Fail},
		{"is answered whole with another status", BelowLastCompletes(), func(s *scene) {
			open(s, "h2c/reused/slow/2s", 12*sec, status(503, timeline.PhaseDone))
		}, spec.Pass},
		{"is cut in an answer of another status", BelowLastCompletes(), func(s *scene) {
			open(s, "h2c/reused/slow/2s", 12*sec, status(503, timeline.PhaseBody))
		}, spec.Fail},
		{"is cut at the deadline, and too long for it", BelowLastCompletes(), func(s *scene) {
			open(s, "h2c/reused/slow/2s", 13*sec)
			open(s, "h2c/reused/slow/30s", 19*sec, cut(timeline.StreamReset, 19*sec))
		}, spec.Pass},
		{"only those", BelowLastCompletes(), func(s *scene) {
			open(s, "h2c/reused/slow/30s", 19*sec, cut(timeline.StreamReset, 19*sec))
		}, spec.Inconclusive},
		{"is cut at once, however long", BelowLastCompletes(), func(s *scene) {
			open(s, "h2c/reused/slow/30s", 11*sec+100*time.Millisecond, cut(timeline.Reset, 11*sec+100*time.Millisecond))
		}, spec.Fail},
		{"is cut late, and not too long", BelowLastCompletes(), func(s *scene) {
			open(s, "h2c/reused/slow/9s", 19*sec, cut(timeline.StreamReset, 19*sec))
		}, spec.Fail},
		{"is cut at the exit, and would have outlasted the grace", BelowLastCompletes(), func(s *scene) {
			open(s, "h2c/reused/slow/2s", 13*sec)
			s.dial("h2c/reused/slow/9s").ask(17*sec, cut(timeline.Truncated, wireExit)).goAway(17*sec+500*time.Millisecond, "1").hear(wireExit, timeline.FrameFIN)
		}, spec.Pass},
		{"is refused as unprocessed", BelowLastCompletes(), func(s *scene) {
			open(s, "h2c/reused/slow/2s", 13*sec)
			open(s, "h2c/reused/slow/2s", 12*sec, lost(timeline.RefusedStream, 12*sec))
		}, spec.Pass},
		{"is refused, and a backend had begun it", BelowLastCompletes(), func(s *scene) {
			open(s, "h2c/reused/slow/2s", 13*sec)
			s.dial("h2c/reused/slow/2s").ask(9*sec).ask(10*sec+900*time.Millisecond, lost(timeline.RefusedStream, 12*sec)).begun(11*sec).goAway(11*sec, "3")
		}, spec.Fail},
		{"is refused as unprocessed, and the ledger has a hole", BelowLastCompletes(), func(s *scene) {
			open(s, "h2c/reused/slow/2s", 13*sec)
			open(s, "h2c/reused/slow/2s", 12*sec, lost(timeline.RefusedStream, 12*sec))
			s.tl.Ledger = s.tl.Ledger[1:]
		}, spec.Inconclusive},
		{"was over at the GOAWAY", BelowLastCompletes(), func(s *scene) {
			open(s, "h2c/reused/slow/2s", 13*sec)
			h2pool(s, "h2c/reused/get", func(k *talk) { k.ask(10*sec, lost(timeline.StreamReset, 10*sec+1)).goAway(11*sec, "5") })
		}, spec.Pass},
		{"was open at D, and over at the GOAWAY, as of a server that says it when nothing is left", BelowLastCompletes(), func(s *scene) {
			h2pool(s, "h2c/reused/slow/2s", func(k *talk) {
				k.ask(wireD-sec, until(wireD+sec)).goAway(wireD+sec, "3").hear(wireD+sec, timeline.FrameFIN)
			})
		}, spec.Pass},
		{"was open at D, and cut before the GOAWAY, which is another rule's", BelowLastCompletes(), func(s *scene) {
			h2pool(s, "h2c/reused/slow/2s", func(k *talk) {
				k.ask(wireD-sec, cut(timeline.StreamReset, wireD+sec)).goAway(wireD+2*sec, "3").hear(wireD+2*sec, timeline.FrameFIN)
			})
		}, spec.Inconclusive},
		{"was open at D, and over at the GOAWAY, beside one that was cut before it", BelowLastCompletes(), func(s *scene) {
			h2pool(s, "h2c/reused/slow/2s", func(k *talk) {
				k.ask(wireD-sec, until(wireD+sec)).ask(wireD-sec, cut(timeline.StreamReset, wireD+sec)).goAway(wireD+2*sec, "5").hear(wireD+2*sec, timeline.FrameFIN)
			})
		}, spec.Inconclusive},
		{"was open at D, and over at the GOAWAY, which cuts another", BelowLastCompletes(), func(s *scene) {
			h2pool(s, "h2c/reused/slow/2s", func(k *talk) {
				k.ask(wireD-sec, until(wireD+sec)).ask(wireD+sec, cut(timeline.Truncated, wireD+3*sec)).goAway(wireD+2*sec, "5").hear(wireD+3*sec, timeline.FrameFIN)
			})
		}, spec.Fail},
		{"crossed the GOAWAY", BelowLastCompletes(), func(s *scene) {
			open(s, "h2c/reused/slow/2s", 13*sec)
			h2pool(s, "h2c/reused/get/delay=20ms", func(k *talk) { k.ask(11*sec-far, lost(timeline.Timeout, 12*sec)).goAway(11*sec, "3") })
		}, spec.Pass},
		{"is cut, whenever D was: the GOAWAY says that it is one", BelowLastCompletes(), func(s *scene) {
			s.blurD(2 * sec)
			open(s, "h2c/reused/slow/2s", 12*sec, cut(timeline.Truncated, 12*sec))
		}, spec.Fail},
		{"gets no answer in time, on a starved machine", BelowLastCompletes(), func(s *scene) {
			open(s, "h2c/reused/slow/2s", 14*sec, lost(timeline.Timeout, 14*sec))
			s.each(func(x *timeline.Sample) { x.Saturated = true })
		}, spec.Inconclusive},
	})
}
