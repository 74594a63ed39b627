// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// EndsWithin is how long a tunnel may stand with nothing in it, behind its GOAWAY: a peer's
// last frames, and a wait for the answer to a PING, take less.
const EndsWithin = 2 * time.Second

// NamesWithin is how long after its first GOAWAY a server may take to name the tunnel's last stream,
// as h2.goaway-final has it: before that the peer may open connections, and none is known to be the
// last.
const NamesWithin = 10 * time.Second

// EndsWithTheLast judges when tunnels end that were told to go while connections were open in them:
// not before the last of these, and soon after that is known to be the last. A server may say GOAWAY when nothing is
// left in a tunnel: those that were open at D have ended by then.
func EndsWithTheLast() assertions.Check {
	ended := assertions.ConnectionsPerTermination("tunnels that got a GOAWAY with a connection open in them, or behind one that was open at D, and that the server ended")
	return assertions.Check{
		Name:     "the end of tunnels that got a GOAWAY with a connection open in them",
		Expected: fmt.Sprintf("the server ends each behind the last connection in it, and %s after that, and after the GOAWAY that names the last stream, at most", EndsWithin),
		Floors:   []assertions.Floor{ended},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all := 0
			var slowest time.Duration
			for t := range tally.Terminations(c) {
				tally.SpanDrain(c, t)
				n := 0
				for _, k := range To(c, t) {
					told, ok := k.GoAway()
					if !ok || told < t.Drain.At-t.Drain.Err || k.Stream.Flow().Conns == flow.New { // which the client ends itself
						continue
					}
					var last time.Duration // end of what was open then
					open, id := 0, ""
					for _, s := range k.Samples {
						thenOpen := s.Start < told && s.End > told
						before := s.Start < t.Earliest() && s.End > t.Drain.At+t.Drain.Err && s.End <= told
						if (thenOpen || before) && !s.Failed() {
							open++
						}
						if s.End > last {
							last, id = s.End, s.ID
						}
					}
					end, over := k.End()
					known := max(last, k.Named(told+NamesWithin))
					limit := known + EndsWithin
					switch {
					case open == 0:
						continue
					case over && end < last:
						// What that cut is its requests' to tell, and the other check's.
						n++
					case over && end <= limit:
						n++
						slowest = max(slowest, end-known)
					case !over && k.Left() < limit:
						continue // the client did not wait for it
					// Without a tail the recording was stopped, and nobody saw how long it would have stood.
					case over || c.Tail > limit:
						n++
						tally.Late(c, limit, t.Name, id, "%s: %s still stood, %s after the last connection in it had ended and was known to be the last", t.Clock(limit), k, EndsWithin)
					}
				}
				all += n
				tally.Least(ended, t.Name, n)
			}
			return tally.Conclude(
				fmt.Sprintf("all %d tunnels that got a GOAWAY with a connection open in them ended within %s of the last one", all, slowest.Round(time.Millisecond)),
				fmt.Sprintf("%d of %s outstayed the last connection in them", tally.Culprits(), assertions.Plural(all, "tunnel", "tunnels")))
		},
	}
}
