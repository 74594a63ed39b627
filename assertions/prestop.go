// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

const (
	// afterHook is the least that the kubelet leaves a container between the
	// end of its preStop hook and SIGKILL.
	afterHook = 2 * time.Second
	// roughly is by how much two instants of one process may differ in the
	// wrong direction: the timer of its hook is no better.
	roughly = 50 * time.Millisecond
)

// hook is what an instance says of its preStop hook.
type hook struct {
	begin, end time.Duration
	fails      bool
}

// hookOf is the instance's hook, as it says itself.
func hookOf(c Case, uid string) (hook, bool) {
	hooks := c.Timeline.EventsOf(timeline.DrainHook, uid)
	if len(hooks) == 0 {
		return hook{}, false
	}
	e := hooks[0]
	takes, err := time.ParseDuration(e.Attrs["takes"])
	if err != nil {
		takes = 0
	}
	return hook{begin: e.At, end: e.At + takes, fails: e.Attrs["fails"] == "true"}, true
}

// hookFailed says whether the kubelet tells that the instance's hook failed.
func hookFailed(c Case, uid string) bool {
	for _, e := range c.Timeline.EventsOf(timeline.ClusterEvent, uid) {
		if e.Attrs["reason"] == "FailedPreStopHook" {
			return true
		}
	}
	return false
}

// sigterm is when SIGTERM reached the instance, as it says itself: where its
// hook began the drain, SIGTERM is the second trigger. told says whether it
// speaks of its drain at all.
func sigterm(c Case, uid string) (at time.Duration, came, told bool) {
	for _, e := range c.Timeline.Events {
		if e.Subject != uid || e.Kind != timeline.DrainStart && e.Kind != timeline.DrainAgain {
			continue
		}
		if e.Attrs["trigger"] == "SIGTERM" {
			return e.At, true, true
		}
		told = true
	}
	return 0, false, told
}

// HookEndsInSigterm judges that the preStop hook is called at the deletion,
// and that SIGTERM follows its end although it failed.
func HookEndsInSigterm() Check {
	failing := Floor{Name: "hooks that failed", N: 3, Reason: "an order of three events is seen once for each termination, not counted in requests"}
	return Check{
		Name:     "deletion, preStop hook and SIGTERM",
		Expected: "the hook is called within 2 s of the deletion, SIGTERM comes within 2 s of its end and not before, and it comes although the hook failed",
		Floors:   []Floor{failing},
		Judge: func(c Case) spec.Finding {
			var g gather
			failed := 0
			ended := g.toll(c.terminated())
			for t := range ended.each() {
				g.span(t.Del.At, t.exitOr(t.Drain.At))
				term, came, told := sigterm(c, t.UID)
				h, called := hookOf(c, t.UID)
				switch {
				case !called && !told:
					g.doubt("%s says nothing of its hook and its drain", t.Name)
					continue
				case !called:
					g.culprit(t.Drain.At, t.Name, "", "the drain began, and the hook was never called")
					continue
				case !h.fails:
					g.doubt("the hook of %s did not fail: nothing is known of one that does", t.Name)
				case !hookFailed(c, t.UID):
					g.doubt("the kubelet did not say that the hook of %s failed: it may take what the app did for a success", t.Name)
				default:
					failed++
				}
				if d := h.begin - t.Del.At; d > kubeletWatch || d < -kubeletWatch {
					g.late(c, h.begin, t.Name, "", "the hook was called at %s", offset("T_del", d))
				}
				switch {
				case came && term < h.end-roughly:
					g.late(c, term, t.Name, "", "SIGTERM came %s before the end of the hook", ms(h.end-term))
				case came && term > h.end+kubeletWatch:
					g.late(c, term, t.Name, "", "SIGTERM came %s after the end of the hook", ms(term-h.end))
				case !came && t.Exit.Known():
					how := "ended"
					if h.fails {
						how = "failed"
					}
					g.culprit(t.Exit.At, t.Name, "", "the hook %s, and the process ended without a SIGTERM", how)
				case !came:
					g.doubt("neither a SIGTERM nor the end of %s was seen", t.Name)
				}
			}
			g.count(failing, failed)
			return g.conclude(
				fmt.Sprintf("%s at the deletion, failed, and had a SIGTERM behind it", plural(failed, "hook was called", "hooks were called")),
				fmt.Sprintf("hook and SIGTERM went wrong %s in %s", plural(g.failures(), "time", "times"), ended))
		},
	}
}

// AcceptsThroughHook judges that an instance serves new connections, dialled
// at its own address, from its hook on until both the hook and P are over.
func AcceptsThroughHook() Check {
	newConns := Floor{Per: "termination", Name: "new connections dialled at the pod from the hook on", N: 50}
	return Check{
		Name:     "new connections to the instance itself from the hook on",
		Expected: "every new connection to the pod from the start of its preStop hook until both the hook and P after D are over is accepted, and its request answered",
		Likely:   earlyEnd,
		Floors:   []Floor{newConns, keptUncounted("termination")},
		Judge: func(c Case) spec.Finding {
			var g gather
			ended := g.toll(c.terminated())
			for t := range ended.each() {
				h, called := hookOf(c, t.UID)
				if !called {
					g.doubt("%s says nothing of its hook", t.Name)
					continue
				}
				to := max(h.end, t.Drain.At+c.P)
				g.span(h.begin, to)
				w := g.accepts(c, t, t.Hook, "hook", to)
				ended.add(w)
				ended.has(newConns, w.sound)
			}
			all, lost := ended.sum.all, ended.sum.lost
			ended.bound(ended.hit, all, lost)
			return g.conclude(
				fmt.Sprintf("all %d new connections with a short request, dialled at the instances themselves from the hook on, were served, in %s", all, ended),
				fmt.Sprintf("%d of %s failed, at %d of %s", lost, plural(all, "new connection", "new connections"), ended.hit, ended))
		},
	}
}

// FinishesBeforeKill judges that an instance has done all its work, and has
// left by itself, before the grace period ends.
func FinishesBeforeKill() Check {
	underWayFloor := Floor{Per: "termination and kind of request", Name: "under way during the drain", N: 20,
		Reason: "slow requests are few at a time: rate times the length of the drain, so that at least one is in flight at every instant of it",
	}
	return Check{
		Name:     "work and exit against K",
		Expected: "every request that was under way during the drain ends whole, and the process has left by itself, with exit code 0 or SIGTERM's own 143, before the grace period ends (counted from the deletion, the hook's time included)",
		Likely:   earlyEnd,
		Floors:   []Floor{underWayFloor},
		Judge: func(c Case) spec.Finding {
			var g gather
			whole := wholeIDs(c.Timeline)
			kinds := g.slowKinds(c)
			stayed := 0
			ended := g.toll(c.terminated())
			for t := range ended.each() {
				kill := t.Kill
				if h, ok := hookOf(c, t.UID); ok {
					kill = max(kill, h.end+afterHook)
				}
				g.span(t.Del.At, max(kill, t.exitOr(kill)))
				begin := t.Drain.At
				if t.Hook.Known() {
					begin = t.Hook.At
				}
				var w attempts
				n := map[flow.Flow]int{}
				for _, s := range underWay(c, t, begin) {
					w.all++
					if !s.Saturated {
						n[s.Stream.Flow()]++
					}
					switch {
					case s.Failed():
						w.lost++
						g.failed(c, s, s.End, t.Name, "broke at %s: %s", againstKill(s.End, kill), describe(s))
					case !whole[s.ID]:
						g.unended(s)
					}
				}
				ended.add(w)
				for _, k := range kinds {
					ended.hasOf(k.String(), underWayFloor, n[k])
				}
				wrong := g.failures()
				g.leftBefore(c, t, kill)
				stayed += g.failures() - wrong
			}
			total, lost := ended.sum.all, ended.sum.lost
			ended.bound(ended.hit, total, lost)
			return g.conclude(
				fmt.Sprintf("all %d slow requests that the instances themselves had under way ended whole, and %d of %s left before K", total, len(ended.of), plural(len(ended.of), "process", "processes")),
				both(lost, fmt.Sprintf("%d of %s failed, at %d of %s", lost, plural(total, "request", "requests"), ended.hit, ended),
					stayed, fmt.Sprintf("%d of %s did not leave by themselves before K", stayed, plural(len(ended.of), "process", "processes"))))
		},
	}
}

// both joins what is said of two things that may have happened, of those that did.
func both(n int, first string, m int, second string) string {
	switch {
	case m == 0:
		return first
	case n == 0:
		return second
	}
	return first + "; " + second
}

// leftBefore judges that the process left by itself before a deadline.
func (g *gather) leftBefore(c Case, t Ending, kill time.Duration) {
	switch {
	case t.Grace == 0:
		g.doubt("the grace period of %s was not seen", t.Name)
	case !byItself(c, t):
		how := "left with an error"
		switch t.ExitCode {
		case killedCode:
			how = "was killed"
		case termCode:
			how = "left with work in flight"
		}
		g.culprit(t.exitOr(kill), t.Name, "", "the process %s at %s (exit code %d)", how, againstKill(t.exitOr(kill), kill), t.ExitCode)
	case !t.Exit.Known() || t.ExitCode < 0:
		g.doubt("nobody saw how %s ended", t.Name)
	case t.Exit.At-t.Exit.Err >= kill:
		g.late(c, t.Exit.At, t.Name, "", "the process left at %s", againstKill(t.Exit.At, kill))
	case t.Exit.At+t.Exit.Err >= kill:
		g.doubt("the exit of %s is known only to ±%s (%s): before K or not", t.Name, ms(t.Exit.Err), t.Exit.Source)
	}
}

func againstKill(at, kill time.Duration) string { return offset("K", at-kill) }
