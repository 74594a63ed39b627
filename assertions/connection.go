// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// connection is one connection of a stream that goes to an instance itself, as
// its client saw it.
type connection struct {
	// samples are the requests on it, in their order; there is at least one.
	samples []timeline.Sample
	// frames are what else was seen of it, by time.
	frames []timeline.Frame
}

// The protocols by what they have in common.
var (
	inHTTP1 = []flow.Protocol{flow.HTTP1, flow.TLS1}
	inHTTP2 = []flow.Protocol{flow.H2C, flow.H2, flow.HBONE}
	inTLS   = []flow.Protocol{flow.TLS1, flow.H2, flow.HBONE}
)

// connectionsTo are the connections to an instance's own address that speak
// one of some protocols, in the order of their first requests. One that becomes
// a WebSocket speaks another.
func connectionsTo(c Case, t Ending, protocols []flow.Protocol) []connection {
	return connectionsOf(c, t, func(s timeline.Sample) bool {
		return slices.Contains(protocols, s.Stream.Flow().Protocol) && !upgrades(s)
	})
}

// connectionsOf are those to an instance's own address whose requests are of a
// kind.
func connectionsOf(c Case, t Ending, kind func(timeline.Sample) bool) []connection {
	byKey := map[timeline.Connection]*connection{}
	var order []timeline.Connection
	for _, s := range c.Timeline.Samples {
		if s.Conn == 0 || !directTo(s, t.UID) || !kind(s) {
			continue
		}
		at := s.On()
		k := byKey[at]
		if k == nil {
			k = &connection{}
			byKey[at] = k
			order = append(order, at)
		}
		k.samples = append(k.samples, s)
	}
	for _, f := range c.Timeline.Frames {
		if k := byKey[f.On()]; k != nil {
			k.frames = append(k.frames, f)
		}
	}
	out := make([]connection, 0, len(order))
	for _, at := range order {
		k := byKey[at]
		slices.SortStableFunc(k.samples, func(a, b timeline.Sample) int { return cmp.Compare(a.Nth, b.Nth) })
		out = append(out, *k)
	}
	return out
}

func (k connection) first() timeline.Sample { return k.samples[0] }
func (k connection) last() timeline.Sample  { return k.samples[len(k.samples)-1] }

// way is how long what one side writes is under way to the other, at least.
func (k connection) way() time.Duration { return delay(k.first()) }

// left is when the peer sent what its client was told at an instant.
func (k connection) left(told time.Duration) time.Duration { return told - k.way() }

// pooled says whether the connection is kept and used in turn, and silent whether it
// is kept to say nothing. Of those that are shared some may be neither.
func (k connection) pooled() bool { return k.first().Stream.Flow().Conns == flow.Reused }
func (k connection) silent() bool { return k.first().Stream.Flow().Op == flow.Idle }

func (k connection) number() uint64 { return k.first().Conn }

func (k connection) String() string {
	return fmt.Sprintf("connection %d of %s", k.number(), k.first().Stream.Kind())
}

// whose says in words what ended a connection.
var whose = map[timeline.FrameKind]string{
	timeline.FrameCloseNotify: "the server's close_notify",
	timeline.FrameFIN:         "the server's FIN",
	timeline.FrameRST:         "the server's RST",
	timeline.FrameClose:       "its client",
}

// end is what ended the connection, whoever did: what comes behind it is of no
// more account, but for a close_notify that is read behind an RST (see goAways).
func (k connection) end() (timeline.Frame, bool) {
	i := slices.IndexFunc(k.frames, func(f timeline.Frame) bool {
		switch f.Kind {
		case timeline.FrameCloseNotify, timeline.FrameFIN, timeline.FrameRST, timeline.FrameClose:
			return true
		}
		return false
	})
	if i < 0 {
		return timeline.Frame{}, false
	}
	if k.frames[i].Kind == timeline.FrameRST {
		for _, f := range k.frames[i:] {
			if f.Kind == timeline.FrameCloseNotify {
				return f, true
			}
		}
	}
	return k.frames[i], true
}

// ended is the end, where it was the peer who made it.
func (k connection) ended() (timeline.Frame, bool) {
	f, ok := k.end()
	return f, ok && f.Kind != timeline.FrameClose
}

// saidClose is the first request on the connection whose answer said that the
// connection ends with it.
func (k connection) saidClose() (timeline.Sample, bool) {
	i := slices.IndexFunc(k.samples, func(s timeline.Sample) bool { return s.LastOnConn })
	if i < 0 {
		return timeline.Sample{}, false
	}
	return k.samples[i], true
}

// answered says whether anything was ever answered on the connection: one that
// nobody had accepted was never anybody's.
func (k connection) answered() bool {
	return slices.ContainsFunc(k.samples, func(s timeline.Sample) bool { return s.First > 0 })
}

// working says whether a request that had reached the peer was unanswered when
// the peer ended the connection.
func (k connection) working(end timeline.Frame) bool {
	return slices.ContainsFunc(k.samples, func(s timeline.Sample) bool {
		return s.Failed() && !turnedAway(s) && s.End >= k.left(end.At) && max(s.Start, s.Dial, s.Sent)+k.way() < k.left(end.At)
	})
}

// goAway is one GOAWAY as its client was told.
type goAway struct {
	at   time.Duration
	last uint64
	code string
}

// maxStreamID is the last stream ID of a GOAWAY that leaves open which streams
// will be processed: RFC 9113 section 6.8.
const maxStreamID = 1<<31 - 1

func (a goAway) String() string {
	last := strconv.FormatUint(a.last, 10)
	if a.last == maxStreamID {
		last = "2^31-1"
	}
	return fmt.Sprintf("GOAWAY with last stream ID %s and %s", last, a.code)
}

// goAways are the GOAWAYs that came before the connection's end.
func (k connection) goAways() []goAway {
	var out []goAway
	end, over := k.end()
	for _, f := range k.frames {
		// What is read behind an RST had come before it: the kernel tells of that at
		// once, to whoever writes (socket(7), SO_ERROR), and still has the rest.
		if over && end.Kind != timeline.FrameRST && f.Kind == end.Kind && f.At == end.At {
			break
		}
		if f.Kind != timeline.FrameGoAway {
			continue
		}
		last, err := strconv.ParseUint(f.Attrs["last"], 10, 31)
		if err != nil {
			// Of what it does not name it says nothing.
			last = maxStreamID
		}
		out = append(out, goAway{at: f.At, last: last, code: f.Attrs["code"]})
	}
	return out
}

// streamID is the h2 stream of a request; 0 where it never had one. A client has the
// odd numbers. Where a connection carries one request at a time it follows from their
// order, which is all that older recordings have.
func streamID(s timeline.Sample) uint64 {
	if s.StreamID == 0 && s.Stream.Flow().Conns != flow.Shared {
		return 2*uint64(max(s.Nth, 1)) - 1
	}
	return uint64(s.StreamID)
}

// unopened says whether a request ended before it had a stream, as far as anybody
// knows.
func unopened(s timeline.Sample) bool {
	switch s.Phase {
	case timeline.PhaseDial, timeline.PhaseTLS:
		return true
	case timeline.PhaseWrite:
		return s.Sent == 0 && s.StreamID == 0
	default:
		return false
	}
}

// highestStream is the last stream that the client opened.
func (k connection) highestStream() uint64 {
	var out uint64
	for _, s := range k.samples {
		out = max(out, streamID(s))
	}
	return out
}

// lowest is the last stream ID that stands after some GOAWAYs. RFC 9113 section
// 6.8: "The last stream identifier from the last GOAWAY frame received
// indicates which streams could have been acted upon." That it never rises is a
// rule of its own.
func lowest(of []goAway) uint64 {
	out := uint64(maxStreamID)
	for _, a := range of {
		out = min(out, a.last)
	}
	return out
}

// farewells are the kinds of frames by which a peer ends a connection, or says that it
// will. The others are about a stream, or about nothing that ends.
var farewells = map[timeline.FrameKind]bool{
	timeline.FrameGoAway: true, timeline.FrameCloseNotify: true, timeline.FrameAlert: true, timeline.FrameWSClose: true,
	timeline.FrameFIN: true, timeline.FrameRST: true,
}

// standing are the connections to an instance that stood at its D and are used in turn,
// or say nothing.
func standing(c Case, t Ending, protocols []flow.Protocol) []connection {
	return slices.DeleteFunc(standingAll(c, t, protocols), func(k connection) bool { return !k.pooled() && !k.silent() })
}

// standingAll are the connections to an instance that stood at its D: a request on
// them had been answered by then, and neither side had ended them, or said that it
// would.
func standingAll(c Case, t Ending, protocols []flow.Protocol) []connection {
	return slices.DeleteFunc(connectionsTo(c, t, protocols), func(k connection) bool { return !k.stood(t) })
}

// stood says whether the connection stood at an instance's D.
func (k connection) stood(t Ending) bool {
	begin := t.Drain.At - t.Drain.Err
	if !slices.ContainsFunc(k.samples, func(s timeline.Sample) bool { return !s.Failed() && s.End < begin }) {
		return false
	}
	if s, ok := k.saidClose(); ok && s.End < begin {
		return false
	}
	return !slices.ContainsFunc(k.frames, func(f timeline.Frame) bool {
		if f.Kind == timeline.FrameClose {
			return f.At < begin
		}
		return k.left(f.At) < begin && farewells[f.Kind]
	})
}

// endedLater are those of standing, and those that the instance ended from D on as an answer had said: one that keeps no
// connection has no others.
func endedLater(c Case, t Ending, protocols []flow.Protocol) []connection {
	return slices.DeleteFunc(connectionsTo(c, t, protocols), func(k connection) bool {
		if k.stood(t) && (k.pooled() || k.silent()) {
			return false
		}
		said, ok := k.saidClose()
		end, over := k.ended()
		return !ok || said.Failed() || !over || k.left(end.At) < t.Drain.At+t.Drain.Err
	})
}

// atOnce is how far from D something may lie that is taken for D's doing,
// although D is known no better: a server that ends a connection for reasons of
// its own in just that instant is not to be expected.
const atOnce = 50 * time.Millisecond

// against is a culprit of an instance that drains. What the peer did at an
// instant that may have been before D is a doubt.
func (g *gather) against(t Ending, at time.Duration, id, format string, args ...any) {
	if t.Drain.Err > atOnce && at < t.Drain.At+t.Drain.Err {
		g.doubt("something happened to a connection to %s within the uncertainty of D (±%s, %s)", t.Name, ms(t.Drain.Err), t.Drain.Source)
		return
	}
	g.culprit(at, t.Name, id, "%s: %s", relative(at, t), fmt.Sprintf(format, args...))
}

// ended is against for a request that failed, which may have been overdue.
func (g *gather) ended(c Case, t Ending, s timeline.Sample, at time.Duration, format string, args ...any) {
	if why := g.overdue(c, s); why != "" {
		g.unless(why, at, t.Name, s.ID, "%s: %s", relative(at, t), fmt.Sprintf(format, args...))
		return
	}
	g.against(t, at, s.ID, format, args...)
}

// answeredIDs are the requests that a client saw answered whole.
func answeredIDs(tl *timeline.Timeline) map[string]bool {
	out := map[string]bool{}
	for _, s := range tl.Samples {
		if !s.Failed() {
			out[s.ID] = true
		}
	}
	return out
}

// begunIDs are the requests that a backend says it began. Where nobody keeps a ledger, they are
// those of which a client saw that: their answers.
func begunIDs(tl *timeline.Timeline) map[string]bool {
	if plain(tl) {
		return answeredIDs(tl)
	}
	begun := map[string]bool{}
	for _, e := range tl.Ledger {
		if e.Step == timeline.Begin {
			begun[e.ID] = true
		}
	}
	return begun
}

// Outlasts says whether a request was cut because its instance's time was up,
// and not too early: at the deadline that was declared, if it was not overdue by then;
// or by design it takes longer than the instance had from D to that deadline (to its exit,
// where nobody declared one), or than its grace, and the instance had worked on for P at
// least. A silence that its client ended is no cut at a deadline.
func Outlasts(c Case, t Ending, s timeline.Sample) bool {
	if s.Outcome != timeline.Timeout && timeIsUp(c, t, s.End-delay(s)) {
		return s.Start+Patience(s) >= deadline(c, t)-t.Drain.Err-atTheDeadline
	}
	if !t.Exit.Known() || s.End < t.Drain.At+c.P {
		return false
	}
	had := t.Exit.At - t.Drain.At
	if c.Deadline > 0 {
		had = c.Deadline
	}
	return takes(s) > had || t.Kill > 0 && s.Start+takes(s)+2*delay(s) > t.Kill
}

// perTermination is a floor of connections for each termination.
func perTermination(what string, n int) Floor {
	return Floor{
		Per: "termination", Name: what, N: n,
		Reason: "a connection ends once, and a client keeps as many as its pool holds: they are no count over a window",
	}
}

// overConnections judges the connections of each termination, connectionsTo or
// standing, one by one: judge tells what is wrong with one, and says whether it
// is evidence. It returns how many were, and holds them against the floor of each
// termination.
func (g *gather) overConnections(c Case, enough Floor, of func(Case, Ending, []flow.Protocol) []connection, protocols []flow.Protocol, judge func(Ending, connection) bool) int {
	total := 0
	ended := g.toll(c.terminated())
	for t := range ended.each() {
		g.shutBetween(c, t)
		judged := 0
		for _, k := range of(c, t, protocols) {
			if judge(t, k) {
				judged++
			}
		}
		total += judged
		ended.has(enough, judged)
	}
	return total
}

// shutBetween is the window that a termination's connections are judged in.
func (g *gather) shutBetween(c Case, t Ending) {
	g.span(t.Drain.At, t.exitOr(t.Drain.At+c.P))
}
