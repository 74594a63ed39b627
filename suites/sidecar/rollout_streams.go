// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// streamTakes is how long a long stream is. An app that is told to go while it has one in hand needs
// so much for it beyond the time in which it accepts (BesideStreaming).
const streamTakes = 15 * time.Second

// A stream through a mesh ends with its tunnel. Long ones and short ones share tunnels here, and the
// pods at both of their ends are replaced under them.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "sidecar.rollout-streams",
	Title: "A rolling update of pods with sidecars fails no request, and cuts no long stream before the app's deadline",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Section: "after RFC 9113, section 6.8", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-6.8",
		Quote: "Tunnels that are told to go end when the streams in them have ended, and not before.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HTTP1, spec.TCP, spec.WebSocket, spec.GRPC},

	Why:    "A tunnel carries the connections of many clients. One that is ended for the sake of a pod's drain takes with it every chat, watch and upload in it, at once, on both sides; each of them the app would have let end.",
	Causes: "A proxy that ends tunnels by a timer of its own, shorter than the app's deadline. A new tunnel for what comes behind GOAWAY, and the old one closed with what is in it. Short requests that hold a tunnel's windows.",
	Fix:    "Let a tunnel end with the last stream in it, and the proxy with the last tunnel or the app's deadline, whichever is first.",

	Topology: behaviour.BesideStreaming,
	Disrupt:  behaviour.RollingUpdate,
	// 500 requests a second, and 200 streams at once.
	Traffic: slices.Concat(behaviour.FiveHundred, []load.Profile{
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.TCP, Conns: flow.New, Op: flow.Talk, Takes: streamTakes}, Rate: 5},
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.WebSocket, Takes: streamTakes}, Rate: 4.5},
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.H2C, Conns: flow.Shared, Op: flow.Bidi, Takes: streamTakes}, Rate: 4.5},
	}),
	Checks:     []assertions.Check{assertions.ZeroFailed(), StreamsLast()},
	BrokenBy:   []spec.Fault{sidecar.HurriesOut},
	Resolution: 60 * time.Millisecond,
})

// StreamsLast judges that each long stream that was under way while pods were replaced came to its own
// end: nobody cut it, visibly or not.
func StreamsLast() assertions.Check {
	atOnce := assertions.Floor{Name: "long streams under way at the instant of the fewest", N: 150}
	inHand := assertions.Floor{Per: "termination", Name: "long streams that the pod had in hand at D", N: 5,
		Reason: "of 200 six pods have some 30 each, where none has just come",
	}
	return assertions.Check{
		Name:     "long streams that were under way while pods were replaced",
		Expected: "each came to its own end, whole",
		Floors:   []assertions.Floor{atOnce, inHand},
		Judge: func(c assertions.Case) spec.Finding {
			var y assertions.Tally
			var long []timeline.Sample
			for _, s := range c.Timeline.Samples {
				if f := s.Stream.Flow(); f.Path == flow.Service && f.Takes >= streamTakes {
					long = append(long, s)
				}
			}
			from, to, ended, hit, lost := time.Duration(0), time.Duration(0), 0, 0, 0
			fewest := len(long)
			for t := range y.Terminations(c) {
				ended++
				if from == 0 || t.Earliest() < from {
					from = t.Earliest()
				}
				to = max(to, t.Exit.At, t.Drain.At)
				at, own, cut := 0, 0, 0
				for _, s := range long {
					if s.Start >= t.Drain.At || s.End <= t.Drain.At {
						continue
					}
					at++
					if s.Reached == t.UID {
						own++
					}
					if s.Failed() && s.End <= t.Exit.At+c.P {
						cut = 1
					}
				}
				hit += cut
				fewest = min(fewest, at)
				y.Least(inHand, t.Name, own)
			}
			y.Span(from, to)
			all := 0
			for _, s := range long {
				if s.End < from || s.Start > to {
					continue
				}
				all++
				if s.Failed() {
					lost++
					y.Failed(c, s, s.End, s.Reached, "%s after it began", (s.End - s.Start).Round(time.Millisecond))
				}
			}
			y.Count(atOnce, fewest)
			f := y.Conclude(
				fmt.Sprintf("all %d long streams came to their own end, over %s", all, assertions.Plural(ended, "termination", "terminations")),
				fmt.Sprintf("%d of %d long streams did not come to their own end", lost, all))
			f.Bounds = spec.BoundsOf(ended, hit, all, lost)
			return f
		},
	}
}
