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

// Connections to a peer that says nothing more in the tunnels that it has: short ones, and long ones, so
// that there is a tunnel with something in it at any time.
var (
	toSilent     = load.Profile{Flow: flow.Flow{Path: flow.PeerSilent, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 5}
	longToSilent = load.Profile{Flow: flow.Flow{Path: flow.PeerSilent, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Slow, Takes: 3 * time.Second}, Rate: 1}
)

// RFC 9113 section 6.7: "The PING frame (type=0x06) is a mechanism for measuring a minimal
// round-trip time from the sender, as well as determining whether an idle connection is
// still functional."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "hbone.keepalive",
	Title: "A peer that has died without a word is noticed within 30 s, and its tunnel given up",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "RFC 9113", Section: "section 6.7", URL: "https://www.rfc-editor.org/rfc/rfc9113#section-6.7",
		Quote: "The PING frame (type=0x06) is a mechanism for measuring a minimal round-trip time from the sender, as well as determining whether an idle connection is still functional.",
	}, {
		Doc: "project", Section: "after ztunnel issue 1191", URL: "https://github.com/istio/ztunnel/issues/1191",
		Quote: "keepalives (which we already have)",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "A node that loses its power says no GOAWAY and no FIN. Its peers' tunnels look as good as ever, and each new connection of their apps goes into one: all of them hang, until the kernel gives up after a quarter of an hour, though the pod may long be back.",
	Causes: "A pool without PINGs. One that asks on idle tunnels only, while its app's attempts keep the tunnel in use. A timeout of the kernel's (TCP_USER_TIMEOUT), which is no answer where the host's kernel lives and its proxy does not.",
	Fix:    "Ask by PING where nothing has come for some seconds, whatever is sent, and give up a tunnel whose PING is not answered in some seconds more. What is in it is cut, visibly.",

	Topology: behaviour.Sourcing, NodesToo: true,
	Disrupt:    behaviour.PeersMisbehave,
	Traffic:    []load.Profile{toSilent, longToSilent},
	Checks:     []assertions.Check{NoticesSilence()},
	BrokenBy:   []spec.Fault{datapath.NeverAsks},
	Resolution: 60 * time.Millisecond,
})

// noticedWithin is how long a source may take to notice a peer's silence: the interval and the timeout
// of its PINGs, of which those of the reference are 10 s and 20 s, as others have them.
const noticedWithin = 30 * time.Second

// givesUp is how much longer its app may take to see that: the next connection is in another tunnel.
const givesUp = 2 * time.Second

// NoticesSilence judges when the connections of an app to a peer are served again, in whose tunnels
// nothing is said any more, and which takes new ones; and when the tunnels were given up.
func NoticesSilence() assertions.Check {
	silent := assertions.Floor{Name: "tunnels in which the peer said nothing more", N: 1,
		Reason: "a pool has one tunnel to a peer, as long as that has room"}
	hung := assertions.Floor{Name: "connections that went into such a tunnel", N: 1,
		Reason: "that one failed or was late shows that there was something to notice; the sooner a source does, the fewer there are"}
	after := assertions.Floor{Name: fmt.Sprintf("connections from %s after the silence began", noticedWithin+givesUp), N: 20,
		Reason: "what is left of the recording then: a tunnel that was not given up fails all of them"}
	return assertions.Check{
		Name:     "tunnels in which the peer says nothing more",
		Expected: fmt.Sprintf("the source gives each up within %s, and from then on its app's connections are served in others", noticedWithin),
		Floors:   []assertions.Floor{silent, hung, after},
		Judge: func(c assertions.Case) spec.Finding {
			var y assertions.Tally
			ended := map[string]time.Duration{} // by their numbers
			for _, e := range saw(c, flow.PeerSilent, timeline.PeerEnded) {
				ended[e.Attrs["conn"]] = e.At
			}
			from := time.Duration(0)
			all := saw(c, flow.PeerSilent, timeline.PeerSilent)
			var slowest time.Duration
			for _, e := range all {
				from = max(from, e.At)
				until := e.At + noticedWithin
				switch at, over := ended[e.Attrs["conn"]]; {
				case over && at <= until+givesUp:
					slowest = max(slowest, at-e.At)
				case over || c.Tail > until+givesUp:
					y.Late(c, until, "", "", "tunnel %s still stood, %s after the peer had said its last in it", e.Attrs["conn"], noticedWithin)
				default:
					y.Doubt("the recording ends before tunnel %s, in which nothing was said any more, had to be given up", e.Attrs["conn"])
				}
			}
			y.Count(silent, len(all))
			into, later := 0, 0
			for _, s := range dialled(c, flow.PeerSilent) {
				switch {
				case from == 0 || s.Start < from:
				case s.Start < from+noticedWithin+givesUp:
					if s.Failed() || s.End-s.Start > assertions.Patience(s) {
						into++
					}
				default:
					later++
					y.Span(from, s.End)
					if s.Failed() {
						y.Failed(c, s, s.End, "", "silence + %s", (s.End - from).Round(time.Millisecond))
					}
				}
			}
			y.Count(hung, into)
			y.Count(after, later)
			return y.Conclude(
				fmt.Sprintf("given up after %s at most; %d connections had gone into them, and all %d that came later were served", slowest.Round(10*time.Millisecond), into, later),
				fmt.Sprintf("%s stood for longer than %s, and connections hung in them", assertions.Plural(len(all), "tunnel", "tunnels"), noticedWithin))
		},
	}
}
