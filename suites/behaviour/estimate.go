// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"math"
	"time"

	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// Estimate is about how long recording a scenario takes, for people who wait: with
// the default P, on a machine that has the time.
func (p Price) Estimate(s Scenario) time.Duration {
	return p.Up + s.steady() + s.Baseline() + p.disruption(s) + s.tail(defaultP) + s.stop()
}

// defaultP is a run's propagation window where nothing else is said.
const defaultP = 3 * time.Second

// disruption is how long it takes, to the last exit that it waits for.
func (p Price) disruption(s Scenario) time.Duration {
	t := s.Topology
	return s.Disrupt.Takes(disrupt.Pace{
		Ending: s.ending(), Replaced: p.Replaced, Apart: p.Apart,
		Replicas: t.Replicas, MinReady: t.MinReady, InPlace: t.Behind,
	})
}

// ending is about how long an instance takes from its deletion to its end: it
// goes on until what was begun while it accepted is done, and is cut short by its
// deadline or by K.
func (s Scenario) ending() time.Duration {
	t := s.Topology
	switch {
	case t.Deadline > t.Grace:
		return t.Grace // there is work that only K ends
	case t.Cut:
		return t.Deadline
	}
	var left time.Duration
	for _, p := range s.Traffic {
		takes := lasts(p)
		if p.Conns != flow.New {
			// One more may be begun on a connection before its client is told.
			takes += min(takes, 2*time.Second)
		}
		left = max(left, takes)
	}
	// Its hook is a part of what it serves for.
	return min(max(t.Hook, t.MinDrain)+t.Unready+left, t.Deadline, t.Grace)
}

// steady is how long the last stream takes to have its clean samples.
func (s Scenario) steady() time.Duration {
	var longest time.Duration
	for _, p := range s.Traffic {
		longest = max(longest, lasts(p)+time.Duration(float64(cleanRun(p.Flow))/p.Rate*float64(time.Second)))
	}
	return longest
}

// stop is how long what is in flight at the end takes. Instances that are gone
// have nothing.
func (s Scenario) stop() time.Duration {
	all := s.Disrupt.LeavesNone(s.Topology.Replicas)
	var longest time.Duration
	for _, p := range s.Traffic {
		if !p.Path.PerPod() || !all {
			longest = max(longest, lasts(p))
		}
	}
	return longest
}

// lasts is how long a request of a flow is in flight. A connection that is held
// keeps nobody.
func lasts(p load.Profile) time.Duration {
	if p.Op.Holds() {
		return 0
	}
	return p.Takes
}

// Baseline is how long the undisturbed stretch before the first disruption is: mostly
// baselineFor. What is recorded alone may have slow requests only, none of which begins and
// ends in that: then it is as much longer as it takes to have what the judge asks for.
func (s Scenario) Baseline() time.Duration {
	const longer = time.Second
	most := longest(s.Traffic) + steadyBudget
	for d := baselineFor; d < most; d += longer {
		if s.sureWithin(d) >= steadyRun {
			return d
		}
	}
	return baselineFor
}

// sureWithin is how many attempts surely begin and end in a stretch of undisturbed traffic:
// a stream's first one may be a slot later than the stretch begins.
func (s Scenario) sureWithin(d time.Duration) float64 {
	const answering = 500 * time.Millisecond // more than by design
	var sum float64
	for _, p := range s.Traffic {
		streams := 1.0
		if p.Path.PerPod() {
			streams = float64(s.Topology.Replicas)
		}
		begin := d - lasts(p) - 2*p.Delay - answering
		sum += streams * max(0, math.Floor(p.Rate*begin.Seconds()-1))
	}
	return sum
}
