// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// unsound says what shows that a history has not all that was recorded, or that it
// contradicts itself: nothing that it says, or does not say, proves anything then. "":
// nothing does. A recording that was stopped has whole lines, all that there were.
func unsound(m Meta, tl *timeline.Timeline) string {
	if len(tl.Notes) > 0 {
		return "the history is not whole: " + strings.Join(tl.Notes, "; ")
	}
	why := contradiction(tl)
	if why == "" && m.Lines != nil {
		why = miscounted(m.Lines, tl)
	} else if why == "" {
		why = incomplete(m, tl)
	}
	return why
}

// miscounted holds the lines of a history's files against those that were written.
func miscounted(written map[string]int, tl *timeline.Timeline) string {
	read := tl.Lines()
	for _, name := range slices.Sorted(maps.Keys(read)) {
		if written[name] != read[name] {
			return fmt.Sprintf("the history is not whole: %s has %d lines, and %d were written", name, read[name], written[name])
		}
	}
	return ""
}

// incomplete says what shows that lines are missing where nobody has counted them
// (recordings of before 2026-11-25): the runner's last word, the numbers in the requests'
// IDs, and the witness's count of what a pod wrote.
func incomplete(m Meta, tl *timeline.Timeline) string {
	if why := shortLedger(tl); why != "" || !m.Ended || m.Doubt != "" {
		return why
	}
	marks := tl.EventsOf(timeline.Marker, "")
	tail := slices.IndexFunc(marks, func(e timeline.Event) bool { return e.Attrs["what"] == assertions.MarkTail })
	if tail < 0 {
		return "the history is not whole: the recording came to its end, and its events have not the mark of it"
	}
	if m.Scenario.Fault == DeafClients || len(tl.EventsOf(timeline.AgentLost, "")) > 0 {
		return "" // what clients did not tell is known to be missing
	}
	return cmp.Or(quiet(tl, marks[tail].At), skipped(tl))
}

// quiet says how long before the load's end the last sample was, where that is too long; ""
// where it is not.
func quiet(tl *timeline.Timeline, end time.Duration) string {
	// Streams to an instance end P and a second after it, which is when the load ends where
	// it was the last; others go on to the end.
	const tooLong = 2 * time.Second
	last := time.Duration(0)
	for _, s := range tl.Samples {
		if !assertions.Scouts(s) {
			last = max(last, s.Start)
		}
	}
	if end-last <= tooLong {
		return ""
	}
	return fmt.Sprintf("the history is not whole: the last sample is of %s before the load's end", (end - last).Round(time.Millisecond))
}

// skipped says which request of those that a client numbered is missing; "" for none.
func skipped(tl *timeline.Timeline) string {
	type numbers struct {
		stream     flow.Stream
		seen, last int
	}
	of := map[string]*numbers{}
	for _, s := range tl.Samples {
		prefix, number, _ := strings.Cut(s.ID, "-")
		n, err := strconv.Atoi(number)
		if err != nil {
			continue // one that another was sent ahead of has that one's number
		}
		if of[prefix] == nil {
			of[prefix] = &numbers{stream: s.Stream}
		}
		of[prefix].seen++
		of[prefix].last = max(of[prefix].last, n)
	}
	for _, prefix := range slices.Sorted(maps.Keys(of)) {
		if n := of[prefix]; n.seen <= n.last {
			return fmt.Sprintf("the history is not whole: %s has %d samples, and numbered %d", n.stream, n.seen, n.last+1)
		}
	}
	return ""
}

// watchers are who tells of a pod beside the pod itself.
var watchers = []string{"observe", "host", "runner", "witness", "balancer", "agent", "manifest"}

// shortLedger says of which pod the history has fewer lines than its witness had read at
// its end; "" for none.
func shortLedger(tl *timeline.Timeline) string {
	tails := tl.EventsOf(timeline.LedgerTail, "")
	if len(tails) == 0 {
		return ""
	}
	has := map[string]int{}
	for _, e := range tl.Ledger {
		has[e.Pod]++
	}
	for _, e := range tl.Events {
		if !slices.Contains(watchers, e.Source) {
			has[e.Subject]++
		}
	}
	for _, e := range tails {
		if lines, err := strconv.Atoi(e.Attrs["lines"]); err == nil && has[e.Subject] < lines {
			return fmt.Sprintf("the history is not whole: pod %s wrote %d lines to its ledger, and %d are there", e.Subject, lines, has[e.Subject])
		}
	}
	return ""
}

// contradiction says which sample says two things that can't both be; "" for none.
func contradiction(tl *timeline.Timeline) string {
	type request struct {
		stream flow.Stream
		id     string
	}
	seen := make(map[request]bool, len(tl.Samples))
	for _, s := range tl.Samples {
		if why := s.Contradiction(); why != "" {
			return fmt.Sprintf("a sample contradicts itself: %s %s: %s", s.Stream, s.ID, why)
		}
		r := request{s.Stream, s.ID}
		if seen[r] {
			return fmt.Sprintf("the samples contradict themselves: %s has the request %s twice", s.Stream, s.ID)
		}
		seen[r] = true
	}
	return ""
}
