// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"net"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Eviction is a rule of how long who stands before instances may have sockets to one that is gone.
type Eviction struct {
	What, Holder string
	// Gone is the instant from which on it may be had for Within, called in words and as on a clock.
	Gone         func(Case, Ending) Instant
	After, Clock string
	Within       time.Duration
	// Stood is the floor of what there was at D, and Looks that of the looks when the time is over.
	Stood, Looks Floor
	// Also is what else is told of it; nil: nothing.
	Also func(*timeline.Timeline) string
}

// Check is the check of it.
func (v Eviction) Check() Check {
	return Check{
		Name:     fmt.Sprintf("%s %s after %s", v.What, v.Within, v.After),
		Expected: fmt.Sprintf("no process of %s has any, in whatever state", v.Holder),
		Floors:   []Floor{v.Stood, v.Looks},
		Judge: func(c Case) spec.Finding {
			var tally Tally
			total, kept := 0, 0
			var longest time.Duration
			all := c.Timeline.EventsOf(timeline.Sockets, "")
			for t := range tally.Terminations(c) {
				gone := v.Gone(c, t)
				if !gone.Known() {
					tally.Doubt("%s: nobody saw %s", t.Name, v.Clock)
					continue
				}
				end := gone.At + gone.Err + v.Within
				tally.Span(t.Drain.At, end)
				of := looksAt(all, t)
				before := map[uint64]bool{}
				atD, after := 0, 0
				for _, e := range of {
					now := e.Held()
					switch {
					case e.At < gone.At-gone.Err:
						for _, s := range now {
							before[s.Inode] = true
						}
						if e.At <= t.Drain.At {
							atD = len(now)
						}
						continue
					case e.At >= end:
						after++
					}
					for _, s := range now {
						if !before[s.Inode] {
							continue
						}
						longest = max(longest, e.At-gone.At)
						if e.At >= end {
							delete(before, s.Inode) // it is told once
							kept++
							tally.Late(c, e.At, t.Name, "", "%s: %s has a socket from %s to %s, in state %s", t.Clock(e.At), e.Name, s.Local, t.Name, s.State)
						}
					}
				}
				total += atD
				tally.Least(v.Stood, t.Name, atD)
				tally.Least(v.Looks, t.Name, after)
			}
			passed := fmt.Sprintf("none of %d sockets that stood at D was left", total)
			if longest > 0 {
				passed += fmt.Sprintf("; the last one was seen at %s + %s", v.Clock, longest.Round(time.Millisecond))
			}
			own := ""
			if v.Also != nil {
				own = v.Also(c.Timeline)
			}
			return tally.Conclude(passed+own, fmt.Sprintf("%s held %s after %s and longer%s", Plural(kept, "socket was", "sockets were"), v.Within, v.After, own))
		},
	}
}

// looksAt are the looks at sockets to the addresses at which an instance is dialled. One look is told of for each
// of these, and for each of its ports.
func looksAt(all []timeline.Event, t Ending) []timeline.Event {
	var out []timeline.Event
	for _, e := range all {
		host, _, err := net.SplitHostPort(e.Attrs["peer"])
		dialled := host == t.Address || t.Address == "" && t.IsAt(host)
		if err != nil || !dialled {
			continue
		}
		if n := len(out) - 1; n >= 0 && out[n].At == e.At && out[n].Subject == e.Subject {
			out[n].Attrs = map[string]string{"sockets": out[n].Attrs["sockets"] + " " + e.Attrs["sockets"]}
			continue
		}
		out = append(out, e)
	}
	return out
}
