// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// setAside takes the streams that nobody ever served out of the timeline, with
// the work that they left in ledgers: they are evidence of what is not there, and of
// nothing else.
func (c *Case) setAside() {
	unserved := map[flow.Flow]bool{}
	for _, e := range c.Timeline.EventsOf(timeline.Marker, "") {
		if e.Attrs["what"] == MarkUnserved {
			unserved[flow.Named(e.Attrs["stream"]).Flow()] = true
		}
	}
	if len(unserved) == 0 {
		return
	}
	ids := map[string]bool{}
	c.Timeline.Samples = slices.DeleteFunc(c.Timeline.Samples, func(s timeline.Sample) bool {
		if !unserved[s.Stream.Flow()] {
			return false
		}
		c.Unserved = append(c.Unserved, s)
		ids[s.ID] = true
		return true
	})
	c.Timeline.Ledger = slices.DeleteFunc(c.Timeline.Ledger, func(e timeline.Entry) bool { return ids[e.ID] })
}

// Claimed is the finding on a flow that the system claims to
// serve and never did; false where it did. features are those that ask for it.
func Claimed(c Case, of flow.Flow, features []spec.Feature) (spec.Finding, bool) {
	var g gather
	n := 0
	for _, s := range c.Unserved {
		// What comes after the gate adds nothing: nobody would have waited for it.
		if s.Stream.Flow() != of || s.Start > c.Steady {
			continue
		}
		if n == 0 {
			g.finding.Window.From = s.Start
		}
		n++
		g.finding.Window.To = max(g.finding.Window.To, s.End)
		g.culprit(s.Start, nameOf(c, s.Stream.Target()), s.ID, "%s", strings.TrimSpace(fmt.Sprintf("%s (%s) %s", s.Outcome, s.Phase, s.Err)))
	}
	if n == 0 {
		return spec.Finding{}, false
	}
	names := make([]string, len(features))
	for i, f := range features {
		names[i] = string(f)
	}
	f := g.finding
	f.Check, f.Verdict = spec.Claimed, spec.Fail
	f.Expected = "the system serves what it claims to (features: " + strings.Join(names, ", ") + "); what it does not claim is skipped"
	f.Actual = fmt.Sprintf("%s: none of %d requests was served in %s, while nothing was disturbed and other traffic was served", of, n, ms(f.Window.To-f.Window.From))
	return f, true
}
