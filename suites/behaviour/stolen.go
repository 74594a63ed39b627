// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"math"
	"sync"
	"time"
)

// stolenEvery is how often the machine is asked what its host took: a virtual CPU
// that stands still for half of it makes holes in a recording, and in the mean of
// minutes it is not to be seen.
const stolenEvery = time.Second

// stolen is what the machine's host took of its CPU for others.
type stolen struct {
	mu     sync.Mutex
	spells []spell
}

// spell is about stolenEvery long; share is of the CPU of all cores, from 0 to 1.
type spell struct {
	from, to time.Time
	share    float64
}

// watch looks until ctx ends.
func (s *stolen) watch(ctx context.Context) {
	tick := time.NewTicker(stolenEvery)
	defer tick.Stop()
	from := time.Now()
	_, before, allBefore := cpuTime()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		_, taken, all := cpuTime()
		s.add(spell{from, now, portion(taken-before, all-allBefore)})
		from, before, allBefore = now, taken, all
	}
}

func (s *stolen) add(one spell) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spells = append(s.spells, one)
}

// worst is the largest share of the spells that lie in a stretch of time, or
// partly.
func (s *stolen) worst(from, to time.Time) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := 0.0
	for _, one := range s.spells {
		if one.to.After(from) && one.from.Before(to) {
			out = max(out, one.share)
		}
	}
	return out
}

// portion is rounded to a thousandth: the kernel counts in hundredths of a second.
func portion(taken, all float64) float64 {
	if all <= 0 {
		return 0
	}
	return math.Round(1000*taken/all) / 1000
}
