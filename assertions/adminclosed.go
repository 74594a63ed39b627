// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"strconv"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// AdminClosed judges what was tried on an instance before it was deleted: nothing
// that begins its drain, or ends it, answers at an address that is none of its own,
// and a GET there begins no drain. The rule is the project's own: whoever reaches
// that request can end the instance, and GETs are sent by links, scanners and
// caches without anybody meaning it (RFC 9110 section 9.2.1: "Request methods are
// considered "safe" if their defined semantics are essentially read-only").
func AdminClosed() Check {
	const own = "dials of what begins its drain, at its own address, that were answered"
	const elsewhere = "dials of the same at another address"
	const served = "requests served between the first try and the deletion"
	ownFloor := Floor{Per: "termination", Name: own, N: 1, Reason: "one that is answered shows that it is there to be reached"}
	elsewhereFloor := Floor{Per: "termination", Name: elsewhere, N: 1, Reason: "a listener is there or not"}
	askedFloor := Floor{Per: "termination", Name: "GETs of it that were answered", N: 1, Reason: "what a GET does it does the first time"}
	servedFloor := Floor{Per: "termination", Name: served, N: 20, Reason: "they show that the instance lived and was not draining, and are no rate"}
	return Check{
		Name:     "what begins a drain, from elsewhere and by GET",
		Expected: "nothing answers at an address that is not the instance's own, and a GET begins no drain",
		Floors:   []Floor{ownFloor, elsewhereFloor, askedFloor, servedFloor},
		Judge: func(c Case) spec.Finding {
			var g gather
			ended := g.toll(c.terminated())
			for t := range ended.each() {
				in := intrusionOf(c, t)
				g.span(in.from, in.until)
				for _, e := range in.reached {
					g.certain(e.At, t.Name, "", "port %s answers at %s, which is none of its own addresses: other pods reach it too", e.Attrs["port"], e.Attrs["to"])
				}
				g.gotNothing(c, t, in)
				ended.has(ownFloor, in.own)
				ended.has(elsewhereFloor, in.elsewhere)
				ended.has(askedFloor, len(in.gets))
				ended.has(servedFloor, in.served)
			}
			return g.conclude(
				fmt.Sprintf("closed to others and to GET at each of %s", ended),
				fmt.Sprintf("it was open in %s at %s", plural(g.failures(), "way", "ways"), ended))
		},
	}
}

// intrusion is what was tried on an instance.
type intrusion struct {
	// from the first try until the deletion.
	from, until time.Duration
	// own and elsewhere count dials: those that were answered, and all of them.
	own, elsewhere int
	// reached are the dials elsewhere that were answered, and gets the GETs.
	reached, gets []timeline.Event
	// served counts the requests that clients had answered meanwhile.
	served int
}

func intrusionOf(c Case, t Ending) intrusion {
	in := intrusion{until: t.Del.At - t.Del.Err}
	for _, e := range c.Timeline.EventsOf(timeline.Control, t.UID) {
		if e.At > in.until {
			continue
		}
		if in.from == 0 {
			in.from = e.At
		}
		answered := e.Attrs["error"] == ""
		switch {
		case e.Attrs["method"] != "":
			if answered {
				in.gets = append(in.gets, e)
			}
		case e.Attrs["from"] == timeline.ControlElsewhere:
			in.elsewhere++
			if answered {
				in.reached = append(in.reached, e)
			}
		case answered:
			in.own++
		}
	}
	for _, s := range c.Timeline.Samples {
		if in.from > 0 && directTo(s, t.UID) && !s.Failed() && s.Start >= in.from && s.End <= in.until {
			in.served++
		}
	}
	return in
}

// gotNothing judges that the GETs began no drain. One that was refused (a status
// of 400 or more) needs no more than that nothing followed; of another it takes
// eyes that see a drain when there is one.
func (g *gather) gotNothing(c Case, t Ending, in intrusion) {
	if len(in.gets) == 0 {
		return
	}
	get := in.gets[0]
	what := func(e timeline.Event) string {
		return fmt.Sprintf("%s after GET %s on port %s (%s)", ms(e.At-get.At), get.Attrs["path"], get.Attrs["port"], get.Attrs["status"])
	}
	seen, deleted := false, t.Del.At-t.Del.Err
	for _, e := range c.Timeline.Events {
		if e.Subject != t.UID || e.At < get.At {
			continue
		}
		between := e.At < deleted
		switch {
		case e.Kind == timeline.DrainStart && between:
			g.culprit(e.At, t.Name, "", "its drain began, %s", what(e))
		case e.Kind == timeline.ProcExit && between:
			g.culprit(e.At, t.Name, "", "its process left, %s", what(e))
		case e.Kind == timeline.Health && e.Attrs["good"] != "true" && e.Attrs["silent"] != "true" && e.Attrs["probe"] != "live":
			if between {
				g.late(c, e.At, t.Name, "", "its health (%s) turned bad, %s", e.Attrs["probe"], what(e))
			}
			// Of who stands beside an app the app's health tells nothing.
			seen = seen || !t.Role.Meshed() && (!t.Exit.Known() || e.At < t.Exit.At-t.Exit.Err-atTheDoor)
		}
	}
	// Of that one its clients do.
	for _, s := range c.Timeline.Samples {
		if directTo(s, t.UID) && s.Failed() && s.Start >= get.At && s.End < deleted {
			g.failed(c, s, s.Start, t.Name, "%s after GET %s on port %s (%s): %s", ms(s.Start-get.At), get.Attrs["path"], get.Attrs["port"], get.Attrs["status"], describe(s))
		}
	}
	if seen {
		return
	}
	for _, e := range in.gets {
		if status, err := strconv.Atoi(e.Attrs["status"]); err != nil || status < 400 {
			g.doubt("%s answered GET %s with %s, and none of its health showed its drain when there was one: nobody knows what the GET did", t.Name, e.Attrs["path"], e.Attrs["status"])
		}
	}
}
