// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// atTheDoor is how long before the listener's end a request must have been
// begun to be the instance's work: a connection that stands when the listener
// is closed may be one that nobody had accepted yet. That is the listener's
// affair.
const atTheDoor = 500 * time.Millisecond

// underWay are the slow requests that an instance had in hand at some instant
// between from and its exit: sent to its own address, on a connection that
// stood, before its listener went, and not at their end by from, whenever their
// clients heard of it. What it said that it did not take, and no backend has begun, is
// none of them.
func underWay(c Case, t Ending, from time.Duration) []timeline.Sample {
	shut, begun := stopsAccepting(c, t, from), begunIDs(c.Timeline)
	var out []timeline.Sample
	for _, s := range c.Timeline.Samples {
		if directTo(s, t.UID) && slowOp(s) && s.Phase != timeline.PhaseDial && !untaken(s, begun) && !metTheEnd(s, begun) && s.End-delay(s) > from && s.Start < shut-atTheDoor {
			out = append(out, s)
		}
	}
	return out
}

// metTheEnd says whether a request on a kept connection met the end of that, as far as anybody knows: it failed at once, and
// nobody says that it was begun. RFC 9112 section 9.5: "a client might have started to send a new request at the same time that the
// server has decided to close the "idle" connection."
func metTheEnd(s timeline.Sample, begun map[string]bool) bool {
	return unanswered(s, begun) && s.Nth > 1 && s.End-arrived(s) < atOnce
}

// unanswered says whether nothing came back of a request that failed, and no backend says that it began it.
func unanswered(s timeline.Sample, begun map[string]bool) bool {
	return s.Failed() && s.First == 0 && !begun[s.ID]
}

// turnedAway says whether a client was told that its request was not processed,
// and had seen nothing of an answer by then: no work is lost with that.
func turnedAway(s timeline.Sample) bool {
	return s.Outcome.SafeToRetry() && s.Phase != timeline.PhaseBody
}

// untaken says whether a client was told so rightly: no backend says that it began the
// request. RFC 9113 section 8.7: "A server MUST NOT indicate that a stream has not been
// processed unless it can guarantee that fact."
func untaken(s timeline.Sample, begun map[string]bool) bool { return turnedAway(s) && !begun[s.ID] }

// LeftBehind says whether a request was sent ahead, and never answered: its connection ended after the answer to the one
// before, or nothing came, from a server that throws away what it has read by then. That is no loss, whoever drains: RFC 9112
// section 9.3.2, "A client that pipelines requests SHOULD retry unanswered requests if
// the connection closes before it receives all of the corresponding responses."
func LeftBehind(s timeline.Sample) bool { return ahead(s) && s.Nth > 1 && s.Failed() && s.First == 0 }

// ahead says whether two requests were sent at once, and aheadPost whether the second was
// one with a long body (flow.Ahead, flow.AheadPost).
func ahead(s timeline.Sample) bool     { return s.Stream.Flow().Op == flow.Ahead || aheadPost(s) }
func aheadPost(s timeline.Sample) bool { return s.Stream.Flow().Op == flow.AheadPost }

// stopsAccepting is the first sign that an instance accepts no more: its own
// word, the first of the dials that fail from then on (one alone is a loss, and no
// listener's end), or its exit; else the end of the recording.
func stopsAccepting(c Case, t Ending, from time.Duration) time.Duration {
	shut := min(LastSeen(c), t.exitOr(LastSeen(c)))
	for _, e := range c.Timeline.EventsOf(timeline.DrainListenerClosed, t.UID) {
		if e.At >= from {
			shut = min(shut, e.At)
		}
	}
	var dials []timeline.Sample
	for _, s := range c.Timeline.Samples {
		if directTo(s, t.UID) && s.New() && s.Start >= from {
			dials = append(dials, s)
		}
	}
	refused := func(s timeline.Sample) bool { return s.Failed() && s.Phase == timeline.PhaseDial }
	if gone := goneAt(byArrival(dials), refused); gone != 0 {
		shut = min(shut, gone)
	}
	return shut
}

// byItself says whether an instance's exit code, where it was seen, is that of
// a process that left by itself: 0, or 143 where nothing broke that it had in
// hand.
func byItself(c Case, t Ending) bool {
	if t.ExitCode != termCode {
		return t.ExitCode <= 0
	}
	return !slices.ContainsFunc(underWay(c, t, t.Drain.At-t.Drain.Err), func(s timeline.Sample) bool { return s.Failed() })
}

// LastSeen is the last instant of which the recording tells anything.
func LastSeen(c Case) time.Duration {
	last := c.Tail
	for _, s := range c.Timeline.Samples {
		last = max(last, s.End)
	}
	for _, e := range c.Timeline.Events {
		last = max(last, e.At)
	}
	return last
}

// takes is how long the sample's operation lasts by design.
func takes(s timeline.Sample) time.Duration {
	d := s.Stream.Flow().Takes
	if s.Brief {
		return 0
	}
	if ahead(s) && s.Nth > 1 {
		return 2 * d // it waits behind another one
	}
	return d
}

// delay is by how much the sample's path is longer, in each direction.
func delay(s timeline.Sample) time.Duration { return s.Stream.Flow().Delay }
