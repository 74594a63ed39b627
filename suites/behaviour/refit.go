// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"fmt"
	"slices"
)

// dearer is how many times its price a control takes at least, and overPrice how many cores
// more, for what comes after it to be planned anew. Behind less, a few samples of a machine's
// CPU say nothing.
const (
	dearer    = 1.25
	overPrice = 0.2
)

// through notes that a scenario is recorded, or won't be, and tells those who wait for the
// behaviours of which it was the last.
func (r *Recorder) through(s Scenario) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone == nil {
		r.gone = map[string]bool{}
	}
	r.gone[s.Name] = true
	for _, id := range s.Behaviours {
		missing := slices.ContainsFunc(r.run.Plan, func(o Scenario) bool {
			return slices.Contains(o.Behaviours, id) && !r.gone[o.Name]
		})
		if !missing {
			close(r.done[id])
		}
	}
}

// planned sets what is recorded.
func (r *Recorder) planned(plan []Scenario) {
	r.run.Plan = plan
	for _, s := range plan {
		for _, id := range s.Behaviours {
			if r.done[id] == nil {
				r.done[id] = make(chan struct{})
			}
		}
	}
}

// refit plans what is left by what the controls took of this machine, where that is more
// than their price: a system that costs more than the reference would starve its own clients.
// The machine's use before the first recording is not theirs. Who begins to use it after that
// is taken for a part of the price: then more recordings are made, and none is worth less.
func (r *Recorder) refit(waiting []Scenario) []Scenario {
	if r.cfg.Price.Measured || !r.idle.known || len(waiting) == 0 {
		return waiting
	}
	scale := 0.0
	var took, price float64
	for _, s := range r.Plan() {
		if !s.calibrates(r.cfg.How.Fault) {
			continue
		}
		m, err := readMeta(historyDir(r.cfg.Dir, s.Name))
		if err != nil || short(m.Stolen, m.Waited, 0) != "" || s.Cost == 0 {
			continue
		}
		if own := m.Busy - r.idle.used; own-s.Cost > overPrice && own/s.Cost > scale {
			scale, took, price = own/s.Cost, own, s.Cost
		}
	}
	if scale < dearer {
		return waiting
	}
	left := r.cfg.Price.at(scale).again(waiting, r.take)
	r.mu.Lock()
	plan := slices.DeleteFunc(slices.Clone(r.run.Plan), func(s Scenario) bool {
		return slices.ContainsFunc(waiting, func(w Scenario) bool { return w.Name == s.Name })
	})
	r.run.Plan, r.run.Scale = append(plan, left...), scale
	r.mu.Unlock()
	r.say("", fmt.Sprintf("a control took %.1f cores, and %.1f were expected: what is left is planned by that, as %d recordings instead of %d", took, price, len(left), len(waiting)), 0, 0, 0)
	if err := r.save(); err != nil {
		r.fault(err)
	}
	return left
}

// at is the price where all traffic takes so many times as much.
func (p Price) at(scale float64) Price {
	p.Weight *= scale
	return p
}

// again is a plan at another price than the one that it was made at.
func (p Price) again(plan []Scenario, of []Behaviour) []Scenario {
	var out []Scenario
	for _, s := range plan {
		if s = p.priced(s); p.fits(s) {
			out = append(out, s)
			continue
		}
		out = append(out, p.split(s, of)...)
	}
	return out
}
