// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestDelInOrder(t *testing.T) {
	check := DelInOrder()
	const del = scene.Exit + time.Second
	build := func(nets, dels []time.Duration) func(scene.Scene) {
		return func(s scene.Scene) {
			for _, at := range nets {
				s.Event(at, timeline.NetGone, scene.UID, nil)
			}
			for _, at := range dels {
				s.Event(at, timeline.CNIDel, scene.UID, map[string]string{"took": "20ms"})
			}
		}
	}
	at := func(all ...time.Duration) []time.Duration { return all }
	scene.Judge(t, func(tl *timeline.Timeline) spec.Finding { return check.Run(assertions.NewCase(tl, scene.P)) }, []scene.Row{
		{Name: "in order", Build: build(at(del+time.Millisecond), at(del)), Want: spec.Pass},
		{Name: "the interface went first", Build: build(at(del-time.Millisecond), at(del)), Want: spec.Fail},
		{Name: "the second call came behind it", Build: build(at(del+time.Millisecond), at(del, del+time.Second)), Want: spec.Fail},
		{Name: "nobody told of a call", Build: build(at(del), nil), Want: spec.Inconclusive},
		{Name: "nobody saw the interface go", Build: build(nil, at(del)), Want: spec.Inconclusive},
	})
}
