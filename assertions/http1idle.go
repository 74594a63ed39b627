// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// ClosesIdleFirst judges that an instance closes its idle HTTP/1.1 connections
// before it goes, and none of them under a request that is on its way. RFC 9112
// section 9.5: "For example, a client might have started to send a new request
// at the same time that the server has decided to close the "idle" connection.
// From the server's point of view, the connection is being closed while it was
// idle, but from the client's point of view, a request is in progress."
//
// A FIN at the exit may be the process's last act or its kernel's: nobody can
// tell, and it is no evidence. A close_notify is always the process's own.
func ClosesIdleFirst() Check {
	seenFloor := perTermination("silent connections that stood at D and were closed before the exit, or reset", 5)
	distantFloor := Floor{Per: "termination", Name: "pooled connections that stood at D on a path with delay", N: 5,
		Reason: "without delay no request is on its way for long enough to be hit: the race is invisible, not absent",
	}
	return Check{
		Name:     "idle HTTP/1.1 connections that stood at D",
		Expected: "each is closed, by FIN or by close_notify and FIN, before the process goes, and no request that was on its way is lost by it",
		Likely:   earlyEnd,
		Floors:   []Floor{seenFloor, distantFloor},
		Needs:    []Evidence{Lasting},
		Judge: func(c Case) spec.Finding {
			var g gather
			total, open, lost, sent, keptNone := 0, 0, 0, 0, 0
			kept := false
			ended := g.toll(c.terminated())
			for t := range ended.each() {
				g.shutBetween(c, t)
				if !t.Exit.Known() {
					g.doubt("nobody saw %s exit", t.Name)
				}
				none := keepsNone(c, t)
				kept = kept || none == 0
				keptNone += none
				closed, pooled, withExit := 0, 0, 0
				stoodTLS, endedTLS := 0, 0
				for _, k := range standing(c, t, inHTTP1) {
					if k.pooled() && k.way() > 0 {
						pooled++
					}
					veiled := k.silent() && slices.Contains(inTLS, k.first().Stream.Flow().Protocol)
					if veiled {
						stoodTLS++
					}
					was := g.idleEnd(t, k)
					if was == endedWithExit && k.silent() {
						withExit++
					}
					if was == untold || was == endedWithExit {
						continue
					}
					total++
					if was == resetIdle {
						open++
					}
					if k.silent() {
						closed++
					}
					if veiled {
						endedTLS++
					}
				}
				l, n := g.raceLosses(c, t)
				lost, sent = lost+l, sent+n
				if closed < seenFloor.N && withExit > 0 {
					g.doubt("%s of %s ended with its process, no sooner than %s before its exit: whether that was its last act or its kernel's nobody can tell", plural(withExit, "silent connection", "silent connections"), t.Name, ms(t.Exit.Err+atOnce))
				}
				seen, distant := seenFloor, distantFloor
				if none > 0 {
					seen, distant = seen.Waived(), distant.Waived()
				}
				ended.has(seen, closed)
				// What is done to plaintext says nothing of what its TLS library forgets.
				if stoodTLS > 0 {
					ended.hasOf("TLS", seenFloor, endedTLS)
				}
				ended.has(distant, pooled)
			}
			ended.bound(ended.broken, max(sent, lost), lost)
			passed := fmt.Sprintf("all %d connections that it ended while they were idle were closed before the exit, and none of %s on kept connections from D on was lost by it", total, plural(sent, "request", "requests"))
			if !kept {
				passed = fmt.Sprintf("it keeps no connection: each of the %d answers of the last second before D said Connection: close", keptNone)
			}
			return g.conclude(passed,
				fmt.Sprintf("%d of %s on kept connections from D on were lost to a close (%.1f%%), and %d of %d idle connections were reset, or left open until SIGKILL", lost, plural(max(sent, lost), "request", "requests"), 100*float64(lost)/float64(max(sent, lost, 1)), open, total))
		},
	}
}

// keepsNone is how many answers of the last second before D said that their connections end with them, where each did, of those
// that a client would have kept; 0: not each, or too few to say so.
func keepsNone(c Case, t Ending) int {
	begin, n := t.Drain.At-t.Drain.Err, 0
	for _, k := range connectionsTo(c, t, inHTTP1) {
		for _, s := range k.samples {
			if !k.pooled() && !k.silent() || s.Failed() || s.End >= begin || s.End < begin-time.Second {
				continue
			}
			if !s.LastOnConn {
				return 0
			}
			n++
		}
	}
	if n < fewConnections {
		return 0
	}
	return n
}

// leaving is how an idle connection ended.
type leaving int

const (
	untold        leaving = iota // by the client, with a request, or nobody knows
	closedFirst                  // by the server, before its exit
	endedWithExit                // by FIN, and so close to the exit that it may be the kernel's
	resetIdle                    // by RST, or at SIGKILL
)

func (g *gather) idleEnd(t Ending, k connection) leaving {
	end, ok := k.ended()
	if !ok || !t.Exit.Known() || k.working(end) || k.racing(end) {
		return untold // where a request was lost, it tells
	}
	at := k.left(end.At)
	_, said := k.saidClose()
	switch {
	case end.Kind == timeline.FrameRST && !said:
		g.against(t, at, k.last().ID, "%s: RST on an idle connection", k)
		return resetIdle
	case end.Kind == timeline.FrameCloseNotify, at < t.Exit.At-t.Exit.Err-atOnce:
		return closedFirst
	case end.Kind == timeline.FrameFIN && at <= t.Exit.At+t.Exit.Err+atTheDeadline && t.Killed() && t.Kill > 0 && t.Exit.At+t.Exit.Err >= t.Kill:
		g.against(t, at, k.last().ID, "%s: left open until SIGKILL", k) // who is killed closes nothing
		return resetIdle
	case end.Kind == timeline.FrameFIN && at <= t.Exit.At+t.Exit.Err+atTheDeadline:
		return endedWithExit
	}
	return untold
}

// racing says whether the connection ended under a request that the peer could
// not have seen yet.
func (k connection) racing(end timeline.Frame) bool {
	last := k.last()
	return last.Failed() && last.First == 0 && last.Sent > 0 && last.Sent < end.At && last.Sent+k.way() >= k.left(end.At)
}

// raceLosses are the quick requests on kept connections, sent from D on, that
// met a connection's end and got not a byte; sent counts all of them.
func (g *gather) raceLosses(c Case, t Ending) (lost, sent int) {
	exit := t.exitOr(LastSeen(c))
	for _, k := range connectionsTo(c, t, inHTTP1) {
		if !k.pooled() || slowOp(k.first()) {
			continue
		}
		end, over := k.ended()
		for _, s := range k.samples {
			if s.Nth < 2 || s.Sent == 0 || s.Sent+k.way() < t.Drain.At-t.Drain.Err || s.Sent > exit+2*k.way() {
				continue
			}
			sent++
			if s.First != 0 || s.Outcome != timeline.Closed && s.Outcome != timeline.Reset {
				continue
			}
			if over && end.At <= s.Start {
				continue // the client knew
			}
			lost++
			g.against(t, s.Sent+k.way(), s.ID, "request %d on connection %d, sent %s before the client was told of the close: %s", s.Nth, k.number(), ms(s.End-s.Sent), describe(s))
		}
	}
	return lost, sent
}
