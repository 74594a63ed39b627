// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// RecordTogether records the scenarios of several recorders, each with a report of its own, side
// by side as the machine allows: systems that are tested in one run. They are on one stage, that
// of the first or views of it, and the first's is closed at the end. It returns what broke each
// run as a whole, in their order. A system that does not come up is given up, and the others are
// not.
func RecordTogether(ctx context.Context, all ...*Recorder) []error {
	start := time.Now()
	g := &group{all: all, errs: make([]error, len(all)), envs: make([]v1alpha1.Environment, len(all))}
	for i, r := range all {
		r.beside = all
		g.envs[i], g.errs[i] = r.begin(ctx)
	}
	if errors.Join(g.errs...) != nil {
		g.close(ctx)
		return g.errs
	}
	if all[0].cfg.Here {
		all[0].look(ctx)
	}
	for i, r := range all {
		g.envs[i].Load = &v1alpha1.Load{Begin: loadAverage()}
		if speed := r.cfg.Price.Speed; speed < 1 {
			g.envs[i].Load.Speed = math.Round(100*speed) / 100
		}
	}
	_, stolenBefore, allBefore := cpuTime()
	watching, unwatch := context.WithCancel(ctx)
	var watch sync.WaitGroup
	recording := make([]context.Context, len(all))
	for i, r := range all {
		watch.Go(func() { r.stolen.watch(watching) })
		recording[i], r.giveUp = context.WithCancelCause(ctx)
		defer r.giveUp(nil)
	}
	g.record(recording)
	unwatch()
	watch.Wait()
	all[0].say("", "removing what the run made", 0, 0, 0)
	egress, cerr := all[0].closeStage(ctx)
	_, stolen, cpu := cpuTime()
	for i, r := range all {
		if why := context.Cause(recording[i]); errors.Is(why, ErrDown) {
			g.errs[i] = errors.Join(why, cerr)
			continue
		}
		r.run.Report.Egress = egress
		if cerr != nil {
			r.run.Report.Errors = append(r.run.Report.Errors, cerr.Error())
		}
		if ctx.Err() != nil {
			r.run.Report.Errors = append(r.run.Report.Errors, fmt.Sprintf("the run ended early: %v", context.Cause(ctx)))
		}
		g.envs[i].Load.End = loadAverage()
		g.envs[i].Load.Stolen = portion(stolen-stolenBefore, cpu-allBefore)
		r.run.Report.Environment = g.envs[i]
		r.run.Report.Metadata.Took = v1alpha1.Duration(time.Since(start))
		g.errs[i] = r.save()
	}
	return g.errs
}

// group is some recorders that record together.
type group struct {
	all  []*Recorder
	errs []error
	envs []v1alpha1.Environment
}

// close ends what was not begun: who waits for a recording hears that there is none.
func (g *group) close(ctx context.Context) {
	for _, r := range g.all {
		for _, done := range r.done {
			close(done)
		}
	}
	_, err := g.all[0].closeStage(ctx)
	g.errs[0] = errors.Join(g.errs[0], err)
}

// record records all scenarios, in the order and as many side by side as admission has it.
func (g *group) record(ctx []context.Context) {
	var wg sync.WaitGroup
	first := g.all[0]
	plan, of := g.plan()
	a := newAdmission(first.cfg.Price, first.cfg.How.Fault, plan, of, first.run.Cores, first.room)
	over := func(s admitted) { g.all[s.of].release(s.Name) }
	for !a.over() {
		for i := range g.all {
			if ctx[i].Err() != nil {
				for _, s := range a.stop(i) {
					over(s)
				}
			}
		}
		if a.over() {
			break // nothing will change any more that could be waited for
		}
		if x, ok := a.next(); ok {
			r := g.all[x.of]
			wg.Go(func() {
				defer a.ended(x)
				up := sync.OnceFunc(func() { a.stands(x) })
				defer up()
				w := ways{
					nth: x.nth, up: up,
					stood: func() { a.stood(x) }, tail: func() { a.tail(x) }, again: func() { a.again(x) },
					await: func(ctx context.Context, waits func()) error { return a.await(ctx, x, waits) },
				}
				r.recordUntilProven(ctx[x.of], x.Scenario, w, nil, 0)
				over(x)
			})
			continue
		}
		var again <-chan time.Time
		if first.cfg.Price.Measured && a.waits() {
			again = time.After(stolenEvery)
		}
		select {
		case <-a.changed:
		case <-again:
			if running, left, begun, yes := a.starved(); yes {
				first.say("", fmt.Sprintf("the machine has no time for more beside the %d that run: %d to come", running, left), begun, 0, 0)
			}
		}
	}
	wg.Wait()
}

// plan are the scenarios of all, in the order in which they are best recorded together, and of
// which recorder each is: the controls first, because the rest is worth nothing without them,
// then those of all, the longest first, and at the end what must be alone. Of several outages of the control plane the first
// stands behind the controls.
func (g *group) plan() (plan []Scenario, of []int) {
	fault := g.all[0].cfg.How.Fault
	first, last := outagesApart(inTurn(g.all, func(s Scenario) bool { return !s.calibrates(fault) && alone(s, fault) }))
	for _, t := range slices.Concat(
		inTurn(g.all, func(s Scenario) bool { return s.calibrates(fault) && !s.light(fault) }),
		inTurn(g.all, func(s Scenario) bool { return s.light(fault) }),
		first,
		g.longest(inTurn(g.all, func(s Scenario) bool { return !alone(s, fault) })),
		last,
	) {
		plan, of = append(plan, t.Scenario), append(of, t.of)
	}
	return plan, of
}

// longest puts first what takes longest, whoever's it is, so that no long one is left alone at the end.
func (g *group) longest(all []turn) []turn {
	price := g.all[0].cfg.Price
	slices.SortStableFunc(all, func(a, b turn) int { return cmp.Compare(price.Estimate(b.Scenario), price.Estimate(a.Scenario)) })
	return all
}

// turn is a scenario of a plan, and of which recorder it is.
type turn struct {
	Scenario
	of int
}

// outagesApart puts outages of the control plane as far from each other as they can be among what must be alone: the first before all
// else, and the others from the begin of the rest to its end. For ten minutes after it has started the control plane's containers again
// a kubelet waits each time for longer until it does so: 10 s, then 20 s.
func outagesApart(all []turn) (first, rest []turn) {
	var outages, others []turn
	for _, t := range all {
		if t.Disrupt.Midway == disrupt.ControlPlaneOutage {
			outages = append(outages, t)
		} else {
			others = append(others, t)
		}
	}
	if len(outages) < 2 {
		return nil, all
	}
	first, outages = outages[:1], outages[1:]
	for i, t := range outages {
		at := len(others) // of the last
		if i < len(outages)-1 {
			at = len(others) * i / (len(outages) - 1)
		}
		rest = append(append(rest, others[len(rest)-i:at]...), t)
	}
	return first, rest
}

// inTurn takes the scenarios that are wanted from the recorders one after the other.
func inTurn(all []*Recorder, want func(Scenario) bool) (plan []turn) {
	rest := make([][]Scenario, len(all))
	for i, r := range all {
		rest[i] = slices.DeleteFunc(r.Plan(), func(s Scenario) bool { return !want(s) })
	}
	for more := true; more; {
		more = false
		for i := range rest {
			if len(rest[i]) > 0 {
				plan = append(plan, turn{rest[i][0], i})
				rest[i], more = rest[i][1:], true
			}
		}
	}
	return plan
}

// lightLoad is the most CPU that a control's load takes, in cores, which may be recorded beside another such
// one: what is felt of a kill elsewhere is little then, and a control that proves nothing is recorded again.
const lightLoad = 0.3

// light says whether the scenario is a control that may be recorded beside others of that kind.
func (s Scenario) light(fault spec.Fault) bool { return s.calibrates(fault) && s.Cost <= lightLoad }

// alone says whether a scenario of a run shares the cluster with no other, but for light controls, which
// share it with each other: the control, which is first, and what other scenarios would feel.
func alone(s Scenario, fault spec.Fault) bool {
	return s.calibrates(fault) || s.Disrupt.NodeWide()
}
