// SPDX-License-Identifier: Apache-2.0

package hbone

import (
	"fmt"
	"strconv"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Connections to a peer that takes few streams in a tunnel: more long ones at once than it takes, and
// short ones beside them.
var (
	longToLimiting  = load.Profile{Flow: flow.Flow{Path: flow.PeerLimits, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Slow, Takes: 4 * time.Second}, Rate: 2}
	shortToLimiting = load.Profile{Flow: flow.Flow{Path: flow.PeerLimits, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 10}
)

// RFC 9113 section 5.1.2: "A peer can limit the number of concurrently active streams
// using the SETTINGS_MAX_CONCURRENT_STREAMS parameter" and "Endpoints MUST NOT exceed the
// limit set by their peer." What is to be done at the limit, it doesn't say.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "hbone.peer-limit",
	Title: "At a peer's limit of streams another tunnel is opened: no connection waits behind long ones",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "project", Section: "after RFC 9113 section 5.1.2", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-5.1.2",
		Quote: "Endpoints MUST NOT exceed the limit set by their peer.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "In a tunnel connections wait for one another that know nothing of each other. Where a peer takes a hundred, the hundred and first hangs until one of them ends, and WebSockets end in hours: to its app the peer is dead, and nothing anywhere says why.",
	Causes: "A pool that keeps one tunnel to each peer, and queues what goes over its limit, or sends it all the same.",
	Fix:    "Open another tunnel when all that stand are at the peer's limit.",

	Topology: behaviour.Sourcing, NodesToo: true,
	Disrupt:    behaviour.PeersMisbehave,
	Traffic:    []load.Profile{longToLimiting, shortToLimiting},
	Checks:     []assertions.Check{DoesNotQueue()},
	BrokenBy:   []spec.Fault{datapath.QueuesAtLimit, datapath.ExceedsLimit},
	Resolution: 60 * time.Millisecond,
})

// opensWithin is how long a connection may wait for a tunnel of its own: a dial, a handshake and a
// CONNECT take far less, and what it would wait for in a queue takes seconds.
const opensWithin = time.Second

// DoesNotQueue judges the connections of an app to a peer at whose limit the tunnels are, and that no
// more streams are opened in these.
func DoesNotQueue() assertions.Check {
	atLimit := assertions.Floor{Name: "short connections that began while a tunnel had as many streams as the peer takes", N: 50}
	long := assertions.Floor{Name: "long connections while the peer takes few streams in a tunnel", N: 20,
		Reason: "they only take the places: what is judged are the short ones"}
	return assertions.Check{
		Name:     "connections to a peer that takes few streams in a tunnel",
		Expected: fmt.Sprintf("each is served, and the short ones are answered within %s, whatever long ones there are; and no stream is opened in a tunnel that has as many as the peer takes, those among them that were open when the limit was lowered", opensWithin),
		Floors:   []assertions.Floor{atLimit, long},
		Judge: func(c assertions.Case) spec.Finding {
			var y assertions.Tally
			from, _ := began(&y, c, flow.PeerLimits)
			full, over := limited(c)
			longs, shorts, during := 0, 0, 0
			var slowest time.Duration
			for _, s := range dialled(c, flow.PeerLimits) {
				if s.Start < from {
					continue
				}
				y.Span(from, s.End)
				short := s.Stream.Flow().Op == flow.Get
				if short {
					shorts++
				} else {
					longs++
				}
				took := s.End - s.Start
				switch {
				case s.Failed():
					y.Failed(c, s, s.End, "", "%s", since(s.End, from))
				case short && took > opensWithin:
					y.Late(c, s.End, "", s.ID, "%s: %s: answered after %s", since(s.Start, from), s.Stream.Kind(), took.Round(time.Millisecond))
				case short:
					slowest = max(slowest, took)
				}
				if short && full.at(s.Start) {
					during++
				}
			}
			waited := y.Culprits()
			for _, o := range over {
				of := fmt.Sprintf("%s: stream %s was opened in tunnel %s, which had %d open, %d of them since before the limit of %d was said, %s ago",
					since(o.at, from), o.stream, o.conn, o.open, o.before, o.limit, (o.at - o.said).Round(time.Millisecond))
				switch {
				case o.at < o.said+sameInstant: // it may have been on its way
				case o.at < o.said+opensWithin: // who has no CPU may not have read it yet
					y.Late(c, o.at, "", "", "%s", of)
				default:
					y.Against(o.at, "", "", "%s", of)
				}
			}
			y.Count(atLimit, during)
			y.Count(long, longs)
			return y.Conclude(
				fmt.Sprintf("all %d short ones were answered within %s, %d of them though a tunnel had as many streams as the peer takes, and all %d long ones were served; no tunnel was given more streams than that", shorts, slowest.Round(time.Millisecond), during, longs),
				fmt.Sprintf("%d of %d failed, or waited for long; %d streams were opened over the peer's limit", waited, shorts+longs, y.Culprits()-waited))
		},
	}
}

// forever is the end of what nobody saw end.
const forever = time.Duration(1<<63 - 1)

// spans are stretches of time, by their begins.
type spans []struct{ from, to time.Duration }

func (s spans) at(t time.Duration) bool {
	for _, one := range s {
		if t >= one.from && t < one.to {
			return true
		}
	}
	return false
}

// exceeding is a stream that was opened in a tunnel which had as many as the peer takes.
type exceeding struct {
	at, said     time.Duration // the latter: the limit
	conn, stream string
	limit, open  int
	before       int // of the open ones: since before the limit was said
}

// open is a stream that is, as its peer has it.
type open struct {
	before bool // it was when the limit was said
	halved bool // the other side has ended its half
}

// limited are the stretches in which a tunnel to the peer that limits them had as many streams as it had
// said that it takes, or more; and the streams that were opened beyond that. What the other side has ended
// is none of these: it may have heard of the peer's own end before the peer says here that all is over.
func limited(c assertions.Case) (full spans, over []exceeding) {
	type tunnel struct {
		limit       int
		said, since time.Duration
		open        map[string]open
		full        bool
	}
	all := map[string]*tunnel{}
	for _, e := range saw(c, flow.PeerLimits, timeline.PeerSettings, timeline.PeerConnect, timeline.PeerEndStream, timeline.PeerDone, timeline.PeerEnded) {
		conn, stream := e.Attrs["conn"], e.Attrs["stream"]
		t := all[conn]
		if t == nil {
			t = &tunnel{open: map[string]open{}}
			all[conn] = t
		}
		switch e.Attrs["what"] {
		case timeline.PeerSettings:
			t.said = e.At
			t.limit, _ = strconv.Atoi(e.Attrs["streams"])
			for stream, o := range t.open {
				o.before = true
				t.open[stream] = o
			}
		case timeline.PeerConnect:
			x := exceeding{at: e.At, said: t.said, conn: conn, stream: stream, limit: t.limit}
			for _, o := range t.open {
				if o.halved {
					continue
				}
				x.open++
				if o.before {
					x.before++
				}
			}
			if t.limit > 0 && x.open >= t.limit {
				over = append(over, x)
			}
			t.open[stream] = open{}
		case timeline.PeerEndStream:
			if o, there := t.open[stream]; there {
				o.halved = true
				t.open[stream] = o
			}
		case timeline.PeerDone:
			delete(t.open, stream)
		case timeline.PeerEnded:
			clear(t.open)
		}
		switch is := t.limit > 0 && len(t.open) >= t.limit; {
		case is && !t.full:
			t.full, t.since = true, e.At
		case !is && t.full:
			t.full = false
			full = append(full, struct{ from, to time.Duration }{t.since, e.At})
		}
	}
	for _, t := range all {
		if t.full {
			full = append(full, struct{ from, to time.Duration }{t.since, forever})
		}
	}
	return full, over
}
