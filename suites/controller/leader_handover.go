// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"strconv"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/controller"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// client-go, tools/leaderelection: "ReleaseOnCancel should be set true if the lock should be released
// when the run context is cancelled."
var _ = behaviour.Register(behaviour.Behaviour{
	ID:    "controller.leader-handover",
	Title: "A leader that is told to go gives its lease back, and another one leads",
	Level: spec.Should,
	Refs: []spec.Ref{{
		Doc: "client-go", Section: "tools/leaderelection, LeaderElectionConfig", URL: "https://pkg.go.dev/k8s.io/client-go/tools/leaderelection#LeaderElectionConfig",
		Quote: "ReleaseOnCancel should be set true if the lock should be released when the run context is cancelled.",
	}, {
		Doc: "project", Section: "after linkerd2 issue 10379",
		Quote: "Controllers keep the same rules: what only the leader does is not left undone for the time of a lease whenever it is replaced.",
	}},
	Profile: spec.Mesh,
	Needs:   []spec.Feature{spec.Pods, spec.Services},

	Why:    "What only the leader does (it renews the CA's key and the webhook's caBundle, it writes status) stands still until there is a next one. A lease that nobody gave back has to run out first: 15 s by default, in each roll-out.",
	Causes: "A lock that is not released (client-go does not, unless it is told to); a process that ends before the release was written.",
	Fix:    "Set ReleaseOnCancel, cancel the election's context at SIGTERM, and wait for its end before the process exits.",

	Topology: behaviour.Controlling,
	Disrupt:  behaviour.DeleteBoth,
	Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.TLS1, Conns: flow.New, Op: flow.Get}, Rate: 25},
	},
	Checks:     []assertions.Check{HandsOver()},
	BrokenBy:   []spec.Fault{controller.KeepsLease},
	Resolution: 200 * time.Millisecond,
})

// share is the part of a lease's time within which another one has to lead. One that is given back is
// free for who looks for it each retryPeriod, which is an eighth of that time by default; one that is
// not has to run out.
const share = 3

// HandsOver judges that where a replica that holds a lease is ended, another one holds it soon. Who holds it, the stage tells (timeline.LeaseHeld).
func HandsOver() assertions.Check {
	led := assertions.Floor{Name: "leaders that were ended", N: 1, Reason: "one replica leads, and each is ended once"}
	return assertions.Check{
		Name:     "the lease of a leader that goes",
		Expected: "another replica holds it within a third of the time that it lasts, counted from the leader's D",
		Floors:   []assertions.Floor{led},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			leases := c.Timeline.EventsOf(timeline.LeaseHeld, "")
			leaders, kept := 0, 0
			var longest time.Duration
			for t := range tally.Terminations(c) {
				lasts, ok := leads(leases, t)
				if !ok {
					continue
				}
				leaders++
				tally.Span(t.Drain.At, t.Drain.At+lasts/share)
				by := t.Drain.At + t.Drain.Err + lasts/share
				next, found := heir(leases, t)
				switch {
				case found && next <= by:
					longest = max(longest, next-t.Drain.At, 0)
				// Without a tail the recording was stopped: what it did not come to is not known.
				case !found && c.Tail < by:
					tally.Doubt("%s led, and the recording ends before another one had to", t.Name)
				case found:
					kept++
					tally.Late(c, by, t.Name, "", "%s: the next one leads; the lease lasts %s", t.Clock(next), lasts)
				default:
					kept++
					tally.Late(c, by, t.Name, "", "%s: nobody else leads; the lease lasts %s", t.Clock(by), lasts)
				}
			}
			tally.Count(led, leaders)
			return tally.Conclude(
				fmt.Sprintf("behind each of %s another one led, %s after D at most", assertions.Plural(leaders, "leader", "leaders"), longest.Round(time.Millisecond)),
				fmt.Sprintf("%d of %s kept the lease", kept, assertions.Plural(leaders, "leader", "leaders")))
		},
	}
}

// told is the first instant at which an instance may know that it is to go: D is known by what others
// saw of it, and a lease that is given back at once is free before that.
func told(t assertions.Ending) time.Duration {
	if t.Del.Known() {
		return min(t.Del.At-t.Del.Err, t.Drain.At-t.Drain.Err)
	}
	return t.Drain.At - t.Drain.Err
}

// leads says whether an instance held the lease when it was told to go, and how long that lasts.
func leads(all []timeline.Event, t assertions.Ending) (lasts time.Duration, ok bool) {
	for _, e := range all {
		if e.At > told(t) {
			break
		}
		seconds, _ := strconv.Atoi(e.Attrs["lasts"])
		lasts, ok = time.Duration(seconds)*time.Second, e.Attrs["holder"] == t.Name
	}
	return lasts, ok
}

// heir is when another instance first held the lease after that.
func heir(all []timeline.Event, t assertions.Ending) (time.Duration, bool) {
	for _, e := range all {
		if who := e.Attrs["holder"]; e.At > told(t) && who != "" && who != t.Name {
			return e.At, true
		}
	}
	return 0, false
}
