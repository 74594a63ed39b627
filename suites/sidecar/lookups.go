// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// lookups are what an app asks its name server while it lives: for the Service that it calls. One query
// each, over UDP, and never again: a resolver would hide what is lost.
var lookups = load.Profile{Flow: flow.Flow{Path: flow.Outbound, Protocol: flow.DNS, Conns: flow.New, Op: flow.Lookup}, Rate: 4}

// LookupsAnswered judges that an instance is told the address of whom it calls from D to its end, each
// time that it asks.
func LookupsAnswered() assertions.Check {
	atLeast := assertions.Floor{Per: "termination", Name: "lookups that begin after D", N: 25, Reason: "the app asks four times a second"}
	known := assertions.Floor{Per: "termination", Name: "lookups before D that were answered with an address", N: 10, Reason: "the app asks four times a second"}
	return assertions.Check{
		Name:     "what the app looks up is answered",
		Expected: "every DNS lookup that the app makes from D on is answered with an address",
		Floors:   []assertions.Floor{known, atLeast},
		Judge: func(c assertions.Case) spec.Finding {
			var y assertions.Tally
			ended, hit, all, lost, last := 0, 0, 0, 0, time.Duration(0)
			for t := range y.Terminations(c) {
				ended++
				before, after, broken := 0, 0, 0
				for _, s := range c.Timeline.Samples {
					if f := s.Stream.Flow(); f.Path != flow.Outbound || f.Op != flow.Lookup || s.Stream.Target() != t.UID {
						continue
					}
					good := !s.Failed() && len(s.Answers) > 0
					if good && s.End < t.Drain.At-t.Drain.Err {
						before++
					}
					if s.End < t.Earliest() { // a sidecar may hear of the deletion before its app is told to go
						continue
					}
					last = max(last, s.End)
					all++
					switch {
					case !good:
						broken++
						y.Failed(c, s, s.Start, t.Name, "%s", t.Clock(s.Start))
					case !s.Saturated && s.Start >= t.Drain.At+t.Drain.Err:
						after++
					}
				}
				y.Span(t.Drain.At, max(t.Drain.At, last))
				y.Least(known, t.Name, before)
				y.Least(atLeast, t.Name, after)
				lastWord(&y, c, t)
				if lost += broken; broken > 0 {
					hit++
				}
			}
			of := assertions.Plural(ended, "termination", "terminations")
			f := y.Conclude(
				fmt.Sprintf("all %d DNS lookups that the app made from D to its end, in %s, were answered with an address", all, of),
				fmt.Sprintf("%d of %d DNS lookups that the app made from D to its end were not answered, or with no address, at %d of %s", lost, all, hit, of))
			f.Bounds = spec.BoundsOf(ended, hit, all, lost)
			return f
		},
	}
}
