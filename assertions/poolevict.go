// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"cmp"
	"fmt"
	"net"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// evictWithin is how long after an instance's exit a pool may still hold sockets
// to it. Their FINs have come by then, and a close takes no time.
const evictWithin = 3 * time.Second

// EvictsPool judges that whoever stands before the instances keeps no socket to
// one that is gone. What sockets there are, the stage looks at many times a
// second (timeline.Sockets). A successor may have its predecessor's address: a
// socket that was there before the exit is the predecessor's. own are floors, by their
// names, that take the place of the check's.
func EvictsPool(own ...Floor) Check {
	stoodFloor := Floor{Per: "termination", Name: "sockets to the instance at its D", N: 1,
		Reason: "a proxy may have all its requests on one connection to each backend",
	}.orOwn(own)
	looksFloor := Floor{Per: "termination", Name: "looks at the sockets later than that after its exit", N: 1,
		Reason: "one look tells of all sockets that there are",
	}.orOwn(own)
	return Check{
		Name:     fmt.Sprintf("sockets to an instance %s after its exit", evictWithin),
		Expected: "no process of the gateway has any, in whatever state",
		Floors:   []Floor{stoodFloor, looksFloor},
		Judge: func(c Case) spec.Finding {
			var g gather
			total, kept := 0, 0
			var longest time.Duration
			all := c.Timeline.EventsOf(timeline.Sockets, "")
			for _, t := range c.Terminations {
				if !t.Exit.Known() {
					g.doubt("nobody saw %s exit", t.Name)
					continue
				}
				end := t.Exit.At + t.Exit.Err + evictWithin
				g.span(t.Drain.At, end)
				of := looksAt(all, t)
				before := map[uint64]bool{}
				atD, after := 0, 0
				for _, e := range of {
					now := e.Held()
					switch {
					case e.At < t.Exit.At-t.Exit.Err:
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
						longest = max(longest, e.At-t.Exit.At)
						if e.At >= end {
							delete(before, s.Inode) // it is told once
							kept++
							g.late(c, e.At, t.Name, "", "%s: %s has a socket from %s to %s, in state %s", relative(e.At, t), e.Name, s.Local, t.Name, s.State)
						}
					}
				}
				total += atD
				g.least(stoodFloor, t.Name, atD)
				g.least(looksFloor, t.Name, after)
			}
			g.needTerminations(c)
			passed := fmt.Sprintf("none of %d sockets that stood at D was left", total)
			if longest > 0 {
				passed += fmt.Sprintf("; the last one was seen at exit + %s", ms(longest))
			}
			own := ownCount(c.Timeline)
			return g.conclude(passed+own, fmt.Sprintf("%s held %s after the exit and longer%s", plural(kept, "socket was", "sockets were"), evictWithin, own))
		},
	}
}

// ownCount says what the gateway's own gauge of its pool said at the last look, beside
// what was counted; "" where it has none.
func ownCount(tl *timeline.Timeline) string {
	said := tl.EventsOf(timeline.Gauge, "")
	if len(said) == 0 {
		return ""
	}
	last := said[len(said)-1]
	if why := last.Attrs["error"]; why != "" {
		return "; its own gauge could not be read at the last look: " + why
	}
	var at time.Duration
	counted := 0
	for _, e := range tl.EventsOf(timeline.Sockets, last.Subject) {
		if e.At > last.At {
			break
		}
		if e.At != at {
			at, counted = e.At, 0
		}
		counted += len(e.Held())
	}
	return fmt.Sprintf("; at the last look %s had %s to all of its backends, and its own gauge said %s", last.Name, plural(counted, "socket", "sockets"), last.Attrs["value"])
}

// looksAt are the looks at sockets to the address at which an instance is dialled. One look is told of for each
// of its ports.
func looksAt(all []timeline.Event, t Termination) []timeline.Event {
	var out []timeline.Event
	for _, e := range all {
		at := cmp.Or(t.Address, t.IP)
		if host, _, err := net.SplitHostPort(e.Attrs["peer"]); err != nil || at == "" || host != at {
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
