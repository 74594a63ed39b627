// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// NoReuseAfterClose judges that whoever stands before the instances writes no
// request to a connection whose end was there to be read. RFC 9112 section 9.5:
// "Implementations SHOULD constantly monitor open connections for a received
// closure signal and respond to it as appropriate".
//
// The instance itself says when it closed a connection first, or said GOAWAY on
// it, and what came then.
func NoReuseAfterClose() Check {
	// Whether a GOAWAY was read is what h2.client-obeys asks.
	return nothingAsked("requests on connections whose end was there to be read", "FIN or GOAWAY", perTermination("connections that the instance closed first, or said GOAWAY on", fewConnections),
		farewell{timeline.ToldByFIN, "its FIN"}, farewell{timeline.ToldByGoAway, "its GOAWAY"})
}

// HeedsCloseNotify judges that whoever stands before the instances writes no request to
// a connection in TLS whose close_notify was there to be read. RFC 8446 section 6.1: "This
// alert notifies the recipient that the sender will not send any more messages on this
// connection."
//
// The instance says close_notify behind an answer that does not say close, and holds its FIN
// back: who waits for either has not understood.
func HeedsCloseNotify() Check {
	return nothingAsked("requests on connections in TLS whose close_notify was there to be read", "close_notify",
		Floor{Per: "termination", Name: "connections in TLS that the instance closed first", N: 3, Reason: "each request meets one, and they are far apart, so that who reuses a connection does it long after its end"},
		farewell{timeline.ToldByCloseNotify, "its close_notify"})
}

// farewell is one way to tell that a connection ends.
type farewell struct{ by, called string }

// nothingAsked judges what comes on connections that their instance has ended in some ways.
func nothingAsked(name, ends string, floor Floor, ways ...farewell) Check {
	return Check{
		Name:     name,
		Expected: fmt.Sprintf("none comes more than %s after the instance's %s; up to %s after it is a doubt", ms(crossing), ends, noCrossing),
		Floors:   []Floor{floor},
		Judge: func(c Case) spec.Finding {
			var g gather
			total, crossed := 0, 0
			for _, t := range c.Terminations {
				g.shutBetween(c, t)
				of := 0
				for _, way := range ways {
					all := toldBy(c, t, way.by)
					for _, k := range all {
						crossed += g.askedAfter(c, t, k, k.At, way.called)
					}
					of += len(all)
				}
				total += of
				g.least(floor, t.Name, of)
			}
			g.needTerminations(c)
			return g.conclude(
				fmt.Sprintf("nothing was asked on %d connections after their end was known%s", total, crossings(crossed)),
				fmt.Sprintf("on %d of %s a request came after the end", g.failures(), plural(total, "connection", "connections")))
		},
	}
}

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
		Expected: fmt.Sprintf("none is opened more than %s after the PING behind the GOAWAY was answered; up to %s after it is a doubt", ms(crossing), noCrossing),
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
				fmt.Sprintf("no stream was opened on %s after the GOAWAY was read%s", plural(total, "connection", "connections"), crossings(crossed)),
				fmt.Sprintf("on %d of %s a stream was opened after the GOAWAY was read", g.failures(), plural(total, "connection", "connections")))
		},
	}
}

// noCrossing is how long after its sender could have read of a connection's end nothing
// can come that had been in its hands since before, however starved the machine.
const noCrossing = time.Second

// streamsAfter judges the streams on a connection after its GOAWAY was read, and
// counts those that crossed it.
func (g *gather) streamsAfter(c Case, t Termination, k told) (crossed int) {
	if k.heard == 0 {
		return 0
	}
	return g.askedAfter(c, t, k, k.heard, "it had answered the PING behind the GOAWAY")
}

// askedAfter judges what came on a connection after its other side could have known
// better, since an instant that is called after what was there to be read, and counts
// what crossed that. What came up to noCrossing after it may have been in the hands of
// a process that stood still: that of the other side, whose stalls nobody sees. Those of
// the backend that read it are the machine's.
func (g *gather) askedAfter(c Case, t Termination, k told, since time.Duration, called string) (crossed int) {
	e, late, crossed := k.belated(since)
	if !late {
		return crossed
	}
	const text = "%s: %s came on %s, %s after %s"
	if last := k.asked[len(k.asked)-1]; last.At > since+noCrossing {
		g.late(c, last.At, t.Name, last.Attrs["id"], text, relative(last.At, t), what(last), k, ms(last.At-since), called)
	} else {
		g.doubt(text+": who stood still for so long may have had it in hand", relative(e.At, t), what(e), k, ms(e.At-since), called)
	}
	return crossed
}

func crossings(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; %s in that instant, and may have been on the way", plural(n, "request came", "requests came"))
}

// fewCalls is the least number of calls through a proxy while one of its
// backends drains.
const fewCalls = 50

// callsWhileAccepting are the calls through the Service that were begun from an
// instance's D until it stopped accepting.
func callsWhileAccepting(c Case, t Termination) []timeline.Sample {
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
