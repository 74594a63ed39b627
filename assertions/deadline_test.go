// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestDeadlineTellsFirst(t *testing.T) {
	const flow = "h2c/reused/slow/30s"
	const deadline = wireExit - 100*time.Millisecond
	// long has streams that would run on for long, cut at the deadline.
	long := func(s *scene, o timeline.Outcome, then func(*talk)) {
		times(4, func(i time.Duration) {
			k := s.dial(flow).ask(9*sec+i, cut(o, deadline)).goAway(11*sec, "max")
			then(k)
		})
	}
	fin := func(k *talk) { k.hear(deadline, timeline.FrameFIN) }
	// atK is what SIGKILL makes of them.
	atK := func(s *scene) {
		times(4, func(i time.Duration) {
			s.dial(flow).ask(9*sec+i, cut(timeline.Truncated, wireK)).goAway(11*sec, "max").hear(wireK, timeline.FrameFIN)
		})
	}
	judgeWire(t, []wireCase{
		{"RST_STREAM", DeadlineTellsFirst(), func(s *scene) {
			long(s, timeline.StreamReset, func(k *talk) {
				fin(k.hear(deadline, timeline.FrameReset, "id", "1", "code", "CANCEL"))
			})
		}, spec.Pass},
		{"GOAWAY", DeadlineTellsFirst(), func(s *scene) {
			long(s, timeline.Truncated, func(k *talk) { fin(k.goAway(deadline, "1")) })
		}, spec.Pass},
		{"a GOAWAY by which all streams go on", DeadlineTellsFirst(), func(s *scene) {
			long(s, timeline.Truncated, func(k *talk) { fin(k.goAway(deadline, "max")) })
		}, spec.Fail},
		{"FIN without a word", DeadlineTellsFirst(), func(s *scene) { long(s, timeline.Truncated, fin) }, spec.Fail},
		{"FIN without a word at the deadline, and its process leaves seconds later", DeadlineTellsFirst(), func(s *scene) {
			times(6, func(i time.Duration) {
				s.dial("h2c/reused/slow/12s").ask(9*sec+i, cut(timeline.Truncated, wireDeadline)).goAway(11*sec, "max").hear(wireDeadline, timeline.FrameFIN)
			})
			s.shift(timeline.ProcExit, uid, wireDeadline+4*sec)
		}, spec.Fail},
		{"RST without a word", DeadlineTellsFirst(), func(s *scene) {
			long(s, timeline.Reset, func(k *talk) { k.hear(deadline, timeline.FrameRST) })
		}, spec.Fail},
		{"RST_STREAM of another stream", DeadlineTellsFirst(), func(s *scene) {
			long(s, timeline.Truncated, func(k *talk) { fin(k.hear(deadline, timeline.FrameReset, "id", "3", "code", "CANCEL")) })
		}, spec.Fail},
		{"nothing was long enough", DeadlineTellsFirst(), func(s *scene) {
			times(6, func(i time.Duration) {
				s.dial("h2c/reused/slow/2s").ask(11*sec+i, cut(timeline.Truncated, 12*sec)).hear(12*sec, timeline.FrameFIN)
			})
		}, spec.Inconclusive},
		{"all ended by themselves", DeadlineTellsFirst(), func(s *scene) {
			times(6, func(i time.Duration) {
				s.dial(flow).ask(9*sec+i, until(deadline)).goAway(11*sec, "max").hear(deadline, timeline.FrameFIN)
			})
		}, spec.Inconclusive},
		{"the client gave up", DeadlineTellsFirst(), func(s *scene) {
			long(s, timeline.Timeout, func(k *talk) { k.hear(deadline, timeline.FrameClose, "why", "broken") })
		}, spec.Inconclusive},
		{"FIN without a word, within the uncertainty of D", DeadlineTellsFirst(), func(s *scene) {
			s.blurD(wireExit - wireD)
			long(s, timeline.Truncated, fin)
		}, spec.Inconclusive},
		{"SIGKILL cuts, and no timeout was promised", DeadlineTellsFirst(), func(s *scene) {
			s.killed()
			atK(s)
		}, spec.Skipped},
		{"SIGKILL cuts, and a timeout was promised", DeadlineTellsFirst(), func(s *scene) {
			s.killed()
			atK(s)
			s.untilKilled = false
		}, spec.Fail},
		{"no timeout was promised, and it cuts before K", DeadlineTellsFirst(), func(s *scene) {
			s.killed()
			atK(s)
			long(s, timeline.Truncated, fin)
		}, spec.Fail},
		{"no timeout was promised, and it cuts before K with a word", DeadlineTellsFirst(), func(s *scene) {
			s.killed()
			atK(s)
			long(s, timeline.Truncated, func(k *talk) { fin(k.goAway(deadline, "1")) })
		}, spec.Pass},
		{"no timeout was promised, and nobody saw the exit", DeadlineTellsFirst(), func(s *scene) {
			s.killed()
			atK(s)
			s.drop(func(e timeline.Event) bool { return e.Kind == timeline.ProcExit })
		}, spec.Inconclusive},
		{"nobody saw the exit", DeadlineTellsFirst(), func(s *scene) {
			long(s, timeline.Truncated, fin)
			s.drop(func(e timeline.Event) bool { return e.Kind == timeline.ProcExit })
		}, spec.Inconclusive},
	})
}
