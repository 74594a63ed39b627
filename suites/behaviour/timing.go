// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"cmp"
	"runtime"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Price is what recording takes on a kind of stage.
type Price struct {
	// Weight is what a scenario's traffic takes, of what it takes on a cluster.
	Weight float64
	// Gate is what it takes more where a gateway, or the like, stands between: each request is
	// two.
	Gate float64
	// Mesh is what it takes more where both ends of each connection are in the mesh: two data paths
	// join it, in TLS.
	Mesh float64
	// Own is what a scenario takes beside its traffic, in cores, where others run beside it: its pods, their
	// kubelets and the clients that look on.
	Own float64
	// GoingUp is what bringing a scenario up takes, in cores, which others would feel. Its
	// load begins behind that.
	GoingUp float64
	// Up is what it takes to bring a scenario up, and Replaced what a replacement
	// takes until it is there.
	Up, Replaced time.Duration
	// Apart is how long after one instance the next one is ended at most; 0: as long as
	// that takes.
	Apart time.Duration
	// Speed is how much a core does of what one of the machine does that the prices are of (Speed); 0: all of it.
	Speed float64
	// Standing is what the stage and the runner take by themselves, in cores.
	Standing float64
	// Share is how much of the machine the scenarios that run side by side may take
	// together: a generator that starves lies.
	Share float64
	// Measured: the machine is asked too, and nothing begins beside what runs while more
	// than that is in use. What a vendor's program takes no table says.
	Measured bool
}

// The prices, by the machine's own account of recordings. On a host there is no kubelet, no container runtime and no
// kube-proxy: what goes up is two or three processes of 60 ms each. In the mesh an app's sidecar took as much as the app, and
// the clients' as much as they: on a host, where that is all there is, recordings beside each other left their looks at
// sockets too rare.
//
// On a cluster of two cores a whole run of four systems (78 recordings) gives, by least squares, 0.4 cores for the cluster, 0.2
// for each recording whatever its traffic, and a unit of its cost half as much for an app, or for what stands behind a gateway, as in
// the mesh. That is the mean: who drains takes more for some seconds, so that what may run together is a mean of 1.5. Three
// of the mesh that were priced at 0.3 each took 1.8 of two cores, and their clients paused for half a second.
var (
	OnCluster = Price{Share: 0.6, Weight: 0.65, Gate: 1.7, Mesh: 1.85, Own: 0.1, GoingUp: 0.35, Standing: 0.2, Up: 6 * time.Second, Replaced: 2 * time.Second}
	OnHost    = Price{Share: 0.8, Measured: true, Weight: 0.5, Gate: 1, Mesh: 2, GoingUp: 0.1, Up: time.Second, Apart: disrupt.Apart}
)

// weigh is what a scenario takes on the stage, in cores.
func (p Price) weigh(s Scenario) float64 {
	switch row := s.Topology.row(); {
	case row.Before:
		return s.Cost * p.Weight * p.Gate
	case row.Meshed:
		return s.Cost * p.Weight * p.Mesh
	}
	return s.Cost * p.Weight
}

// cores is how much of the machine the scenarios that run side by side may take
// together: with more, one's pods that went up were felt by another's clients.
// They are cores as the prices have them: a slow one is less.
func (p Price) cores() float64 {
	all := float64(runtime.NumCPU()) * p.Share
	return max(min(all-p.Standing, leastCores), all*cmp.Or(p.Speed, 1)-p.Standing)
}

// leastCores is what a plan is made for however slow the machine is: about what one core has on a cluster. Each
// recording has a part that is not its load.
const leastCores = 0.4

// takes is how much of the machine a scenario takes while it goes up, and when
// it stands, in cores.
func (p Price) takes(s Scenario) lane {
	stands := min(s.Cost+p.Own, p.cores())
	return lane{goesUp: min(max(stands, p.GoingUp), p.cores()), stands: stands}
}

// order puts the longest first, behind the control, by what it takes on a stage that is
// measured; what must be alone comes last.
func (p Price) order(plan []Scenario) {
	if !p.Measured {
		return
	}
	for len(plan) > 0 && plan[0].Control {
		plan = plan[1:]
	}
	apart := func(s Scenario) int {
		if s.Disrupt.NodeWide() {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(plan, func(a, b Scenario) int {
		return cmp.Or(cmp.Compare(apart(a), apart(b)), cmp.Compare(p.Estimate(b), p.Estimate(a)))
	})
}

// predict is about how long recording the scenarios of a plan takes: what runs alone,
// and then what runs side by side.
func (p Price) predict(plan []Scenario) time.Duration {
	return p.remaining(plan, make([]time.Duration, len(plan)))
}

// remaining is predict for scenarios of which some are under way already, each for so long.
func (p Price) remaining(plan []Scenario, gone []time.Duration) time.Duration {
	var apart, longest time.Duration
	var work float64 // in core seconds
	for i, s := range plan {
		d := max(0, p.Estimate(s)-gone[i])
		if s.Control || s.Disrupt.NodeWide() {
			apart += d
			continue
		}
		longest = max(longest, d)
		work += p.takes(s).stands * d.Seconds()
	}
	return apart + max(longest, time.Duration(work/p.cores()*float64(time.Second)))
}

// timing is what a recording took, and of what.
func (r recording) timing(fault spec.Fault) v1alpha1.ScenarioTiming {
	c := r.scene
	out := v1alpha1.ScenarioTiming{Alone: alone(r.meta.Scenario, fault)}
	if !r.recorded || r.meta.To.IsZero() {
		return out // it was stopped before it began, or before its end
	}
	out.Wall, out.Stolen = v1alpha1.Duration(r.meta.To.Sub(r.meta.From)), r.meta.Stolen
	out.Waited, out.Late, out.Busy = r.meta.Waited, r.late(), r.busy()
	out.Used, out.P50, out.Lowered = r.meta.Busy, v1alpha1.Duration(r.median()), r.meta.Scenario.Lowered
	out.Beyond = r.meta.Scenario.Beyond
	for _, a := range r.meta.Before {
		out.Before = append(out.Before, v1alpha1.Attempt{
			Recorded: v1alpha1.Span{From: a.From, To: a.To}, Why: a.Why, Busy: a.Busy, History: v1alpha1.HistoryDir + "/" + a.History,
		})
	}
	out.Gate = v1alpha1.Duration(max(0, c.Disturbed-r.meta.Held))
	for _, t := range c.Terminations {
		if t.Exit.Known() {
			out.Longest = max(out.Longest, v1alpha1.Duration(t.Exit.At-t.Drain.At))
		}
	}
	// Each event counts from its process's start: the last one of each has
	// all of it.
	used := map[string]time.Duration{}
	for _, e := range c.Timeline.EventsOf(timeline.CPU, "") {
		if d, err := time.ParseDuration(e.Attrs["cpu"]); err == nil {
			used[e.Source+e.Subject] = max(used[e.Source+e.Subject], d)
		}
	}
	for _, d := range used {
		out.CPU += v1alpha1.Duration(d)
	}
	return out
}

// timings adds up, from what is told of each recording, what the run took, and
// what it can't have taken less than: gate + longest D-to-exit + P, summed over
// what runs alone, plus the larger of the longest other recording and of the
// CPU that the others took at the share of the machine that they may have. That
// CPU is the machine's own account of that stretch, with all that kubelets,
// kube-proxies and the kernel did.
func (j *judgement) timings(told []v1alpha1.Scenario, p, wall time.Duration) *v1alpha1.Timing {
	out := &v1alpha1.Timing{Wall: v1alpha1.Duration(wall), Cores: j.cores}
	var apart, longest v1alpha1.Duration
	var from, to float64
	for i, r := range j.recs {
		if !r.recorded {
			continue
		}
		t := told[i].Timing
		if t.Alone {
			apart += t.Gate + t.Longest + v1alpha1.Duration(p)
			continue
		}
		longest = max(longest, t.Wall)
		if from == 0 || r.meta.BusyFrom < from {
			from = r.meta.BusyFrom
		}
		to = max(to, r.meta.BusyTo)
	}
	cpu := time.Duration((to - from) * float64(time.Second))
	out.CPU = v1alpha1.Duration(cpu)
	out.Bound = apart + max(longest, v1alpha1.Duration(float64(cpu)/j.cores))
	return out
}
