// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
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

func TestNothingLostAtGoAway(t *testing.T) {
	const long = "service/h2c/reused/grpc-server/3s"
	good := func(s *scene, set func(*timeline.Sample)) {
		s.event(wireShut, timeline.DrainListenerClosed, uid, nil)
		s.told(wireD+1, 1, timeline.ToldByGoAway)
		s.through("service/h2c/reused/grpc-unary", 25, set)
		s.through(long, 2, func(x *timeline.Sample) {
			x.End = x.Start + 3*sec
			if set != nil {
				set(x)
			}
		})
	}
	one := func(stream string, at time.Duration, o timeline.Outcome, phase timeline.Phase) func(*scene) {
		return func(s *scene) {
			hit := false
			good(s, func(x *timeline.Sample) {
				if x.Stream == flow.Named(stream) && x.Start >= at && !hit {
					hit = true
					x.Outcome, x.Phase = o, phase
				}
			})
		}
	}
	const unary = "service/h2c/reused/grpc-unary"
	check := NothingLostAtGoAway()
	judgeWire(t, []wireCase{
		{"nothing is lost", check, func(s *scene) { good(s, nil) }, spec.Pass},
		{"one that ran at D is cut", check, one(long, 9*sec, timeline.StreamReset, timeline.PhaseBody), spec.Fail},
		{"one that came after D is cut", check, one(unary, 11*sec, timeline.Closed, timeline.PhaseFirstByte), spec.Fail},
		{"one is answered with an error", check, one(unary, 11*sec, timeline.Status, timeline.PhaseDone), spec.Fail},
		{"one is refused as not processed", check, one(unary, 11*sec, timeline.RefusedStream, timeline.PhaseFirstByte), spec.Pass},
		{"one broke before D", check, one(unary, 8*sec, timeline.Closed, timeline.PhaseFirstByte), spec.Pass},
		{"one broke at the listener's end", check, one(unary, wireShut-atTheDoor, timeline.Status, timeline.PhaseDone), spec.Pass},
		{"one gets no answer, on a starved machine", check, func(s *scene) {
			one(unary, 11*sec, timeline.Timeout, timeline.PhaseFirstByte)(s)
			s.through("service/http1/reused/get", 25, func(x *timeline.Sample) { x.Saturated = true })
		}, spec.Inconclusive},
		{"no GOAWAY", check, func(s *scene) {
			good(s, nil)
			s.drop(func(e timeline.Event) bool { return e.Kind == timeline.ConnTold })
		}, spec.Inconclusive},
		{"few calls", check, func(s *scene) {
			good(s, func(x *timeline.Sample) { x.Saturated = x.Start < 12*sec })
		}, spec.Inconclusive},
	})
}
