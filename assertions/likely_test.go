// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// A likely cause names what the recording shows of it. Where it shows nothing, there is
// none: a connection that is lost while the listener stands was not lost to its end.
func TestLikely(t *testing.T) {
	refused := func(from, to time.Duration) func(*scene) {
		return func(s *scene) {
			s.each(func(x *timeline.Sample) {
				if onNewConns(*x) && directTo(*x, uid) && x.Start >= from && x.Start < to {
					fail(x, timeline.Refused)
				}
			})
		}
	}
	// left is an exit at an instant after D, with a code.
	left := func(after time.Duration, code string) func(*scene) {
		return func(s *scene) {
			at := del + 10*time.Millisecond + after
			s.drop(ofKind(timeline.ProcExit))
			s.event(at, timeline.ProcExit, uid, nil)
			s.event(at+time.Millisecond, timeline.PodContainer, uid, map[string]string{"state": "terminated", "exitCode": code})
			for i := range s.tl.Events {
				s.tl.Events[i].Name = "pod-a"
			}
			refused(at, shut)(s)
		}
	}
	for name, tc := range map[string]struct {
		spoil func(*scene)
		check Check
		want  string
	}{
		"one is refused, and the listener stands": {refused(12*sec, 12*sec+10*time.Millisecond), AcceptsAfterDrain(), ""},
		"the listener goes": {refused(12*sec, shut), AcceptsAfterDrain(),
			"The listener closes too early: that of pod-a was gone at D + 1.99s (new connections were refused from then on), while its process stood."},
		"the listener goes, as it says": {func(s *scene) {
			refused(12*sec, shut)(s)
			s.tl.Events = append(s.tl.Events, timeline.Event{At: 11995 * time.Millisecond, Source: "echo", Kind: timeline.DrainListenerClosed, Subject: uid, Name: "pod-a"})
		}, AcceptsAfterDrain(), "The listener closes too early: that of pod-a was gone at D + 1.985s (it says so itself), while its process stood."},
		"it goes behind what was lost": {func(s *scene) { refused(11*sec, 11*sec+10*time.Millisecond)(s); refused(14*sec, shut)(s) }, AcceptsAfterDrain(), ""},
		"the process leaves":           {left(500*time.Millisecond, "0"), AcceptsAfterDrain(), "The process leaves too early: that of pod-a did at D + 500ms, with exit code 0."},
		"it crashes":                   {left(500*time.Millisecond, "2"), AcceptsAfterDrain(), "The process ends with an error: that of pod-a did at D + 500ms, with exit code 2."},
		"it is killed": {left(500*time.Millisecond, "137"), AcceptsAfterDrain(),
			"Something killed the process, and it was not the end of the grace period: pod-a ended at D + 500ms, with exit code 137."},
		"the listener stands, and gives no answer": {func(s *scene) {
			s.each(func(x *timeline.Sample) {
				if onNewConns(*x) && directTo(*x, uid) && x.Start >= 12*sec && x.Start < shut {
					x.Outcome, x.Phase, x.Server = timeline.Closed, timeline.PhaseFirstByte, ""
				}
			})
		}, AcceptsAfterDrain(), ""},
		"it is refused for a while": {refused(12*sec, 14*sec), AcceptsAfterDrain(), ""},
		"nothing is wrong":          {func(*scene) {}, AcceptsAfterDrain(), ""},
		"a check's own guess": {func(*scene) {}, Check{Judge: func(Case) spec.Finding {
			return spec.Finding{Verdict: spec.Fail, Cause: "Perhaps."}
		}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := healthy()
			tc.spoil(s)
			if f := s.run(tc.check); f.Cause != tc.want {
				t.Errorf("likely %q, want %q (%s)", f.Cause, tc.want, f.Actual)
			}
		})
	}
	s := twice()
	s.move(-12950*time.Millisecond, ofKind(timeline.ProcExit))
	if f := s.run(IgnoresSecondSignal()); f.Cause != "The process takes a second SIGTERM for an order to leave at once, or its handler is gone by then: uid-a left 30ms after it." {
		t.Errorf("likely %q (%v)", f.Cause, f.Culprits)
	}
}

// A sentence that counts says what it counts.
func TestGoAwayWords(t *testing.T) {
	s := quiet()
	for range 6 {
		k := s.dial("h2c/reused/get").ask(9 * sec)
		k.hear(11*sec, timeline.FrameGoAway, "last", "2147483647", "code", "NO_ERROR").hear(12*sec, timeline.FrameFIN)
	}
	for range 5 {
		s.dial("h2c/idle/idle/30s").ask(9*sec).hear(12*sec, timeline.FrameFIN)
	}
	if f, want := s.run(SendsGoAway()), "all 6 kept HTTP/2 connections with requests that it told or ended got a GOAWAY first; of silent ones another rule speaks"; f.Actual != want {
		t.Errorf("%q, want %q", f.Actual, want)
	}
	if f, want := s.run(IdleGetsGoAway()), "5 of 5 silent HTTP/2 connections that stood at D that it told or ended got no GOAWAY"; f.Actual != want {
		t.Errorf("%q, want %q", f.Actual, want)
	}
}
