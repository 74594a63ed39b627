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

// Connections that are cut: by the peer, each of them, some with the tunnel that they are in; and by
// the app, at a peer that hears how its streams end.
var (
	toCutting = load.Profile{Flow: flow.Flow{Path: flow.PeerCuts, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Slow, Takes: 2 * time.Second}, Rate: 6}
	toHearing = load.Profile{Flow: flow.Flow{Path: flow.PeerHears, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Abandoned, Takes: 500 * time.Millisecond}, Rate: 5}
)

// RFC 9113 section 8.5: "A proxy treats any error in the TCP connection, which includes
// receiving a TCP segment with the RST bit set, as a stream error (Section 5.4.2) of type
// CONNECT_ERROR." "Correspondingly, a proxy MUST send a TCP segment with the RST bit set if
// it detects an error with the stream or the HTTP/2 connection."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "hbone.cut-is-visible",
	Title: "What is cut in a tunnel, or with it, is an error to the application behind it, on both sides",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "RFC 9113", Section: "section 8.5", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-8.5",
		Quote: "Correspondingly, a proxy MUST send a TCP segment with the RST bit set if it detects an error with the stream or the HTTP/2 connection.",
	}, {
		Doc: "RFC 9113", Section: "section 8.5", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-8.5",
		Quote: "A proxy treats any error in the TCP connection, which includes receiving a TCP segment with the RST bit set, as a stream error (Section 5.4.2) of type CONNECT_ERROR.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "A FIN says: that was all. Many protocols have no other way to tell where a message ends, and to them half a file that ends by a FIN is a file. Whoever carries a connection in two pieces has to make of a cut in one of them a cut in the other.",
	Causes: "A proxy that closes the app's connection whatever ended the stream: a close is a FIN. A loop that copies until an error and does not look which. One that gives up the tunnel for an error of one connection in it.",
	Fix:    "Reset the app's connection (SO_LINGER of 0) for RST_STREAM, and for each stream of a tunnel that is lost, however it was; and reset the stream, by CONNECT_ERROR, for an RST of the app's.",

	Topology: behaviour.Sourcing, NodesToo: true,
	Disrupt:    behaviour.PeersMisbehave,
	Traffic:    []load.Profile{toCutting, toHearing},
	Checks:     []assertions.Check{CutReachesApp(), CutReachesPeer()},
	BrokenBy:   []spec.Fault{datapath.CutsEndToApp, datapath.CutsEndToPeer, datapath.CutsTunnelForStream},
	Resolution: 60 * time.Millisecond,
})

// CutReachesApp judges how the connections of an app ended whose streams a peer cut.
func CutReachesApp() assertions.Check {
	streams := assertions.Floor{Name: "streams that the peer cut by RST_STREAM", N: 50}
	tunnels := assertions.Floor{Per: "way", Name: "tunnels that the peer cut with streams in them", N: 5,
		Reason: "each of them has several streams in it, one in four of which cuts it"}
	ended := assertions.Floor{Name: "connections of the app whose streams the peer cut", N: 100}
	return assertions.Check{
		Name:     "connections whose streams the peer cuts",
		Expected: "each ends for the app by an RST, and none by a FIN, whether its stream was reset or the tunnel was cut by RST, FIN or close_notify",
		Floors:   []assertions.Floor{streams, tunnels, ended},
		Judge: func(c assertions.Case) spec.Finding {
			var y assertions.Tally
			from, _ := began(&y, c, flow.PeerCuts)
			n := map[string]int{}
			for _, e := range saw(c, flow.PeerCuts, timeline.PeerCut) {
				n[e.Attrs["by"]]++
			}
			y.Count(streams, n[timeline.PeerByReset])
			for _, by := range []string{timeline.PeerByRST, timeline.PeerByFIN, timeline.PeerByCloseNotify} {
				y.Least(tunnels, by, n[by])
			}
			all := 0
			for _, s := range dialled(c, flow.PeerCuts) {
				// One that began with the misbehaviour may have been taken before it.
				if s.Start < from+behaviour.RaceDelay {
					continue
				}
				y.Span(from, s.End)
				all++
				switch s.Outcome {
				case timeline.Reset:
				case timeline.OK:
					y.Certain(s.End, "", s.ID, "%s: %s: all of it came, and the peer cut each stream in the middle", since(s.End, from), s.Stream.Kind())
				case timeline.Timeout:
					y.Late(c, s.End, "", s.ID, "%s: %s: hung", since(s.End, from), s.Stream.Kind())
				default:
					y.Against(s.End, "", s.ID, "%s: %s: no RST: %s: %s", since(s.End, from), s.Stream.Kind(), s.Outcome, s.Err)
				}
			}
			y.Count(ended, all)
			return y.Conclude(
				fmt.Sprintf("all %d ended by an RST", all),
				fmt.Sprintf("%d of %d did not end by an RST", y.Culprits(), all))
		},
	}
}

// noError is an error code: RFC 9113 section 7: "The associated condition is not a result of an error."
const noError = "NO_ERROR"

// heardWithin is how long after the app's cut the peer may hear nothing of it: what carries it says that
// at once.
const heardWithin = 5 * time.Second

// CutReachesPeer judges what the peer heard of streams whose connections the app has cut: each is cut by
// itself, and what is in the tunnel beside it is not.
func CutReachesPeer() assertions.Check {
	cut := assertions.Floor{Name: "connections that the app cut in the middle of a body", N: 50}
	reset := assertions.Floor{Name: "streams of such that the peer heard reset", N: 50}
	return assertions.Check{
		Name:     "streams whose connections the app cuts",
		Expected: "the peer hears RST_STREAM of each, with an error, and END_STREAM of none; and no other connection in its tunnel ends with it",
		Floors:   []assertions.Floor{cut, reset},
		Judge: func(c assertions.Case) spec.Finding {
			var y assertions.Tally
			n := 0
			for _, s := range dialled(c, flow.PeerHears) {
				switch {
				case !s.Failed():
					n++
					y.Span(s.Start, s.End)
				case s.Start >= c.Steady: // the peer is a good one
					y.Failed(c, s, s.End, "", "%s: before the app cut it", s.Stream.Kind())
				}
			}
			resets := 0
			for _, e := range saw(c, flow.PeerHears, timeline.PeerReset, timeline.PeerEndStream, timeline.PeerEnded) {
				switch open, _ := strconv.Atoi(e.Attrs["open"]); {
				case e.Attrs["what"] == timeline.PeerEndStream:
					y.Certain(e.At, "", "", "stream %s in tunnel %s ended by END_STREAM", e.Attrs["stream"], e.Attrs["conn"])
				case e.Attrs["what"] == timeline.PeerReset && e.Attrs["code"] == noError:
					y.Certain(e.At, "", "", "stream %s in tunnel %s was reset by %s, which says that nothing was wrong", e.Attrs["stream"], e.Attrs["conn"], e.Attrs["code"])
				case e.Attrs["what"] == timeline.PeerReset:
					resets++
				case e.Attrs["by"] != timeline.PeerItself && open > 1 && e.At < c.Tail:
					y.Against(e.At, "", "", "tunnel %s ended (%s) with %d streams in it: an app's cut is its own stream's", e.Attrs["conn"], e.Attrs["by"], open)
				}
			}
			for _, e := range unheard(c) {
				y.Late(c, e.At, "", "", "stream %s in tunnel %s: the peer heard nothing of its end, %s after the app had cut it", e.Attrs["stream"], e.Attrs["conn"], heardWithin)
			}
			y.Count(cut, n)
			y.Count(reset, resets)
			return y.Conclude(
				fmt.Sprintf("the app cut %d connections, and the peer heard %d streams reset and none end", n, resets),
				fmt.Sprintf("the app cut %d connections; %d times the peer heard of such an end as if that were all, or never, or something ended beside them", n, y.Culprits()))
		},
	}
}

// unheard are the CONNECTs, at the time by which their ends were to be heard, of streams of which the
// peer heard none by then. Each of its connections the app cuts after the same time.
func unheard(c assertions.Case) []timeline.Event {
	heard := map[string]time.Duration{} // by a stream's name, or a tunnel's
	name := func(e timeline.Event) string { return e.Attrs["conn"] + "/" + e.Attrs["stream"] }
	for _, e := range saw(c, flow.PeerHears, timeline.PeerReset, timeline.PeerEndStream, timeline.PeerEnded) {
		if _, there := heard[name(e)]; !there {
			heard[name(e)] = e.At
		}
	}
	var out []timeline.Event
	for _, e := range saw(c, flow.PeerHears, timeline.PeerConnect) {
		by := e.At + toHearing.Takes + heardWithin
		soon := func(name string) bool { at, there := heard[name]; return there && at <= by }
		if by < c.Tail && !soon(name(e)) && !soon(e.Attrs["conn"]+"/") {
			e.At = by
			out = append(out, e)
		}
	}
	return out
}
