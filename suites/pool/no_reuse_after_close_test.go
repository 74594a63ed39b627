// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestNoReuseAfterClose(t *testing.T) {
	// ended has six connections closed at 12 s.
	ended := func(s scene.Scene) scene.Scene {
		sixTimes(func(i time.Duration) {
			s.Told(12*sec+i, int(i), timeline.ToldByFIN).Heard(12*sec+i+1, int(i), timeline.ToldByFIN)
		})
		return s
	}
	check := noReuseAfterClose()
	scene.Judge(t, judge(check), []scene.Row{
		{Name: "left alone", Build: func(s scene.Scene) { ended(s) }, Want: spec.Pass},
		{Name: "asked after its FIN", Build: func(s scene.Scene) {
			ended(s).Told(12*sec, 99, timeline.ToldByFIN).Asked(12*sec+assertions.NoCrossing+1, 99, timeline.ToldByFIN)
		}, Want: spec.Fail},
		{Name: "asked soon after its FIN", Build: func(s scene.Scene) {
			ended(s).Told(12*sec, 99, timeline.ToldByFIN).Asked(12*sec+assertions.Crossing+1, 99, timeline.ToldByFIN)
		}, Want: spec.Inconclusive},
		{Name: "many are asked soon after their FIN, all through the drain", Build: func(s scene.Scene) {
			for i := range 8 {
				at := 12*sec + time.Duration(i)*sec/2
				ended(s).Told(at, 90+i, timeline.ToldByFIN).Asked(at+assertions.NoCrossing/2, 90+i, timeline.ToldByFIN)
			}
		}, Want: spec.Fail},
		{Name: "many are asked soon after their FIN, at one time", Build: func(s scene.Scene) {
			for i := range 8 {
				ended(s).Told(12*sec, 90+i, timeline.ToldByFIN).Asked(12*sec+assertions.NoCrossing/2, 90+i, timeline.ToldByFIN)
			}
		}, Want: spec.Inconclusive},
		{Name: "asked as it was closed", Build: func(s scene.Scene) {
			ended(s).Told(12*sec, 99, timeline.ToldByFIN).Asked(12*sec+assertions.Crossing, 99, timeline.ToldByFIN)
		}, Want: spec.Pass},
		{Name: "asked as it was closed, and again", Build: func(s scene.Scene) {
			ended(s).Told(12*sec, 99, timeline.ToldByFIN).Asked(12*sec+1, 99, timeline.ToldByFIN).Asked(14*sec, 99, timeline.ToldByFIN)
		}, Want: spec.Fail},
		{Name: "asked after it had read a GOAWAY", Build: func(s scene.Scene) {
			ended(s).Told(12*sec, 99, timeline.ToldByGoAway).Heard(12*sec+1, 99, timeline.ToldByGoAway).Asked(14*sec, 99, timeline.ToldByGoAway)
		}, Want: spec.Fail},
		{Name: "asked long after a GOAWAY that it then read", Build: func(s scene.Scene) {
			ended(s).Told(10*sec, 99, timeline.ToldByGoAway).Asked(14*sec, 99, timeline.ToldByGoAway).Heard(14*sec+1, 99, timeline.ToldByGoAway)
		}, Want: spec.Fail},
		{Name: "asked soon after a GOAWAY that it never read", Build: func(s scene.Scene) {
			ended(s).Told(12*sec, 99, timeline.ToldByGoAway).Asked(12*sec+sec/2, 99, timeline.ToldByGoAway)
		}, Want: spec.Inconclusive},
		{Name: "asked at once behind an answer that said close", Build: func(s scene.Scene) {
			ended(s).Parted(12*sec, 99).Asked(12*sec+time.Millisecond, 99, timeline.ToldByFIN)
		}, Want: spec.Fail},
		{Name: "asked behind an answer that said close, on a starved machine", Build: func(s scene.Scene) {
			ended(s).Parted(12*sec, 99).Asked(12*sec+time.Millisecond, 99, timeline.ToldByFIN)
			s.Through("service/http1/reused/get", 20, func(x *timeline.Sample) { x.Saturated = true })
		}, Want: spec.Fail},
		{Name: "left alone behind an answer that said close", Build: func(s scene.Scene) {
			ended(s).Parted(12*sec, 99).Heard(12*sec+1, 99, timeline.ToldByFIN)
		}, Want: spec.Pass},
		{Name: "few were closed", Build: func(s scene.Scene) { s.Told(12*sec, 1, timeline.ToldByFIN) }, Want: spec.Inconclusive},
		{Name: "another instance's", Build: func(s scene.Scene) {
			ended(s)
			s.Event(13*sec, timeline.ConnAsked, scene.OtherUID, map[string]string{"conn": "0", "by": timeline.ToldByFIN})
		}, Want: spec.Pass},
	})
}
