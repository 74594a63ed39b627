// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// ObeysGoAway judges that whoever stands before the instances opens no stream on
// a connection after it has received GOAWAY. RFC 9113 section 6.8: "Receivers of
// a GOAWAY frame MUST NOT open additional streams on the connection, although a
// new connection can be established for new streams."
//
// The instance puts a PING behind its GOAWAY: whoever answers that has received
// both. A stream that was opened before that, and whose header was still on its
// way, is none of these.
func ObeysGoAway() Check {
	saidFloor := Floor{Per: "termination", Name: "connections on which the instance said GOAWAY, and that was read", N: 1,
		Reason: "a proxy may have all its calls on one connection to each backend",
	}
	offeredFloor := Floor{Per: "termination", Name: "calls offered from D until the instance stops accepting", N: fewCalls,
		Reason: "the window is that of the drain in which the instance accepts",
	}
	return Check{
		Name:     "streams on connections on which the instance said GOAWAY",
		Expected: fmt.Sprintf("none is opened more than %s after the PING behind the GOAWAY was answered; up to %s after it is a doubt; where it is never answered the GOAWAY counts, and no stream is opened more than %s after that", ms(Crossing), NoCrossing, NoCrossing),
		Floors:   []Floor{saidFloor, offeredFloor},
		Judge: func(c Case) spec.Finding {
			var g gather
			total, crossed := 0, 0
			for _, t := range c.Terminations {
				g.shutBetween(c, t)
				read := 0
				for _, k := range toldBy(c, t, timeline.ToldByGoAway) {
					crossed += g.streamsAfter(c, t, k)
					if k.heard > 0 {
						read++
					} else if last, is := k.last(); is && last.At > k.At+NoCrossing {
						// Nothing is on its way for so long, whoever answers no PING.
						g.late(c, last.At, t.Name, last.Attrs["id"], "%s: %s came on %s, %s after the GOAWAY, and the PING behind it was never answered", relative(last.At, t), what(last), k, ms(last.At-k.At))
					} else if e, late, _ := k.belated(k.At); late {
						g.doubt("%s of %s: streams came up to %s after the GOAWAY, and the PING behind it was never answered", k, t.Name, ms(e.At-k.At))
					}
				}
				total += read
				g.least(saidFloor, t.Name, read)
				g.least(offeredFloor, t.Name, len(callsWhileAccepting(c, t)))
			}
			g.needTerminations(c)
			return g.conclude(
				fmt.Sprintf("no stream was opened on %s after the GOAWAY was read%s", plural(total, "connection", "connections"), Crossed(crossed)),
				fmt.Sprintf("on %d of %s a stream was opened after the GOAWAY was read", g.failures(), plural(total, "connection", "connections")))
		},
	}
}

// streamsAfter judges the streams on a connection after its GOAWAY was read, and
// counts those that crossed it.
func (g *gather) streamsAfter(c Case, t Ending, k told) (crossed int) {
	if k.heard == 0 {
		return 0
	}
	return g.askedAfter(c, t, k, k.heard, "it had answered the PING behind the GOAWAY", false)
}

// fewCalls is the least number of calls through a proxy while one of its
// backends drains.
const fewCalls = 50

// callsWhileAccepting are the calls through the Service that were begun from an
// instance's D until it stopped accepting.
func callsWhileAccepting(c Case, t Ending) []timeline.Sample {
	shut, ok := acceptsUntil(c, t)
	if !ok {
		return nil
	}
	var out []timeline.Sample
	for _, s := range c.Timeline.Samples {
		if throughService(s) && isCall(s) && !s.Saturated && s.Start >= t.Drain.At && s.Start < shut-atTheDoor {
			out = append(out, s)
		}
	}
	return out
}
