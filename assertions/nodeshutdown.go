// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// LeavesWithItsNode judges that the pods that a node's graceful shutdown ends
// leave by themselves, in the time that the node gives them.
func LeavesWithItsNode() Check {
	shutDown := Floor{Name: "pods that the shutdown ended", N: 1,
		Reason: "one node is shut down, and one pod on it is enough: the drain itself is counted in requests by the other checks",
	}
	return Check{
		Name:     "the end by a node's shutdown",
		Expected: "the shutdown ends the pod without a deletion; its process drains, and leaves by itself, with exit code 0 or SIGTERM's own 143, before the node's time is over",
		Likely:   earlyEnd,
		Floors:   []Floor{shutDown},
		Judge: func(c Case) spec.Finding {
			var g gather
			ended := map[string]bool{}
			for _, t := range c.Terminations {
				if t.Cause != CauseShutdown {
					continue
				}
				ended[t.UID] = true
				g.span(t.Drain.At, t.exitOr(t.Drain.At+c.P))
				end := t.exitOr(t.Drain.At)
				when := offset("D", end-t.Drain.At)
				switch {
				case t.ExitCode == killedCode:
					g.culprit(end, t.Name, "", "was killed at %s (exit code %d), as the kubelet does when the node's time is over", when, t.ExitCode)
				case !byItself(c, t) && t.ExitCode == termCode:
					g.culprit(end, t.Name, "", "left with work in flight at %s (exit code %d)", when, t.ExitCode)
				case !byItself(c, t):
					g.culprit(end, t.Name, "", "left with an error at %s (exit code %d)", when, t.ExitCode)
				case !t.Exit.Known() || t.ExitCode < 0:
					g.doubt("nobody saw how %s ended", t.Name)
				}
			}
			for _, e := range c.Timeline.EventsOf(timeline.Disruption, "") {
				switch {
				case e.Attrs["what"] != "node-shutdown":
				case e.Attrs["error"] != "":
					g.doubt("the node of %s was not shut down: %s", e.Name, e.Attrs["error"])
				case !ended[e.Subject]:
					g.doubt("%s was not seen to be ended by its node's shutdown: it did not drain, or it was deleted", e.Name)
				}
			}
			g.count(shutDown, len(ended))
			return g.conclude(
				plural(len(ended), "pod", "pods")+" drained and left without a deletion and without being killed",
				fmt.Sprintf("%d of %s did not leave in order", g.failures(), plural(len(ended), "pod", "pods")))
		},
	}
}
