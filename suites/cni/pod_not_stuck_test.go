// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"fmt"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestPodIsGone(t *testing.T) {
	const untold = "no agent answers"
	// build has a pod end in each state, and be gone so long after its exit.
	build := func(after time.Duration, untold string, states ...int) func(scene.Scene) {
		return func(s scene.Scene) {
			s.Drop(func(e timeline.Event) bool { return e.Subject == scene.UID })
			for n, state := range states {
				down, at, pod := downs[state], 6*time.Second+time.Duration(n)*4*time.Second, fmt.Sprintf("pod-%d", n)
				mute := func(at time.Duration, agent, proxy string) {
					attrs := map[string]string{"what": string(disrupt.MuteNode)}
					if down.agent != timeline.CNIUp {
						attrs["agent"] = agent
					} else {
						attrs["proxy"] = proxy
					}
					s.Event(at, timeline.Disruption, "uid-daemon", attrs)
				}
				mute(at, down.agent, down.proxy)
				s.Event(at+100*time.Millisecond, timeline.PodDeletion, pod, map[string]string{"grace": "15"})
				s.Event(at+100*time.Millisecond, timeline.DrainStart, pod, map[string]string{"trigger": "SIGTERM"})
				s.Event(at+time.Second, timeline.ProcExit, pod, nil)
				s.Event(at+2*time.Second, timeline.CNIDel, pod, map[string]string{"took": "1s", "untold": untold})
				mute(at+3*time.Second, timeline.CNIUp, timeline.CNIUp)
				s.Event(at+time.Second+after, timeline.PodGone, pod, nil)
			}
		}
	}
	// stays has one of them never go.
	stays := func(pod string) func(scene.Scene) {
		return func(s scene.Scene) {
			build(1900*time.Millisecond, untold, 0, 1, 2, 3)(s)
			s.Drop(func(e timeline.Event) bool { return e.Kind == timeline.PodGone && e.Subject == pod })
		}
	}
	judged(t, PodIsGone(), []scene.Row{
		{Name: "each is gone in time", Build: build(1900*time.Millisecond, untold, 0, 1, 2, 3), Want: spec.Pass},
		{Name: "they stay", Build: build(goneWithin+time.Second, untold, 0, 1, 2, 3), Want: spec.Fail},
		{Name: "they stay, until somebody was there who acknowledged", Build: build(goneWithin+time.Second, "", 0, 1, 2, 3), Want: spec.Fail},
		{Name: "none ended with a dead agent", Build: build(1900*time.Millisecond, untold, 0, 1, 2, 0), Want: spec.Inconclusive},
		{Name: "all were acknowledged: nobody was away", Build: build(1900*time.Millisecond, "", 0, 1, 2, 3), Want: spec.Inconclusive},
		{Name: "nobody saw one go, or for how long it stays", Build: stays("pod-3"), Want: spec.Inconclusive},
		{Name: "one never goes", Build: stays("pod-1"), Want: spec.Fail},
		{Name: "one never goes, and the watch had a gap", Build: func(s scene.Scene) {
			stays("pod-1")(s)
			s.Event(12*time.Second, timeline.WatchGap, "pods", map[string]string{"why": "the API server was away"})
		}, Want: spec.Inconclusive},
		{Name: "one that ends while nobody is away may take its time", Build: func(s scene.Scene) {
			build(1900*time.Millisecond, untold, 0, 1, 2, 3)(s)
			s.Event(1500*time.Millisecond, timeline.PodDeletion, "early", map[string]string{"grace": "15"})
			s.Event(1500*time.Millisecond, timeline.DrainStart, "early", map[string]string{"trigger": "SIGTERM"})
			s.Event(2*time.Second, timeline.ProcExit, "early", nil)
			s.Event(20*time.Second, timeline.PodGone, "early", nil)
		}, Want: spec.Pass},
	})
}
