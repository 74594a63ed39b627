// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestAnswersHalfHeaders(t *testing.T) {
	check := AnswersHalfHeaders()
	// late has requests of a kind that begin at an instant, and are sent, or the rest
	// of them, 4 s later.
	late := func(s *scene, flow string, n int, at time.Duration, changes ...func(*timeline.Sample)) []*talk {
		var all []*talk
		times(n, func(i time.Duration) {
			k := s.dial(flow)
			all = append(all, k.ask(at+i, append([]func(*timeline.Sample){func(x *timeline.Sample) {
				x.Dial, x.Sent = at+i, at+i+4*sec
				x.First, x.End = x.Sent+time.Millisecond, x.Sent+2*time.Millisecond
			}}, changes...)...))
		})
		return all
	}
	half := func(s *scene, n int, at time.Duration, changes ...func(*timeline.Sample)) []*talk {
		return late(s, "http1/new/half-header/4s", n, at, changes...)
	}
	belated := func(s *scene, n int, changes ...func(*timeline.Sample)) []*talk {
		return late(s, "http1/new/belated/4s", n, 8*sec, changes...)
	}
	// closed ends without a byte, while the rest was waited for.
	closed := func(o timeline.Outcome) func(*timeline.Sample) {
		return func(x *timeline.Sample) {
			lost(o, 11*sec)(x)
			x.Phase, x.Sent = timeline.PhaseWrite, 0
		}
	}
	says := func(status int) func(*timeline.Sample) {
		return func(x *timeline.Sample) { x.Outcome, x.Phase, x.Status = timeline.Status, timeline.PhaseBody, status }
	}
	good := func(s *scene) { half(s, 6, 8*sec); belated(s, 6) }
	with := func(changes ...func(*timeline.Sample)) func(*scene) {
		return func(s *scene) { good(s); half(s, 1, 8*sec, changes...) }
	}
	judgeWire(t, []wireCase{
		{"answered", check, good, spec.Pass},
		{"closed", check, with(closed(timeline.Closed)), spec.Pass},
		{"reset without a byte", check, with(closed(timeline.Reset)), spec.Pass},
		{"closed when the rest had been sent", check, with(lost(timeline.Closed, 13*sec)), spec.Pass},
		{"408", check, with(says(408)), spec.Pass},
		{"400", check, with(says(400)), spec.Fail},
		{"half an answer", check, with(cut(timeline.Truncated, 13*sec)), spec.Fail},
		{"reset under the answer", check, with(cut(timeline.Reset, 13*sec)), spec.Fail},
		{"neither", check, with(lost(timeline.Timeout, 20*sec)), spec.Fail},
		{"begun, and closed", check, func(s *scene) {
			good(s)
			for _, k := range half(s, 1, 8*sec, lost(timeline.Reset, 13*sec)) {
				k.begun(12 * sec)
			}
		}, spec.Fail},
		{"half an answer, to a header that was whole before D", check, func(s *scene) {
			good(s)
			half(s, 1, 5500*time.Millisecond, cut(timeline.Truncated, 11*sec))
		}, spec.Pass},
		{"half an answer, on a connection of after D", check, func(s *scene) {
			good(s)
			half(s, 1, 11*sec, cut(timeline.Truncated, 16*sec))
		}, spec.Pass},
		{"belated ones closed", check, func(s *scene) { good(s); belated(s, 6, closed(timeline.Closed)) }, spec.Pass},
		{"a belated one begun, and closed", check, func(s *scene) {
			good(s)
			for _, k := range belated(s, 1, lost(timeline.Reset, 13*sec)) {
				k.begun(12 * sec)
			}
		}, spec.Fail},
		{"none was belated", check, func(s *scene) { half(s, 6, 8*sec) }, spec.Inconclusive},
		{"all closed, and no ledger", check, func(s *scene) {
			half(s, 6, 8*sec, closed(timeline.Closed))
			belated(s, 6, closed(timeline.Closed))
		}, spec.Inconclusive},
		{"one closed, and the ledger has a hole", check, func(s *scene) {
			with(closed(timeline.Closed))(s)
			s.tl.Ledger = s.tl.Ledger[1:]
		}, spec.Inconclusive},
		{"too few", check, func(s *scene) { half(s, 4, 8*sec); belated(s, 6) }, spec.Inconclusive},
		{"closed within the uncertainty of D", check, func(s *scene) {
			s.blurD(3 * sec)
			half(s, 6, 6*sec, closed(timeline.Closed))
		}, spec.Inconclusive},
	})
}
