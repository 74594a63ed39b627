// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// synAgain is when a SYN without an answer is sent again: RFC 6298, section 2, "the
// sender SHOULD set RTO <- 1 second".
const synAgain = time.Second

// LocalRollout judges that nothing fails through a load balancer which polls
// each node's health check port every period, and takes a node out after so
// many failures in a row, while pods go away that are alone on their nodes.
func LocalRollout(period time.Duration, threshold int) Check {
	newConns := Floor{Per: "termination", Name: "new connections offered to the load balancer from D to exit + P", N: 200}
	reusedConns := Floor{Per: "termination", Name: "requests on reused connections offered to the load balancer from D to exit + P", N: 200}
	bareFloor := Floor{Name: "terminations that left their node without a ready pod, as its health check port said", N: 1,
		Reason: "which node a new pod comes to is the scheduler's choice; the first pod to go leaves its node bare in any case",
	}
	byTerminating := Floor{Name: "new connections that a terminating pod served after its node's health check port had failed", N: 5,
		Reason: "only until the load balancer has noticed: period × threshold at the rate of the path, less half for the other node",
	}
	return Check{
		Name:     "requests through the load balancer in [first D, last exit + P]",
		Expected: "no request fails, and no new connection waits until TCP asks again: until the load balancer has seen that a node has no ready pod left, the node's port serves from the terminating one",
		Floors:   []Floor{newConns, reusedConns, bareFloor, byTerminating},
		Needs:    []Evidence{Named},
		Judge: func(c Case) spec.Finding {
			var g gather
			l := g.losses(c, flow.Balanced, newConns, reusedConns)
			notices := period * time.Duration(threshold)
			bare, fallback, dropped := 0, 0, 0
			for _, t := range c.Terminations {
				if t.Grace <= notices+c.P {
					g.doubt("the grace period of %s (%s) is no longer than the load balancer takes to notice, plus P (%s)", t.Name, t.Grace, notices+c.P)
				}
				failed := healthFailed(c.Timeline, t)
				if failed == 0 {
					continue
				}
				bare++
				reached, met := 0, []timeline.Sample(nil)
				for _, s := range c.Timeline.Samples {
					if s.Stream.Flow().Path != flow.Balanced || !s.New() || s.Start <= failed || s.Failed() {
						continue
					}
					switch {
					case s.Reached == t.UID:
						reached++
					case s.Start <= t.exitOr(t.Kill) && s.First-s.Start >= synAgain:
						met = append(met, s)
					}
				}
				fallback += reached
				// One that was slow may have been so at the other node. Where nothing reached
				// the pod, and a crowd waited for its TCP, the node dropped them.
				if reached > 0 || len(met) < byTerminating.N {
					continue
				}
				dropped += len(met)
				for _, s := range met {
					g.late(c, s.Start, t.Name, s.ID, "%s of %s: nobody answered a new connection for %s, while %s was there", relative(s.Start, t), t.Name, ms(s.First-s.Start), t.Name)
				}
			}
			g.count(bareFloor, bare)
			g.count(byTerminating, fallback)
			passed, broken := l.words(c)
			if dropped > 0 {
				broken += fmt.Sprintf(", and %s until TCP asked again", plural(dropped, "new connection met nobody", "new connections met nobody"))
			}
			return g.conclude(passed, broken)
		},
	}
}

// healthFailed is when the health check port of the pod's node was first seen
// to fail after the pod's deletion; 0: never.
func healthFailed(tl *timeline.Timeline, t Ending) time.Duration {
	for _, s := range tl.Samples {
		if s.Stream.Flow().Path != flow.HealthPort || s.Stream.Target() != t.Node {
			continue
		}
		if s.Outcome == timeline.Status && s.Start >= t.Del.At && s.Start <= t.exitOr(t.Kill) {
			return s.End
		}
	}
	return 0
}

// noBackend doubts a request that failed where the suite's own load balancer had
// nobody left in for want of CPU, which is no loss of the system's: what is one
// of those it balances over.
func (g *gather) noBackend(c Case, s timeline.Sample, what string) bool {
	why := noBackend(c.Timeline, s)
	if why == "" {
		return false
	}
	g.doubt("requests failed while the load balancer, which is the suite's own, had no %s left: %s", what, why)
	return true
}

// givenToNobody says whether the suite's own load balancer, where it tells to whom it gives each
// connection, gave a request's to nobody.
func givenToNobody(tl *timeline.Timeline, s timeline.Sample) bool {
	tells := false
	for _, e := range tl.EventsOf(timeline.Chosen, "") {
		if e.Attrs["by"] != timeline.ByBalancer {
			continue
		}
		if e.At >= s.Start && e.Attrs["client"] == s.Local {
			return false
		}
		tells = true
	}
	return tells
}

// noBackend says why the suite's own load balancer had nobody left in when a
// request came that failed: "" if it had somebody, or if each had gone because its
// health said so. That is the system's own word, and no look that failed for want
// of CPU.
func noBackend(tl *timeline.Timeline, s timeline.Sample) string {
	if s.Stream.Flow().Path != flow.Balanced || !s.New() {
		return ""
	}
	// It picks one when it accepts, a moment after the begin: a starved one later, of which it is
	// known that it had not until the end where it gave the connection to nobody.
	picks := min(s.End, s.Start+endMargin)
	if givenToNobody(tl, s) {
		picks = s.End
	}
	in, out := map[string]bool{}, map[string]string{}
	none := false
	for _, e := range tl.EventsOf(timeline.Balancer, "") {
		if e.At > picks || e.At > s.Start && none {
			break
		}
		if e.Attrs["in"] == "true" {
			in[e.Subject] = true
			delete(out, e.Subject)
		} else {
			delete(in, e.Subject)
			out[e.Subject] = e.Attrs["why"]
		}
		none = len(in) == 0
	}
	if !none {
		return ""
	}
	for _, subject := range slices.Sorted(maps.Keys(out)) {
		if why := out[subject]; !strings.HasPrefix(why, "status ") {
			return why
		}
	}
	return ""
}
