// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestLingers(t *testing.T) {
	good := func(s *scene) {
		lastAnswers(s, 12*sec, saysClose)
		times(6, func(i time.Duration) {
			s.dial("http1/new/ahead-post/1s").ask(12*sec+i, saysClose).hear(12*sec+i+3*time.Millisecond, timeline.FrameFIN)
		})
	}
	judgeWire(t, []wireCase{
		{"FIN", Lingers(), good, spec.Pass},
		{"FIN, and an RST behind it", Lingers(), func(s *scene) {
			good(s)
			s.dial("http1/reused/get").ask(12*sec, saysClose).hear(12*sec+3*time.Millisecond, timeline.FrameFIN).hear(12*sec+4*time.Millisecond, timeline.FrameRST)
		}, spec.Pass},
		{"close_notify, and an RST behind it", Lingers(), func(s *scene) {
			good(s)
			s.dial("https1/reused/get").ask(12*sec, saysClose).hear(12*sec+3*time.Millisecond, timeline.FrameCloseNotify).hear(12*sec+4*time.Millisecond, timeline.FrameRST)
		}, spec.Pass},
		{"close_notify, and an RST at once behind it, under what the client was sending", Lingers(), func(s *scene) {
			good(s)
			s.dial("https1/new/ahead-post/1s").ask(12*sec, saysClose).hear(12*sec+3*time.Millisecond, timeline.FrameCloseNotify).hear(12*sec+4*time.Millisecond, timeline.FrameRST)
		}, spec.Fail},
		{"close_notify, and an RST when it had waited, under what the client was sending", Lingers(), func(s *scene) {
			good(s)
			s.dial("https1/new/ahead-post/1s").ask(12*sec, saysClose).hear(12*sec+3*time.Millisecond, timeline.FrameCloseNotify).hear(12*sec+500*time.Millisecond, timeline.FrameRST)
		}, spec.Pass},
		{"RST after the answer", Lingers(), func(s *scene) {
			good(s)
			s.dial("http1/reused/get").ask(12*sec, saysClose).hear(12*sec+3*time.Millisecond, timeline.FrameRST)
		}, spec.Fail},
		{"RST within an answer that the backend gave whole", Lingers(), func(s *scene) {
			good(s)
			k := s.dial("http1/reused/slow/2s").ask(12*sec, saysClose, cut(timeline.Reset, 14*sec)).hear(14*sec, timeline.FrameRST)
			id := s.tl.Samples[len(s.tl.Samples)-1].ID
			s.tl.Ledger = append(s.tl.Ledger, timeline.Entry{At: 13 * sec, ID: id, Step: timeline.Done, Pod: uid, Whole: true})
			k.begun(12 * sec)
		}, spec.Fail},
		{"RST at the deadline, within an answer", Lingers(), func(s *scene) {
			good(s)
			s.dial("http1/reused/slow/30s").ask(12*sec, saysClose, cut(timeline.Reset, 18*sec)).begun(12*sec).hear(18*sec, timeline.FrameRST)
		}, spec.Pass},
		{"RST within an answer, and the ledger has a hole", Lingers(), func(s *scene) {
			good(s)
			s.dial("http1/reused/slow/30s").ask(12*sec, saysClose, cut(timeline.Reset, 18*sec)).begun(12*sec).hear(18*sec, timeline.FrameRST)
			s.tl.Ledger = s.tl.Ledger[2:]
		}, spec.Inconclusive},
		{"RST after the answer, within the uncertainty of D", Lingers(), func(s *scene) {
			s.blurD(3 * sec)
			good(s)
			s.dial("http1/reused/get").ask(12*sec, saysClose).hear(12*sec+3*time.Millisecond, timeline.FrameRST)
		}, spec.Inconclusive},
		{"RST on a connection that said nothing", Lingers(), func(s *scene) {
			good(s)
			s.dial("http1/reused/get").ask(12*sec).hear(12*sec+3*time.Millisecond, timeline.FrameRST)
		}, spec.Pass},
		{"RST under what the client was sending", Lingers(), func(s *scene) {
			good(s)
			s.dial("http1/new/ahead-post/1s").ask(12*sec, saysClose).hear(12*sec+3*time.Millisecond, timeline.FrameRST)
		}, spec.Fail},
		{"only the answers to what was sent ahead said close", Lingers(), func(s *scene) {
			lastAnswers(s, 12*sec, saysClose)
			times(6, func(i time.Duration) {
				s.dial("http1/new/ahead-post/1s").ask(12*sec+i).ask(12*sec+i+1, saysClose).hear(12*sec+i+sec, timeline.FrameFIN)
			})
		}, spec.Inconclusive},
		{"nobody was sending", Lingers(), func(s *scene) { lastAnswers(s, 12*sec, saysClose) }, spec.Inconclusive},
		{"too few", Lingers(), func(s *scene) {
			s.dial("http1/reused/get").ask(12*sec, saysClose).hear(12*sec+3*time.Millisecond, timeline.FrameFIN)
		}, spec.Inconclusive},
	})
}
