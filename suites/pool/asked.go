// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"fmt"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// farewell is one way to tell that a connection ends: by, as timeline.ConnTold has it, and
// called in words.
type farewell struct{ by, called string }

// nothingAsked judges what comes on connections that their instance has ended in some ways.
// The instance itself says when it did, and what came then.
func nothingAsked(name, ends string, floor assertions.Floor, ways ...farewell) assertions.Check {
	return assertions.Check{
		Name:     name,
		Expected: fmt.Sprintf("none comes more than %s after the instance's %s; up to %s after it is a doubt", assertions.Crossing, ends, assertions.NoCrossing),
		Floors:   []assertions.Floor{floor},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			total, crossed := 0, 0
			for t := range tally.Terminations(c) {
				tally.SpanDrain(c, t)
				of := 0
				for _, way := range ways {
					connections, these := tally.AskedAfter(c, t, way.by, way.called)
					of, crossed = of+connections, crossed+these
				}
				total += of
				tally.Least(floor, t.Name, of)
			}
			return tally.Conclude(
				fmt.Sprintf("nothing was asked on %d connections after their end was known%s", total, assertions.Crossed(crossed)),
				fmt.Sprintf("on %d of %s a request came after the end", tally.Culprits(), assertions.Plural(total, "connection", "connections")))
		},
	}
}
