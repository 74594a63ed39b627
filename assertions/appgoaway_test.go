// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"testing"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// What a client was told of a call is held against the ledger. The rest is
// TestNothingLostAtGoAway's.
func TestTurnedAwayAtGoAway(t *testing.T) {
	const unary, long = "service/h2c/reused/grpc-unary", "service/h2c/reused/grpc-server/3s"
	// turned has calls of both kinds, of which one that was begun at 11 s was turned
	// away: its ID.
	turned := func(s *scene, o timeline.Outcome) (id string) {
		s.event(wireShut, timeline.DrainListenerClosed, uid, nil)
		s.told(wireD+1, 1, timeline.ToldByGoAway)
		s.through(long, 2, func(x *timeline.Sample) { x.End = x.Start + 3*sec })
		s.through(unary, 25, func(x *timeline.Sample) {
			if x.Start == 11*sec {
				id = x.ID
				lost(o, x.End)(x)
			}
		})
		return id
	}
	begun := func(s *scene, id string) {
		s.tl.Ledger = append(s.tl.Ledger, timeline.Entry{At: 11 * sec, ID: id, Step: timeline.Begin, Pod: uid})
	}
	check := NothingLostAtGoAway()
	judgeWire(t, []wireCase{
		{"nobody had begun it", check, func(s *scene) { turned(s, timeline.RefusedStream) }, spec.Pass},
		{"a backend had begun it", check, func(s *scene) { begun(s, turned(s, timeline.RefusedStream)) }, spec.Fail},
		{"a backend had begun it, above the last stream ID", check, func(s *scene) { begun(s, turned(s, timeline.GoAway)) }, spec.Fail},
		{"the ledger has a hole", check, func(s *scene) {
			turned(s, timeline.RefusedStream)
			s.tl.Ledger = s.tl.Ledger[1:] // another call's begin
		}, spec.Inconclusive},
		{"a backend had begun it, and the ledger has a hole", check, func(s *scene) {
			id := turned(s, timeline.RefusedStream)
			s.tl.Ledger = s.tl.Ledger[1:]
			begun(s, id)
		}, spec.Fail},
	})
}
