// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
)

// Crossing is how long after its peer could have read that a connection ends a
// request may still come on it that was on its way, or in the peer's hands. On
// the path between the two there is no delay but that of the machine.
const Crossing = 100 * time.Millisecond

// NoCrossing is how long after its sender could have read of a connection's end nothing
// can come that had been in its hands since before, however starved the machine.
const NoCrossing = time.Second

// told is a connection of an instance whose other side was told that it ends.
type told struct {
	timeline.Event
	// heard is when the other side had read it; 0: that was never seen.
	heard time.Duration
	// asked are the new requests that came on it after it was told.
	asked []timeline.Event
}

// toldBy are the connections of an instance that it told in one way, in the
// order in which it did.
func toldBy(c Case, t Ending, by string) []told {
	of := func(kind timeline.EventKind) []timeline.Event {
		var out []timeline.Event
		for _, e := range c.Timeline.EventsOf(kind, t.UID) {
			if e.Attrs["by"] == by {
				out = append(out, e)
			}
		}
		return out
	}
	var all []told
	byConn := map[string]int{}
	for _, e := range of(timeline.ConnTold) {
		byConn[e.Attrs["conn"]] = len(all)
		all = append(all, told{Event: e})
	}
	for _, e := range of(timeline.ConnHeard) {
		if i, ok := byConn[e.Attrs["conn"]]; ok && all[i].heard == 0 {
			all[i].heard = e.At
		}
	}
	for _, e := range of(timeline.ConnAsked) {
		if i, ok := byConn[e.Attrs["conn"]]; ok {
			all[i].asked = append(all[i].asked, e)
		}
	}
	return all
}

// saidClose says whether the last answer on it had said "close" before. Nothing crosses that: who
// has not read an answer to its end writes no request behind it, unless it sends ahead, which RFC 9112
// section 9.3.2 advises against behind what is not idempotent.
func (k told) saidClose() bool { return k.Attrs["said"] == timeline.SaidClose }

func (k told) String() string {
	return fmt.Sprintf("connection %s from %s", k.Attrs["conn"], k.Attrs["peer"])
}

// what is a request as its backend saw it.
func what(asked timeline.Event) string {
	if s := asked.Attrs["stream"]; s != "" {
		return "stream " + s
	}
	return "request " + cmp.Or(asked.Attrs["id"], "without an ID")
}

// belated is the first request that came on the connection although its sender
// had known better for longer than a crossing; crossed are those that may have
// been on their way.
func (k told) belated(since time.Duration) (_ timeline.Event, late bool, crossed int) {
	for _, e := range k.asked {
		if e.At > since+Crossing {
			return e, true, crossed
		}
		crossed++
	}
	return timeline.Event{}, false, crossed
}

// last is the last request that came on it.
func (k told) last() (timeline.Event, bool) {
	if len(k.asked) == 0 {
		return timeline.Event{}, false
	}
	return k.asked[len(k.asked)-1], true
}

// often says whether requests came late on so many connections, and so far apart, that no process of the other side that stood
// still explains them: one that does asks nobody meanwhile.
func often(all []told) bool {
	const least, apart = 5, 3
	var late []time.Duration
	for _, k := range all {
		if e, is, _ := k.belated(k.At); is && !k.saidClose() {
			late = append(late, e.At)
		}
	}
	slices.Sort(late)
	stalls, until := 0, time.Duration(0)
	for _, at := range late {
		if stalls == 0 || at > until {
			stalls, until = stalls+1, at+NoCrossing
		}
	}
	return len(late) >= least && stalls >= apart
}

// askedAfter judges what came on a connection after its other side could have known
// better, since an instant that is called after what was there to be read, and counts
// what crossed that. What came up to NoCrossing after it may have been in the hands of
// a process that stood still: that of the other side, whose stalls nobody sees. Those of
// the backend that read it are the machine's, and what comes often is neither's. Behind an answer that said "close" nothing may come.
func (g *gather) askedAfter(c Case, t Ending, k told, since time.Duration, called string, often bool) (crossed int) {
	const text = "%s: %s came on %s, %s after %s"
	if k.saidClose() && len(k.asked) > 0 {
		e := k.asked[0]
		g.culprit(e.At, t.Name, e.Attrs["id"], text+", and the answer before it had said close", relative(e.At, t), what(e), k, ms(e.At-since), called)
		return 0
	}
	e, late, crossed := k.belated(since)
	if !late {
		return crossed
	}
	if last, _ := k.last(); often || last.At > since+NoCrossing {
		g.late(c, last.At, t.Name, last.Attrs["id"], text, relative(last.At, t), what(last), k, ms(last.At-since), called)
	} else {
		g.doubt(text+": who stood still for so long may have had it in hand", relative(e.At, t), what(e), k, ms(e.At-since), called)
	}
	return crossed
}

// Crossed says of requests that crossed the end of their connection, behind what was seen,
// that there were some; "" where there were none.
func Crossed(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; %s in that instant, and may have been on the way", plural(n, "request came", "requests came"))
}
