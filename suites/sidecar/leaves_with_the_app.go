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

// linkerd2 issue 10379: "some stateful services like RabbitMQ use a very long grace period in order to
// ensure that the service has enough time to persist the state. Usually, it will finish long before
// SIGKILL would be triggered and shuts down the main container which will stop the pod." The time is
// the project's.
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "sidecar.leaves-with-the-app",
	Title: "A sidecar leaves when its app has gone, however long the grace period is",
	Level: spec.Must,
	Refs: []spec.Ref{
		{
			Doc: "project", Section: "sidecars",
			Quote: "Thirty seconds after the app has exited, no process of its pod is left.",
		},
		{
			Doc: "project", Section: "after linkerd2 issue 10379", URL: "https://github.com/linkerd/linkerd2/issues/10379",
			Quote: "some stateful services like RabbitMQ use a very long grace period in order to ensure that the service has enough time to persist the state. Usually, it will finish long before SIGKILL would be triggered and shuts down the main container which will stop the pod.",
		},
	},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Pods, spec.Services, spec.HTTP},

	Why:    "A grace period is what the app may take at most. A sidecar that waits for its end keeps the pod, its address and its volumes for an hour after the app has gone, and each roll-out waits for that.",
	Causes: "A plain container that does nothing at SIGTERM but wait for SIGKILL. A fixed wait that was set for the longest drain. A sidecar that waits for connections which nobody will end.",
	Fix:    "Make it a native sidecar (an init container with restartPolicy: Always): the kubelet tells it to go when the app has gone. As a plain container let it find out: by the app's sockets in the network namespace that they share, or by a call that the app's wrapper makes.",

	Topology:   behaviour.BesideLong,
	Disrupt:    behaviour.DeleteAtLength,
	Traffic:    atLength,
	Checks:     []assertions.Check{LeavesWithTheApp()},
	BrokenBy:   []spec.Fault{sidecar.OutlivesApp, sidecar.HeldByMute},
	Resolution: 100 * time.Millisecond,
})

// atLength is what an app is asked while it ends at length, enough to be at work; and connections on which nobody says
// anything beyond the time that its sidecar may take: to its tunnels' port nothing at all, and to the app nothing after the first
// answer, as a client's pool does.
var atLength = []load.Profile{
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 10},
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.New, Op: flow.Mute, Takes: 2 * leaveWithin}, Rate: 1},
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Idle, Takes: 2 * leaveWithin}, Rate: 1},
}

// leaveWithin is how long after its app's exit a sidecar may still be there. A plain one needs some
// seconds to see that the app is gone, and who is in its hands some to end.
const leaveWithin = 30 * time.Second

// LeavesWithTheApp judges that nothing of a pod outlasts its app for long, by the exits of processes
// that the node's witness saw.
func LeavesWithTheApp() assertions.Check {
	seen := assertions.Floor{Per: "termination", Name: "exits of containers beside the app", N: 1,
		Reason: "a pod ends once",
	}
	return assertions.Check{
		Name:     fmt.Sprintf("what is beside the app, %s after its exit", leaveWithin),
		Expected: "no process of the pod is left",
		Floors:   []assertions.Floor{seen},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			longest, all := time.Duration(0), 0
			for t := range tally.Terminations(c) {
				if !t.Exit.Known() {
					tally.Doubt("nobody saw the app of %s exit", t.Name)
					continue
				}
				all++
				end := t.Exit.At + t.Exit.Err + leaveWithin
				exits := besideApp(c, t)
				for _, e := range exits {
					longest = max(longest, e.At-t.Exit.At)
					tally.Span(t.Drain.At, e.At)
					if e.At-e.Err > end {
						// A starved machine excuses who is late then, and not who stands long after.
						tally.LateOn(c, t.Node, end, t.Name, "", "%s: %s of %s is gone, %s after its app", t.Clock(e.At), e.Attrs["container"], t.Name, (e.At - t.Exit.At).Round(time.Millisecond))
					}
				}
				tally.Least(seen, t.Name, len(ofSidecar(c, exits)))
			}
			return tally.Conclude(
				fmt.Sprintf("%s: the last process was gone %s after its app at most", assertions.Plural(all, "pod", "pods"), longest.Round(time.Millisecond)),
				fmt.Sprintf("up to %s passed from an app's exit to that of what is beside it", longest.Round(time.Millisecond)))
		},
	}
}

// appContainer is the name of the app's container in its pod.
func appContainer(c assertions.Case) (name string) {
	for _, e := range c.Timeline.EventsOf(timeline.Marker, "") {
		if e.Attrs["what"] == assertions.MarkSubject {
			name = e.Attrs["container"]
		}
	}
	return name
}

// besideApp are the exits, from the deletion on, of the containers of an instance that are not the
// app's, as the node's witness saw them: one that watches the API for its pod's deletion may hear of
// that before its app is told to go.
func besideApp(c assertions.Case, t assertions.Ending) []timeline.Event {
	app := appContainer(c)
	var out []timeline.Event
	for _, e := range c.Timeline.EventsOf(timeline.ProcExit, t.UID) {
		if name := e.Attrs["container"]; e.At >= t.Earliest() && name != "" && name != app {
			out = append(out, e)
		}
	}
	return out
}

// ofSidecar are those exits that are of the sidecar itself. Of a vendor's that is the container which
// its file names: others may have been there for its drain only.
func ofSidecar(c assertions.Case, exits []timeline.Event) []timeline.Event {
	own := c.Beside()
	if own == "" {
		return exits
	}
	return slices.DeleteFunc(slices.Clone(exits), func(e timeline.Event) bool { return e.Attrs["container"] != own })
}
