// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// isCall says whether a sample is of a gRPC call, and streams whether a flow's calls
// are of several messages.
func isCall(s timeline.Sample) bool { return s.Stream.Flow().Op.Calls() }
func streams(f flow.Flow) bool      { return f.Op.Calls() && f.Op != flow.Unary }

// resetMeans is the status that a reset stream's client gives its call, by the
// code's name. PROTOCOL-HTTP2, Errors: "The following mapping from RST_STREAM
// error codes to GRPC error codes is applied." STREAM_CLOSED has none there, and
// no later code has.
var resetMeans = map[string]string{
	noError:               "INTERNAL",
	"PROTOCOL_ERROR":      "INTERNAL",
	"INTERNAL_ERROR":      "INTERNAL",
	"FLOW_CONTROL_ERROR":  "INTERNAL",
	"SETTINGS_TIMEOUT":    "INTERNAL",
	"FRAME_SIZE_ERROR":    "INTERNAL",
	"REFUSED_STREAM":      "UNAVAILABLE",
	"CANCEL":              "CANCELLED",
	"COMPRESSION_ERROR":   "INTERNAL",
	"CONNECT_ERROR":       "INTERNAL",
	"ENHANCE_YOUR_CALM":   "RESOURCE_EXHAUSTED",
	"INADEQUATE_SECURITY": "PERMISSION_DENIED",
}

// saysWhy are the statuses by which a call's end tells of the server's or of
// its connection: UNAVAILABLE, and those that a reset of its stream means.
var saysWhy = map[string]string{"1": "CANCELLED", "8": "RESOURCE_EXHAUSTED", "13": "INTERNAL", "14": "UNAVAILABLE"}

// httpUnavailable are the HTTP statuses without a grpc-status that mean
// UNAVAILABLE (gRPC's "HTTP to gRPC Status Code Mapping").
var httpUnavailable = []int{429, 502, 503, 504}

// CallsSayTheirEnd judges how the gRPC calls ended that ran at D or were begun
// after it. PROTOCOL-HTTP2, Responses: "Status must be sent in Trailers even if
// the status code is OK." Connection Management: "Clients should consider any
// stream initiated after the last successfully accepted stream as UNAVAILABLE
// and retry the call elsewhere." And: "Servers should send GOAWAY before
// terminating a connection to reliably inform clients which work has been
// accepted by the server and is being executed."
//
// A client sends by itself what it was told that nobody has processed: to say so of a
// call that was begun is no excuse, at the deadline either. RFC 9113 section 8.7: "A
// server MUST NOT indicate that a stream has not been processed unless it can
// guarantee that fact."
//
// What was never taken up is no call: a dial that failed, or a connection that
// stood when the listener was closed and that nobody had accepted.
func CallsSayTheirEnd() Check {
	const what = "gRPC calls that ran at D or were begun after it"
	inFlight := Floor{Per: "termination and kind of streaming call", Name: "in flight at D", N: 5, Reason: atOneInstant}
	callsAfter := Floor{Name: "calls begun after D", N: 0,
		Reason: "a server that takes no new connections from D on, and has said GOAWAY on all others, has none",
	}
	return Check{
		Name:     what,
		Expected: "each ends whole, its messages in sequence and its status OK, or with a status that says what happened: in trailers, by RST_STREAM, or by a GOAWAY before the connection's end",
		Likely:   earlyEnd,
		Floors:   []Floor{inFlight, callsAfter},
		Judge: func(c Case) spec.Finding {
			var g gather
			whole, kinds := wholeIDs(c.Timeline), streamingKinds(c.Timeline)
			if len(kinds) == 0 {
				g.doubt("no streaming calls were sent to the instances")
			}
			n := callEnds{of: map[string]Ending{}, hit: map[string]bool{}, begun: begunIDs(c.Timeline)}
			begun := 0
			ended := g.toll(c.terminated())
			for t := range ended.each() {
				g.shutBetween(c, t)
				inflight := map[flow.Flow]int{}
				shut := stopsAccepting(c, t, t.Drain.At-t.Drain.Err)
				for _, k := range connectionsTo(c, t, inHTTP2) {
					for _, s := range k.samples {
						if !g.callEnded(c, t, k, s, shut, whole, &n) || s.Saturated {
							continue
						}
						switch {
						case s.Start >= t.Drain.At+t.Drain.Err:
							begun++
						case s.Start < t.Drain.At-t.Drain.Err && streams(s.Stream.Flow()):
							inflight[s.Stream.Flow()]++
						}
					}
				}
				for _, kind := range kinds {
					ended.hasOf(kind.String(), inFlight, inflight[kind])
				}
			}
			for _, d := range Reconcile(c.Timeline).Duplicated {
				if t, ok := n.of[d.ID]; ok {
					n.failed(t)
					g.certain(d.At, t.Name, d.ID, "%s: a call was done twice, and its client had sent it once: %s", relative(d.At, t), d)
				}
			}
			g.unbegun(c.Timeline, n.begun)
			g.count(callsAfter, begun)
			ended.bound(len(n.hit), n.all, n.wrong)
			passed := fmt.Sprintf("of %d calls %d ended whole, and %d with a status that says why", n.all, n.whole, n.told)
			if n.over > 0 {
				passed += fmt.Sprintf("; %d more took longer than the instance had, and were cut at its deadline", n.over)
			}
			return g.conclude(passed, fmt.Sprintf("%d of %s not as the protocol has it", n.wrong, plural(n.all, "call ended", "calls ended")))
		},
	}
}

// callEnds counts how calls ended.
type callEnds struct {
	all, whole, told, wrong int
	// over are those that the instance had no time for.
	over int
	// of is whose they were, by their IDs, and hit are the instances with a wrong
	// end, by their UIDs.
	of  map[string]Ending
	hit map[string]bool
	// begun are the requests that a backend says it began.
	begun map[string]bool
}

func (n *callEnds) failed(t Ending) {
	n.wrong++
	n.hit[t.UID] = true
}

// callEnded judges how one call ended, and says whether it is one that ran at D
// or was begun after it.
func (g *gather) callEnded(c Case, t Ending, k connection, s timeline.Sample, shut time.Duration, whole map[string]bool, n *callEnds) bool {
	lie := k.disowned(s, n.begun)
	switch {
	case !isCall(s), s.Phase == timeline.PhaseDial, s.Phase == timeline.PhaseTLS, k.left(s.End) <= t.Drain.At-t.Drain.Err:
		return false
	case lie == "" && s.Failed() && !k.answered() && s.Start >= shut-atTheDoor:
		return false // the listener's affair
	case k.left(s.End) <= t.Drain.At+t.Drain.Err:
		// Ended by then or not: nobody knows.
		if s.Failed() {
			g.doubt("a call to %s broke within the uncertainty of D (±%s, %s)", t.Name, ms(t.Drain.Err), t.Drain.Source)
		}
		return false
	// What came to an end was not cut, and has to say its status at the deadline too.
	case lie == "" && cutShort(s) && s.Outcome != timeline.Corrupt && Outlasts(c, t, s):
		n.over++
		return false
	}
	n.all++
	n.of[s.ID] = t
	switch why := cmp.Or(lie, k.unsaid(s)); {
	case why != "":
		n.failed(t)
		g.broke(c, t, s, "stream %d of connection %d: %s: %s", streamID(s), k.number(), why, describe(s))
	case s.Failed():
		n.told++
	default:
		n.whole++
		if !whole[s.ID] {
			g.unended(s)
		}
	}
	return true
}

// disowned says what shows that a call was processed whose client was told that it
// was not; "" for nothing, or where its client was not told so.
func (k connection) disowned(s timeline.Sample, begun map[string]bool) string {
	switch s.Outcome {
	case timeline.GoAway, timeline.RefusedStream:
	case timeline.Truncated, timeline.Closed, timeline.Reset:
		if !k.toldUnprocessed(s) {
			return ""
		}
	default:
		return ""
	}
	switch {
	case begun[s.ID]:
		return "its client was told that it was not processed, and a backend had begun it"
	case s.First > 0:
		return "its client was told that it was not processed, and its answer had begun"
	default:
		return ""
	}
}

// unsaid says what is wrong with how a call ended; "" for nothing.
func (k connection) unsaid(s timeline.Sample) string {
	switch s.Outcome {
	case timeline.OK:
		if s.Got != s.Want {
			return "it ended with OK, and not with all of its messages"
		}
		return ""
	case timeline.GoAway, timeline.RefusedStream:
		return "" // UNAVAILABLE, and safe to send again
	case timeline.StreamReset:
		f, told := k.resetOf(s)
		if told && resetMeans[f.Attrs["code"]] == "" {
			return fmt.Sprintf("it was reset with %s, which means no status", f.Attrs["code"])
		}
		return ""
	case timeline.Status:
		switch {
		case s.GRPC != "" && saysWhy[s.GRPC] == "":
			return "its status does not say that the server or its connection went"
		case s.GRPC == "" && !slices.Contains(httpUnavailable, s.Status):
			return "it has an HTTP status for an end that means UNKNOWN, or blames the client"
		}
		return ""
	case timeline.Corrupt:
		return "its messages are not those that were asked for, in their sequence"
	case timeline.Timeout:
		return "it has no end"
	case timeline.Truncated, timeline.Closed, timeline.Reset:
		return k.cutUnsaid(s)
	default:
		return "it broke the protocol"
	}
}

// cutUnsaid is unsaid for a call whose stream, or whose connection, just ended.
func (k connection) cutUnsaid(s timeline.Sample) string {
	if s.Phase == timeline.PhaseDone {
		return "it was ended by END_STREAM, as if it were whole, and without a grpc-status"
	}
	if k.toldUnprocessed(s) {
		return ""
	}
	if end, over := k.ended(); over && k.saidCut(end) {
		return "" // UNAVAILABLE: the connection was terminated, and it was said
	}
	return "its connection was cut, with neither an RST_STREAM nor a GOAWAY that told of it"
}

// streamingKinds are the kinds of streaming calls to instances in the recording,
// sorted.
func streamingKinds(tl *timeline.Timeline) []flow.Flow {
	return slices.DeleteFunc(slowStreams(tl), func(kind flow.Flow) bool { return !streams(kind) })
}
