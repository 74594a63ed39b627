// SPDX-License-Identifier: Apache-2.0

package cni

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/nodeagent"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

var _ = behaviour.Register(called(behaviour.Behaviour{
	ID:    "cni.delete-during-handoff",
	Title: "Pods that are deleted while their node's proxy is being replaced are gone at once, all of them",
	Level: spec.Must,
	Refs: []spec.Ref{{
		Doc: "project", Quote: "Pods that are deleted while the node proxy is being replaced are gone within the bound, all of them, and nothing waits for an acknowledgement that can't come.",
	}},

	Why:    "An update of the mesh replaces every node's proxy while pods come and go, a rolling update of apps among them. There are two proxies then, and one of them goes. Who waits for the word of one that goes, or has gone, holds each pod that ends just then up to his own bound.",
	Causes: "The agent waits for the acknowledgement of each proxy that was told, and does not see that one has closed its connection. The old proxy no more reads what its agent says once it is told to go, and keeps the connection open until it has drained. The agent holds a lock over that wait, without which no proxy comes or goes: of the end of the one that it waits for it does not hear. Or it tells the newest proxy alone, and the other one goes on with a pod that is gone.",
	Fix:    "Tell all proxies that there are of a pod's end. Have a proxy acknowledge removals until its own end. In the agent, take a connection that closes for an acknowledgement: who has gone holds nothing. Hold no lock over the wait that the end of a connection takes.",

	Checks:   []assertions.Check{DelIsPromptMeanwhile(), NothingHeldMeanwhile()},
	BrokenBy: []spec.Fault{nodeproxy.DeafOnceTold, nodeagent.HoldsLockAtRemoval, nodeagent.EndsAtNewest},
}))

// prompt is less than anybody waits for an acknowledgement that does not come, and several times what one
// takes that does.
const prompt = 2 * time.Second

// DelIsPromptMeanwhile judges the DELs of pods from the start of a proxy's successor on, until the proxy is gone.
func DelIsPromptMeanwhile() assertions.Check {
	before := assertions.Floor{Name: "pods that the plugin knew, and that were ended before the old proxy was told to go", N: 1, Reason: "one is ended each 300 ms from the successor's start on"}
	behind := assertions.Floor{Name: "pods that the plugin knew, and that were ended behind that, before the old proxy was gone", N: 3, Reason: "five are ended 300 ms apart, and a connection keeps the old proxy"}
	hung := assertions.Floor{Name: "pods that the plugin knew, and that were ended while the old proxy hung, which was killed then", N: 2, Reason: "two are ended side by side"}
	return assertions.Check{
		Name:     "calls of DEL while the proxy is being replaced",
		Expected: fmt.Sprintf("each succeeds within %s", prompt),
		Floors:   []assertions.Floor{before, behind, hung},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			told := toldToGo(c)
			all := callsOf(c, &tally, "DEL", func(k call) bool { return k.proxy == timeline.CNIReplaced })
			early, late, unheard := 0, 0, 0
			for _, k := range all {
				switch is, was := told.behind(k); {
				case !was || !k.noted():
				case k.Attrs["old"] == timeline.CNIStopped:
					unheard++
				case !is:
					early++
				default:
					late++
				}
			}
			tally.Count(before, early)
			tally.Count(behind, late)
			tally.Count(hung, unheard)
			return promptly(c, &tally, all, assertions.Plural(len(all), "DEL", "DELs"))
		},
	}
}

// NothingHeldMeanwhile judges what is left in the networks of pods that were ended in that time: neither proxy has a socket there.
func NothingHeldMeanwhile() assertions.Check {
	before := assertions.Floor{Name: "networks that were looked into of pods ended before the old proxy was told to go", N: 1, Reason: "two are ended between the successor's first service and that"}
	behind := assertions.Floor{Name: "networks that were looked into of pods ended behind that", N: 3, Reason: "five are ended 300 ms apart, and two when the old one hangs"}
	return assertions.Check{
		Name:     "sockets in the networks of pods that are ended while the proxy is being replaced",
		Expected: "neither the old proxy nor its successor has one when DEL is done",
		Floors:   []assertions.Floor{before, behind},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			told := toldToGo(c)
			all := callsOf(c, &tally, "DEL", func(k call) bool { return k.proxy == timeline.CNIReplaced && k.noted() && k.failed == "" })
			early, late := 0, 0
			for _, k := range all {
				held, looked := k.Attrs["held"]
				switch is, was := told.behind(k); {
				case !looked:
					tally.Doubt("%v: nobody looked into its network", k)
				case !was:
				case !is:
					early++
				default:
					late++
				}
				if held != "" {
					tally.Against(k.At, k.Name, "", "after %v, in the network of %s: %s", k, k.Name, held)
				}
			}
			tally.Count(before, early)
			tally.Count(behind, late)
			return tally.Conclude(
				fmt.Sprintf("nothing was left in the networks of %s", assertions.Plural(len(all), "pod", "pods")),
				fmt.Sprintf("something was left in the networks of %d of %s", tally.Culprits(), assertions.Plural(len(all), "pod", "pods")))
		},
	}
}

// promptly judges calls that are to be done at once, whoever of two proxies goes. many is how many there are, in words.
func promptly(c assertions.Case, y *assertions.Tally, all []call, many string) spec.Finding {
	var slowest time.Duration
	for _, k := range all {
		slowest = max(slowest, k.took)
		switch {
		case k.failed != "" && k.took > bound: // it may have been ended for that
			y.Late(c, k.At, k.Name, "", "%v failed after %s: %s", k, k.took.Round(time.Millisecond), k.failed)
		case k.failed != "":
			k.against(y)
		case k.command == "DEL" && k.left():
			y.Against(k.At, k.Name, "", "%v succeeded, and the plugin still has a note of the pod", k)
		case k.took > prompt:
			y.Late(c, k.At, k.Name, "", "%v took %s", k, k.took.Round(time.Millisecond))
		}
	}
	return y.Conclude(
		fmt.Sprintf("all %s succeeded, within %s", many, slowest.Round(time.Millisecond)),
		fmt.Sprintf("%d of %s failed, or took longer than %s", y.Culprits(), many, prompt))
}

// words are when each node's proxy was first told to go, by the node.
type words map[string]time.Duration

func toldToGo(c assertions.Case) words {
	told := words{}
	for _, e := range c.Timeline.EventsOf(timeline.NodeProxy, "") {
		if _, is := told[e.Node]; !is && e.Attrs["is"] == timeline.NodeProxyTold {
			told[e.Node] = e.At
		}
	}
	return told
}

// behind says whether a call began when its node's proxy had been told to go; was: it ever was.
func (w words) behind(k call) (is, was bool) {
	at, was := w[k.Node]
	return was && k.At-k.took >= at, was
}
