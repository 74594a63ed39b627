// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// KEP-753, termination of containers: "Sidecars should not begin termination until all primary
// containers have terminated."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "sidecar.native-order",
	Title: "A native sidecar ends after its app, and soon after it",
	Level: spec.Must,
	Refs: []spec.Ref{
		{
			Doc: "KEP-753", Section: "termination of containers", URL: "https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/753-sidecar-containers#termination-of-containers",
			Quote: "Sidecars should not begin termination until all primary containers have terminated.",
		},
		{
			Doc: "project", Section: "sidecars",
			Quote: "A native sidecar is there for as long as its app is: that is what it is native for. Thirty seconds after the app has exited, no process of its pod is left.",
		},
	},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Pods, spec.Services, spec.HTTP},

	Why:    "What an app still has to send when it drains goes through its sidecar. The kubelet keeps the order for native sidecars; whoever ends one earlier takes the network from an app that was promised it.",
	Causes: "A preStop hook of the sidecar's that begins its drain: it runs as soon as the pod is told to go, beside the app's. A sidecar that watches the API for its pod's deletion and leaves by itself.",
	Fix:    "Leave the order to the kubelet: no preStop hook that ends a native sidecar, and SIGTERM as its one sign to go. It comes when the app has gone.",

	Topology:   behaviour.BesideLongNative,
	Disrupt:    behaviour.DeleteAtLength,
	Traffic:    atLength,
	Checks:     []assertions.Check{OutlastsTheApp(), LeavesWithTheApp()},
	BrokenBy:   []spec.Fault{sidecar.LeavesBeforeApp, sidecar.OutlivesApp, sidecar.HeldByMute},
	Resolution: 100 * time.Millisecond,
})

// OutlastsTheApp judges that no sidecar ends before its app, by the exits of processes that the node's
// witness saw.
func OutlastsTheApp() assertions.Check {
	seen := assertions.Floor{Per: "termination", Name: "exits of containers beside the app", N: 1,
		Reason: "a pod ends once",
	}
	return assertions.Check{
		Name:     "the app's exit, and those of its sidecars",
		Expected: "each sidecar's process goes after the app's",
		Floors:   []assertions.Floor{seen},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			all, least := 0, time.Duration(0)
			for t := range tally.Terminations(c) {
				if !t.Exit.Known() {
					tally.Doubt("nobody saw the app of %s exit", t.Name)
					continue
				}
				exits := ofSidecar(c, besideApp(c, t))
				for _, e := range exits {
					tally.Span(t.Drain.At, max(e.At, t.Exit.At))
					if e.At+e.Err < t.Exit.At-t.Exit.Err {
						tally.Against(e.At, t.Name, "", "%s: %s of %s is gone, %s before its app", t.Clock(e.At), e.Attrs["container"], t.Name, (t.Exit.At - e.At).Round(time.Millisecond))
						continue
					}
					if after := e.At - t.Exit.At; all == 0 || after < least {
						least = after
					}
					all++
				}
				tally.Least(seen, t.Name, len(exits))
			}
			return tally.Conclude(
				fmt.Sprintf("%s went after its app, the first one %s after it", assertions.Plural(all, "sidecar", "sidecars"), least.Round(time.Millisecond)),
				fmt.Sprintf("%s gone before its app", assertions.Plural(tally.Culprits(), "sidecar was", "sidecars were")))
		},
	}
}
