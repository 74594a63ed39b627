// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// The limits above which a recording was made on a busy machine. A calm machine of two
// cores that the suite loads as it may was seen to stay below each of them
// (docs/adr/0009).
const (
	// busyStolen is of the machine's CPU, in the worst second, that its host took.
	busyStolen = 0.2
	// busyWaited is of the time, in which something that could run waited for a processor.
	busyWaited = 0.9
	// busyLate is of the requests, which the suite's own clients sent late.
	busyLate = 0.05
)

// busy says what the machine was short of while a recording was made.
func (r recording) busy() string {
	says := []string{short(r.meta.Stolen, r.meta.Waited, r.late()), r.starvedNode()}
	return strings.Join(slices.DeleteFunc(says, func(one string) bool { return one == "" }), ", ")
}

// starvedNode says which node had no CPU for what ran there for so long that nothing is proven against it; "" for none.
func (r recording) starvedNode() string {
	told := r.scene.Timeline.EventsOf(timeline.NodeStarved, "")
	if len(told) == 0 || r.scene.Disturbed == 0 {
		return ""
	}
	// A recording that was stopped has no tail. Of the seconds in which all were on time nobody tells.
	from, to := r.scene.Disturbed, cmp.Or(r.scene.Tail, assertions.LastSeen(r.scene))
	node, late := assertions.StarvedNode(told, from, to)
	if node == "" {
		return ""
	}
	return fmt.Sprintf("what was to run on the node %s came late in %.0f%% of the time (limit %.0f%%)",
		node, 100*late.Seconds()/(to-from).Seconds(), 100*assertions.StarvedShare)
}

// short says which of the limits the shares of a stretch of time are above; "" for none.
func short(stolen, waited, late float64) string {
	var says []string
	if stolen > busyStolen {
		says = append(says, fmt.Sprintf("its host took %.0f%% of its CPU for others in the worst second (limit %.0f%%)", 100*stolen, 100*busyStolen))
	}
	if waited > busyWaited {
		says = append(says, fmt.Sprintf("something waited for a processor in %.0f%% of the time (limit %.0f%%)", 100*waited, 100*busyWaited))
	}
	if late > busyLate {
		says = append(says, fmt.Sprintf("%.0f%% of the requests were sent late by the suite's own clients (limit %.0f%%)", 100*late, 100*busyLate))
	}
	return strings.Join(says, ", ")
}

// late is the share of the requests that were sent later than their schedule allows, or not
// at all.
func (r recording) late() float64 {
	late := len(r.scene.Unsent)
	for _, s := range r.scene.Timeline.Samples {
		if s.Saturated {
			late++
		}
	}
	return portion(float64(late), float64(len(r.scene.Timeline.Samples)+len(r.scene.Unsent)))
}

// proved says why a control that was recorded proves nothing of some stream; "" where it
// does of all.
func (r recording) proved() string {
	if d := r.doubt(); d != "" {
		return d
	}
	for _, c := range r.controls() {
		if c.Verdict != spec.Pass {
			return c.Client + ": " + c.Reason
		}
	}
	return ""
}

// median is the p50 of the short requests of the baseline, which wait for nothing by
// design; 0 where there are none.
func (r recording) median() time.Duration {
	var took []time.Duration
	for _, s := range r.scene.Timeline.Samples {
		if s.Start >= r.scene.Steady && s.End < r.scene.Disturbed && s.Outcome == timeline.OK && assertions.Short(s) {
			took = append(took, s.End-s.Start)
		}
	}
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// slowest is the request that waited longest for its answer, of those that were begun before
// anything was disturbed and took longer than anybody is patient; slow is false for none.
func (r recording) slowest() (of timeline.Sample, slow bool) {
	for _, s := range r.scene.Timeline.Samples {
		if s.Start < r.scene.Steady || s.Start >= r.scene.Disturbed || s.Failed() || s.End-s.Start <= assertions.Patience(s) {
			continue
		}
		if s.End-s.Start > of.End-of.Start {
			of, slow = s, true
		}
	}
	return of, slow
}

// How a machine is looked at before anything is recorded on it.
const (
	lookFor  = 2 * time.Second
	lookPast = 10 * time.Second // between two looks of who waits
	// calmUsed is the share of its CPU that is in use at most on a calm machine: a cluster
	// that stands idle takes some of it.
	calmUsed = 0.3
)

// look says what this machine has to give and what the recordings will take of it, and waits
// for it to be calm if it is told to.
func (r *Recorder) look(ctx context.Context) {
	most := 0.0
	for _, s := range r.run.Plan {
		most = max(most, s.Cost)
	}
	cores := float64(runtime.NumCPU())
	until := time.Now().Add(r.cfg.WaitIdle)
	for {
		used, ok := inUse(ctx)
		if !ok {
			return
		}
		has := fmt.Sprintf("this machine has %.0f cores, of which %.1f are in use; one recording takes up to %.1f, and those side by side up to %.1f", cores, used, most, r.run.Cores)
		if used <= calmUsed*cores {
			r.say("", has, 0, 0, 0)
			return
		}
		if !time.Now().Before(until) {
			more := "what is recorded while others use it may be worth less: --wait-idle 10m waits for a calm machine"
			if r.cfg.WaitIdle > 0 {
				more = fmt.Sprintf("it did not get calm (%.1f or less) within %s, and is used as it is", calmUsed*cores, r.cfg.WaitIdle)
			}
			r.say("", has+". "+more, 0, 0, 0)
			return
		}
		r.say("", fmt.Sprintf("%s. Waiting for it to be calm (%.1f or less), for %s at most", has, calmUsed*cores, time.Until(until).Round(time.Second)), 0, 0, 0)
		if disrupt.Pause(ctx, min(lookPast, time.Until(until))) != nil {
			return
		}
	}
}

// inUse is how much of this machine is used, in cores; ok is false where nobody says it.
func inUse(ctx context.Context) (cores float64, ok bool) {
	from := time.Now()
	before, _, all := cpuTime()
	if disrupt.Pause(ctx, lookFor) != nil || all == 0 {
		return 0, false
	}
	after, _, _ := cpuTime()
	return (after - before) / time.Since(from).Seconds(), true
}

// The gate of a recording on a busy machine.
const (
	// gateLook is how often it is asked whether the machine is busy.
	gateLook = 20 * time.Second
	// busyBudget is how long the gate waits for a busy machine, beside its own budget.
	busyBudget = 3 * time.Minute
)

// awaitSteady waits until the streams run clean, for a budget of time in which the machine
// was not busy.
func (r *Recorder) awaitSteady(ctx context.Context, sink *Sink, streams []flow.Stream, budget time.Duration, say func(string)) error {
	whole, spare := budget, busyBudget
	for {
		from, waited := time.Now(), waitedTime()
		err := sink.awaitSteady(ctx, streams, r.cfg.Claims, min(gateLook, max(budget, spare)))
		if err == nil || ctx.Err() != nil || errors.Is(err, errNothingServed) {
			return err
		}
		took := time.Since(from)
		busy := short(r.stolen.worst(from, time.Now()), portion(waitedTime()-waited, took.Seconds()), 0)
		if busy == "" {
			if budget -= took; budget <= 0 {
				return fmt.Errorf("%w (%s in all)", err, whole)
			}
			continue
		}
		if spare -= took; spare <= 0 {
			return fmt.Errorf("%w (the machine was busy for %s: %s)", err, busyBudget, busy)
		}
		say(fmt.Sprintf("the machine is busy (%s), and not all streams run clean: waiting on, for %s at most", busy, spare.Round(time.Second)))
	}
}
