// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"slices"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Evidence is a kind of what a recording can show only with the help of what is tested, or of
// what stands behind it. What stands behind a gateway is the suite's own, and shows all of them.
type Evidence string

// The kinds of evidence.
const (
	// Ledger is what whoever answers writes down of each request: begun, ended whole, by ID.
	Ledger Evidence = "ledger"
	// Lasting are requests that last as long as they are asked to. What is done on kept
	// connections takes them too: in the control they stand in for short ones (StandIn).
	Lasting Evidence = "lasting"
	// Named is who was reached, of those that stand behind one address.
	Named Evidence = "named"
	// Uploads are requests whose body is taken up as it comes.
	Uploads Evidence = "uploads"
	// Minimum is a time for which an instance promises to accept from D on.
	Minimum Evidence = "minimum"
	// Tried are pods that the API server is had make meanwhile (timeline.PodTried). They take CPU of it and of its webhook,
	// so that they are tried only where somebody asks.
	Tried Evidence = "tried"
)

// Lacking says, of what somebody does not show, what could be judged by it and what to do; ""
// for evidence that nobody has to show.
func (e Evidence) Lacking() string {
	switch e {
	case Ledger:
		return "it is judged by what the app itself wrote down of each request, and an app that is asked for paths of its own keeps no such ledger: where it speaks the suite's own words (load/work), leave app out of its file"
	case Lasting:
		return "it takes requests that last as long as they are asked to, and nothing says where the app has such: write app.slow"
	case Named:
		return "it takes to know which instance answered behind a Service, and an app that is asked for paths of its own says nothing of itself: where it speaks the suite's own words (load/work), leave app out of its file"
	case Uploads:
		return "it takes requests whose body the app reads as it comes, and says so, which only an app does that speaks the suite's own words (load/work): where it does, leave app out of its file"
	case Minimum:
		return "it is about the minimum drain, and drain.minDrain of the system's file promises none (0s)"
	default:
		return ""
	}
}

// MarkPlain says that who answers is asked for paths of its own: it names nobody, and keeps no
// ledger. Attrs: lasts (true), where some of these take as long as they are asked to.
const MarkPlain = "plain"

// plain says whether a recording is of such.
func plain(tl *timeline.Timeline) bool {
	return slices.ContainsFunc(tl.EventsOf(timeline.Marker, ""), func(e timeline.Event) bool { return e.Attrs["what"] == MarkPlain })
}

// needs says what a check takes that a recording has not; "" for nothing.
func (k Check) needs(shows func(Evidence) bool) string {
	for _, e := range k.Needs {
		if !shows(e) {
			return e.Lacking()
		}
	}
	return ""
}

// Undecided says why none of some checks can be put to who shows so much; "" where one can.
func Undecided(checks []Check, shows func(Evidence) bool) string {
	first := ""
	for _, k := range checks {
		why := k.needs(shows)
		if why == "" {
			return ""
		}
		if first == "" {
			first = why
		}
	}
	return first
}

// leftOut is a finding on a check that can't be put to a recording.
func leftOut(why string) spec.Finding {
	return spec.Finding{Verdict: spec.Skipped, Actual: fmt.Sprintf("not judged: %s", why)}
}
