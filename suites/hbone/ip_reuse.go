// SPDX-License-Identifier: Apache-2.0

package hbone

import (
	"cmp"
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
	"github.com/lastcall-dev/lastcall/suites/tunnel"
)

// The rule is the suite's own: no norm speaks of a mesh's promise.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "hbone.ip-reuse",
	Title: "A new pod at the address of one that is gone gets nothing that was for that one",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Section: "design", Quote: "A new pod with the same IP never gets the old tunnel's bytes.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE, spec.Bench},

	Why:    "A node gives the address of a pod that is gone to the next one, of anybody's, often within seconds, and for as long as discovery has not said so everywhere its peers send there what was for the old one. Only the certificates of both sides can tell: that is what they were brought in for. Who doesn't look hands one workload's requests, with all that is secret in them, to another.",
	Causes: "A source that keeps its tunnels by the address alone, or takes whoever of the mesh answers there. A node proxy that keeps names or certificates by the address, and shows the old pod's for the new one: then the source can't know.",
	Fix:    "Keep tunnels by address and identity, and hold the identity in the peer's certificate against the one that discovery names. Know workloads by their UIDs, and never by their addresses.",

	Topology:   behaviour.Staying,
	Disrupt:    behaviour.ReuseAddress,
	Traffic:    behaviour.NodeTraffic,
	Checks:     []assertions.Check{GetsOnlyItsOwn()},
	BrokenBy:   []spec.Fault{datapath.TrustsAnyPeer, nodeproxy.NamesByAddress},
	Resolution: 60 * time.Millisecond,
})

// newcomer is a pod at the address of one that is gone.
type newcomer struct {
	uid, name, address, old string
	// at is when it was ready there, and listed when discovery was told.
	at, listed time.Duration
}

func newcomersIn(c assertions.Case) []newcomer {
	var out []newcomer
	for _, e := range c.Timeline.EventsOf(timeline.AddressReused, "") {
		n := newcomer{uid: e.Subject, name: e.Name, address: e.Attrs["address"], old: e.Attrs["of"], at: e.At}
		for _, l := range c.Timeline.EventsOf(timeline.AddressListed, n.uid) {
			n.listed = l.At
		}
		out = append(out, n)
	}
	return out
}

// GetsOnlyItsOwn judges what the apps of pods received that came to the addresses of others, by their ledgers,
// against whom the clients of these requests had asked.
func GetsOnlyItsOwn() assertions.Check {
	came := assertions.Floor{Name: "pods of another workload that were ready at the address of one that was gone, before discovery heard of it", N: 2, Reason: "one on each node"}
	own := assertions.Floor{Per: "pod", Name: "requests that were for the new pod, and that it had", N: 20,
		Reason: "they show that it was there, and could be reached"}
	direct := assertions.Floor{Per: "pod", Name: "requests for the old pod by its address, that ended when the new one was there", N: 50}
	through := assertions.Floor{Name: "requests through the mesh for a Service that discovery had the old pods in, when the new ones were there", N: 50,
		Reason: "20 a second for some seconds, one in four of which for each of the old pods"}
	kept := assertions.Floor{Per: "pod", Name: "tunnels of our own client's to the old pod in which something had been answered before it was gone", N: 5,
		Reason: "a pool has few to each peer"}
	return assertions.Check{
		Name:     "what a pod receives at the address of another one",
		Expected: "nothing that its client had asked another one for",
		Floors:   []assertions.Floor{came, own, direct, through, kept},
		Judge: func(c assertions.Case) spec.Finding {
			var y assertions.Tally
			all := newcomersIn(c)
			y.Count(came, len(all))
			called := map[string]string{} // the pods, by their UIDs
			for _, e := range c.Timeline.EventsOf(timeline.PodSeen, "") {
				called[e.Subject] = e.Name
			}
			asked := map[string]timeline.Sample{} // by the requests' IDs
			for _, s := range c.Timeline.Samples {
				asked[s.ID] = s
			}
			total, elsewhere, service := 0, 0, 0
			for _, n := range all {
				y.Span(n.at, max(n.at, c.Tail))
				had, missed := 0, 0
				for _, e := range c.Timeline.Ledger {
					if e.Pod != n.uid || e.Step != timeline.Begin {
						continue
					}
					total++
					s, known := asked[e.ID]
					switch to := s.Stream.Target(); {
					case !known:
						y.Doubt("%s received a request of which no client says whom it was for", n.name)
					case to == n.uid:
						had++
					default:
						y.Certain(e.At, n.name, e.ID, "%s: %s, at %s where %s had been, received a request that was for %s: %s: %s",
							n.clock(e.At), n.name, n.address, whom(called, n.old), whom(called, to), s.Stream.Kind(), s.Outcome)
					}
				}
				for _, s := range c.Timeline.Samples {
					switch {
					case s.Stream.Target() == n.old && s.End > n.at:
						missed++
					case s.Stream.Flow().Path == flow.Service && s.Start > n.at && s.Start < n.listed:
						service++
					}
				}
				elsewhere += missed
				y.Least(own, n.name, had)
				y.Least(direct, n.name, missed)
				y.Least(kept, n.name, stoodTo(c, n))
			}
			y.Count(through, service)
			return y.Conclude(
				fmt.Sprintf("all %d requests that %s received were for it, while clients asked %d times for the pods that had been there", total, assertions.Plural(len(all), "new pod", "new pods"), elsewhere),
				fmt.Sprintf("%d of the %d requests that %s received were for others", y.Culprits(), total, assertions.Plural(len(all), "new pod", "new pods")))
		},
	}
}

// clock says when something was on the clock of a newcomer.
func (n newcomer) clock(at time.Duration) string {
	if at < n.at {
		return fmt.Sprintf("%s before it was ready", (n.at - at).Round(time.Millisecond))
	}
	return "ready + " + (at - n.at).Round(time.Millisecond).String()
}

// whom says for whom a request was, by its stream's target.
func whom(called map[string]string, target string) string {
	if target == "" {
		return "the Service"
	}
	return cmp.Or(called[target], target)
}

// stoodTo counts the tunnels of our own client's to the pod whose address a newcomer has, that carried something before.
func stoodTo(c assertions.Case, n newcomer) int {
	out := 0
	for _, k := range tunnel.Of(c, func(uid string) bool { return uid == n.old }) {
		if k.Stream.Flow().Conns == flow.New && !k.Silent() {
			continue
		}
		for _, s := range k.Samples {
			if s.First > 0 && s.First < n.at {
				out++
				break
			}
		}
	}
	return out
}
