// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestRacingStreams(t *testing.T) {
	const flow, several = "h2c/reused/get/delay=20ms", "h2c/shared/get/delay=20ms"
	// told is when the client hears of the GOAWAY, and crossing an instant at
	// which what it sends is on its way together with it.
	const told = 11 * sec
	const crossing = told - far
	// race has twelve streams that are opened at an instant.
	race := func(s *scene, at time.Duration, last string, changes ...func(*timeline.Sample)) {
		times(12, func(i time.Duration) {
			s.dial(flow).ask(9*sec+i).ask(at, changes...).goAway(told, last)
		})
	}
	// connects has twelve CONNECTs in tunnels that are opened at an instant.
	connects := func(s *scene, at, told time.Duration, changes ...func(*timeline.Sample)) {
		times(12, func(i time.Duration) {
			s.dial("hbone/shared/get/delay=20ms").ask(9*sec+i, asStream(1)).ask(at, append(changes, asStream(3))...).goAway(told, "max")
		})
	}
	// unconnected is the status of a CONNECT, and not the app's.
	unconnected := func(x *timeline.Sample) {
		status(503, timeline.PhaseDone)(x)
		x.Server = ""
	}
	judgeWire(t, []wireCase{
		{"served in tunnels", RacingStreams(), func(s *scene) { connects(s, crossing, told) }, spec.Pass},
		{"denied while the app accepts", RacingStreams(), func(s *scene) { connects(s, crossing, told, unconnected) }, spec.Fail},
		{"denied when the app accepts no more", RacingStreams(), func(s *scene) {
			s.event(crossing-sec/2, timeline.DrainListenerClosed, uid, nil)
			connects(s, crossing, told, unconnected)
		}, spec.Pass},
		{"denied as the app's listener closes", RacingStreams(), func(s *scene) {
			s.event(crossing+sec/4, timeline.DrainListenerClosed, uid, nil)
			connects(s, crossing, told, unconnected)
		}, spec.Pass},
		{"denied behind P, and nobody says when the app is gone", RacingStreams(), func(s *scene) {
			connects(s, crossing+4*sec, told+4*sec, unconnected)
		}, spec.Pass},
		{"denied by a gateway behind P", RacingStreams(), func(s *scene) {
			s.event(0, timeline.Marker, "", map[string]string{"what": MarkFront})
			connects(s, crossing+4*sec, told+4*sec, unconnected)
		}, spec.Fail},
		{"denied by the app itself", RacingStreams(), func(s *scene) { connects(s, crossing, told, status(503, timeline.PhaseDone)) }, spec.Pass},
		{"served", RacingStreams(), func(s *scene) { race(s, crossing, "max") }, spec.Pass},
		{"known to be unprocessed", RacingStreams(), func(s *scene) { race(s, crossing, "1", lost(timeline.GoAway, told)) }, spec.Pass},
		{"refused", RacingStreams(), func(s *scene) { race(s, crossing, "max", lost(timeline.RefusedStream, told+far)) }, spec.Pass},
		{"refused, and begun all the same", RacingStreams(), func(s *scene) {
			race(s, crossing, "max")
			s.dial(flow).ask(9*sec).ask(crossing, lost(timeline.RefusedStream, told+far)).begun(crossing+far).goAway(told, "max")
		}, spec.Fail},
		{"served, and the client was told that it was not", RacingStreams(), func(s *scene) { race(s, crossing, "1") }, spec.Fail},
		{"known to be unprocessed, and the ledger has a hole", RacingStreams(), func(s *scene) {
			race(s, crossing, "1", lost(timeline.GoAway, told))
			s.tl.Ledger = s.tl.Ledger[1:] // the begin of the first request
		}, spec.Inconclusive},
		{"refused, and begun, and the ledger has a hole", RacingStreams(), func(s *scene) {
			race(s, crossing, "max")
			s.tl.Ledger = s.tl.Ledger[1:]
			s.dial(flow).ask(9*sec).ask(crossing, lost(timeline.RefusedStream, told+far)).begun(crossing+far).goAway(told, "max")
		}, spec.Fail},
		{"answered whole with another status", RacingStreams(), func(s *scene) { race(s, crossing, "max", status(503, timeline.PhaseDone)) }, spec.Pass},
		{"cut in an answer of another status", RacingStreams(), func(s *scene) { race(s, crossing, "max", status(503, timeline.PhaseBody)) }, spec.Fail},
		{"stranded", RacingStreams(), func(s *scene) { race(s, crossing, "max", lost(timeline.Timeout, told+sec)) }, spec.Fail},
		{"reset with a code that says nothing", RacingStreams(), func(s *scene) { race(s, crossing, "max", lost(timeline.StreamReset, told+far)) }, spec.Fail},
		{"closed", RacingStreams(), func(s *scene) { race(s, crossing, "3", lost(timeline.Closed, told+1)) }, spec.Fail},
		{"closed, but above the last", RacingStreams(), func(s *scene) { race(s, crossing, "1", lost(timeline.Closed, told+1)) }, spec.Pass},
		{"lost, but opened when the client knew", RacingStreams(), func(s *scene) {
			race(s, crossing, "max")
			race(s, told+1, "max", lost(timeline.Timeout, told+sec))
		}, spec.Pass},
		{"lost, but there before the GOAWAY was sent", RacingStreams(), func(s *scene) {
			race(s, crossing, "max")
			times(12, func(i time.Duration) {
				s.dial(flow).ask(9*sec+i).ask(told-2*far-atOnce-1, lost(timeline.Closed, told)).begun(told-far).goAway(told, "max")
			})
		}, spec.Pass},
		{"lost, begun before the client knew and written then", RacingStreams(), func(s *scene) {
			race(s, crossing, "max")
			race(s, told-1, "max", lost(timeline.Timeout, told+sec), func(x *timeline.Sample) { x.Sent = told + 1 })
		}, spec.Fail},
		{"lost, in some buffer: it left in time, and no backend has heard of it", RacingStreams(), func(s *scene) {
			race(s, crossing, "max")
			race(s, told-2*far-atOnce-1, "max", lost(timeline.Closed, told))
		}, spec.Fail},
		{"reset before the GOAWAY was sent, and no backend has heard of it", RacingStreams(), func(s *scene) {
			race(s, crossing, "max")
			race(s, told-800*time.Millisecond, "max", lost(timeline.StreamReset, told-600*time.Millisecond))
		}, spec.Pass},
		{"lost, and no backend has heard of it, long before the GOAWAY", RacingStreams(), func(s *scene) {
			race(s, crossing, "max")
			race(s, told-2*far-longWait-1, "max", lost(timeline.Closed, told))
		}, spec.Pass},
		{"stranded, whenever D was: the GOAWAY says that it is one", RacingStreams(), func(s *scene) {
			s.blurD(2 * sec)
			race(s, crossing, "max", lost(timeline.Timeout, told+sec))
		}, spec.Fail},
		{"without delay nothing crosses", RacingStreams(), func(s *scene) {
			times(12, func(i time.Duration) { s.dial("h2c/reused/get").ask(9*sec+i).ask(crossing).goAway(told, "max") })
		}, spec.Inconclusive},
		{"too few", RacingStreams(), func(s *scene) { s.dial(flow).ask(9*sec).ask(crossing).goAway(told, "max") }, spec.Inconclusive},
		{"stranded on a starved machine", RacingStreams(), func(s *scene) {
			race(s, crossing, "max", lost(timeline.Timeout, told+sec))
			s.each(func(x *timeline.Sample) { x.Saturated = true })
		}, spec.Inconclusive},
		// Of what is begun at once the one that was taken up first need not be the
		// first on the wire.
		{"several at once, and all that were lost are above the last", RacingStreams(), func(s *scene) {
			times(12, func(i time.Duration) {
				s.dial(several).ask(9*sec+i, asStream(1)).ask(crossing, asStream(5), lost(timeline.Closed, told+1)).ask(crossing, asStream(3)).goAway(told, "3")
			})
		}, spec.Pass},
		{"several at once, and one that was lost is not above the last", RacingStreams(), func(s *scene) {
			times(12, func(i time.Duration) {
				s.dial(several).ask(9*sec+i, asStream(1)).ask(crossing, asStream(5)).ask(crossing, asStream(3), lost(timeline.Closed, told+1)).goAway(told, "3")
			})
		}, spec.Fail},
		{"short ones are cut at the deadline", RacingStreams(), func(s *scene) {
			race(s, crossing, "max")
			s.dial(flow).ask(9*sec).ask(crossing, lost(timeline.StreamReset, wireDeadline)).goAway(told, "max")
		}, spec.Fail},
		{"refused at the deadline, and begun", RacingStreams(), func(s *scene) {
			race(s, crossing, "max")
			s.dial("h2c/reused/slow/30s/delay=20ms").ask(9*sec, until(9*sec+sec/2)).ask(crossing, lost(timeline.RefusedStream, wireDeadline)).begun(crossing+far).goAway(told, "max")
		}, spec.Fail},
		{"long ones are cut at the deadline", RacingStreams(), func(s *scene) {
			race(s, crossing, "max")
			s.dial("h2c/reused/slow/30s/delay=20ms").ask(9*sec, until(9*sec+sec/2)).ask(crossing, cut(timeline.StreamReset, 19*sec)).goAway(told, "max")
		}, spec.Pass},
	})
}

// asStream is a request on a stream of its own number.
func asStream(id uint32) func(*timeline.Sample) {
	return func(x *timeline.Sample) { x.StreamID = id }
}
