// SPDX-License-Identifier: Apache-2.0

package pacing

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
)

// Try is one try of an agent: for how many seconds it waited before it, and which of
// the replicas 0, 1, ... the balancer gave it.
type Try struct {
	Wait    float64
	Replica int
}

// agent is one agent on its way back: the rules of the model, one try at a time.
type agent struct {
	missing []bool // by replica
	left    int
	n       int // the next try's number
	waited  float64
}

// newAgent has no tunnel to the first so many replicas.
func newAgent(replicas, missing int) *agent {
	a := &agent{missing: make([]bool, replicas), left: missing}
	for i := range missing {
		a.missing[i] = true
	}
	return a
}

func (a *agent) try(t Try) error {
	least, most := float64(2*a.n), float64(4*a.n)
	switch {
	case a.left == 0:
		return errors.New("it has all its tunnels, and tries no more")
	case !(t.Wait >= least && t.Wait <= most):
		return fmt.Errorf("before try %d it waits for %g to %g s, not for %g", a.n, least, most, t.Wait)
	case t.Replica < 0 || t.Replica >= len(a.missing):
		return fmt.Errorf("there is no replica %d among %d", t.Replica, len(a.missing))
	}
	a.waited += t.Wait
	a.n++
	if a.missing[t.Replica] {
		a.missing[t.Replica] = false
		a.left--
		a.n = 0
	}
	return nil
}

// Replay adds up what one agent went through that had no tunnel to the first so many
// replicas: how long it waited in all, and how many tunnels it still lacks. Tries that
// the model's rules don't allow are an error.
func Replay(replicas, missing int, tries []Try) (waited float64, lacks int, err error) {
	if missing < 0 || missing > replicas {
		return 0, 0, fmt.Errorf("%d tunnels can't be missing to %d replicas", missing, replicas)
	}
	a := newAgent(replicas, missing)
	for i, t := range tries {
		if err := a.try(t); err != nil {
			return a.waited, a.left, fmt.Errorf("the %d. of the tries: %w", i+1, err)
		}
	}
	return a.waited, a.left, nil
}

// Simulation is how long each of many simulated agents took, in order.
type Simulation []float64

// CanSimulate says what is wrong with a simulation of so many agents.
func (q Question) CanSimulate(agents int) error {
	tries := 0.0 // of one agent, in the mean
	for j := 1; j <= q.Missing; j++ {
		tries += float64(q.Replicas) / float64(j)
	}
	if most := math.Floor(min(1e7, 1e9/tries)); agents < 1 || float64(agents) > most {
		return fmt.Errorf("simulate %d: give 1 to %.0f agents", agents, most)
	}
	return nil
}

// Simulate lets so many agents go the whole way, try by try. The same seed gives the
// same times.
func Simulate(q Question, agents int, seed uint64) (Simulation, error) {
	if err := errors.Join(q.Mistakes()...); err != nil {
		return nil, err
	}
	if err := q.CanSimulate(agents); err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(seed, 0))
	out := make(Simulation, agents)
	for i := range out {
		a := newAgent(q.Replicas, q.Missing)
		for a.left > 0 {
			wait := float64(2*a.n) * (1 + random.Float64())
			if err := a.try(Try{Wait: wait, Replica: random.IntN(q.Replicas)}); err != nil {
				return nil, fmt.Errorf("simulate: %w", err)
			}
		}
		out[i] = a.waited
	}
	slices.Sort(out)
	return out, nil
}

// Back is the part of the agents that were back by then.
func (s Simulation) Back(seconds float64) float64 {
	n := sort.Search(len(s), func(i int) bool { return s[i] > seconds })
	return float64(n) / float64(len(s))
}
