// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"strings"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestClaimed(t *testing.T) {
	const never, served = "direct/h2c/new/get", "direct/http1/new/get"
	s := quiet()
	s.doors(wireShut)
	// Two instances refuse what they claim, from before the gate to the end.
	for _, target := range []string{uid, "uid-b"} {
		s.streamTo(never+"@"+target, 10, 22*sec, func(x *timeline.Sample) { fail(x, timeline.Refused) })
	}
	s.tl.Ledger = append(s.tl.Ledger, timeline.Entry{At: 4 * sec, ID: s.tl.Samples[len(s.tl.Samples)-1].ID, Step: timeline.Begin, Pod: uid})
	begun := len(s.tl.Ledger)
	s.event(5*sec, timeline.Marker, "", map[string]string{"what": MarkUnserved, "stream": never + "@" + uid, "why": "refused"})
	s.tl.Sort()
	c := NewCase(&s.tl, s.p)
	for _, x := range c.Timeline.Samples {
		if strings.HasPrefix(x.Stream.String(), never) {
			t.Fatal("what nobody ever served is judged with the rest")
		}
	}
	if len(c.Timeline.Ledger) != begun-1 {
		t.Error("its work is left in the ledger")
	}
	f, is := Claimed(c, flow.Parse(never), []spec.Feature{spec.H2C})
	if !is || f.Verdict != spec.Fail || !strings.Contains(f.Expected, "H2C") || !strings.Contains(f.Actual, never+": none of ") || len(f.Culprits) == 0 {
		t.Errorf("%v %+v", is, f)
	}
	if f.Window.To > 5*sec+time.Second {
		t.Errorf("the finding goes on to %s, and the gate opened at 5s", f.Window.To)
	}
	if _, is := Claimed(c, flow.Parse(served), []spec.Feature{spec.HTTP1}); is {
		t.Error("what was served is no broken claim")
	}
}

// What was sent ahead and left unanswered is no loss, and no sight of a death.
func TestLeftBehind(t *testing.T) {
	for outcome, want := range map[timeline.Outcome]bool{timeline.BehindClose: true, timeline.Closed: true, timeline.Reset: true, timeline.Timeout: true, timeline.OK: false} {
		s := timeline.Sample{Stream: flow.Named("direct/http1/new/ahead/1s@" + uid), Nth: 2, Outcome: outcome}
		if LeftBehind(s) != want {
			t.Errorf("%s: %v", outcome, !want)
		}
		s.First = 1
		if LeftBehind(s) {
			t.Errorf("%s: an answer had begun", outcome)
		}
		s.First, s.Nth = 0, 1
		if LeftBehind(s) {
			t.Errorf("%s: it was the first on its connection", outcome)
		}
	}
}
