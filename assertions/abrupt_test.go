// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"maps"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// A stream has seen a kill that failed within P of it, on the way to who was killed, and
// was no older than such a request may be. A kill that killed nobody shows nothing.
func TestSighted(t *testing.T) {
	kill := timeline.Event{At: 10 * sec, Source: "runner", Kind: timeline.Disruption, Subject: "uid-a", Node: "n1", Attrs: map[string]string{"what": "kill"}}
	exit := timeline.Event{At: 10*sec + 50*time.Millisecond, Source: "witness", Kind: timeline.ProcExit, Subject: "uid-a", Attrs: map[string]string{"container": "app"}}
	about := timeline.Event{At: sec, Source: "runner", Kind: timeline.Marker, Attrs: map[string]string{"what": MarkSubject, "container": "app"}}
	failed := timeline.Sample{Stream: flow.Named("service/http1/new/get"), ID: "x", Start: 10 * sec, End: 10*sec + 100*time.Millisecond, Outcome: timeline.Reset, Phase: timeline.PhaseFirstByte}
	const get, none = "service/http1/new/get", -1
	for _, tc := range []struct {
		name   string
		stream string // whose sight is asked for
		change func(kill, exit *timeline.Event, x *timeline.Sample)
		want   int // none: it was not there
	}{
		{"it failed", get, func(_, _ *timeline.Event, _ *timeline.Sample) {}, 1},
		{"it did not", get, func(_, _ *timeline.Event, x *timeline.Sample) { x.Outcome = timeline.OK }, 0},
		{"at once", get, func(_, _ *timeline.Event, x *timeline.Sample) { x.Start, x.End = 9*sec+900*time.Millisecond, 10*sec }, 1},
		{"before the kill", get, func(_, _ *timeline.Event, x *timeline.Sample) { x.Start, x.End = 9*sec, 10*sec-1 }, 0},
		{"at the end of P", get, func(_, _ *timeline.Event, x *timeline.Sample) { x.Start, x.End = 12*sec, 13*sec }, 1},
		{"after P", get, func(_, _ *timeline.Event, x *timeline.Sample) { x.Start, x.End = 12*sec, 13*sec+1 }, 0},
		{"it had hung since before", get, func(_, _ *timeline.Event, x *timeline.Sample) { x.Start = 9*sec - 1 }, 0},
		{"gone long before the kill", get, func(_, _ *timeline.Event, x *timeline.Sample) { x.Start, x.End = 6*sec, 7*sec-1 }, none},
		{"to the victim", "direct/http1/new/get", func(_, _ *timeline.Event, x *timeline.Sample) { x.Stream = flow.Named("direct/http1/new/get@uid-a") }, 1},
		{"to another pod", "direct/http1/new/get", func(_, _ *timeline.Event, x *timeline.Sample) { x.Stream = flow.Named("direct/http1/new/get@uid-b") }, 0},
		{"to the victim's node", "nodeport/http1/new/get", func(_, _ *timeline.Event, x *timeline.Sample) { x.Stream = flow.Named("nodeport/http1/new/get@n1") }, 1},
		{"to another node", "nodeport/http1/new/get", func(_, _ *timeline.Event, x *timeline.Sample) { x.Stream = flow.Named("nodeport/http1/new/get@n2") }, 0},
		{"a lookup", "service/dns/new/lookup", func(_, _ *timeline.Event, x *timeline.Sample) { x.Stream = flow.Named("service/dns/new/lookup") }, none},
		{"the suite's own look", "scout/service/http1/new/get", func(_, _ *timeline.Event, x *timeline.Sample) { x.Stream = flow.Named("scout/" + get) }, none},
		{"the victim was not seen to die", get, func(_, exit *timeline.Event, _ *timeline.Sample) { exit.Kind = timeline.DrainStart }, 0},
		{"another pod died", get, func(_, exit *timeline.Event, _ *timeline.Sample) { exit.Subject = "uid-b" }, 0},
		{"another container died", get, func(_, exit *timeline.Event, _ *timeline.Sample) { exit.Attrs["container"] = "other" }, 0},
		{"it died before", get, func(_, exit *timeline.Event, _ *timeline.Sample) { exit.At = 10*sec - 1 }, 0},
		{"it died after P", get, func(_, exit *timeline.Event, _ *timeline.Sample) { exit.At = 13*sec + 1 }, 0},
		{"its container ended", get, func(_, exit *timeline.Event, _ *timeline.Sample) {
			exit.Kind, exit.Attrs["state"] = timeline.PodContainer, "terminated"
		}, 1},
		{"its container waits", get, func(_, exit *timeline.Event, _ *timeline.Sample) {
			exit.Kind, exit.Attrs["state"] = timeline.PodContainer, "waiting"
		}, 0},
		{"the kill was refused", get, func(kill, _ *timeline.Event, _ *timeline.Sample) { kill.Attrs["error"] = "no such pod" }, 0},
		{"it was no kill", get, func(kill, _ *timeline.Event, _ *timeline.Sample) { kill.Attrs["what"] = "delete" }, 0},
	} {
		k, e, x := kill, exit, failed
		k.Attrs, e.Attrs = maps.Clone(k.Attrs), maps.Clone(e.Attrs)
		tc.change(&k, &e, &x)
		seen := Sighted(NewCase(&timeline.Timeline{Events: []timeline.Event{about, k, e}, Samples: []timeline.Sample{x}}, 3*sec))
		n, there := seen[flow.Parse(tc.stream)]
		if !there {
			n = none
		}
		if n != tc.want {
			t.Errorf("%s: %d (of %v), want %d", tc.name, n, seen, tc.want)
		}
	}
}

// A stream that the recording ends for before P is not blind.
func TestBlindOrStopped(t *testing.T) {
	blind := func(x *timeline.Sample) bool { return x.Stream == flow.Named("service/http1/reused/get") }
	s := healthy()
	killAll(s, blind)
	s.drop(func(e timeline.Event) bool { return e.Attrs["what"] == MarkTail })
	if f := s.run(SeesAbruptDeath()); f.Verdict != spec.Inconclusive {
		t.Errorf("stopped: %v (%s), want Inconclusive", f.Verdict, f.Actual)
	}
}
