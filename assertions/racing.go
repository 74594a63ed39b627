// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// RacingStreams judges the streams that crossed the first GOAWAY on its way:
// opened before the client was told, and at the server after it had been sent.
// RFC 9113 section 6.8: "There is an inherent race condition between an endpoint
// starting new streams and the remote peer sending a GOAWAY frame. To deal with
// this case, the GOAWAY contains the stream identifier of the last peer-initiated
// stream that was or might be processed on the sending endpoint in this
// connection." And: "This ensures that a connection can be cleanly shut down
// without losing requests."
//
// A stream that was opened after the client was told is the client's own fault, and how
// a gRPC call ends is CallsSayTheirEnd's. A CONNECT that is denied while the app accepts is not served,
// though its stream came to its end.
func RacingStreams() Check {
	const what = "streams that crossed the first GOAWAY"
	enough := Floor{Name: what, N: 5,
		Reason: "a GOAWAY is under way once on each connection, for as long as the path's delay: a request that is sent in just that time is a matter of chance, and they add up over the recording",
	}
	return Check{
		Name:     what,
		Expected: "each is served, or its client learns, and truly, that it was not processed: by a GOAWAY with a lower last stream ID, or by REFUSED_STREAM",
		Likely:   earlyEnd,
		Floors:   []Floor{enough},
		Needs:    []Evidence{Ledger},
		Judge: func(c Case) spec.Finding {
			var g gather
			begun := begunIDs(c.Timeline)
			all, sound, lost, away, over := 0, 0, 0, 0, 0
			ended := g.toll(c.terminated())
			for t := range ended.each() {
				g.shutBetween(c, t)
				for _, k := range connectionsTo(c, t, inHTTP2) {
					said := k.goAways()
					if len(said) == 0 || k.left(said[0].at) < t.Drain.At-t.Drain.Err {
						continue
					}
					for _, s := range k.samples {
						if isCall(s) || !raced(k, s, said[0], begun) {
							continue
						}
						disowned := (s.Outcome.SafeToRetry() || k.toldUnprocessed(s)) && begun[s.ID]
						if cutShort(s) && !disowned && Outlasts(c, t, s) {
							over++
							continue
						}
						all++
						if !s.Saturated && crossed(k, s, said[0], 0) {
							sound++
						}
						switch {
						case disowned: // and if it was served
							lost++
							g.certain(s.End, t.Name, s.ID, "%s: stream %d of connection %d was begun by a backend, and its client was told that it was not processed: %s", relative(s.End, t), streamID(s), k.number(), describe(s))
						case !cutShort(s) && !denied(c, t, s):
						case s.Outcome.SafeToRetry(), k.toldUnprocessed(s):
							away++
						default:
							lost++
							g.broke(c, t, s, "stream %d of connection %d, opened %s before its client was told of the GOAWAY: %s", streamID(s), k.number(), ms(max(0, said[0].at-opened(s))), describe(s))
						}
					}
				}
			}
			g.unbegun(c.Timeline, begun)
			g.count(enough, sound)
			ended.bound(ended.broken, max(sound, lost), lost)
			passed := fmt.Sprintf("all %d streams that crossed the first GOAWAY were served or known to be unprocessed (%d of them)", all, away)
			if over > 0 {
				passed += fmt.Sprintf("; %d more took longer than the instance had, and were cut at its deadline", over)
			}
			return g.conclude(passed, fmt.Sprintf("%d of %s stranded or reset, with no way to know whether they were processed", lost, plural(all, "stream that crossed the first GOAWAY was", "streams that crossed the first GOAWAY were")))
		},
	}
}

// denied says whether a tunnel's CONNECT was answered with an error's status by who stands before the app,
// while that accepts: for as long as it says itself, and for P where it says nothing. The status is all that
// came of the connection. Behind a gateway, and behind a node proxy that is replaced, somebody accepts always.
func denied(c Case, t Ending, s timeline.Sample) bool {
	if s.Outcome != timeline.Status || s.Server != "" || !s.Stream.Flow().Protocol.Tunnels() {
		return false
	}
	return t.Role == RoleGateway || t.Role == RoleProxies || arrival(s) <= AppAccepts(c, t)
}

// raced says whether a stream crossed a GOAWAY, or may have: what lies in buffers while
// either side waits for a processor is on its way too. A stream that was never answered, and
// of which no backend has heard, may have lain there for longer; but a call, whose end is
// another rule's, is taken for one that did not.
func raced(k connection, s timeline.Sample, a goAway, begun map[string]bool) bool {
	switch {
	case s.End <= k.left(a.at):
		return false // it was over
	case isCall(s):
		return crossed(k, s, a, atOnce)
	case s.Start < a.at && opened(s) >= a.at && !unopened(s):
		return true // written between these, and nobody knows when
	case unspoken(s, begun):
		return crossed(k, s, a, longWait)
	default:
		return crossed(k, s, a, atOnce)
	}
}

// unspoken says whether a stream was cut without a word of it from anybody.
func unspoken(s timeline.Sample, begun map[string]bool) bool {
	return cutShort(s) && !turnedAway(s) && s.First == 0 && !begun[s.ID]
}

// longWait is how long a stream may have waited for a processor at the most.
const longWait = time.Second

// crossed says whether a stream was on its way when a GOAWAY was: it had left
// when the client was told, and reached the server after the GOAWAY was sent. waits is
// how long it may have lain in buffers besides.
func crossed(k connection, s timeline.Sample, a goAway, waits time.Duration) bool {
	if unopened(s) {
		return false
	}
	at := opened(s)
	return at < a.at && at+k.way()+waits > k.left(a.at)
}

// toldUnprocessed says whether the client had been told by a request's end that
// its stream is not processed.
func (k connection) toldUnprocessed(s timeline.Sample) bool {
	for _, a := range k.goAways() {
		if a.at <= s.End && streamID(s) > a.last {
			return true
		}
	}
	return false
}
