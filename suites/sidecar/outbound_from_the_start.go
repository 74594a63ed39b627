// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
	"github.com/lastcall-dev/lastcall/suites/tunnel"
)

// KEP-753, problems: "you want the service mesh container to be running and ready before other
// containers start, so that any inbound/outbound connections that a container can initiate go through
// the service mesh."
//
// That is a wish, which a plain container can't fulfil: nothing says what becomes of what its app sends
// out before it listens. So the first calls are counted and told, and not judged. That nothing goes in
// plain text is no MUST here: the rule of hbone.no-plaintext begins when the source's discovery has
// spoken, and this source has heard nothing yet.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "sidecar.outbound-from-the-start",
	Title: "An app that starts before its sidecar loses no call once one was served, and sends none past it",
	Level: spec.Should,
	Refs: []spec.Ref{
		{
			Doc: "project", Section: "sidecars",
			Quote: "Once a call of an app's was served, none that begins later is lost until the app has gone; and none goes out in plain text, whether the sidecar listens yet or not.",
		},
		{
			Doc: "KEP-753", Section: "problems: service mesh", URL: "https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/753-sidecar-containers#problems-service-mesh",
			Quote: "you want the service mesh container to be running and ready before other containers start, so that any inbound/outbound connections that a container can initiate go through the service mesh.",
		},
	},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HTTP},

	Why:    "The containers of a pod start side by side, and an app dials its database before its sidecar listens. A call that is refused then is tried again by most clients. One that a sidecar takes and loses, because it listens and can't carry yet, is not; and one that goes past it in plain text is served, and nobody hears that it was read along.",
	Causes: "A proxy that listens before it has its certificate, or has heard who is where. One that passes everything on in plain text until it has. Redirect rules that are written by the proxy itself, when it is ready.",
	Fix:    "Write the redirect rules before the app starts, and listen when the first connection can be carried. Better, make it a native sidecar (an init container with restartPolicy: Always): the app starts when its startup probe is good.",

	Topology:   behaviour.BesideLate,
	Disrupt:    behaviour.DeleteLate,
	Traffic:    Calls,
	Checks:     []assertions.Check{CallsThroughProxy(CallsServedOnceServed())},
	BrokenBy:   []spec.Fault{sidecar.LosesFirst, sidecar.PlainAtFirst},
	Resolution: 60 * time.Millisecond,
})

// CallsServedOnceServed judges that no call of an instance is lost that begins after one was served, to
// its end, and that none went in plain text where somebody watches the wire, as the bench does. What it
// called before is told.
func CallsServedOnceServed() assertions.Check {
	early := assertions.Floor{Per: "termination", Name: "calls that failed before one was served", N: 50,
		Reason: "the app begins with its start, a hundred a second, and its sidecar listens 3 s later"}
	later := assertions.Floor{Per: "termination", Name: "calls that began after one was served", N: 1000}
	tunnels := assertions.Floor{Per: "termination", Name: "tunnels from its pod that the wire had, where that is watched", N: 1,
		Reason: "it shows that what passes is seen; a pool needs few of them"}
	return assertions.Check{
		Name:     "what the app sends out from its start",
		Expected: "every call is served that begins after the first that was, to the app's end; and none goes in plain text, which is judged where somebody watches the nodes' wires: on the bench, and on clusters that the suite made",
		Floors:   []assertions.Floor{early, later, tunnels},
		Judge: func(c assertions.Case) spec.Finding {
			var y assertions.Tally
			had := tunnels.OnWire(c)
			whole, away := wholeAtPeer(c), peerAway(c)
			of, lost, ended, plain := 0, 0, 0, 0
			ways := map[string]int{}
			for t := range y.Terminations(c) {
				ended++
				all := callsOf(c, t.UID)
				first, from := firstServed(all)
				last := t.Drain.At
				before, after := 0, 0
				for _, s := range all {
					last = max(last, s.End)
					switch {
					case first != 0 && s.Start >= first && s.Failed():
						since := (s.Start - first).Round(time.Millisecond)
						if away.at(s) {
							y.Doubt("%s of %s failed %s after the first call was served, while who is called was no endpoint of its Service", s.Stream.Kind(), t.Name, since)
							continue
						}
						lost++
						y.Failed(c, s, s.Start, t.Name, "%s after the first call was served", since)
						fallthrough
					case first != 0 && s.Start >= first:
						after++
					case s.Failed():
						before++
						ways[fmt.Sprintf("%s (%s)", s.Outcome, s.Phase)]++
					}
					if !s.Failed() && !whole[s.ID] {
						y.Doubt("%s was answered at %s, and the ledger of who answered it does not have it whole", s.Stream.Kind(), t.Name)
					}
				}
				of += after
				y.Span(from, last)
				y.Least(early, t.Name, before)
				y.Least(later, t.Name, after)
				lastWord(&y, c, t)
				seen := 0
				for _, e := range c.Timeline.EventsOf(timeline.Wire, "") {
					switch made, tunnelled := dialledBy(e, t); {
					case !made:
					case tunnelled:
						seen++
					default:
						plain++
						y.Certain(e.At, t.Name, "", "a connection from %s to %s was no tunnel", e.Attrs["from"], e.Attrs["to"])
					}
				}
				y.Least(had, t.Name, seen)
			}
			y.SeenWire(c)
			wire := fmt.Sprintf("%d connections were no tunnels", plain)
			switch {
			case !c.Wired:
				wire = "whether any went in plain text was not judged: nobody watches the wire here"
			case plain == 0:
				wire = "the wire had tunnels only"
			}
			pods := assertions.Plural(ended, "app", "apps")
			return y.Conclude(
				fmt.Sprintf("of the %d calls of %s that began after the first that was served none was lost; before it failed %s; %s", of, pods, told(ways), wire),
				fmt.Sprintf("of the %d calls of %s that began after the first that was served %d were lost; %s; before it failed %s", of, pods, lost, wire, told(ways)))
		},
	}
}

// firstServed is when the first call that went well had been answered, 0 where none did, and when the
// first call of all began.
func firstServed(all []timeline.Sample) (first, from time.Duration) {
	for i, s := range all {
		if i == 0 || s.Start < from {
			from = s.Start
		}
		if !s.Failed() && (first == 0 || s.End < first) {
			first = s.End
		}
	}
	return first, from
}

// told says how many calls failed in which way, "none" for no way.
func told(ways map[string]int) string {
	var out []string
	for _, way := range slices.Sorted(maps.Keys(ways)) {
		out = append(out, fmt.Sprintf("%d: %s", ways[way], way))
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

// dialledBy says whether an event of the wire is of a connection that an instance has made, and whether that is a tunnel.
func dialledBy(e timeline.Event, t assertions.Ending) (made, tunnelled bool) {
	from, _, err := net.SplitHostPort(e.Attrs["from"])
	if err != nil || !t.IsAt(from) || e.Attrs["what"] != timeline.WireDialled {
		return false, false
	}
	to := e.Attrs["to"]
	_, _, err = net.SplitHostPort(to)
	return err == nil, tunnel.Takes(to)
}
