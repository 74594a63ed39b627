// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Calls are what an app sends out itself while it lives: at these rates 3 terminations of 13 s
// make 4,000 of them, and 6 make 8,000. The uploads take so long that many begin after D. The deferred ones are all that
// an app has in hand in the end, for less time than a sidecar waits that takes it for gone which has no socket.
var Calls = []load.Profile{
	{Flow: flow.Flow{Path: flow.Outbound, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 45},
	{Flow: flow.Flow{Path: flow.Outbound, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Get}, Rate: 45},
	{Flow: flow.Flow{Path: flow.Outbound, Protocol: flow.H2C, Conns: flow.Reused, Op: flow.Get}, Rate: 12},
	{Flow: flow.Flow{Path: flow.Outbound, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Upload, Takes: 2 * time.Second}, Rate: 2},
	{Flow: flow.Flow{Path: flow.Outbound, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Deferred, Takes: 4500 * time.Millisecond}, Rate: 8},
}

// silentFor is how long an app has been without a connection at its end whose next call shows that its sidecar has not
// taken it for gone.
const silentFor = 1250 * time.Millisecond

// lastBesides is when the last of all had ended that an instance sent out, and was asked, but for what is deferred.
func lastBesides(c assertions.Case, uid string) time.Duration {
	last := time.Duration(0)
	for i := range c.Timeline.Samples {
		if s := &c.Timeline.Samples[i]; (s.Stream.Target() == uid || s.Server == uid) && s.Stream.Flow().Op != flow.Deferred && !s.Failed() {
			last = max(last, s.End)
		}
	}
	return last
}

// callsOf are the calls of an instance, in the order of their begin. A lookup is none.
func callsOf(c assertions.Case, uid string) []timeline.Sample {
	var out []timeline.Sample
	for _, s := range c.Timeline.Samples {
		if f := s.Stream.Flow(); f.Path == flow.Outbound && f.Op != flow.Lookup && s.Stream.Target() == uid {
			out = append(out, s)
		}
	}
	return out
}

// callsEnd is when an instance had ended its calls: its drain's end is the last that it says. 0: it
// never said so.
func callsEnd(c assertions.Case, t assertions.Ending) time.Duration {
	for _, e := range c.Timeline.EventsOf(timeline.DrainEnd, t.UID) {
		if e.At >= t.Drain.At && e.Attrs["why"] == "" {
			return e.At
		}
	}
	return 0
}

// lastWord doubts that all is known of an instance's calls.
func lastWord(y *assertions.Tally, c assertions.Case, t assertions.Ending) {
	if callsEnd(c, t) == 0 {
		y.Doubt("%s never said that its drain had ended: what it sent out last is not known", t.Name)
	}
}

// CallsServed judges that all is served which an instance sends out itself from D to its end, over
// new connections and over those that it keeps: from its deletion on, of which a sidecar may hear first.
func CallsServed() assertions.Check {
	perTermination := func(name string, n int, why string) assertions.Floor {
		return assertions.Floor{Per: "termination", Name: name, N: n, Reason: why}
	}
	atLeast := perTermination("calls over new connections that begin after D", 300, "")
	kept := perTermination("calls over kept connections that begin after D", 300, "")
	silent := perTermination(fmt.Sprintf("calls that begin %s after all else that it sent out, or was asked, had ended", silentFor), 3, "eight a second, in the second or so that there is")
	uploads := perTermination("uploads that begin after D", 10, "each takes two seconds of the dozen that there are")
	return assertions.Check{
		Name:     "what the app sends out is served",
		Expected: "every call that the app makes from D on, or has in flight at D, is served, over new connections and over kept ones; and none that is not idempotent is done twice",
		Floors:   []assertions.Floor{atLeast, kept, uploads, silent},
		Likely:   likelySidecar,
		Judge: func(c assertions.Case) spec.Finding {
			var y assertions.Tally
			whole, away, twice := wholeAtPeer(c), peerAway(c), doneTwice(c)
			ended, hit, all, lost, again, last := 0, 0, 0, 0, 0, time.Duration(0)
			for t := range y.Terminations(c) {
				ended++
				n, k, u, broken, alone := 0, 0, 0, 0, 0
				besides := lastBesides(c, t.UID)
				for _, s := range callsOf(c, t.UID) {
					if d, is := twice[s.ID]; is {
						again++
						y.Certain(d.At, t.Name, s.ID, "%s: %s: %s, and the app had sent it once", t.Clock(d.At), s.Stream.Kind(), d)
					}
					if s.End < t.Earliest() {
						continue
					}
					last = max(last, s.End)
					all++
					if s.Failed() {
						if away.at(s) {
							y.Doubt("%s failed %s of %s, while who is called was no endpoint of its Service", s.Stream.Kind(), t.Clock(s.Start), t.Name)
							continue
						}
						broken++
						y.Failed(c, s, s.Start, t.Name, "%s", t.Clock(s.Start))
						continue
					}
					if !whole[s.ID] {
						y.Doubt("%s was answered %s of %s, and the ledger of who answered it does not have it whole", s.Stream.Kind(), t.Clock(s.End), t.Name)
					}
					if s.Saturated || s.Start < t.Drain.At+t.Drain.Err {
						continue
					}
					if s.Start >= besides+silentFor {
						alone++
					}
					switch {
					case s.Stream.Flow().Op == flow.Upload:
						u++
					case s.New():
						n++
					default:
						k++
					}
				}
				y.Span(t.Drain.At, max(t.Drain.At, last))
				y.Least(atLeast, t.Name, n)
				y.Least(kept, t.Name, k)
				y.Least(uploads, t.Name, u)
				y.Least(silent, t.Name, alone)
				lastWord(&y, c, t)
				if lost += broken; broken > 0 {
					hit++
				}
			}
			of := assertions.Plural(ended, "termination", "terminations")
			worse := fmt.Sprintf("%d of %d calls that the app made from D to its end failed, at %d of %s", lost, all, hit, of)
			if again > 0 {
				worse += fmt.Sprintf("; %s done more than once", assertions.Plural(again, "call was", "calls were"))
			}
			f := y.Conclude(
				fmt.Sprintf("all %d calls that the app made from D to its end, in %s, were served, and the ledger of who served them has each of them whole", all, of),
				worse)
			f.Bounds = spec.BoundsOf(ended, hit, all, lost)
			return f
		},
	}
}

// stretches of time.
type stretches []struct{ from, to time.Duration }

// at says whether an attempt was under way in one of them.
func (all stretches) at(s timeline.Sample) bool {
	return slices.ContainsFunc(all, func(one struct{ from, to time.Duration }) bool { return s.End >= one.from && s.Start <= one.to })
}

// has says whether an instant is in one of them.
func (all stretches) has(at time.Duration) bool { return all.at(timeline.Sample{Start: at, End: at}) }

// earlier is by how much others may hear of an endpoint before the recording does.
const earlier = time.Second

// peerAway is when who is called was no endpoint of its Service: its kubelet found it unready, as it does
// on a starved machine, and no sidecar had anybody to send a call to. The news of its return may take P.
func peerAway(c assertions.Case) stretches {
	var out stretches
	ready := map[string]bool{}
	for _, e := range c.Timeline.Events {
		if e.Kind != timeline.Endpoint && e.Kind != timeline.EndpointGone || e.Attrs["service"] != behaviour.CallPeer {
			continue
		}
		before := len(ready)
		if e.Kind == timeline.Endpoint && e.Attrs["ready"] == "true" {
			ready[e.Subject] = true
		} else {
			delete(ready, e.Subject)
		}
		switch {
		case before > 0 && len(ready) == 0:
			out = append(out, struct{ from, to time.Duration }{e.At - earlier, math.MaxInt64})
		case before == 0 && len(ready) > 0 && len(out) > 0:
			out[len(out)-1].to = e.At + c.P
		}
	}
	return out
}

// wholeAtPeer are the requests that an app says that it has done whole, by their IDs.
func wholeAtPeer(c assertions.Case) map[string]bool {
	out := map[string]bool{}
	for _, e := range c.Timeline.Ledger {
		if e.Step == timeline.Done && e.Whole {
			out[e.ID] = true
		}
	}
	return out
}

// doneTwice are the requests that may be done once only and were done more than once, by their IDs.
func doneTwice(c assertions.Case) map[string]assertions.Twice {
	out := map[string]assertions.Twice{}
	for _, d := range assertions.Reconcile(c.Timeline).Duplicated {
		out[d.ID] = d
	}
	return out
}

// likelySidecar says where the recording shows that it was the sidecar which an app's calls failed
// at: its process was gone, or nobody took the app's connections in its own pod, or cut them there,
// while others were served by the same peer.
func likelySidecar(c assertions.Case, f spec.Finding) string {
	for _, t := range c.Terminations {
		var failed []timeline.Sample
		for _, s := range callsOf(c, t.UID) {
			if s.Failed() && s.End >= t.Earliest() {
				failed = append(failed, s)
			}
		}
		if len(failed) == 0 {
			continue
		}
		first := slices.MinFunc(failed, func(a, b timeline.Sample) int { return cmp.Compare(a.End, b.End) }).End
		last := failed[len(failed)-1].End
		if at, container := besideGone(c, t); at != 0 && at <= last {
			return fmt.Sprintf("The sidecar is gone before its app: the process of the container %s of %s ended at %s, and the app's at %s.", container, t.Name, t.Clock(at), t.Clock(t.Exit.At))
		}
		served := servedOf(c, t, first, last)
		if served == 0 {
			continue // who is called may have been away for everybody
		}
		meanwhile := fmt.Sprintf("while the app that it calls served %s of other instances", assertions.Plural(served, "call", "calls"))
		count := func(phase timeline.Phase, outcomes ...timeline.Outcome) (n int) {
			for _, s := range failed {
				if (phase == "" || s.Phase == phase) && slices.Contains(outcomes, s.Outcome) {
					n++
				}
			}
			return n
		}
		if n := count(timeline.PhaseDial, timeline.Refused); 2*n >= len(failed) {
			return fmt.Sprintf("The sidecar takes no connection of its app any more: in the pod of %s %s refused, from %s on, %s.", t.Name, assertions.Plural(n, "new connection was", "new connections were"), t.Clock(first), meanwhile)
		}
		if n := count("", timeline.Reset, timeline.Closed, timeline.Truncated); 2*n >= len(failed) {
			return fmt.Sprintf("The sidecar ends connections of its app: of those of %s %s ended under a call, from %s on, %s.", t.Name, assertions.Plural(n, "connection was", "connections were"), t.Clock(first), meanwhile)
		}
	}
	return ""
}

// besideGone is when the first process that stood in the pod beside the app's was gone, where that
// was before the app's, and its container; 0 where none was. Of a vendor's sidecar it is the one that
// its file names: others of its containers may have been there for its drain only.
func besideGone(c assertions.Case, t assertions.Ending) (time.Duration, string) {
	app := appContainer(c)
	for _, e := range c.Timeline.EventsOf(timeline.ProcExit, t.UID) {
		is := e.Attrs["container"]
		if own := c.Beside(); is == "" || is == app || own != "" && is != own {
			continue
		}
		if e.At >= t.Earliest() && t.Exit.Known() && e.At < t.Exit.At {
			return e.At, is
		}
	}
	return 0, ""
}

// servedOf counts the calls of other instances than one that were begun and served in a stretch
// that is a second wider than given.
func servedOf(c assertions.Case, t assertions.Ending, from, to time.Duration) int {
	n := 0
	for _, s := range c.Timeline.Samples {
		if f := s.Stream.Flow(); f.Path == flow.Outbound && f.Op != flow.Lookup && s.Stream.Target() != t.UID && !s.Failed() && s.Start >= from-time.Second && s.Start <= to+time.Second {
			n++
		}
	}
	return n
}

// keptAlive are the protocols whose kept connections are looked at, each for itself.
var keptAlive = []flow.Protocol{flow.HTTP1, flow.H2C}

// CallsNotDrained judges that none of the connections that an instance keeps to whom it calls is
// ended, or told that it will be, from D to the end of its calls.
func CallsNotDrained() assertions.Check {
	var floors []assertions.Floor
	for _, p := range keptAlive {
		floors = append(floors, assertions.Floor{Per: "termination", Name: fmt.Sprintf("connections in %s that are kept at D", p.Means()), N: 10,
			Reason: "the app keeps 16 of each at its rates"})
	}
	used := assertions.Floor{Per: "termination", Name: "calls over kept connections after D", N: 300}
	return assertions.Check{
		Name:     "what the app keeps open is left alone",
		Expected: "from D to the end of the app's calls none of the connections that it keeps is ended by the other side, or told to end: no FIN, no RST, no Connection: close, no GOAWAY",
		Floors:   append(floors, used),
		Judge: func(c assertions.Case) spec.Finding {
			var y assertions.Tally
			ended, stood, told, away := 0, 0, 0, peerAway(c)
			spoken := map[flow.Protocol]bool{} // on what is kept; an app may speak one version of HTTP alone
			for _, s := range c.Timeline.Samples {
				if keptConn(s.Stream, s.Stream.Target()) {
					spoken[s.Stream.Flow().Protocol] = true
				}
			}
			for t := range y.Terminations(c) {
				ended++
				lastWord(&y, c, t)
				until := callsEnd(c, t)
				if until == 0 {
					until = t.Drain.At
				}
				y.Span(t.Drain.At, until)
				at, over := keptAt(c, t)
				for i, p := range keptAlive {
					enough := floors[i]
					if !spoken[p] {
						enough = enough.Waived()
					}
					y.Least(enough, t.Name, at[p])
					stood += at[p]
				}
				y.Least(used, t.Name, over)
				for _, w := range toldToGo(c, t, until) {
					if away.has(w.at) {
						y.Doubt("%s: connection %d of %s: %s, while who is called was no endpoint of its Service", t.Clock(w.at), w.conn, w.stream.Kind(), w.what)
						continue
					}
					told++
					y.Against(w.at, t.Name, w.id, "%s: connection %d of %s: %s", t.Clock(w.at), w.conn, w.stream.Kind(), w.what)
				}
			}
			of := assertions.Plural(ended, "termination", "terminations")
			return y.Conclude(
				fmt.Sprintf("of %d connections that the app kept at D, in %s, none was told to go before the app ended its calls", stood, of),
				fmt.Sprintf("connections that the app kept at D, %d in %s, were told to go %s while it called", stood, of, assertions.Plural(told, "time", "times")))
		},
	}
}

// keptConn says whether a stream of an instance's calls keeps its connections.
func keptConn(s flow.Stream, uid string) bool {
	f := s.Flow()
	return f.Path == flow.Outbound && f.Conns == flow.Reused && s.Target() == uid
}

// keptAt is how many connections an instance kept at D, by protocol: a call over each had ended
// before, and its client had not closed it. used are the calls over kept connections after D.
func keptAt(c assertions.Case, t assertions.Ending) (of map[flow.Protocol]int, used int) {
	type key struct {
		stream flow.Stream
		conn   uint64
	}
	open := map[key]bool{}
	for _, s := range c.Timeline.Samples {
		if !keptConn(s.Stream, t.UID) || s.Failed() {
			continue
		}
		if s.End < t.Drain.At {
			open[key{s.Stream, s.Conn}] = true
		}
		if s.Start >= t.Drain.At && !s.New() {
			used++
		}
	}
	for _, f := range c.Timeline.Frames {
		if f.At < t.Drain.At && ends(f.Kind) {
			delete(open, key{f.Stream, f.Conn})
		}
	}
	of = map[flow.Protocol]int{}
	for k := range open {
		of[k.stream.Flow().Protocol]++
	}
	return of, used
}

// ends says whether a frame is the end of a connection, whoever made it.
func ends(k timeline.FrameKind) bool {
	return k == timeline.FrameClose || k == timeline.FrameFIN || k == timeline.FrameRST
}

// word is one that the other side of a kept connection said of its end.
type word struct {
	at     time.Duration
	stream flow.Stream
	conn   uint64
	id     string // of the call whose answer said it
	what   string
}

// toldToGo is what the connections that an instance kept were told of their end by the other side,
// from its deletion until an instant.
func toldToGo(c assertions.Case, t assertions.Ending, until time.Duration) []word {
	within := func(at time.Duration) bool { return at >= t.Earliest() && at <= until }
	means := map[timeline.FrameKind]string{
		timeline.FrameFIN: "ended by a FIN", timeline.FrameRST: "cut by an RST", timeline.FrameGoAway: "told to go by GOAWAY",
	}
	var out []word
	for _, f := range c.Timeline.Frames {
		if what := means[f.Kind]; what != "" && keptConn(f.Stream, t.UID) && within(f.At) {
			out = append(out, word{at: f.At, stream: f.Stream, conn: f.Conn, what: what})
		}
	}
	for _, s := range c.Timeline.Samples {
		if s.LastOnConn && s.Stream.Flow().Protocol == flow.HTTP1 && keptConn(s.Stream, t.UID) && within(s.End) {
			out = append(out, word{at: s.End, stream: s.Stream, conn: s.Conn, id: s.ID, what: "told to go by Connection: close"})
		}
	}
	slices.SortStableFunc(out, func(a, b word) int { return cmp.Compare(a.at, b.at) })
	return out
}
