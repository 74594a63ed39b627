// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestDeregistersFirst(t *testing.T) {
	check := DeregistersFirst(sec, 2)
	const other = "uid-other"
	// fronted has the balancer take the instance out at an instant, send to it
	// until then, and to another one from there on; the listener goes at shut.
	fronted := func(s *scene, out, shut time.Duration) {
		s.doors(shut)
		s.balance(5*sec, uid, "")
		s.balance(5*sec, other, "")
		if out > 0 {
			s.balance(out, uid, "status 503")
		}
		s.stream("balanced/http1/new/get", 40, func(x *timeline.Sample) {
			x.Server = other
			if out == 0 || x.Start < out {
				x.Server = uid
			}
			if x.Server == uid && x.Start >= shut {
				x.Server, x.Outcome, x.Phase, x.First = "", timeline.Reset, timeline.PhaseFirstByte, 0
			}
		})
	}
	good := func(s *scene) { fronted(s, wireD+2*sec, wireShut) }
	with := func(change func(*scene)) func(*scene) {
		return func(s *scene) {
			good(s)
			change(s)
		}
	}
	// accepted has the balancer, which has nobody in from wireExit to a second later, accept a
	// connection only when it has been there for 300 ms.
	accepted := func(given bool) func(*scene) {
		return with(func(s *scene) {
			s.balance(wireExit, other, "no answer in time")
			s.balance(wireExit+sec, other, "")
			s.each(func(x *timeline.Sample) {
				if x.Stream != flow.Named("balanced/http1/new/get") {
					return
				}
				x.Local = fmt.Sprint("127.0.0.2:", x.Start)
				switch {
				case x.Start >= wireExit && x.Start < wireExit+sec:
					fail(x, timeline.Reset)
				case x.Start >= wireExit-300*time.Millisecond && x.Start < wireExit:
					fail(x, timeline.Reset)
					x.End = x.Start + 400*time.Millisecond
					if !given {
						return
					}
				}
				s.event(x.Start, timeline.Chosen, other, map[string]string{"client": x.Local, "by": timeline.ByBalancer})
			})
		})
	}
	judgeWire(t, []wireCase{
		{"lost while the balancer has nobody", check, accepted(false), spec.Inconclusive},
		{"lost by whom the balancer had given it to", check, accepted(true), spec.Fail},
		{"out before the listener goes", check, good, spec.Pass},
		{"out after it", check, func(s *scene) { fronted(s, wireShut+sec, wireShut) }, spec.Fail},
		{"another one comes up in its place", check, with(func(s *scene) { s.balance(wireExit+sec, uid, "") }), spec.Pass},
		{"never out", check, func(s *scene) { fronted(s, 0, wireShut) }, spec.Fail},
		{"one connection is lost", check, with(func(s *scene) {
			for i := range s.tl.Samples {
				if x := &s.tl.Samples[i]; x.Stream == flow.Named("balanced/http1/new/get") && x.Start > wireD+sec {
					x.Outcome, x.Phase = timeline.Reset, timeline.PhaseFirstByte
					return
				}
			}
		}), spec.Fail},
		{"out because it gave no answer in time", check, with(func(s *scene) {
			for i := range s.tl.Events {
				if e := &s.tl.Events[i]; e.Kind == timeline.Balancer && e.Subject == uid && e.Attrs["in"] == "false" {
					e.Attrs["silent"] = "true"
				}
			}
		}), spec.Inconclusive},
		{"out, and in again before the listener goes", check, with(func(s *scene) { s.balance(wireD+3*sec, uid, "") }), spec.Fail},
		{"it was not in", check, with(func(s *scene) {
			s.drop(func(e timeline.Event) bool {
				return e.Kind == timeline.Balancer && e.Subject == uid && e.Attrs["in"] == "true"
			})
		}), spec.Inconclusive},
		{"no balancer at all", check, func(s *scene) { s.doors(wireShut) }, spec.Inconclusive},
		{"nothing was sent to it", check, with(func(s *scene) {
			s.each(func(x *timeline.Sample) {
				if x.Stream == flow.Named("balanced/http1/new/get") {
					x.Server = other
				}
			})
		}), spec.Inconclusive},
		{"sent late", check, with(func(s *scene) { s.each(func(x *timeline.Sample) { x.Saturated = true }) }), spec.Inconclusive},
		{"out after it, on a starved machine", check, func(s *scene) {
			fronted(s, wireShut+sec, wireShut)
			s.each(func(x *timeline.Sample) {
				if x.Saturated = true; x.Failed() {
					x.Outcome, x.Phase, x.Server = timeline.OK, timeline.PhaseDone, other
				}
			})
		}, spec.Inconclusive},
	})
}
