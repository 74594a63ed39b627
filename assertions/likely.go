// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// earlyEnd names what the recording shows of the end of an instance that a failure blames,
// where that came before what the instance is blamed for: its process left or was killed,
// or its listener closed. "" where it shows none of these: then nobody can say what it was.
func earlyEnd(c Case, f spec.Finding) string {
	for _, t := range c.Terminations {
		if last, blamed := blamedAt(f, t); blamed {
			if says := t.earlyEnd(c, last+atOnce); says != "" {
				return says
			}
		}
	}
	return ""
}

// blamedAt is the last instant at which an instance broke the rule, of those that are listed.
func blamedAt(f spec.Finding, t Ending) (last time.Duration, blamed bool) {
	for _, x := range f.Culprits {
		if x.Target == t.Name {
			last, blamed = max(last, x.At), true
		}
	}
	return last, blamed
}

// earlyEnd is that of one instance, if it came until an instant.
func (t Ending) earlyEnd(c Case, until time.Duration) string {
	// What it does from here on is a drain's ordinary end.
	ordinary := t.Drain.At + max(c.P, c.MinDrain)
	code := ""
	if t.ExitCode >= 0 {
		code = fmt.Sprintf(", with exit code %d", t.ExitCode)
	}
	left := t.Exit.Known() && t.Exit.At-t.Exit.Err <= until
	at := func(i time.Duration) string { return offset("D", i-t.Drain.At) }
	shut, how := t.listenerShut(c)
	switch {
	case shut != 0 && shut <= until && shut < ordinary && (!t.Exit.Known() || shut < t.Exit.At-t.Exit.Err-atOnce):
		stood := ""
		if t.Exit.Known() {
			stood = ", while its process stood"
		}
		return fmt.Sprintf("The listener closes too early: that of %s was gone at %s (%s)%s.", t.Name, at(shut), how, stood)
	case left && t.ExitCode == killedCode && t.Kill > 0 && t.Exit.At+t.Exit.Err >= t.Kill:
		return fmt.Sprintf("The grace period was over: %s was killed at %s%s.", t.Name, at(t.Exit.At), code)
	case left && t.ExitCode == killedCode:
		return fmt.Sprintf("Something killed the process, and it was not the end of the grace period: %s ended at %s%s.", t.Name, at(t.Exit.At), code)
	case left && t.ExitCode > 0 && t.ExitCode != termCode:
		return fmt.Sprintf("The process ends with an error: that of %s did at %s%s.", t.Name, at(t.Exit.At), code)
	case left && t.Exit.At+t.Exit.Err < ordinary:
		return fmt.Sprintf("The process leaves too early: that of %s did at %s%s.", t.Name, at(t.Exit.At), code)
	}
	return ""
}

// SaysShut is when an instance's listener closed from D on, by its own word alone and at the earliest; false:
// it said nothing of it.
func (t Ending) SaysShut(c Case) (time.Duration, bool) {
	for _, e := range c.Timeline.EventsOf(timeline.DrainListenerClosed, t.UID) {
		if e.At >= t.Drain.At {
			return e.At - e.Err, true
		}
	}
	return 0, false
}

// listenerShut is when an instance's listener closed after its D, and who says so; 0: nobody.
func (t Ending) listenerShut(c Case) (at time.Duration, how string) {
	from := t.Drain.At - t.Drain.Err
	for _, e := range c.Timeline.EventsOf(timeline.DrainListenerClosed, t.UID) {
		if e.At >= from {
			return e.At, "it says so itself"
		}
	}
	var dials []timeline.Sample
	for _, s := range c.Timeline.Samples {
		if directTo(s, t.UID) && s.New() && arrival(s) >= from {
			dials = append(dials, s)
		}
	}
	refused := func(s timeline.Sample) bool { return s.Outcome == timeline.Refused }
	at = goneAt(byArrival(dials), refused)
	// Who takes a connection afterwards listens.
	if slices.ContainsFunc(dials, func(s timeline.Sample) bool { return s.Start > at && s.Phase != timeline.PhaseDial }) {
		return 0, ""
	}
	return at, "new connections were refused from then on"
}

// earlyEndBehindSecond is earlyEnd, where a second SIGTERM may be what an instance left at.
func earlyEndBehindSecond(c Case, f spec.Finding) string {
	for _, t := range c.Terminations {
		_, blamed := blamedAt(f, t)
		second, sent := secondSignal(c, t)
		if after := t.Exit.At - second.At; blamed && sent && t.Exit.Known() && after+t.Exit.Err+second.Err >= 0 && after < c.P {
			return fmt.Sprintf("The process takes a second SIGTERM for an order to leave at once, or its handler is gone by then: %s left %s after it.", t.Name, ms(after))
		}
	}
	return earlyEnd(c, f)
}
