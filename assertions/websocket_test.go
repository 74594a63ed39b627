// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"strings"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// upgraded is an upgrade that was agreed to.
func upgraded(x *timeline.Sample) { x.Status = 101 }

// rejected is an upgrade whose 101 the client did not take.
func rejected(x *timeline.Sample) {
	x.Outcome, x.Phase, x.Status = timeline.Malformed, timeline.PhaseFirstByte, 101
	x.Err = "Connection header \"close\" does not contain Upgrade"
}

func TestWebSocketsSurvive(t *testing.T) {
	const flow = "http1/new/websocket/4s"
	check := WebSocketsSurvive()
	// open has so many WebSockets opened at an instant.
	open := func(s *scene, n int, at time.Duration, changes ...func(*timeline.Sample)) []*talk {
		var all []*talk
		times(n, func(i time.Duration) {
			all = append(all, s.dial(flow).ask(at+i, append([]func(*timeline.Sample){upgraded}, changes...)...))
		})
		return all
	}
	good := func(s *scene) {
		for _, k := range open(s, 6, 9*sec, until(13*sec)) {
			k.hear(13*sec, timeline.FrameWSClose, "code", "1000").hear(13*sec, timeline.FrameFIN)
		}
	}
	// closed has one more that the server closes at an instant.
	closed := func(code string, at time.Duration) func(*scene) {
		return func(s *scene) {
			good(s)
			for _, k := range open(s, 1, 9*sec, cut(timeline.CloseFrame, at)) {
				k.hear(at, timeline.FrameWSClose, "code", code).hear(at, timeline.FrameFIN)
			}
		}
	}
	// ended has one more that ends otherwise.
	ended := func(from time.Duration, o timeline.Outcome, at time.Duration) func(*scene) {
		return func(s *scene) { good(s); open(s, 1, from, cut(o, at)) }
	}
	judgeWire(t, []wireCase{
		{"to their clients' end", check, good, spec.Pass},
		{"closed with 1001", check, closed("1001", 11*sec), spec.Pass},
		{"closed with 1012", check, closed("1012", 11*sec), spec.Pass},
		{"all closed with 1001", check, func(s *scene) {
			for _, k := range open(s, 6, 9*sec, cut(timeline.CloseFrame, 11*sec)) {
				k.hear(11*sec, timeline.FrameWSClose, "code", "1001")
			}
		}, spec.Pass},
		{"closed as if it were done", check, closed("1000", 11*sec), spec.Fail},
		{"closed with an error", check, closed("1011", 11*sec), spec.Fail},
		{"closed without a code", check, closed("1005", 11*sec), spec.Fail},
		{"closed without a code before D", check, closed("1005", 9500*time.Millisecond), spec.Pass},
		{"RST", check, ended(9*sec, timeline.Reset, 11*sec), spec.Fail},
		{"FIN", check, ended(9*sec, timeline.Truncated, 11*sec), spec.Fail},
		{"RST before D", check, ended(9*sec, timeline.Reset, 9500*time.Millisecond), spec.Pass},
		{"opened after D, and cut with the listener", check, ended(11*sec, timeline.Truncated, wireShut), spec.Fail},
		{"no echo any more", check, ended(9*sec, timeline.Timeout, 15*sec), spec.Fail},
		{"another echo", check, ended(9*sec, timeline.Corrupt, 11*sec), spec.Fail},
		{"cut at the deadline", check, ended(17*sec, timeline.Reset, wireDeadline), spec.Pass},
		{"all cut at the deadline", check, func(s *scene) { open(s, 6, 9*sec, cut(timeline.Reset, wireDeadline)) }, spec.Inconclusive},
		{"an error at the deadline", check, closed("1011", wireDeadline), spec.Pass},
		{"cut, and would have gone on beyond the exit", check, func(s *scene) {
			good(s)
			s.dial("http1/new/websocket/30s").ask(9*sec, upgraded, cut(timeline.Reset, 12*sec))
		}, spec.Fail},
		{"cut within the uncertainty of D", check, func(s *scene) {
			s.blurD(3 * sec)
			open(s, 6, 6*sec, until(14*sec))
			open(s, 1, 6*sec, cut(timeline.Reset, 11*sec))
		}, spec.Inconclusive},
		{"an upgrade that was refused", check, func(s *scene) {
			good(s)
			s.dial(flow).ask(11*sec, func(x *timeline.Sample) { x.Status = 503 }, cut(timeline.Status, 11*sec))
		}, spec.Pass},
		{"upgrades after D whose 101 says close", check, func(s *scene) { good(s); open(s, 6, 11*sec, rejected) }, spec.Pass},
		{"a frame that is none", check, ended(9*sec, timeline.Malformed, 11*sec), spec.Fail},
		{"opened after D, and a frame that is none", check, ended(11*sec, timeline.Malformed, 13*sec), spec.Fail},
		{"none was taken up at all", check, func(s *scene) { open(s, 6, 9*sec, rejected) }, spec.Inconclusive},
		{"a connection that was refused", check, func(s *scene) {
			good(s)
			s.dial(flow).ask(14*sec, lost(timeline.Refused, 14*sec))
		}, spec.Pass},
		{"too few", check, func(s *scene) { open(s, 4, 9*sec, until(13*sec)) }, spec.Inconclusive},
		{"none stood at D", check, func(s *scene) { open(s, 9, 11*sec, until(14*sec)) }, spec.Inconclusive},
		{"too late for anybody", check, func(s *scene) {
			good(s)
			open(s, 6, 12*sec, func(x *timeline.Sample) { x.Saturated = true }, cut(timeline.Timeout, 15*sec))
		}, spec.Inconclusive},
		{"they have no last answer that says close", SaysClose(), func(s *scene) {
			s.doors(wireShut)
			lastAnswers(s, wireShut+sec, saysClose)
			for _, k := range open(s, 6, 11*sec, until(12*sec)) {
				k.hear(12*sec, timeline.FrameFIN)
			}
		}, spec.Pass},
	})
}

// What stood at D and what was accepted after it are two numbers, what was no WebSocket
// is told apart, and a culprit's line says what the client said.
func TestWebSocketWords(t *testing.T) {
	judge := func(more func(*scene)) spec.Finding {
		s := quiet()
		from := func(n int, at, end time.Duration, changes ...func(*timeline.Sample)) {
			times(n, func(i time.Duration) {
				s.dial("http1/new/websocket/4s").ask(at+i, append([]func(*timeline.Sample){upgraded, until(end)}, changes...)...)
			})
		}
		from(6, 9*sec, 13*sec)
		from(3, 11*sec, 14*sec)
		from(4, 11*sec, 12*sec, rejected)
		more(s)
		return s.run(WebSocketsSurvive())
	}
	const none = `; 4 upgrades after D were answered and made no WebSocket, which is no part of this rule (the first with status 101: Connection header "close" does not contain Upgrade)`
	passed := judge(func(*scene) {})
	if want := "all 6 WebSockets that stood at D and all 3 that were accepted after it lived until their clients closed them" + none; passed.Actual != want {
		t.Errorf("%q, want %q", passed.Actual, want)
	}
	failed := judge(func(s *scene) {
		s.dial("http1/new/websocket/4s").ask(9*sec, upgraded, cut(timeline.Reset, 11*sec), func(x *timeline.Sample) { x.Err = "read tcp: connection reset by peer" })
	})
	if want := "1 of 7 WebSockets that stood at D and 0 of 3 that were accepted after it ended before their time" + none; failed.Actual != want {
		t.Errorf("%q, want %q", failed.Actual, want)
	}
	if len(failed.Culprits) != 1 || !strings.HasSuffix(failed.Culprits[0].Text, ": read tcp: connection reset by peer") {
		t.Errorf("%v", failed.Culprits)
	}
}

func TestDeadline(t *testing.T) {
	d := Ending{Drain: Instant{At: 10 * sec, Source: "echo"}}
	killed := d
	killed.Kill = 25 * sec
	for _, row := range []struct {
		set  time.Duration
		t    Ending
		want time.Duration
	}{
		{8 * sec, killed, 18 * sec},
		{20 * sec, killed, 25 * sec},
		{0, killed, 25 * sec},
		{8 * sec, d, 18 * sec},
		{0, d, 0},
	} {
		if got := deadline(Case{Deadline: row.set}, row.t); got != row.want {
			t.Errorf("deadline of %s after D, killed at %s: %s, want %s", row.set, row.t.Kill, got, row.want)
		}
	}
	var g gather
	if !g.dueToBeCut(Case{}, d, 12*sec) || len(g.doubts) != 1 {
		t.Errorf("where nobody said when it cuts: %v", g.doubts)
	}
}
