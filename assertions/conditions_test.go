// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// probed is healthy with the pod's readiness, which the slices follow.
func probed() *scene {
	s := healthy()
	s.ready(uid, sec, true)
	s.ready(uid, 19*sec+400*time.Millisecond, false)
	return s
}

// Endpoints that come too late, stay too long, go too early, or don't say of
// their pods what is so.
func TestConditionsInTime(t *testing.T) {
	terminating := func(at time.Duration) func(*scene) {
		return func(s *scene) {
			s.drop(func(e timeline.Event) bool {
				return e.Kind == timeline.Endpoint && e.Attrs["terminating"] == "true" && e.At < at
			})
			s.endpoint(at, uid, "echo", "FTT")
		}
	}
	table(t, probed, LegalConditions(), []judged{
		{"as it should be", nil, spec.Pass, ""},
		{"gone at the deletion", func(s *scene) { s.goneAt("echo", del+100*time.Millisecond) }, spec.Fail, "T_del + 100ms: gone 12.1s before its pod was"},
		{"gone at the deletion, before its pod could say anything", func(s *scene) {
			s.goneAt("echo", del+10*time.Millisecond)
		}, spec.Fail, "gone 12.19s before its pod was"},
		{"gone a moment after it had been terminating", func(s *scene) { s.goneAt("echo", del+300*time.Millisecond) }, spec.Fail, "T_del + 300ms: gone 11.9s before its pod was"},
		{"gone while it does not serve", func(s *scene) { s.goneAt("echo", 19*sec+700*time.Millisecond) }, spec.Fail, "gone 2.5s before"},
		{"gone with a pod that leaves at once", func(s *scene) {
			s.goneAt("echo", del+sec)
			s.shift(timeline.ProcExit, uid, del+500*time.Millisecond)
		}, spec.Pass, ""},
		{"gone without a word with a pod that leaves at once", func(s *scene) {
			s.goneAt("echo", del+10*time.Millisecond)
			s.shift(timeline.ProcExit, uid, del+500*time.Millisecond)
		}, spec.Inconclusive, ""},
		{"gone when the pod was forgotten, and its process lives on", func(s *scene) {
			s.goneAt("echo", del+sec)
			s.shift(timeline.PodGone, uid, del+sec)
		}, spec.Pass, ""},
		{"nobody knows well when the pod left", func(s *scene) {
			s.goneAt("echo", 19*sec+700*time.Millisecond)
			s.drop(of(timeline.ProcExit, ""))
			s.saw(shut+200*time.Millisecond, timeline.PodContainer, uid, map[string]string{"state": "terminated", "exitCode": "0"})
		}, spec.Pass, ""},
		{"gone in a gap of the watch", func(s *scene) {
			s.goneAt("echo", del+100*time.Millisecond)
			gapIn("endpointslices")(s)
		}, spec.Inconclusive, ""},
		{"gone long after the pod", func(s *scene) { s.goneAt("echo", shut+5*sec) }, spec.Fail, "gone only 4.5s after its pod was"},
		{"gone long after the pod, on a starved machine", func(s *scene) {
			s.goneAt("echo", shut+5*sec)
			starve(s, shut, shut+6*sec)
		}, spec.Inconclusive, ""},

		{"terminating late, but within P", terminating(del + 2900*time.Millisecond), spec.Pass, ""},
		{"terminating later than P", terminating(del + 5*sec), spec.Fail, "terminating only 5s after the deletion"},
		{"terminating later than P, on a starved machine", func(s *scene) {
			terminating(del + 5*sec)(s)
			starve(s, del+4*sec, del+6*sec)
		}, spec.Inconclusive, ""},

		{"serving stays when readiness has gone", func(s *scene) {
			s.drop(func(e timeline.Event) bool { return e.Attrs["serving"] == "false" })
			s.drop(of(timeline.PodReady, ""))
			s.ready(uid, sec, true)
			s.ready(uid, 18*sec, false)
		}, spec.Fail, "T_del + 11s: serving is true, and for 3s the pod's Ready condition has been false"},
		{"the same for less than P", func(s *scene) {
			s.drop(func(e timeline.Event) bool { return e.Attrs["serving"] == "false" })
		}, spec.Pass, ""},
		{"the same on a starved machine", func(s *scene) {
			s.drop(func(e timeline.Event) bool { return e.Attrs["serving"] == "false" })
			s.drop(of(timeline.PodReady, ""))
			s.ready(uid, sec, true)
			s.ready(uid, 18*sec, false)
			starve(s, 19*sec, 22*sec)
		}, spec.Inconclusive, ""},
		{"serving goes with the deletion, and the pod is ready", func(s *scene) {
			s.endpoint(del+30*time.Millisecond, uid, "echo", "FFT")
		}, spec.Fail, "serving is false, and for 3s the pod's Ready condition has been true"},
		{"two states that say the same of serving are one", func(s *scene) {
			s.endpoint(del-2*sec, uid, "echo", "FFF")
			s.drop(func(e timeline.Event) bool { return e.Kind == timeline.Endpoint && e.Attrs["terminating"] == "true" })
			s.endpoint(del+20*time.Millisecond, uid, "echo", "FFT")
			s.endpoint(del+1500*time.Millisecond, uid, "echo", "FTT")
			s.endpoint(19*sec+500*time.Millisecond, uid, "echo", "FFT")
		}, spec.Fail, "T_del + 1s: serving is false"},
		{"before the steady gate nobody judges it", func(s *scene) {
			s.drop(func(e timeline.Event) bool { return e.Kind == timeline.Endpoint && e.At == sec && e.Subject == uid })
			s.endpoint(sec/2, uid, "echo", "FFF")
			s.endpoint(5*sec, uid, "echo", "TTF")
		}, spec.Pass, ""},
		{"a gap in the watch of pods", func(s *scene) {
			s.endpoint(del+30*time.Millisecond, uid, "echo", "FFT")
			gapIn("pods")(s)
		}, spec.Pass, ""},
	})
}
