// SPDX-License-Identifier: Apache-2.0

package hbone

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Uploads that our own client cuts in the middle: by RST_STREAM in tunnels that many share, and with the tunnel, which
// each has alone.
var (
	cutStreams = load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.Shared, Op: flow.Abandoned, Takes: 500 * time.Millisecond}, Rate: 5}
	cutTunnels = load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.New, Op: flow.Abandoned, Takes: 500 * time.Millisecond}, Rate: 6}
)

// RFC 9113 section 8.5: "Correspondingly, a proxy MUST send a TCP segment with the RST bit set if
// it detects an error with the stream or the HTTP/2 connection."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "hbone.cut-reaches-app",
	Title: "An upload that its client cuts in a tunnel, or with it, is an error to the application that reads it, and no end",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "RFC 9113", Section: "section 8.5", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-8.5",
		Quote: "Correspondingly, a proxy MUST send a TCP segment with the RST bit set if it detects an error with the stream or the HTTP/2 connection.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "A client that crashes, or gives up, leaves half of what it had to say. To an app whose protocol has no other end than that of its connection, a FIN behind that half says that it was all: it keeps half a file as a file.",
	Causes: "A proxy that closes the app's connection whatever ended the stream: a close is a FIN. One that resets it for RST_STREAM, and not for the streams of a tunnel that is lost.",
	Fix:    "Reset the app's connection (SO_LINGER of 0) for RST_STREAM, and for each stream that had not ended in a tunnel that is lost, be it by RST, by FIN or by close_notify.",

	Topology: behaviour.Tunnelled, GatewaysToo: true, NodesToo: true,
	Disrupt:    behaviour.EndBoth,
	Traffic:    []load.Profile{cutStreams, cutTunnels},
	Checks:     []assertions.Check{CutUploads()},
	BrokenBy:   []spec.Fault{datapath.CutsEndAtApp},
	Resolution: 60 * time.Millisecond,
})

// CutUploads judges how the connections of an app ended whose streams, or tunnels, the client cut in the middle of an
// upload: as the app itself wrote it down.
func CutUploads() assertions.Check {
	streams := assertions.Floor{Name: "uploads that the client cut by RST_STREAM, whose end the app has told", N: 50}
	tunnels := assertions.Floor{Per: "way", Name: "uploads whose tunnel the client cut, whose end the app has told", N: 20,
		Reason: "what ends a tunnel is told once, and not in a window"}
	return assertions.Check{
		Name:     "uploads that the client cuts",
		Expected: fmt.Sprintf("the app reads the end of each as an RST, and of none as a FIN, within %s, whether its stream was reset or its tunnel was cut by RST, FIN or close_notify", heardWithin),
		Floors:   []assertions.Floor{streams, tunnels},
		Needs:    []assertions.Evidence{assertions.Ledger, assertions.Uploads},
		Judge: func(c assertions.Case) spec.Finding {
			var y assertions.Tally
			by := map[timeline.Connection]string{}
			for _, f := range c.Timeline.Frames {
				if f.Kind == timeline.FrameClose && f.Attrs["by"] != "" {
					by[f.On()] = f.Attrs["by"]
				}
			}
			begun, done := c.Timeline.EntriesOf(timeline.Begin), c.Timeline.EntriesOf(timeline.Done)
			n := map[string]int{}
			for _, s := range c.Timeline.Samples {
				// One that failed somebody else ended before the client cut it.
				if f := s.Stream.Flow(); f.Op != flow.Abandoned || !f.Protocol.Tunnels() || s.Failed() {
					continue
				}
				way := timeline.PeerByReset
				if s.Stream.Flow().Conns == flow.New {
					way = by[s.On()]
				}
				y.Span(s.Start, s.End)
				within := s.End + heardWithin
				e, over := done[s.ID]
				switch b, is := begun[s.ID]; {
				case over && e.Ended == timeline.EndedByFIN && e.At > within: // it may be its kernel's, behind a kill
					n[way]++
					y.Against(e.At, "", s.ID, "%s, cut by %s: the app read a FIN behind %d bytes, %s later", s.Stream.Kind(), way, e.Bytes, (e.At - s.End).Round(time.Millisecond))
				case over && e.Ended == timeline.EndedByFIN:
					n[way]++
					y.Certain(e.At, "", s.ID, "%s, cut by %s: the app read a FIN behind %d bytes", s.Stream.Kind(), way, e.Bytes)
				case over && e.At <= within:
					if e.Ended == timeline.EndedByRST {
						n[way]++
					} // or the app ended it itself, at its own end
				case is && within < c.Tail && !gone(c, b.Pod, within):
					y.Late(c, within, "", s.ID, "%s, cut by %s: the app had heard nothing of it %s later", s.Stream.Kind(), way, heardWithin)
				}
			}
			y.Count(streams, n[timeline.PeerByReset])
			for _, way := range []string{timeline.PeerByRST, timeline.PeerByFIN, timeline.PeerByCloseNotify} {
				y.Least(tunnels, way, n[way])
			}
			all := n[timeline.PeerByReset] + n[timeline.PeerByRST] + n[timeline.PeerByFIN] + n[timeline.PeerByCloseNotify]
			return y.Conclude(
				fmt.Sprintf("all %d ended by an RST", all),
				fmt.Sprintf("the app heard of the end of %d uploads; %d times it read a FIN, or heard of one late or never", all, y.Culprits()))
		},
	}
}

// gone says whether an instance had exited by then: what it had not written down it never will.
func gone(c assertions.Case, uid string, by time.Duration) bool {
	for _, t := range c.Endings {
		if t.UID == uid && t.Exit.Known() && t.Exit.At <= by {
			return true
		}
	}
	return false
}
