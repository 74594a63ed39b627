// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/suites/spec"
)

// shortLife is how long an instance must have lived after its deletion
// before its endpoint must have been seen terminating: the slice controller
// syncs within this in a cluster that is not starved.
const shortLife = 2 * time.Second

// earlyLimit is by how much the watch of the slices may be ahead of the pods'.
const earlyLimit = 5 * time.Second

// goneLimit is how long an endpoint may outlive its pod.
const goneLimit = 4 * time.Second

// LegalConditions judges the life of every endpoint that terminated:
// TTF or FFF while it lives, then FTT or FFT, then gone.
func LegalConditions() Check {
	return Check{
		Name:     "ready, serving, terminating of each endpoint, merged over its slices",
		Expected: "TTF ⇄ FFF while the pod lives, then FTT ⇄ FFT, then gone; never ready while terminating, and terminating never goes back",
		Floors: []Floor{
			{Name: "per termination: states seen before the deletion", N: 1, Reason: "demands an order of states of one endpoint, not a rate"},
			{Name: "per termination: terminating states seen", N: 1, Reason: "as above"},
		},
		Judge: func(c Case) spec.Finding {
			var g gather
			gap := watchGap(c.Timeline, "endpointslices")
			for _, t := range c.Terminations {
				states := endpointStates(c.Timeline, t.UID)
				live, terminating := 0, 0
				wasTerminating, gone := false, false
				for i, s := range states {
					if i == 0 {
						g.span(s.at, s.at)
					}
					g.span(g.finding.Window.From, s.at)
					rel := ms(s.at - t.Del.At)
					switch {
					case s.gone:
						gone = true
						if !wasTerminating && s.at-t.Del.At > shortLife && gap == "" {
							g.culprit(s.at, t.Name, "", "T_del + %s: gone without ever having been terminating", rel)
						}
						continue
					case gone:
						g.culprit(s.at, t.Name, "", "T_del + %s: %s after it was gone", rel, s)
					case s.terminating && s.at < t.Del.At-earlyLimit:
						g.culprit(s.at, t.Name, "", "T_del - %s: terminating, and nobody had deleted the pod", -rel)
					case wasTerminating && !s.terminating:
						g.culprit(s.at, t.Name, "", "T_del + %s: %s: terminating went back", rel, s)
					case s.terminating && s.ready:
						g.culprit(s.at, t.Name, "", "T_del + %s: %s: ready while terminating", rel, s)
					case !s.terminating && s.ready != s.serving:
						g.culprit(s.at, t.Name, "", "T_del + %s: %s: ready and serving differ in an endpoint that does not terminate", rel, s)
					}
					if s.terminating {
						wasTerminating = true
						terminating++
					} else {
						live++
					}
				}
				switch left := c.Tail - t.Gone.At; {
				case gone || !t.Gone.Known() || gap != "":
				case left > goneLimit:
					g.culprit(t.Gone.At, t.Name, "", "the pod was gone, and its endpoint was still there %s later", ms(left))
				default:
					g.doubt("the recording ends before the endpoint of %s went", t.Name)
				}
				g.least("states before it terminated", t.Name, live, 1)
				g.least("terminating states", t.Name, terminating, 1)
			}
			g.needTerminations(c)
			if gap != "" {
				g.doubt("the EndpointSlice watch has a gap: %s", gap)
			}
			g.finding.Cause = "Whoever writes the EndpointSlices (the built-in controller, or one of your own for a Service without a selector) derives the conditions otherwise than the API defines them."
			return g.conclude(
				fmt.Sprintf("%d endpoints went through legal states only", len(c.Terminations)),
				fmt.Sprintf("%d illegal states or transitions", g.failures()))
		},
	}
}
