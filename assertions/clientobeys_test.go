// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"testing"
	"time"

	built "github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// built is the scene, with what the tests of other packages build too.
func (s *scene) built() built.Scene { return built.Scene{Timeline: &s.tl} }

func (s *scene) told(at time.Duration, conn int, by string) *scene {
	s.built().Told(at, conn, by)
	return s
}

func (s *scene) heard(at time.Duration, conn int, by string) *scene {
	s.built().Heard(at, conn, by)
	return s
}

func (s *scene) asked(at time.Duration, conn int, by string) *scene {
	s.built().Asked(at, conn, by)
	return s
}

func (s *scene) through(name string, rate int, set func(*timeline.Sample)) {
	s.built().Through(name, rate, set)
}

func TestObeysGoAway(t *testing.T) {
	calls := func(s *scene) *scene {
		s.through("service/h2c/reused/grpc-unary", 25, nil)
		return s
	}
	away := func(s *scene) *scene {
		return calls(s).told(wireD+1, 1, timeline.ToldByGoAway).heard(wireD+2, 1, timeline.ToldByGoAway)
	}
	check := ObeysGoAway()
	judgeWire(t, []wireCase{
		{"moves on", check, func(s *scene) { away(s) }, spec.Pass},
		{"goes on", check, func(s *scene) { away(s).asked(wireD+2*sec, 1, timeline.ToldByGoAway) }, spec.Fail},
		{"one crossed it", check, func(s *scene) { away(s).asked(wireD+2+Crossing, 1, timeline.ToldByGoAway) }, spec.Pass},
		{"one came before it was read", check, func(s *scene) {
			calls(s).told(wireD+1, 1, timeline.ToldByGoAway).asked(wireD+sec/2, 1, timeline.ToldByGoAway).heard(wireD+sec, 1, timeline.ToldByGoAway)
		}, spec.Pass},
		{"goes on, and never answers the PING", check, func(s *scene) {
			away(s).told(wireD+1, 2, timeline.ToldByGoAway).asked(wireD+sec, 2, timeline.ToldByGoAway)
		}, spec.Inconclusive},
		{"goes on for long, and never answers the PING", check, func(s *scene) {
			away(s).told(wireD+1, 2, timeline.ToldByGoAway).asked(wireD+sec/2, 2, timeline.ToldByGoAway).asked(wireD+2*sec, 2, timeline.ToldByGoAway)
		}, spec.Fail},
		{"never answers the PING, and asks for nothing", check, func(s *scene) { away(s).told(wireD+1, 2, timeline.ToldByGoAway) }, spec.Pass},
		{"no GOAWAY was read", check, func(s *scene) { calls(s).told(wireD+1, 1, timeline.ToldByGoAway) }, spec.Inconclusive},
		{"no calls", check, func(s *scene) { s.told(wireD+1, 1, timeline.ToldByGoAway).heard(wireD+2, 1, timeline.ToldByGoAway) }, spec.Inconclusive},
		{"goes on for long, on a starved machine", check, func(s *scene) {
			away(s).asked(wireD+sec/2, 1, timeline.ToldByGoAway).asked(wireD+2*sec, 1, timeline.ToldByGoAway)
			s.through("service/h2c/reused/grpc-unary", 20, func(x *timeline.Sample) { x.Saturated = true })
		}, spec.Inconclusive},
		{"a FIN is another's", check, func(s *scene) { away(s).told(wireD+1, 2, timeline.ToldByFIN).asked(wireD+sec, 2, timeline.ToldByFIN) }, spec.Pass},
		{"goes on for a moment", check, func(s *scene) { away(s).asked(wireD+sec/2, 1, timeline.ToldByGoAway) }, spec.Inconclusive},
	})
}
