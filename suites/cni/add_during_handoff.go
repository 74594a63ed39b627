// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/nodeagent"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

var _ = behaviour.Register(called(behaviour.Behaviour{
	ID:    "cni.add-during-handoff",
	Title: "Pods that begin while their node's proxy is being replaced are served at once, and by the one that stays",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Section: "the mesh's agent", Quote: "During a roll-out two clients are connected: Add needs the newest client's ack, Del goes to all.",
	}},

	Why:    "An update of the mesh takes minutes on a large cluster, and pods begin on each node meanwhile. Until the old proxy has drained there are two: one that a pod is given to must be the one that stays, or the pod is cut off from all others when the old one leaves, long after it began, and nothing says why.",
	Causes: "The agent gives a pod to the proxy that it knows best, or to the first that answers, and does not hand it on when that one goes. Or it waits for both to acknowledge a pod's begin, of which one is about to go.",
	Fix:    "Give a pod that begins to the newest proxy, and begin it when that one serves it. Hand what a proxy lacks to it when the one beside it goes.",

	Checks:   []assertions.Check{AddIsPromptMeanwhile(), ServedFromBegin()},
	BrokenBy: []spec.Fault{nodeagent.AddsToOldest},
}))

// AddIsPromptMeanwhile judges the ADDs of pods from a proxy's successor's start on.
func AddIsPromptMeanwhile() assertions.Check {
	before := assertions.Floor{Name: "pods that began before the old proxy was told to go", N: 1, Reason: "two do"}
	behind := assertions.Floor{Name: "pods that began behind that, before the old proxy was gone", N: 1, Reason: "two do"}
	return assertions.Check{
		Name:     "calls of ADD while the proxy is being replaced",
		Expected: fmt.Sprintf("each succeeds within %s", prompt),
		Floors:   []assertions.Floor{before, behind},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			told := toldToGo(c)
			all := callsOf(c, &tally, "ADD", func(k call) bool { return k.proxy == timeline.CNIReplaced })
			early, late := 0, 0
			for _, k := range all {
				switch is, was := told.behind(k); {
				case !was:
				case !is:
					early++
				default:
					late++
				}
			}
			tally.Count(before, early)
			tally.Count(behind, late)
			return promptly(c, &tally, all, assertions.Plural(len(all), "ADD", "ADDs"))
		},
	}
}

// ServedFromBegin judges connections out of pods that began in that time, while the old proxy is there and when it has gone.
func ServedFromBegin() assertions.Check {
	with := assertions.Floor{Name: "connections out of pods that began meanwhile, while the old proxy was there", N: 2, Reason: "each of four pods has one"}
	without := assertions.Floor{Name: "connections out of pods that began meanwhile, when the old proxy had gone", N: 2, Reason: "each of four pods has one"}
	return assertions.Check{
		Name:     "connections out of pods that begin while the proxy is being replaced",
		Expected: "each is answered through a proxy, while the old one is there and when it has gone",
		Floors:   []assertions.Floor{with, without},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			meanwhile, behind := 0, 0
			for _, e := range c.Timeline.EventsOf(timeline.PodAsked, "") {
				took, err := time.ParseDuration(e.Attrs["took"])
				if err != nil {
					tally.Doubt("a connection out of %s: nobody measured how long it took", e.Name)
					continue
				}
				tally.Span(e.At-took, e.At)
				when := "while the old proxy was there"
				if e.Attrs["proxy"] == timeline.CNIUp {
					when = "when the old proxy had gone"
					behind++
				} else {
					meanwhile++
				}
				held, looked := e.Attrs["held"]
				switch why := e.Attrs["error"]; {
				case why != "" && took > bound: // its time was over
					tally.Late(c, e.At, e.Name, "", "%s: %s", when, why)
				case why != "":
					tally.Against(e.At, e.Name, "", "%s: %s", when, why)
				case !looked:
					tally.Doubt("a connection out of %s: nobody looked for a proxy in its network", e.Name)
				case held == "":
					tally.Against(e.At, e.Name, "", "%s: no proxy has a socket in the network of %s, whose connection was answered past it", when, e.Name)
				}
			}
			tally.Count(with, meanwhile)
			tally.Count(without, behind)
			all := assertions.Plural(meanwhile+behind, "connection", "connections")
			return tally.Conclude(
				fmt.Sprintf("all %s out of pods that began meanwhile were answered", all),
				fmt.Sprintf("%d of %s out of pods that began meanwhile were not answered", tally.Culprits(), all))
		},
	}
}
