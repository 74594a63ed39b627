// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// Patience is how long an attempt may take on a healthy path: what its
// operation takes by design, the delay of the path there and back, and what
// an answer may take besides.
func Patience(s timeline.Sample) time.Duration { return time.Second + takes(s) + 2*delay(s) }

// Silence says that a stream sent nothing for too long while it should have,
// or nothing at all; "" when it did its part. rate is
// requests per second: of each target's own stream, where it goes to targets.
// A stream to a pod need not go on when the pod has exited.
func Silence(c Case, of flow.Flow, rate float64) string {
	// The schedule leaves at most two slots between two attempts; more than
	// five is no chance, and half a second of a fast stream is no conclusion.
	longest := max(500*time.Millisecond, time.Duration(5/rate*float64(time.Second)))
	end := c.Tail
	if end == 0 {
		return ""
	}
	// The baseline has to be clean, and that is judged for itself: a hole in it, long
	// before anything was disturbed, hides nothing of what came then.
	from := max(c.Steady, c.Disturbed-time.Second)
	ends := map[flow.Stream]time.Duration{}
	switch of.Path {
	case flow.Direct:
		for _, t := range c.Terminations {
			ends[flow.To(of, t.UID)] = min(end, t.exitOr(end))
		}
	case flow.Outbound:
		// An instance ends what it sends out when nobody is left whom it serves, and says
		// nothing of that; it goes on for as long as it accepts at least.
		for _, t := range c.Terminations {
			until := min(end, t.exitOr(end))
			for _, e := range c.Timeline.EventsOf(timeline.DrainListenerClosed, t.UID) {
				until = min(until, e.At)
			}
			ends[flow.To(of, t.UID)] = until
		}
	case flow.PeerRefuses, flow.PeerLimits, flow.PeerTurnsAway, flow.PeerSilent, flow.PeerCuts, flow.PeerMoves, flow.PeerNotifies, flow.PeerHears:
		// Those who dial peers of the suite's own stay.
		for _, s := range c.Timeline.Samples {
			if s.Stream.Flow() == of {
				ends[s.Stream] = end
			}
		}
		if len(ends) == 0 {
			return of.String() + ": nothing was sent"
		}
	default:
		// A path with a stream for each node has as many as were ever seen.
		for _, s := range c.Timeline.Samples {
			if s.Stream.Flow() == of && s.Stream.Target() != "" {
				ends[s.Stream] = end
			}
		}
		if len(ends) == 0 {
			ends[flow.To(of, "")] = end
		}
	}
	// A stream to a pod that came later begins when it begins: what it has to
	// show, the floors say.
	late := map[flow.Stream]bool{}
	for _, e := range c.Timeline.EventsOf(timeline.PodSeen, "") {
		late[flow.To(of, e.Subject)] = e.At > c.Steady
	}
	last := map[flow.Stream]time.Duration{}
	for _, s := range c.Timeline.Samples {
		until, ok := ends[s.Stream]
		if !ok || s.Start < from || s.Start > until {
			continue
		}
		before, seen := last[s.Stream]
		if !seen && late[s.Stream] {
			before = s.Start
		} else if !seen {
			before = from
		}
		if s.Start-before > longest {
			return fmt.Sprintf("%s: nothing was sent for %s", spoken(c, s.Stream), ms(s.Start-before))
		}
		last[s.Stream] = s.Start
	}
	for stream, until := range ends {
		at, seen := last[stream]
		if !seen && late[stream] {
			continue
		}
		if !seen {
			return spoken(c, stream) + ": nothing was sent"
		}
		if until-at > longest {
			return fmt.Sprintf("%s: nothing was sent in the last %s", spoken(c, stream), ms(until-at))
		}
	}
	return ""
}

// spoken is a stream's name with its target's own, where it has one.
func spoken(c Case, s flow.Stream) string {
	if s.Target() == "" {
		return s.String()
	}
	return s.Flow().String() + " to " + nameOf(c, s.Target())
}
