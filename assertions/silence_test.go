// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"slices"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// What an instance sends out itself goes on until it accepts no more, at least.
func TestSilenceOfCalls(t *testing.T) {
	of := flow.Parse("outbound/http1/new/get")
	const d, closed, exit = 20 * time.Second, 26 * time.Second, 28 * time.Second
	for name, c := range map[string]struct {
		without [2]time.Duration
		silent  bool
	}{
		"it goes on":                  {},
		"a gap":                       {[2]time.Duration{22 * time.Second, 24 * time.Second}, true},
		"it ends with the listener":   {[2]time.Duration{closed, exit}, false},
		"it ends before the listener": {[2]time.Duration{closed - 2*time.Second, exit}, true},
		"there is nothing":            {[2]time.Duration{0, exit}, true},
	} {
		var tl timeline.Timeline
		event := func(at time.Duration, kind timeline.EventKind, subject string, attrs map[string]string) {
			tl.Events = append(tl.Events, timeline.Event{At: at, Source: "test", Kind: kind, Subject: subject, Name: subject, Attrs: attrs})
		}
		event(5*time.Second, timeline.Marker, "", map[string]string{"what": MarkSteady})
		event(40*time.Second, timeline.Marker, "", map[string]string{"what": MarkTail})
		event(d, timeline.Disruption, "uid-a", map[string]string{"what": "delete"})
		event(d, timeline.PodDeletion, "uid-a", map[string]string{"grace": "30"})
		event(d, timeline.DrainStart, "uid-a", nil)
		event(closed, timeline.DrainListenerClosed, "uid-a", nil)
		event(exit, timeline.ProcExit, "uid-a", nil)
		for at := 5 * time.Second; at < exit; at += 40 * time.Millisecond {
			tl.Samples = append(tl.Samples, timeline.Sample{Stream: flow.To(of, "uid-a"), Start: at, End: at + 1, Outcome: timeline.OK})
		}
		tl.Samples = slices.DeleteFunc(tl.Samples, func(s timeline.Sample) bool { return s.Start >= c.without[0] && s.Start < c.without[1] })
		tl.Sort()
		if why := Silence(NewCase(&tl, 3*time.Second), of, 25); (why != "") != c.silent {
			t.Errorf("%s: %q", name, why)
		}
	}
}
