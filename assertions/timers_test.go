// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"maps"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestTimersInOrder(t *testing.T) {
	const (
		timeout = 9 * sec
		shut    = wireD + 6*sec
		kill    = wireD + 15*sec
	)
	says := func(s *scene, changes ...string) {
		attrs := map[string]string{"probe": "500ms", "threshold": "2", "minDrain": "5s", "timeout": "9s", "grace": "15s"}
		for i := 0; i < len(changes); i += 2 {
			attrs[changes[i]] = changes[i+1]
		}
		s.event(sec, timeline.Timers, "", maps.Clone(attrs))
	}
	exits := func(s *scene, at time.Duration) { s.shift(timeline.ProcExit, uid, at) }
	busy := func(s *scene) {
		s.dial("http1/reused/slow/14s").ask(9*sec, cut(timeline.Truncated, wireD+timeout+sec/10))
	}
	// kept is an end in which all was in order: accepting until shut, busy until
	// the timeout, gone after it.
	kept := func(s *scene) {
		s.doors(shut)
		busy(s)
		exits(s, wireD+timeout+sec/5)
	}
	manifest := func(changes ...string) func(*scene) {
		return func(s *scene) { kept(s); says(s, changes...) }
	}
	judgeWire(t, []wireCase{
		{"in order", TimersInOrder(), manifest(), spec.Pass},
		{"in order, with a ready timeout", TimersInOrder(), manifest("ready", "12s"), spec.Pass},
		{"the minimum is the timeout", TimersInOrder(), manifest("minDrain", "9s"), spec.Pass},
		{"no time for the news", TimersInOrder(), manifest("minDrain", "4s"), spec.Fail},
		{"slow probes", TimersInOrder(), manifest("probe", "1s"), spec.Fail},
		{"patient probes", TimersInOrder(), manifest("threshold", "4"), spec.Fail},
		{"minimum after the timeout", TimersInOrder(), manifest("minDrain", "10s"), spec.Fail},
		{"the hook ends with the drain", TimersInOrder(), manifest("ready", "9s"), spec.Fail},
		{"the hook has no grace", TimersInOrder(), manifest("ready", "15s"), spec.Fail},
		{"the drain has no grace", TimersInOrder(), manifest("grace", "9s"), spec.Fail},
		{"the manifest lacks a time", TimersInOrder(), manifest("timeout", ""), spec.Inconclusive},
		{"the manifest lacks the threshold", TimersInOrder(), manifest("threshold", "0"), spec.Inconclusive},
		{"nobody read the manifest", TimersInOrder(), kept, spec.Inconclusive},

		{"accepts for less than the news take", TimersInOrder(), func(s *scene) {
			manifest()(s)
			s.each(func(x *timeline.Sample) {
				if onNewConns(*x) && x.Start >= wireD+2*sec {
					fail(x, timeline.Refused)
				}
			})
		}, spec.Fail},
		{"the same on a starved machine", TimersInOrder(), func(s *scene) {
			manifest()(s)
			s.each(func(x *timeline.Sample) {
				if onNewConns(*x) && x.Start >= wireD+2*sec {
					fail(x, timeline.Refused)
				}
				x.Saturated = x.Start >= wireD+sec+sec/2 && x.Start < wireD+3*sec
			})
		}, spec.Inconclusive},
		{"it says so itself, on a starved machine", TimersInOrder(), func(s *scene) {
			manifest()(s)
			s.event(wireD+2*sec, timeline.DrainListenerClosed, uid, nil)
			s.each(func(x *timeline.Sample) { x.Saturated = true })
		}, spec.Fail},
		{"it is said to stop, about when the news are over", TimersInOrder(), func(s *scene) {
			manifest()(s)
			s.blurD(sec)
			s.event(wireD+3*sec+sec/2, timeline.DrainListenerClosed, uid, nil)
		}, spec.Inconclusive},
		{"there until K", TimersInOrder(), func(s *scene) { manifest()(s); exits(s, kill+sec/10) }, spec.Fail},
		{"there until K or nearly", TimersInOrder(), func(s *scene) {
			manifest()(s)
			exits(s, kill-sec/10)
			for i := range s.tl.Events {
				if e := &s.tl.Events[i]; e.Kind == timeline.ProcExit {
					e.Err = sec
				}
			}
		}, spec.Inconclusive},
		{"killed before K", TimersInOrder(), func(s *scene) {
			manifest()(s)
			s.event(wireD+timeout+sec/5, timeline.PodContainer, uid, map[string]string{"state": "terminated", "exitCode": "137"})
		}, spec.Fail},
		{"cuts long after its timeout", TimersInOrder(), func(s *scene) {
			manifest("timeout", "5s")(s)
			exits(s, wireD+11*sec)
		}, spec.Fail},
		{"nobody saw the exit", TimersInOrder(), func(s *scene) {
			manifest()(s)
			s.drop(of(timeline.ProcExit, uid))
		}, spec.Inconclusive},
		{"no timeout is promised, and K ends it", TimersInOrder(), func(s *scene) {
			manifest("timeout", "none")(s)
			s.killed()
		}, spec.Pass},
		{"no timeout is promised, and it leaves by itself", TimersInOrder(), func(s *scene) {
			s.doors(shut)
			exits(s, shut+2*sec)
			says(s, "timeout", "none")
			s.untilKilled = true
		}, spec.Pass},
		{"no timeout is promised, and the minimum is the grace", TimersInOrder(), manifest("timeout", "none", "minDrain", "15s"), spec.Fail},
		{"no timeout is promised, and no time for the news", TimersInOrder(), manifest("timeout", "none", "minDrain", "4s"), spec.Fail},
		{"no timeout is promised, and the hook has no grace", TimersInOrder(), manifest("timeout", "none", "ready", "15s"), spec.Fail},
		{"no timeout is promised, and killed before K", TimersInOrder(), func(s *scene) {
			manifest("timeout", "none")(s)
			s.event(wireD+timeout+sec/5, timeline.PodContainer, uid, map[string]string{"state": "terminated", "exitCode": "137"})
		}, spec.Fail},
		{"no timeout is promised, and too few dials", TimersInOrder(), func(s *scene) {
			exits(s, wireD+timeout+sec/5)
			says(s, "timeout", "none")
		}, spec.Inconclusive},
		{"no timeout is promised, and nobody saw the exit", TimersInOrder(), func(s *scene) {
			manifest("timeout", "none")(s)
			s.drop(of(timeline.ProcExit, uid))
		}, spec.Inconclusive},
		{"it leaves long before its timeout, and cuts what it has", TimersInOrder(), func(s *scene) {
			s.doors(shut)
			s.dial("http1/reused/slow/24s").ask(9*sec, cut(timeline.Truncated, shut))
			exits(s, shut)
			says(s, "timeout", "13s", "grace", "20s")
		}, spec.Fail},
		{"nothing was left at the timeout", TimersInOrder(), func(s *scene) {
			s.doors(shut)
			exits(s, shut+sec)
			says(s)
		}, spec.Inconclusive},
		{"too few dials", TimersInOrder(), func(s *scene) {
			busy(s)
			exits(s, wireD+timeout+sec/5)
			says(s)
		}, spec.Inconclusive},
	})
}
