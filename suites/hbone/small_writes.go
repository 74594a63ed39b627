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
	"github.com/lastcall-dev/lastcall/suites/tunnel"
)

// aside are tunnels of our own client's in which nothing of note happens.
var aside = load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.Shared, Op: flow.Get}, Rate: 10}

// dripping is one upload in 15 s that is written byte by byte, 1,000 at once ten times a second, and its neighbours: ten
// connections of a second each that begin in a second, in two tunnels. It is the client that misbehaves.
var dripping = load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.Shared, Op: flow.Drip, Takes: 10 * time.Second}, Rate: 10}

var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "hbone.small-writes",
	Title: "100,000 writes of one byte each through a tunnel cut neither it nor its neighbours",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "project", Section: "after ztunnel issue 2100", URL: "https://github.com/istio/ztunnel/issues/2100",
		Quote: "When the fix trips, it sends GOAWAY for the tunnel severing the connections riding on that hbone tunnel.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "What an app writes, in pieces as small as it likes, is no attack on the proxy that carries it: databases and terminals write so. A tunnel that is cut for it takes with it all other connections between the two pods, whose apps did nothing.",
	Causes: "A guard of the HTTP/2 library against floods of small DATA frames, whose limit is for requests of browsers, and counts what is a whole pod's traffic in a tunnel. A window that small frames use up and that is not given back for them.",
	Fix:    "Where each stream is somebody's connection, and the peer is known by its certificate, don't count the size of DATA against it: the windows of flow control bound what it can have you keep. Join small writes before they are sent.",

	Topology: behaviour.Sourcing, NodesToo: true,
	Disrupt:    behaviour.PeersMisbehave,
	Traffic:    []load.Profile{aside, dripping},
	Checks:     []assertions.Check{SurvivesSmallWrites()},
	BrokenBy:   []spec.Fault{datapath.CountsSmallWrites},
	Resolution: 60 * time.Millisecond,
})

// SurvivesSmallWrites judges uploads that are written byte by byte, and the connections in their tunnels meanwhile.
func SurvivesSmallWrites() assertions.Check {
	whole := assertions.Floor{Name: "streams of 100,000 writes of one byte each that came to their end", N: 2,
		Reason: "each is the rule by itself"}
	beside := assertions.Floor{Name: "connections in a tunnel while such a stream was in it", N: 100}
	return assertions.Check{
		Name:     "tunnels with a stream of small writes in them",
		Expected: "100,000 writes of one byte each come whole to the app, and no other connection in their tunnel is cut or hangs",
		Floors:   []assertions.Floor{whole, beside},
		Judge: func(c assertions.Case) spec.Finding {
			var y assertions.Tally
			ended, others, cut := 0, 0, 0
			for _, k := range tunnel.Of(c, func(string) bool { return true }) {
				for _, d := range k.Samples {
					if d.Stream.Flow().Op != flow.Drip || d.Brief || d.End < c.Steady {
						continue
					}
					y.Span(d.Start, d.End)
					into := func(at time.Duration) string {
						return fmt.Sprintf("%s: %s into a stream of small writes%s", k, (at - d.Start).Round(time.Millisecond), goneBy(k, at))
					}
					if d.Failed() {
						cut++
						y.Failed(c, d, d.End, "", "%s: this stream", into(d.End))
					} else {
						ended++
					}
					for _, s := range k.Samples {
						if !s.Brief || s.End < max(d.Start, c.Steady) || s.Start > d.End || s.Outcome.SafeToRetry() {
							continue
						}
						others++
						if s.Failed() {
							y.Failed(c, s, s.End, "", "%s: another one in the tunnel", into(s.End))
						}
					}
				}
			}
			y.Count(whole, ended)
			y.Count(beside, others)
			return y.Conclude(
				fmt.Sprintf("%d streams of 100,000 writes each came whole to the app, and so did all %d others in their tunnels", ended, others),
				fmt.Sprintf("%d of %s of small writes failed, and %d of %s beside them", cut, assertions.Plural(cut+ended, "stream", "streams"), y.Culprits()-cut, assertions.Plural(others, "connection", "connections")))
		},
	}
}

// goneBy says by which word a tunnel had been told to go by an instant.
func goneBy(k tunnel.Tunnel, at time.Duration) string {
	for _, f := range k.Frames {
		if f.Kind == timeline.FrameGoAway && f.At <= at {
			return fmt.Sprintf(", %s after a GOAWAY with %s", (at - f.At).Round(time.Millisecond), f.Attrs["code"])
		}
	}
	return ""
}
