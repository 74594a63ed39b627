// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"strings"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// h2pool has six HTTP/2 connections of a flow on which a request was answered
// before D.
func h2pool(s *scene, flow string, then func(*talk)) {
	times(6, func(i time.Duration) { then(s.dial(flow).ask(9*sec + i)) })
}

func TestSendsGoAway(t *testing.T) {
	const flow = "h2c/reused/get"
	judgeWire(t, []wireCase{
		{"sends it", SendsGoAway(), func(s *scene) {
			h2pool(s, flow, func(k *talk) { k.goAway(11*sec, "max").goAway(12*sec, "1").hear(12*sec, timeline.FrameFIN) })
		}, spec.Pass},
		{"sends it, and the client closes", SendsGoAway(), func(s *scene) {
			h2pool(s, flow, func(k *talk) { k.goAway(11*sec, "max").hear(11*sec, timeline.FrameClose, "why", "goaway") })
		}, spec.Pass},
		{"closes without it", SendsGoAway(), func(s *scene) { h2pool(s, flow, func(k *talk) { k.hear(12*sec, timeline.FrameFIN) }) }, spec.Fail},
		{"one RST without it", SendsGoAway(), func(s *scene) {
			h2pool(s, flow, func(k *talk) { k.goAway(11*sec, "max").hear(12*sec, timeline.FrameFIN) })
			s.dial("h2/reused/slow/2s").ask(9*sec).ask(11*sec, cut(timeline.Reset, 12*sec)).hear(12*sec, timeline.FrameRST)
		}, spec.Fail},
		{"silent ones are another rule's", SendsGoAway(), func(s *scene) {
			h2pool(s, flow, func(k *talk) { k.goAway(11*sec, "max").hear(12*sec, timeline.FrameFIN) })
			s.dial("h2c/new/idle/30s").ask(9*sec).hear(wireExit, timeline.FrameFIN)
		}, spec.Pass},
		{"a shared one too many, which said nothing more", SendsGoAway(), func(s *scene) {
			h2pool(s, flow, func(k *talk) { k.goAway(11*sec, "max").hear(12*sec, timeline.FrameFIN) })
			s.dial("h2c/shared/get").ask(9*sec, asStream(1)).hear(wireExit, timeline.FrameFIN)
		}, spec.Pass},
		{"a GOAWAY in the same instant", SendsGoAway(), func(s *scene) {
			h2pool(s, flow, func(k *talk) { k.goAway(12*sec, "1").hear(12*sec, timeline.FrameFIN) })
		}, spec.Pass},
		{"a GOAWAY that was read behind the RST", SendsGoAway(), func(s *scene) {
			h2pool(s, flow, func(k *talk) { k.hear(12*sec, timeline.FrameRST).goAway(12*sec+1, "1") })
		}, spec.Pass},
		{"the client closed first", SendsGoAway(), func(s *scene) {
			h2pool(s, flow, func(k *talk) { k.hear(12*sec, timeline.FrameClose, "why", "idle") })
		}, spec.Inconclusive},
		{"never accepted", SendsGoAway(), func(s *scene) {
			h2pool(s, flow, func(k *talk) { k.goAway(11*sec, "max").hear(12*sec, timeline.FrameFIN) })
			s.dial("h2c/new/get").ask(wireShut, lost(timeline.Reset, wireShut)).hear(wireShut, timeline.FrameRST)
		}, spec.Pass},
		{"ended before D", SendsGoAway(), func(s *scene) {
			h2pool(s, flow, func(k *talk) { k.goAway(11*sec, "max").hear(12*sec, timeline.FrameFIN) })
			s.dial(flow).ask(7*sec).hear(8*sec, timeline.FrameFIN)
		}, spec.Pass},
		{"within the uncertainty of D", SendsGoAway(), func(s *scene) {
			s.blurD(2 * sec)
			times(6, func(i time.Duration) { s.dial(flow).ask(7*sec+i).hear(11*sec, timeline.FrameFIN) })
		}, spec.Inconclusive},
	})
}

func TestIdleGetsGoAway(t *testing.T) {
	const flow = "h2c/new/idle/30s"
	judgeWire(t, []wireCase{
		{"gets it", IdleGetsGoAway(), func(s *scene) {
			h2pool(s, flow, func(k *talk) { k.goAway(11*sec, "max").hear(12*sec, timeline.FrameFIN) })
		}, spec.Pass},
		{"is cut at the exit", IdleGetsGoAway(), func(s *scene) {
			h2pool(s, flow, func(k *talk) { k.hear(wireExit, timeline.FrameFIN) })
		}, spec.Fail},
		{"only those that speak get it", IdleGetsGoAway(), func(s *scene) {
			h2pool(s, "h2c/reused/get", func(k *talk) { k.ask(11*sec).goAway(11*sec, "max").hear(12*sec, timeline.FrameFIN) })
		}, spec.Inconclusive},
		{"opened after D", IdleGetsGoAway(), func(s *scene) {
			times(6, func(i time.Duration) { s.dial(flow).ask(11*sec+i).hear(12*sec, timeline.FrameFIN) })
		}, spec.Inconclusive},
		{"is cut within the uncertainty of D", IdleGetsGoAway(), func(s *scene) {
			s.blurD(2 * sec)
			times(6, func(i time.Duration) { s.dial(flow).ask(7*sec+i).hear(11*sec, timeline.FrameFIN) })
		}, spec.Inconclusive},
	})
}

func TestFirstGoAwayMax(t *testing.T) {
	const flow = "h2/reused/get"
	judgeWire(t, []wireCase{
		{"two phases", FirstGoAwayMax(), func(s *scene) {
			h2pool(s, flow, func(k *talk) { k.goAway(11*sec, "max").goAway(12*sec, "1").hear(12*sec, timeline.FrameFIN) })
		}, spec.Pass},
		{"haproxy: one, and never a final one", FirstGoAwayMax(), func(s *scene) {
			h2pool(s, flow, func(k *talk) { k.goAway(wireD+time.Millisecond, "max") })
		}, spec.Pass},
		{"nginx: one phase", FirstGoAwayMax(), func(s *scene) {
			h2pool(s, flow, func(k *talk) { k.goAway(11*sec, "1").hear(11*sec, timeline.FrameFIN) })
		}, spec.Fail},
		{"another code", FirstGoAwayMax(), func(s *scene) {
			h2pool(s, flow, func(k *talk) {
				k.hear(11*sec, timeline.FrameGoAway, "last", "2147483647", "code", "ENHANCE_YOUR_CALM")
			})
		}, spec.Fail},
		{"none at all is another rule's", FirstGoAwayMax(), func(s *scene) {
			h2pool(s, flow, func(k *talk) { k.hear(11*sec, timeline.FrameFIN) })
		}, spec.Inconclusive},
		{"a connection that was on its way out before D", FirstGoAwayMax(), func(s *scene) {
			h2pool(s, flow, func(k *talk) { k.goAway(11*sec, "max") })
			s.dial(flow).ask(8*sec).goAway(9*sec, "1")
		}, spec.Pass},
		{"one that was sent before D and told after it", FirstGoAwayMax(), func(s *scene) {
			h2pool(s, flow, func(k *talk) { k.goAway(11*sec, "max") })
			s.dial("h2/reused/get/delay=20ms").ask(8*sec).goAway(wireD+far/2, "1")
		}, spec.Pass},
		{"within the uncertainty of D", FirstGoAwayMax(), func(s *scene) {
			s.blurD(2 * sec)
			times(6, func(i time.Duration) { s.dial(flow).ask(7*sec+i).goAway(11*sec, "1") })
		}, spec.Inconclusive},
	})
}

func TestFinalGoAway(t *testing.T) {
	const flow = "h2c/reused/get/delay=20ms"
	two := func(gap time.Duration, last string) func(*scene) {
		return func(s *scene) {
			h2pool(s, flow, func(k *talk) {
				k.ask(9500*time.Millisecond).goAway(11*sec, "max").goAway(11*sec+gap, last).hear(12*sec, timeline.FrameFIN)
			})
		}
	}
	judgeWire(t, []wireCase{
		{"a round trip later", FinalGoAway(), two(50*time.Millisecond, "3"), spec.Pass},
		{"with a PING between them, and one before D", FinalGoAway(), func(s *scene) {
			h2pool(s, flow, func(k *talk) {
				k.hear(9*sec+100*time.Millisecond, timeline.FramePing, "answered", "1ms")
				k.goAway(11*sec, "max").hear(11*sec+40*time.Millisecond, timeline.FramePing, "answered", "2ms")
				k.goAway(11*sec+50*time.Millisecond, "1").hear(12*sec, timeline.FrameFIN)
			})
		}, spec.Pass},
		{"too early", FinalGoAway(), two(5*time.Millisecond, "3"), spec.Fail},
		{"too early, on a shared connection", FinalGoAway(), func(s *scene) {
			two(50*time.Millisecond, "3")(s)
			s.dial("h2c/shared/get/delay=20ms").ask(9*sec, asStream(1)).goAway(11*sec, "max").goAway(11*sec+5*time.Millisecond, "1").hear(12*sec, timeline.FrameFIN)
		}, spec.Fail},
		{"over no path with a delay", FinalGoAway(), func(s *scene) {
			h2pool(s, "h2c/reused/get", func(k *talk) {
				k.goAway(11*sec, "max").goAway(11*sec+time.Millisecond, "1").hear(12*sec, timeline.FrameFIN)
			})
		}, spec.Inconclusive},
		{"names what was never opened", FinalGoAway(), two(50*time.Millisecond, "5"), spec.Fail},
		{"names what nobody knows, because the recording was stopped", FinalGoAway(), func(s *scene) {
			two(50*time.Millisecond, "5")(s)
			s.drop(func(e timeline.Event) bool { return e.Attrs["what"] == MarkTail })
		}, spec.Pass},
		{"says 2^31-1 again", FinalGoAway(), two(50*time.Millisecond, "max"), spec.Fail},
		{"none, and closed", FinalGoAway(), func(s *scene) {
			h2pool(s, flow, func(k *talk) { k.goAway(11*sec, "max").hear(12*sec, timeline.FrameFIN) })
		}, spec.Fail},
		{"none, and the client closed", FinalGoAway(), func(s *scene) {
			h2pool(s, flow, func(k *talk) { k.goAway(11*sec, "max").hear(11*sec, timeline.FrameClose, "why", "goaway") })
		}, spec.Inconclusive},
		{"haproxy: none, and the client has waited for long", FinalGoAway(), func(s *scene) {
			h2pool(s, flow, func(k *talk) { k.goAway(11*sec, "max").hear(26*sec, timeline.FrameClose, "why", "goaway") })
		}, spec.Fail},
		{"one phase", FinalGoAway(), func(s *scene) {
			h2pool(s, flow, func(k *talk) { k.goAway(11*sec, "1").hear(11*sec, timeline.FrameFIN) })
		}, spec.Inconclusive},
		{"too early, within the uncertainty of D", FinalGoAway(), func(s *scene) {
			s.blurD(2 * sec)
			times(6, func(i time.Duration) {
				s.dial(flow).ask(7*sec+i).goAway(11*sec, "max").goAway(11*sec+5*time.Millisecond, "1").hear(12*sec, timeline.FrameFIN)
			})
		}, spec.Inconclusive},
	})
}

// Who measured the round trip is told, and how much of it was the client's.
func TestFinalGoAwayTellsOfPings(t *testing.T) {
	for name, tc := range map[string]struct {
		ping func(k *talk)
		want string
	}{
		"behind the first":           {func(k *talk) { k.hear(11*sec+30*time.Millisecond, timeline.FramePing, "answered", "2ms") }, "on 6 of them a PING followed the first, and the client answered within 2ms"},
		"before the first":           {func(k *talk) { k.hear(11*sec+time.Millisecond, timeline.FramePing, "answered", "2ms") }, ""},
		"behind the one that counts": {func(k *talk) { k.hear(11*sec+60*time.Millisecond, timeline.FramePing, "answered", "2ms") }, ""},
		"none":                       {func(*talk) {}, ""},
	} {
		s := quiet()
		h2pool(s, "h2c/reused/get/delay=20ms", func(k *talk) {
			k.goAway(11*sec, "max").goAway(11*sec+50*time.Millisecond, "1").hear(12*sec, timeline.FrameFIN)
			tc.ping(k)
		})
		f := s.run(FinalGoAway())
		if f.Verdict != spec.Pass || strings.Contains(f.Actual, "PING") != (tc.want != "") || !strings.Contains(f.Actual, tc.want) {
			t.Errorf("%s: %v, %s", name, f.Verdict, f.Actual)
		}
	}
}
