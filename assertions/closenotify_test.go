// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestCloseNotifyFirst(t *testing.T) {
	const flow = "https1/new/idle/30s"
	ends := func(s *scene, n int, flow string, kinds ...timeline.FrameKind) {
		times(n, func(i time.Duration) {
			k := s.dial(flow).ask(9*sec + i)
			for _, kind := range kinds {
				k.hear(12*sec, kind, "alert", "internal error")
			}
		})
	}
	good := func(s *scene) { ends(s, 6, flow, timeline.FrameCloseNotify, timeline.FrameFIN) }
	// atK is what SIGKILL makes of connections that idle.
	atK := func(s *scene) {
		times(6, func(i time.Duration) { s.dial(flow).ask(9*sec+i).hear(wireK, timeline.FrameFIN) })
	}
	judgeWire(t, []wireCase{
		{"close_notify, then FIN", CloseNotifyFirst(), good, spec.Pass},
		{"close_notify, then RST", CloseNotifyFirst(), func(s *scene) { ends(s, 6, flow, timeline.FrameCloseNotify, timeline.FrameRST) }, spec.Pass},
		{"close_notify that was read behind the RST", CloseNotifyFirst(), func(s *scene) { ends(s, 6, flow, timeline.FrameRST, timeline.FrameCloseNotify) }, spec.Pass},
		{"bare FIN", CloseNotifyFirst(), func(s *scene) { good(s); ends(s, 1, flow, timeline.FrameFIN) }, spec.Fail},
		{"RST", CloseNotifyFirst(), func(s *scene) { good(s); ends(s, 1, "h2/reused/get", timeline.FrameRST) }, spec.Fail},
		{"bare FINs of one that keeps no connection", CloseNotifyFirst(), func(s *scene) {
			times(6, func(i time.Duration) {
				s.dial("https1/reused/get").ask(12*sec+i, saysClose).hear(12*sec+i+sec/100, timeline.FrameFIN)
			})
		}, spec.Fail},
		{"close_notify of one that keeps no connection", CloseNotifyFirst(), func(s *scene) {
			times(6, func(i time.Duration) {
				s.dial("https1/reused/get").ask(12*sec+i, saysClose).hear(12*sec+i+sec/100, timeline.FrameCloseNotify).hear(12*sec+i+sec/100, timeline.FrameFIN)
			})
		}, spec.Pass},
		{"bare FINs before D of one that keeps no connection", CloseNotifyFirst(), func(s *scene) {
			times(6, func(i time.Duration) {
				s.dial("https1/reused/get").ask(8*sec+i, saysClose).hear(8*sec+i+sec/100, timeline.FrameFIN)
			})
		}, spec.Inconclusive},
		{"a FIN in plaintext", CloseNotifyFirst(), func(s *scene) { good(s); ends(s, 1, "http1/new/idle/30s", timeline.FrameFIN) }, spec.Pass},
		{"an error alert", CloseNotifyFirst(), func(s *scene) { good(s); ends(s, 1, flow, timeline.FrameAlert, timeline.FrameFIN) }, spec.Pass},
		{"the client closed", CloseNotifyFirst(), func(s *scene) { ends(s, 6, flow, timeline.FrameClose, timeline.FrameFIN) }, spec.Inconclusive},
		{"cut with work in hand", CloseNotifyFirst(), func(s *scene) {
			good(s)
			s.dial("https1/reused/slow/30s").ask(7*sec, until(8*sec)).ask(9*sec, cut(timeline.Truncated, 19*sec)).hear(19*sec, timeline.FrameFIN)
		}, spec.Pass},
		{"bare FIN, with a request on its way", CloseNotifyFirst(), func(s *scene) {
			good(s)
			s.dial("https1/reused/get/delay=20ms").ask(9*sec).ask(12*sec, lost(timeline.Closed, 12*sec+far/2)).hear(12*sec+far/2, timeline.FrameFIN)
		}, spec.Fail},
		{"opened after D", CloseNotifyFirst(), func(s *scene) {
			good(s)
			s.dial(flow).ask(11*sec).hear(12*sec, timeline.FrameFIN)
		}, spec.Pass},
		{"SIGKILL ends them, and no timeout was promised", CloseNotifyFirst(), func(s *scene) { s.killed(); atK(s) }, spec.Skipped},
		{"SIGKILL ends some, and no timeout was promised", CloseNotifyFirst(), func(s *scene) { s.killed(); atK(s); good(s) }, spec.Pass},
		{"SIGKILL ends them, and a timeout was promised", CloseNotifyFirst(), func(s *scene) { s.killed(); atK(s); s.untilKilled = false }, spec.Fail},
		{"no timeout was promised, and a bare FIN before K", CloseNotifyFirst(), func(s *scene) {
			s.killed()
			atK(s)
			ends(s, 1, flow, timeline.FrameFIN)
		}, spec.Fail},
		{"within the uncertainty of D", CloseNotifyFirst(), func(s *scene) {
			s.blurD(3 * sec)
			times(6, func(i time.Duration) { s.dial(flow).ask(6*sec+i).hear(11*sec, timeline.FrameFIN) })
		}, spec.Inconclusive},
	})
}
