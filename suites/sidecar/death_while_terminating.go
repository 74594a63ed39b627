// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// KEP-753, proposal: "Note, a separate KEP https://github.com/kubernetes/enhancements/issues/4438 will
// enable sidecar containers to be restarted even during Pod termination." The kubelets of 1.34 to 1.37
// do not. What becomes of the app's clients then is the project's.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "sidecar.death-while-terminating",
	Title: "The death of a sidecar that terminates is told to its clients at once",
	Level: spec.Should,
	Refs: []spec.Ref{
		{
			Doc: "project", Section: "sidecars",
			Quote: "What is lost with a sidecar that dies while its pod terminates begins after its death, or stood at it, and fails within a second: nothing hangs.",
		},
		{
			Doc: "project", Section: "sidecars",
			Quote: "What is cut with it in the middle of an answer ends by an RST: a FIN says that this was all.",
		},
		{
			Doc: "KEP-753", Section: "proposal", URL: "https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/753-sidecar-containers#proposal",
			Quote: "Note, a separate KEP https://github.com/kubernetes/enhancements/issues/4438 will enable sidecar containers to be restarted even during Pod termination.",
		},
	},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Pods, spec.Services, spec.HTTP},

	Why:    "No kubelet brings a sidecar back that dies while its pod terminates, and the app behind it goes on draining, unreachable. A client that is refused goes elsewhere at once; one that hears nothing waits for its own timeout, request by request.",
	Causes: "Redirect rules that drop what no listener stands for, or send it to where nobody is. A peer's proxy that waits for a tunnel whose other end is gone. A cut that reaches the application as nothing at all. The kernel closes what a killed process had open by a FIN, and half an answer looks whole.",
	Fix:    "Redirect by NAT to the proxy's port, and let the kernel refuse there. At the peer's side end each stream of a tunnel with that tunnel, by RST, and answer a tunnel that can't be opened at once. Set SO_LINGER to 0 on the app's connections while they are carried: then the kernel resets them.",

	Topology:   behaviour.BesideNative,
	Disrupt:    behaviour.BereaveEach,
	Traffic:    bereft,
	Checks:     []assertions.Check{DeathIsTold(), DeathIsVisible()},
	BrokenBy:   []spec.Fault{sidecar.DropsUnheard, datapath.KilledEndsClean},
	Resolution: 100 * time.Millisecond,
})

// bereft is what is sent to apps whose sidecars die, and what these send out.
var bereft = []load.Profile{
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 25},
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2C, Conns: flow.New, Op: flow.Get}, Rate: 10},
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Slow, Takes: 2 * time.Second}, Rate: 5},
	// What comes in the peers' sidecars end. What the app sends out itself ends as its dead sidecar left it.
	{Flow: flow.Flow{Path: flow.Outbound, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Slow, Takes: 2 * time.Second}, Rate: 8},
}

// tellWithin is how long after a sidecar's death its clients may wait for an answer that won't come.
const tellWithin = time.Second

// DeathIsTold judges what is lost with a sidecar that was killed in mid termination: nothing from the deletion to
// its death, and from there to the app's own exit nothing that its client has to wait for.
func DeathIsTold() assertions.Check {
	offered := assertions.Floor{Per: "termination", Name: "requests begun between the sidecar's death and the app's exit", N: 50}
	lost := assertions.Floor{Per: "termination", Name: "of these lost", N: 1,
		Reason: "a loss shows that the sidecar was missed; how many there are is not what is asked",
	}
	return assertions.Check{
		Name:     "requests to an instance whose sidecar was killed",
		Expected: fmt.Sprintf("none is lost from D until the sidecar is killed, and what is lost then, the app's own calls too, fails within %s", tellWithin),
		Floors:   []assertions.Floor{offered, lost},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all, own, longest := 0, 0, time.Duration(0)
			for t := range tally.Terminations(c) {
				killed, death, why := bereaved(c, t)
				if why != "" {
					tally.Doubt("%s", why)
					continue
				}
				// What begins later than that may be answered by nobody because the pod is gone.
				end := t.Exit.At - t.Exit.Err - tellWithin
				tally.Span(t.Drain.At, end)
				begun, gone := 0, 0
				for _, s := range c.Timeline.Samples {
					path := s.Stream.Flow().Path
					if s.Stream.Target() != t.UID || path != flow.Direct && path != flow.Outbound || s.End < t.Earliest() || s.Start > end {
						continue
					}
					if path == flow.Direct && s.Start >= death.At+death.Err && !s.Saturated {
						begun++
					}
					switch {
					case !s.Failed():
						continue
					case s.End >= killed:
					case path == flow.Direct:
						tally.Failed(c, s, s.End, t.Name, "%s: %s before the sidecar was killed", t.Clock(s.End), (killed - s.End).Round(time.Millisecond))
						continue
					default:
						continue // of what the app sends out while it has its sidecar sidecar.outbound-until-app-exits speaks
					}
					if path == flow.Direct {
						gone++
					} else {
						own++
					}
					took := s.End - max(s.Start, death.At)
					longest = max(longest, took)
					if took-death.Err > tellWithin {
						tally.Late(c, s.End, t.Name, s.ID, "%s: %s: %s, after %s in which nobody told its client", t.Clock(s.End), s.Stream.Kind(), s.Outcome, took.Round(time.Millisecond))
					}
				}
				all += gone
				tally.Least(offered, t.Name, begun)
				tally.Least(lost, t.Name, gone)
			}
			return tally.Conclude(
				fmt.Sprintf("%s with a sidecar, and %s of the app's own, each told %s after its death or its own begin at most", assertions.Plural(all, "request was lost", "requests were lost"), assertions.Plural(own, "call", "calls"), longest.Round(time.Millisecond)),
				fmt.Sprintf("%s failed before the sidecar's death, or more than %s after it and its own begin", assertions.Plural(tally.Culprits(), "request", "requests"), tellWithin))
		},
	}
}

// DeathIsVisible judges the answers that were under way, to an app and to its clients, when its sidecar was killed.
func DeathIsVisible() assertions.Check {
	cut := assertions.Floor{Per: "termination", Name: "answers to calls of the app's that were cut then", N: 5, Reason: "eight begin each second, and take two"}
	return assertions.Check{
		Name:     "answers that were under way when a sidecar was killed",
		Expected: "each that did not come to its end is cut by an RST, and not by a FIN",
		Floors:   []assertions.Floor{cut},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all := 0
			for t := range tally.Terminations(c) {
				killed, death, why := bereaved(c, t)
				if why != "" {
					tally.Doubt("%s", why)
					continue
				}
				tally.Span(killed, death.At+death.Err+tellWithin)
				own := 0
				for _, s := range c.Timeline.Samples {
					f := s.Stream.Flow()
					if s.Stream.Target() != t.UID || s.First == 0 || s.First >= killed || s.End < killed || !s.Failed() || f.Path != flow.Direct && f.Path != flow.Outbound {
						continue
					}
					switch s.Outcome {
					case timeline.Reset:
					case timeline.Truncated, timeline.Closed:
						tally.Against(s.End, t.Name, s.ID, "%s: %s: %s, as if its sidecar had ended it", t.Clock(s.End), s.Stream.Kind(), s.Outcome)
					default:
						continue // how long it took to be told is DeathIsTold's
					}
					all++
					if f.Path == flow.Outbound {
						own++
					}
				}
				tally.Least(cut, t.Name, own)
			}
			return tally.Conclude(
				fmt.Sprintf("all %d that were cut ended by an RST", all),
				fmt.Sprintf("%d of %s by a FIN", tally.Culprits(), assertions.Plural(all, "that was cut ended", "that were cut ended")))
		},
	}
}

// bereaved is when the sidecar of an instance was killed while it terminated, and when the witness
// saw that it was gone, or why that is not known. Its sockets are closed between the two.
func bereaved(c assertions.Case, t assertions.Ending) (killed time.Duration, death timeline.Event, why string) {
	for _, e := range c.Timeline.EventsOf(timeline.Disruption, t.UID) {
		if e.Attrs["what"] == string(disrupt.KillSidecar) && e.Attrs["error"] == "" {
			killed = e.At
		}
	}
	if killed == 0 {
		return 0, death, fmt.Sprintf("nobody killed the sidecar of %s", t.Name)
	}
	if !t.Exit.Known() {
		return 0, death, fmt.Sprintf("nobody saw the app of %s exit", t.Name)
	}
	for _, e := range ofSidecar(c, besideApp(c, t)) {
		if e.At >= killed {
			return killed, e, ""
		}
	}
	return 0, death, fmt.Sprintf("nobody saw the sidecar of %s go when it was killed", t.Name)
}
