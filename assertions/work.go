// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
)

// atTheDoor is how long before the listener's end a request must have been
// begun to be the instance's work: a connection that stands when the listener
// is closed may be one that nobody had accepted yet. That is the listener's
// affair.
const atTheDoor = 500 * time.Millisecond

// underWay are the slow requests that an instance had in hand at some instant
// between from and its exit: sent to its own address, on a connection that
// stood, before its listener went.
func underWay(c Case, t Termination, from time.Duration) []timeline.Sample {
	shut := stopsAccepting(c, t, from)
	var out []timeline.Sample
	for _, s := range c.Timeline.Samples {
		if directTo(s, t.UID) && slowOp(s) && s.Phase != timeline.PhaseDial && s.End > from && s.Start < shut-atTheDoor {
			out = append(out, s)
		}
	}
	return out
}

// stopsAccepting is the first sign that an instance accepts no more: its own
// word, a dial that failed, or its exit; else the end of the recording.
func stopsAccepting(c Case, t Termination, from time.Duration) time.Duration {
	shut := min(lastSeen(c), t.exitOr(lastSeen(c)))
	for _, e := range c.Timeline.EventsOf(timeline.DrainListenerClosed, t.UID) {
		if e.At >= from {
			shut = min(shut, e.At)
		}
	}
	for _, s := range c.Timeline.Samples {
		if directTo(s, t.UID) && s.Failed() && s.Phase == timeline.PhaseDial && s.Start >= from {
			return min(shut, s.Start)
		}
	}
	return shut
}

// lastSeen is the last instant of which the recording tells anything.
func lastSeen(c Case) time.Duration {
	last := c.Tail
	for _, s := range c.Timeline.Samples {
		last = max(last, s.End)
	}
	for _, e := range c.Timeline.Events {
		last = max(last, e.At)
	}
	return last
}

// kindOf is the stream of a sample without its target.
func kindOf(s timeline.Sample) string {
	kind, _, _ := strings.Cut(s.Stream, "@")
	return kind
}

// takes is how long the sample's operation lasts by design.
func takes(s timeline.Sample) time.Duration {
	d, err := time.ParseDuration(word(s, 4))
	if err != nil {
		return 0
	}
	return d
}
