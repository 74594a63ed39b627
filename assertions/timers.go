// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// TimersInOrder judges the times of an instance's end, as its manifest has them
// and as they were seen: probe period x threshold + P < minimum drain <= drain
// timeout < ready timeout < grace. The rule is the project's own, after the review
// of Envoy Gateway's shutdown manager. A ready timeout, which bounds the wait of a
// hook for the drain, is judged where the manifest has one. Where no drain timeout is
// promised, the rest has to be in order: minimum drain < grace.
//
// Seen means: new connections are accepted for longer than the probes and P need;
// at the drain timeout there is work left, and it ends the instance all the same,
// by itself, before K.
func TimersInOrder() Check {
	saidFloor := Floor{Name: "manifests with all of the times", N: 1, Reason: "there is one, and it is said once"}
	freshFloor := Floor{Per: "termination", Name: "new connections served from D on", N: 50}
	leftFloor := Floor{Per: "termination", Name: "requests under way just before the drain timeout", N: 1,
		Reason: "one that is under way keeps the instance until its timeout",
	}
	return Check{
		Name:     "the order of the timers",
		Expected: "probe period × threshold + P < minimum drain ≤ drain timeout (if one is promised) < ready timeout (if any) < grace period, in the manifest and as seen",
		Floors:   []Floor{saidFloor, freshFloor, leftFloor},
		Judge: func(c Case) spec.Finding {
			var g gather
			m, all := g.manifest(c)
			g.count(saidFloor, all)
			ended := g.toll(c.terminated())
			for t := range ended.each() {
				if all == 0 {
					break
				}
				g.span(t.Drain.At, t.exitOr(t.Drain.At+m.grace))
				g.acceptsForNews(c, t, m.news(c))
				g.endsAtTimeout(c, t, m)
				ended.has(freshFloor, servedUntil(c, t, t.Drain.At+m.grace))
				left := leftFloor
				if m.none {
					left = left.Waived() // who promises no timeout has none to be seen
				}
				ended.has(left, leftAt(c, t, t.Drain.At+m.timeout))
			}
			return g.conclude(
				fmt.Sprintf("%s, and so it was at each of %s", m.inWords(c), ended),
				fmt.Sprintf("%s: broken %s, in the manifest or at %s", m.inWords(c), plural(g.failures(), "time", "times"), ended))
		},
	}
}

// timers are the times of a manifest. ready is 0 where there is none.
type timers struct {
	probe, minDrain, timeout, ready, grace time.Duration
	threshold                              int
	// none: no drain timeout is promised. timeout is the grace period then.
	none bool
}

// noTimeout is how a manifest says that.
const noTimeout = "none"

// news is how long it takes at most until nobody sends new connections: the probes
// have to notice, and the service network has to hear of it.
func (m timers) news(c Case) time.Duration { return m.probe*time.Duration(m.threshold) + c.P }

func (m timers) inWords(c Case) string {
	ready, timeout := "", m.timeout.String()
	if m.none {
		timeout = noTimeout
	}
	if m.ready > 0 {
		ready = fmt.Sprintf(", ready timeout %s", m.ready)
	}
	return fmt.Sprintf("probes %s × %d + P = %s, minimum drain %s, drain timeout %s%s, grace period %s",
		m.probe, m.threshold, m.news(c), m.minDrain, timeout, ready, m.grace)
}

// readTimers takes the times from what a manifest was said to have.
func readTimers(attrs map[string]string) (m timers, err error) {
	read := func(name string) (d time.Duration) {
		d, wrong := time.ParseDuration(attrs[name])
		if wrong != nil {
			err = errors.Join(err, fmt.Errorf("%s is %q", name, attrs[name]))
		}
		return d
	}
	m.probe, m.minDrain, m.grace = read("probe"), read("minDrain"), read("grace")
	if m.none = attrs["timeout"] == noTimeout; m.none {
		m.timeout = m.grace
	} else {
		m.timeout = read("timeout")
	}
	if attrs["ready"] != "" {
		m.ready = read("ready")
	}
	m.threshold, _ = strconv.Atoi(attrs["threshold"])
	if m.threshold < 1 {
		err = errors.Join(err, fmt.Errorf("threshold is %q", attrs["threshold"]))
	}
	return m, err
}

// manifest reads what the manifests say, and judges it. It counts those that say
// all; the last one is what the run is held to.
func (g *gather) manifest(c Case) (m timers, all int) {
	for _, e := range c.Timeline.EventsOf(timeline.Timers, "") {
		read, err := readTimers(e.Attrs)
		if err != nil {
			g.doubt("the manifest of %s can't be read: %v", e.Name, err)
			continue
		}
		m, all = read, all+1
		wrong := func(format string, args ...any) {
			g.certain(e.At, e.Name, "", "the manifest: "+format, args...)
		}
		if news := m.news(c); news >= m.minDrain {
			wrong("the probes' period × threshold + P (%s × %d + %s = %s) is not less than the minimum drain (%s)", m.probe, m.threshold, c.P, news, m.minDrain)
		}
		if m.none {
			if m.minDrain >= m.grace {
				wrong("the minimum drain (%s) is not less than the grace period (%s)", m.minDrain, m.grace)
			}
			if m.ready >= m.grace {
				wrong("the ready timeout (%s) is not less than the grace period (%s)", m.ready, m.grace)
			}
			continue
		}
		if m.minDrain > m.timeout {
			wrong("the minimum drain (%s) is more than the drain timeout (%s)", m.minDrain, m.timeout)
		}
		if m.ready > 0 && m.timeout >= m.ready {
			wrong("the drain timeout (%s) is not less than the ready timeout (%s), so that the hook ends before the drain", m.timeout, m.ready)
		}
		if longest := max(m.timeout, m.ready); longest >= m.grace {
			wrong("the longest timeout (%s) is not less than the grace period (%s)", longest, m.grace)
		}
	}
	return m, all
}

// acceptsForNews judges that an instance accepted for longer than the news of its
// end takes.
func (g *gather) acceptsForNews(c Case, t Ending, news time.Duration) {
	gone, ok := acceptsUntil(c, t)
	switch until := t.Drain.At + news; {
	case !ok:
		g.doubt("nobody saw %s stop accepting", t.Name)
	case gone >= until-atOnce+t.Drain.Err:
	case gone >= until-atOnce-t.Drain.Err:
		g.doubt("%s stopped accepting within the uncertainty of the end of probes + P (±%s, %s)", t.Name, ms(t.Drain.Err), t.Drain.Source)
	case slices.ContainsFunc(c.Timeline.EventsOf(timeline.DrainListenerClosed, t.UID), func(e timeline.Event) bool { return e.At == gone }):
		// A starved machine makes everything late, and nothing early.
		g.culprit(gone, t.Name, "", "%s: it says that it accepts no more, and the probes and P take %s", relative(gone, t), news)
	default:
		g.late(c, gone, t.Name, "", "%s: it accepted no more new connections, and the probes and P take %s", relative(gone, t), news)
	}
}

// endsAtTimeout judges that an instance left by itself: soon after its drain
// timeout, and before K.
func (g *gather) endsAtTimeout(c Case, t Ending, m timers) {
	slack, cut := t.Exit.Err+t.Del.Err, 0
	if !m.none && t.Exit.Known() && t.Exit.At+t.Exit.Err+leavesWithin < t.Drain.At-t.Drain.Err+m.timeout {
		cut = cutAtExit(c, t)
	}
	switch late := t.Drain.At + m.timeout + leavesWithin; {
	case !t.Exit.Known():
		g.doubt("nobody saw %s exit", t.Name)
	case m.none && t.Kill > 0 && t.Exit.At+slack >= t.Kill:
		// SIGKILL was to end it.
	case t.Kill > 0 && t.Exit.At-slack >= t.Kill:
		g.culprit(t.Exit.At, t.Name, "", "D + %s: it was there until K, though its drain timeout is %s", ms(t.Exit.At-t.Drain.At), m.timeout)
	case t.Kill > 0 && t.Exit.At+slack >= t.Kill:
		g.doubt("%s left within the uncertainty of K (±%s)", t.Name, ms(slack))
	case cut > 0:
		g.culprit(t.Exit.At, t.Name, "", "D + %s: it left with %s under way, and its drain timeout is %s", ms(t.Exit.At-t.Drain.At), plural(cut, "request", "requests"), m.timeout)
	case t.ExitCode == killedCode:
		g.culprit(t.Exit.At, t.Name, "", "D + %s: it was killed", ms(t.Exit.At-t.Drain.At))
	case t.Exit.At-t.Exit.Err-t.Drain.Err > late:
		g.late(c, t.Exit.At, t.Name, "", "D + %s: it left long after its drain timeout of %s", ms(t.Exit.At-t.Drain.At), m.timeout)
	}
}

// cutAtExit counts the requests that an instance had in hand just before it left, and that ended with it.
func cutAtExit(c Case, t Ending) int {
	n := 0
	for _, s := range underWay(c, t, t.Exit.At-t.Exit.Err-listenerWindow) {
		if s.Failed() && s.End >= t.Exit.At-t.Exit.Err-atOnce && s.End <= t.Exit.At+t.Exit.Err+listenerWindow {
			n++
		}
	}
	return n
}

// leftAt counts the requests that an instance had in hand just before an instant,
// and that by design would have run beyond it.
func leftAt(c Case, t Ending, at time.Duration) int {
	n := 0
	for _, s := range underWay(c, t, at-listenerWindow) {
		if s.Start < at && s.Start+takes(s) > at {
			n++
		}
	}
	return n
}
