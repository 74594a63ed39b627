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

func TestHeedsCloseNotify(t *testing.T) {
	ended := func(s scene.Scene) scene.Scene {
		sixTimes(func(i time.Duration) {
			s.Told(12*sec+i, int(i), timeline.ToldByCloseNotify).Heard(12*sec+i+1, int(i), timeline.ToldByCloseNotify)
		})
		return s
	}
	one := func(after time.Duration) func(scene.Scene) {
		return func(s scene.Scene) {
			ended(s).Told(12*sec, 99, timeline.ToldByCloseNotify).Asked(12*sec+after, 99, timeline.ToldByCloseNotify)
		}
	}
	check := heedsCloseNotify()
	scene.Judge(t, judge(check), []scene.Row{
		{Name: "left alone", Build: func(s scene.Scene) { ended(s) }, Want: spec.Pass},
		{Name: "asked after it", Build: one(assertions.NoCrossing + 1), Want: spec.Fail},
		{Name: "asked soon after it", Build: one(assertions.Crossing + 1), Want: spec.Inconclusive},
		{Name: "asked as it was said", Build: one(assertions.Crossing), Want: spec.Pass},
		{Name: "asked after it, on a starved machine", Build: func(s scene.Scene) {
			one(assertions.NoCrossing + 1)(s)
			s.Through("service/http1/reused/get", 20, func(x *timeline.Sample) { x.Saturated = true })
		}, Want: spec.Inconclusive},
		{Name: "a FIN is another's", Build: func(s scene.Scene) {
			ended(s).Told(12*sec, 99, timeline.ToldByFIN).Asked(14*sec, 99, timeline.ToldByFIN)
		}, Want: spec.Pass},
		{Name: "few were ended", Build: func(s scene.Scene) { s.Told(12*sec, 1, timeline.ToldByCloseNotify) }, Want: spec.Inconclusive},
		{Name: "only others were ended", Build: func(s scene.Scene) {
			sixTimes(func(i time.Duration) { s.Told(12*sec+i, int(i), timeline.ToldByFIN) })
		}, Want: spec.Inconclusive},
	})
}
