// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// turnsAway has an instance answer new connections by 503 in a stretch of time.
func turnsAway(s *scene, from, to time.Duration) {
	s.each(func(x *timeline.Sample) {
		if onNewConns(*x) && directTo(*x, uid) && x.Start >= from && x.Start < to {
			x.Outcome, x.Status = timeline.Status, 503
		}
	})
}

func TestHealthFailsFirst(t *testing.T) {
	health := func(s *scene, at time.Duration, probe string, good bool) {
		s.event(at, timeline.Health, uid, map[string]string{"probe": probe, "good": fmt.Sprint(good)})
	}
	// polled has the balancer's health turn bad at an instant, and the listener
	// go at another.
	polled := func(s *scene, bad, shut time.Duration) {
		s.doors(shut)
		health(s, 6*sec, "lb", true)
		health(s, 6*sec, "live", true)
		if bad > 0 {
			health(s, bad, "lb", false)
		}
		health(s, wireExit, "live", false)
	}
	// quiet has a look of the balancer get no answer in time.
	quiet := func(s *scene, at time.Duration) {
		s.event(at, timeline.Health, uid, map[string]string{"probe": "lb", "good": "false", "silent": "true"})
	}
	judgeWire(t, []wireCase{
		{"fails first", HealthFailsFirst(), func(s *scene) { polled(s, wireD+sec, wireShut) }, spec.Pass},
		{"fails with the listener", HealthFailsFirst(), func(s *scene) { polled(s, wireShut, wireShut) }, spec.Fail},
		{"turns all away by 503 from D on, behind a listener that stands", HealthFailsFirst(), func(s *scene) {
			polled(s, wireD+sec/2, wireShut)
			turnsAway(s, wireD, wireShut)
		}, spec.Pass},
		{"turns all away, and is healthy until the listener goes", HealthFailsFirst(), func(s *scene) {
			polled(s, wireShut, wireShut)
			turnsAway(s, wireD, wireShut)
		}, spec.Fail},
		{"fails after the listener", HealthFailsFirst(), func(s *scene) { polled(s, wireShut+sec, wireShut) }, spec.Fail},
		{"never fails", HealthFailsFirst(), func(s *scene) { polled(s, 0, wireShut) }, spec.Fail},
		{"liveness goes with it", HealthFailsFirst(), func(s *scene) {
			polled(s, wireD+sec, wireShut)
			health(s, wireD+sec, "live", false)
		}, spec.Fail},
		{"liveness was never good", HealthFailsFirst(), func(s *scene) {
			polled(s, wireD+sec, wireShut)
			s.drop(func(e timeline.Event) bool { return e.Kind == timeline.Health && e.Attrs["probe"] == "live" })
			health(s, 6*sec, "live", false)
			s.tl.Sort()
		}, spec.Fail},
		{"no liveness probe", HealthFailsFirst(), func(s *scene) {
			polled(s, wireD+sec, wireShut)
			s.drop(func(e timeline.Event) bool { return e.Kind == timeline.Health && e.Attrs["probe"] == "live" })
		}, spec.Pass},
		{"nobody asked", HealthFailsFirst(), func(s *scene) { s.doors(wireShut) }, spec.Inconclusive},
		{"bad before D", HealthFailsFirst(), func(s *scene) {
			polled(s, wireD+sec, wireShut)
			health(s, 8*sec, "lb", false)
		}, spec.Inconclusive},
		{"asked too seldom", HealthFailsFirst(), func(s *scene) {
			polled(s, wireShut+time.Millisecond, wireShut)
			for i := range s.tl.Events {
				if e := &s.tl.Events[i]; e.Kind == timeline.Health && e.Attrs["good"] == "false" {
					e.Err = sec
				}
			}
		}, spec.Inconclusive},
		{"goes with the listener, between two looks", HealthFailsFirst(), func(s *scene) {
			polled(s, wireShut+sec/5, wireShut)
			for i := range s.tl.Events {
				if e := &s.tl.Events[i]; e.Kind == timeline.Health && e.Attrs["good"] == "false" {
					e.Err = sec / 2
				}
			}
		}, spec.Fail},
		{"a look that was late: it may have gone long before the listener", HealthFailsFirst(), func(s *scene) {
			polled(s, wireShut+sec/5, wireShut)
			for i := range s.tl.Events {
				if e := &s.tl.Events[i]; e.Kind == timeline.Health && e.Attrs["good"] == "false" {
					e.Err = sec/5 + 600*time.Millisecond
				}
			}
		}, spec.Inconclusive},
		{"may have gone just before the listener, behind a silence", HealthFailsFirst(), func(s *scene) {
			polled(s, wireShut+sec/5, wireShut)
			quiet(s, wireShut-sec/5)
			s.tl.Sort()
		}, spec.Inconclusive},
		{"nobody dialled", HealthFailsFirst(), func(s *scene) {
			polled(s, wireD+sec, wireShut)
			s.tl.Samples = nil
		}, spec.Inconclusive},
		{"never fails, but one look gets no answer", HealthFailsFirst(), func(s *scene) {
			polled(s, 0, wireShut)
			quiet(s, wireD+sec)
			health(s, wireD+sec+sec/2, "lb", true)
		}, spec.Fail},
		{"never fails, and gives no answer to the end", HealthFailsFirst(), func(s *scene) {
			polled(s, 0, wireShut)
			quiet(s, wireD+sec)
		}, spec.Inconclusive},
		{"fails with the listener, behind a silence", HealthFailsFirst(), func(s *scene) {
			polled(s, wireShut, wireShut)
			quiet(s, wireD+sec)
			s.tl.Sort()
		}, spec.Inconclusive},
		{"fails first, behind a silence", HealthFailsFirst(), func(s *scene) {
			polled(s, wireD+sec, wireShut)
			quiet(s, wireD+sec/2)
			s.tl.Sort()
		}, spec.Pass},
		{"fails first, and comes back", HealthFailsFirst(), func(s *scene) {
			polled(s, wireD+sec, wireShut)
			health(s, wireD+sec+sec/2, "lb", true)
		}, spec.Fail},
		{"one look at liveness gets no answer", HealthFailsFirst(), func(s *scene) {
			polled(s, wireD+sec, wireShut)
			s.event(wireD+2*sec, timeline.Health, uid, map[string]string{"probe": "live", "good": "false", "silent": "true"})
			health(s, wireD+2*sec+sec/2, "live", true)
			s.tl.Sort()
		}, spec.Inconclusive},
		{"liveness gives no answer any more", HealthFailsFirst(), func(s *scene) {
			polled(s, wireD+sec, wireShut)
			s.event(wireD+2*sec, timeline.Health, uid, map[string]string{"probe": "live", "good": "false", "silent": "true"})
			s.tl.Sort()
		}, spec.Fail},
		{"liveness fails on a starved machine", HealthFailsFirst(), func(s *scene) {
			polled(s, wireD+sec, wireShut)
			health(s, wireD+2*sec, "live", false)
			s.each(func(x *timeline.Sample) {
				x.Saturated = x.Start > 15*sec || x.Start < wireD+sec+sec/2 && x.Start > 9*sec
			})
		}, spec.Inconclusive},
	})
}
