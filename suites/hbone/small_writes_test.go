// SPDX-License-Identifier: Apache-2.0

package hbone

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestSurvivesSmallWrites(t *testing.T) {
	// some are streams of small writes, one after the other in tunnels of their own, with neighbours; set changes
	// each connection.
	some := func(streams uint64, set func(*timeline.Sample)) func(scene.Scene) {
		return func(s scene.Scene) {
			for n := range streams {
				from := time.Duration(6+20*n) * time.Second
				to := from + dripping.Takes
				in(s, dripping, n+1, from, to, set)
				for at := from; at < to; at += 150 * time.Millisecond {
					in(s, dripping, n+1, at, at+time.Second, func(x *timeline.Sample) {
						x.Brief = true
						x.ID += "-brief"
						if set != nil {
							set(x)
						}
					})
				}
			}
		}
	}
	// failing are some of those that are there at 4 s into the first stream, in one way.
	failing := func(brief bool, o timeline.Outcome) func(*timeline.Sample) {
		const at = 10 * time.Second
		return func(x *timeline.Sample) {
			if x.Brief == brief && x.Start < at && x.End > at {
				x.End, x.Outcome, x.Phase = at, o, timeline.PhaseBody
			}
		}
	}
	judge(t, SurvivesSmallWrites(), []scene.Row{
		{Name: "whole", Build: some(2, nil), Want: spec.Pass},
		{Name: "the stream is cut", Build: some(2, failing(false, timeline.StreamReset)), Want: spec.Fail},
		{Name: "it is cut as one that was not processed", Build: some(2, failing(false, timeline.GoAway)), Want: spec.Fail},
		{Name: "its neighbours are cut", Build: some(2, failing(true, timeline.Reset)), Want: spec.Fail},
		{Name: "its neighbours are told to come again", Build: some(2, failing(true, timeline.RefusedStream)), Want: spec.Pass},
		{Name: "one is cut before the load was steady", Build: func(s scene.Scene) {
			some(2, nil)(s)
			in(s, dripping, 8, time.Second, 4*time.Second, func(x *timeline.Sample) { x.Outcome, x.Phase = timeline.StreamReset, timeline.PhaseBody })
		}, Want: spec.Pass},
		{Name: "one stream", Build: some(1, nil), Want: spec.Inconclusive},
		{Name: "without neighbours", Build: func(s scene.Scene) {
			for n := range uint64(2) {
				in(s, dripping, n+1, 6*time.Second, 26*time.Second, nil)
			}
		}, Want: spec.Inconclusive},
		{Name: "neighbours elsewhere", Build: func(s scene.Scene) {
			some(2, func(x *timeline.Sample) {
				if x.Brief {
					x.Conn += 10
					x.Outcome = timeline.Reset
				}
			})(s)
		}, Want: spec.Inconclusive},
	})
}
