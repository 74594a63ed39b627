// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"fmt"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/cni"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "cni.pod-not-stuck",
	Title: "A kubelet ends a pod within seconds when its node proxy, or its agent, is dead or does nothing",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Quote: "The node proxy or the agent is dead or stopped: DEL is bounded, the pod is never stuck.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Services, spec.HBONE},

	Why:    "What cni.del-agent-down says of the plugin's calls is only half of it: a kubelet whose runtime fails to remove a pod's network tries it again after ever longer pauses, and the pod is Terminating meanwhile, with its name, its volumes and its place in the quota. A rolling update, or the node's drain, waits for it, just when something is wrong with the node.",
	Causes: "The plugin's DEL fails when its agent does not answer, and leaves it to the runtime to try again. It waits without a bound of its own, and the runtime has none. The agent comes back only behind pods that are to be ended first.",
	Fix:    "Bound all that DEL waits for, to 5 s or so. When that is over forget the pod, succeed, and say on stderr that its peers may not have been told.",

	Topology:   behaviour.StayingFew,
	Disrupt:    behaviour.MuteNode,
	Traffic:    meanwhile,
	Checks:     []assertions.Check{PodIsGone()},
	BrokenBy:   []spec.Fault{cni.FailsWithoutAgent, cni.WaitsForEver},
	Resolution: 100 * time.Millisecond,
})

// goneWithin is how long after its app's exit a pod may still be there: what its DEL may take, and as long again for its
// kubelet and its runtime, which end the sandbox, and tell of it.
const goneWithin = 2 * bound

// PodIsGone judges the ends of pods whose node's proxy or agent was away meanwhile.
func PodIsGone() assertions.Check {
	ended := assertions.Floor{Per: "state", Name: "pods ended meanwhile whose end nobody acknowledged", N: 1, Reason: "one pod is deleted while each is away"}
	return assertions.Check{
		Name:     "pods that end while the proxy or the agent is stopped or dead",
		Expected: fmt.Sprintf("each is gone within %s of its app's exit", goneWithin),
		Floors:   []assertions.Floor{ended},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			total := 0
			var longest time.Duration
			each := map[string]int{}
			for t := range tally.Terminations(c) {
				if !t.Exit.Known() {
					tally.Doubt("%s: nobody saw its app exit", t.Name)
					continue
				}
				state := away(c, t)
				if state == "" {
					continue
				}
				total++
				if !t.Gone.Known() {
					if end := t.Exit.At + t.Exit.Err + goneWithin; seen(c, t.Exit.At) > end {
						tally.Late(c, end, t.Name, "", "with %s, %s is still there %s after its app's exit", state, t.Name, goneWithin)
						each[state]++
					} else {
						tally.Doubt("%s: nobody saw it go", t.Name)
					}
					continue
				}
				took := t.Gone.At - t.Exit.At
				longest = max(longest, took)
				tally.Span(t.Exit.At, t.Gone.At)
				late := took-t.Exit.Err > goneWithin
				if late {
					tally.Late(c, t.Exit.At+goneWithin, t.Name, "", "%s: with %s, %s is gone %s after its app's exit", t.Clock(t.Gone.At), state, t.Name, took.Round(time.Millisecond))
				}
				// One whose removal was acknowledged shows nothing: whoever was to be away was there again.
				if late || unheard(c, t) {
					each[state]++
				}
			}
			for _, down := range downs {
				tally.Least(ended, down.says, each[down.says])
			}
			return tally.Conclude(
				fmt.Sprintf("%s: the last was gone %s after its app's exit", assertions.Plural(total, "pod", "pods"), longest.Round(time.Millisecond)),
				fmt.Sprintf("up to %s passed from an app's exit until its pod was gone", longest.Round(time.Millisecond)))
		},
	}
}

// seen is until when the pods were watched without a gap, from an instant on.
func seen(c assertions.Case, from time.Duration) time.Duration {
	until := assertions.LastSeen(c)
	for _, e := range c.Timeline.EventsOf(timeline.WatchGap, "pods") {
		if e.At >= from {
			until = min(until, e.At)
		}
	}
	return until
}

// away says who of a pod's node was away when its app had exited, and how; "": nobody.
func away(c assertions.Case, t assertions.Ending) string {
	agent, proxy := timeline.CNIUp, timeline.CNIUp
	for _, e := range c.Timeline.EventsOf(timeline.Disruption, "") {
		if e.Attrs["what"] != string(disrupt.MuteNode) || e.Node != t.Node || e.At > t.Exit.At {
			continue
		}
		if is := e.Attrs["agent"]; is != "" {
			agent = is
		}
		if is := e.Attrs["proxy"]; is != "" {
			proxy = is
		}
	}
	for _, down := range downs {
		if down.agent == agent && down.proxy == proxy {
			return down.says
		}
	}
	return ""
}

// unheard says whether the plugin noted of a pod's end that its peers may not have been told.
func unheard(c assertions.Case, t assertions.Ending) bool {
	return slices.ContainsFunc(c.Timeline.EventsOf(timeline.CNIDel, t.UID), func(e timeline.Event) bool { return untold(e) != "" })
}
