// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestAdminClosed(t *testing.T) {
	const (
		tried = 7 * sec
		got   = tried + 100*time.Millisecond
	)
	control := func(s *scene, at time.Duration, attrs map[string]string) {
		a := map[string]string{"from": timeline.ControlOwn, "to": "127.0.0.2:9901", "port": "admin"}
		maps.Copy(a, attrs)
		s.event(at, timeline.Control, uid, a)
	}
	own := func(s *scene) { control(s, tried, nil) }
	elsewhere := func(s *scene, err string) {
		control(s, tried+1, map[string]string{"from": timeline.ControlElsewhere, "to": "127.9.9.9:9901", "error": err})
	}
	get := func(s *scene, status int) {
		control(s, got, map[string]string{"method": "GET", "path": "/drain", "status": fmt.Sprint(status)})
	}
	health := func(s *scene, at time.Duration, probe string) {
		s.event(at, timeline.Health, uid, map[string]string{"probe": probe, "good": "false", "why": "status 503"})
	}
	// all is what a closed system shows: nothing elsewhere, and this status for a
	// GET, after which its health is good until D.
	all := func(s *scene, status int) {
		s.doors(wireShut)
		own(s)
		elsewhere(s, "connection refused")
		get(s, status)
		health(s, wireD+sec, "lb")
	}
	without := func(s *scene, out func(timeline.Event) bool) {
		all(s, 405)
		s.drop(out)
	}
	judgeWire(t, []wireCase{
		{"closed", AdminClosed(), func(s *scene) { all(s, 405) }, spec.Pass},
		{"a GET that does nothing", AdminClosed(), func(s *scene) { all(s, 200) }, spec.Pass},
		{"a GET that is refused, of what has no health to show", AdminClosed(), func(s *scene) {
			without(s, of(timeline.Health, uid))
		}, spec.Pass},
		{"a filter before it", AdminClosed(), func(s *scene) {
			s.doors(wireShut)
			own(s)
			elsewhere(s, "i/o timeout")
			get(s, 405)
		}, spec.Pass},
		{"reached elsewhere", AdminClosed(), func(s *scene) { all(s, 405); elsewhere(s, "") }, spec.Fail},
		{"a GET that drains", AdminClosed(), func(s *scene) {
			all(s, 202)
			s.event(got+1, timeline.DrainStart, uid, map[string]string{"trigger": "GET /drain"})
		}, spec.Fail},
		{"a GET that drains what does not say so", AdminClosed(), func(s *scene) { all(s, 200); health(s, got+sec, "lb") }, spec.Fail},
		{"a GET that ends it", AdminClosed(), func(s *scene) {
			all(s, 200)
			s.event(got+sec, timeline.ProcExit, uid, nil)
		}, spec.Fail},
		{"a GET from which on clients are refused, and health stays good", AdminClosed(), func(s *scene) {
			all(s, 200)
			s.each(func(x *timeline.Sample) {
				if directTo(*x, uid) && x.Start > got+sec && x.End < wireD-100*time.Millisecond {
					fail(x, timeline.Refused)
				}
			})
		}, spec.Fail},
		{"clients that are refused before it", AdminClosed(), func(s *scene) {
			all(s, 200)
			s.each(func(x *timeline.Sample) {
				if directTo(*x, uid) && x.Start > tried-sec && x.End < tried {
					fail(x, timeline.Refused)
				}
			})
		}, spec.Pass},
		{"a deletion that the watch shows late", AdminClosed(), func(s *scene) {
			without(s, of(timeline.PodDeletion, uid))
			s.event(wireD-40*time.Millisecond, timeline.Disruption, uid, map[string]string{"what": "delete"})
			s.event(wireD+60*time.Millisecond, timeline.PodDeletion, uid, map[string]string{"grace": "30"})
		}, spec.Pass},
		{"liveness is not asked for a drain", AdminClosed(), func(s *scene) { all(s, 405); health(s, got+sec, "live") }, spec.Pass},
		{"bad health on a starved machine", AdminClosed(), func(s *scene) {
			all(s, 405)
			health(s, got+sec, "ready")
			s.each(func(x *timeline.Sample) { x.Saturated = x.Start > 7*sec && x.Start < 9*sec })
		}, spec.Inconclusive},
		{"a GET that may have drained unseen", AdminClosed(), func(s *scene) {
			all(s, 200)
			s.drop(of(timeline.Health, uid))
		}, spec.Inconclusive},
		{"a GET that may have drained who stands beside an app", AdminClosed(), func(s *scene) {
			all(s, 202)
			s.event(0, timeline.Marker, "", map[string]string{"what": MarkSubject, "role": string(RoleSidecar)})
		}, spec.Inconclusive},
		{"a GET that is refused by who stands beside an app", AdminClosed(), func(s *scene) {
			all(s, 405)
			s.event(0, timeline.Marker, "", map[string]string{"what": MarkSubject, "role": string(RoleSidecar)})
		}, spec.Pass},
		{"health that goes with the process only", AdminClosed(), func(s *scene) {
			all(s, 200)
			s.drop(of(timeline.Health, uid))
			health(s, wireExit, "ready")
		}, spec.Inconclusive},
		{"its own address does not answer", AdminClosed(), func(s *scene) {
			without(s, func(e timeline.Event) bool {
				return e.Kind == timeline.Control && e.Attrs["from"] == timeline.ControlOwn && e.Attrs["method"] == ""
			})
		}, spec.Inconclusive},
		{"nobody dialled elsewhere", AdminClosed(), func(s *scene) {
			without(s, func(e timeline.Event) bool { return e.Attrs["from"] == timeline.ControlElsewhere })
		}, spec.Inconclusive},
		{"no GET was answered", AdminClosed(), func(s *scene) {
			without(s, func(e timeline.Event) bool { return e.Attrs["method"] != "" })
		}, spec.Inconclusive},
		{"nobody was served meanwhile", AdminClosed(), func(s *scene) {
			all(s, 405)
			s.tl.Samples = nil
		}, spec.Inconclusive},
	})
}
