// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// HealthFailsFirst judges that the health that a load balancer in front polls
// turns bad while the instance still accepts, and that its liveness stays good
// until it exits. The rule is the project's own: the balancer needs time to take
// the instance out, and a liveness probe that fails has the kubelet kill what it
// should let drain.
func HealthFailsFirst() Check {
	const what = "new connections accepted after the balancer's health had turned bad"
	const told = "answers to the liveness probe that were told"
	enough := Floor{Per: "termination", Name: what, N: 1,
		Reason: "one shows that the listener was there; how long it has to be is another rule's, and what is answered, too",
	}
	toldFloor := Floor{Per: "termination", Name: told, N: 0, Reason: "a system without a liveness probe has none to fail"}
	return Check{
		Name:     "the balancer's health, the listener and liveness",
		Expected: "from D on the health that a load balancer polls turns bad before the listener goes, and liveness stays good until the process exits",
		Floors:   []Floor{enough, toldFloor},
		Judge: func(c Case) spec.Finding {
			var g gather
			ended := g.toll(c.terminated())
			for t := range ended.each() {
				g.shutBetween(c, t)
				ended.has(enough, g.balancerFirst(c, t))
				live := healths(c, t, "live")
				ended.has(toldFloor, len(live))
				if i := before(t, live); i >= 0 && live[i].Attrs["good"] != "true" && live[i].Attrs["silent"] != "true" {
					g.culprit(live[i].At, t.Name, "", "%s: liveness was bad, and was still so when the drain began", relative(live[i].At, t))
				}
				for i, e := range live {
					if e.At < t.Drain.At-t.Drain.Err || e.Attrs["good"] == "true" {
						continue
					}
					if t.Exit.Known() && e.At >= t.Exit.At-t.Exit.Err-atTheDoor {
						continue // with the process
					}
					// One look without an answer restarts nothing, if the next has one.
					if e.Attrs["silent"] == "true" && slices.ContainsFunc(live[i:], func(e timeline.Event) bool { return e.Attrs["good"] == "true" }) {
						g.doubt("%s: a look at the liveness of %s had no answer in time, and was good again after it", relative(e.At, t), t.Name)
						continue
					}
					g.late(c, e.At, t.Name, "", "%s: liveness turned bad", relative(e.At, t))
				}
			}
			return g.conclude(
				fmt.Sprintf("the balancer's health turned bad first, and liveness stayed good, at each of %s", ended),
				fmt.Sprintf("%s from that order at %s", plural(g.failures(), "departure", "departures"), ended))
		},
	}
}

// lookPeriod is that of a balancer that looks twice a second: what turned bad for less
// time than that before the listener went told it nothing.
const lookPeriod = 500 * time.Millisecond

// before is which of some events, in their order, is the last one before an instance's D;
// -1: none is.
func before(t Ending, events []timeline.Event) int {
	n := 0
	for n < len(events) && events[n].At < t.Drain.At-t.Drain.Err {
		n++
	}
	return n - 1
}

// healths are the changes of what an instance answered to a probe.
func healths(c Case, t Ending, probe string) []timeline.Event {
	var out []timeline.Event
	for _, e := range c.Timeline.EventsOf(timeline.Health, t.UID) {
		if e.Attrs["probe"] == probe {
			out = append(out, e)
		}
	}
	return out
}

// turning is how something that is told of an instance, in an attribute that is true
// or false, went from good to bad.
type turning struct {
	good   bool    // as the instance's drain began
	bad    Instant // the first time that it was not, and was not again after that
	silent bool    // it was last seen to give no answer in time, and not to turn bad
	hidden bool    // it turned bad behind such a silence
}

// turningOf reads it from events. No answer in time is neither good nor
// bad: a machine that is busy with other things gives none either. What turned
// bad behind a silence may have done so at any time in it.
func turningOf(t Ending, events []timeline.Event, attr string) turning {
	var is turning
	var silence time.Duration // when the answers ceased
	for _, e := range events {
		begun := e.At >= t.Drain.At-t.Drain.Err
		switch {
		case e.Attrs["silent"] == "true":
			if !is.silent {
				is.silent, silence = true, e.At-e.Err
			}
			continue
		case e.Attrs[attr] == "true":
			is.bad, is.hidden = Instant{}, false
			is.good = is.good || !begun
		case !begun:
			is.good = false
		case !is.bad.Known():
			since := e.At - e.Err
			if is.silent {
				since = min(since, silence)
			}
			is.bad, is.hidden = Instant{At: e.At, Err: e.At - since, Source: e.Source}, is.silent
		}
		is.silent = false
	}
	is.silent = is.silent && !is.bad.Known()
	return is
}

// balancerFirst judges whether the balancer's health turned bad before the
// listener was gone. It counts the new connections that were accepted in between.
func (g *gather) balancerFirst(c Case, t Ending) int {
	is := turningOf(t, healths(c, t, "lb"), "good")
	bad := is.bad
	if !is.good {
		g.doubt("the balancer's health of %s was not seen to be good before D", t.Name)
		return 0
	}
	if is.silent {
		g.doubt("the balancer's health of %s gave no answer in time, and was not seen to turn bad", t.Name)
		return 0
	}
	failed := turned(c)
	shut, closed := acceptsUntilBy(c, t, failed)
	if !bad.Known() {
		if !closed {
			g.doubt("the balancer's health of %s stayed good, and nobody saw it stop accepting", t.Name)
			return 0
		}
		g.culprit(shut, t.Name, "", "%s: it accepted no more, and the balancer's health was good to the end", relative(shut, t))
		return 0
	}
	// What was asked at intervals turned bad at some time since it was last good.
	after, perhaps, offered := 0, 0, 0
	for _, s := range c.Timeline.Samples {
		switch {
		case !directTo(s, t.UID) || !onNewConns(s) || slowOp(s) || arrival(s) <= bad.At-bad.Err:
		case failed(s) && arrival(s) > bad.At:
			offered++
		case failed(s):
		case arrival(s) > bad.At:
			after++
		default:
			perhaps++
		}
	}
	switch {
	case after > 0:
	case perhaps > 0 && closed && shut <= bad.At && !is.hidden && shut <= bad.At-bad.Err+lookPeriod:
		g.late(c, shut, t.Name, "", "%s: it accepted no more, and the balancer's health was not seen to be bad until %s, when it was asked next", relative(shut, t), relative(bad.At, t))
	case perhaps > 0:
		g.doubt("the balancer's health of %s turned bad at some time in %s, and new connections were accepted in it, but none after it", t.Name, ms(bad.Err))
	case offered > 0:
		g.culprit(bad.At, t.Name, "", "%s: the balancer's health turned bad, and not one new connection was accepted after it", relative(bad.At, t))
	default:
		g.doubt("no new connection was offered to %s after the balancer's health had turned bad", t.Name)
	}
	return after
}
