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

// stolen is what the machine's host took of its CPU for others, and what the machine
// used itself.
type stolen struct {
	// account is the machine's; nil: cpuTime.
	account func() (busy, stolen, all float64)

	mu     sync.Mutex
	spells []spell
}

// spell is about stolenEvery long; share is of the CPU of all cores, from 0 to 1, and
// busy is in cores; less than 0: nobody knows.
type spell struct {
	from, to    time.Time
	share, busy float64
}

// watch looks until ctx ends.
func (s *stolen) watch(ctx context.Context) {
	tick := time.NewTicker(stolenEvery)
	defer tick.Stop()
	account := s.account
	if account == nil {
		account = cpuTime
	}
	from, own := time.Now(), ownMachine()
	busyBefore, before, allBefore := account()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		busy, taken, all := account()
		one := spell{from: from, to: now, share: portion(taken-before, all-allBefore), busy: -1}
		if own && all > allBefore {
			one.busy = (busy - busyBefore) / now.Sub(from).Seconds()
		}
		s.add(one)
		from, busyBefore, before, allBefore = now, busy, taken, all
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

// settled is how long a machine's CPU has to be watched after a scenario began or
// ended, to be told what the others take.
const settled = 2

// busy is what the machine used in the last spells, in cores, if that many lie behind
// an instant. known is false where no machine says it.
func (s *stolen) busy(since time.Time) (cores float64, known, enough bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known = true
	if n := len(s.spells); n > 0 && s.spells[n-1].busy < 0 {
		return 0, false, true
	}
	n := 0
	for i := len(s.spells) - 1; i >= 0 && n < settled && !s.spells[i].from.Before(since); i-- {
		cores += s.spells[i].busy / settled
		n++
	}
	return cores, known, n == settled
}

// portion is rounded to a thousandth: the kernel counts in hundredths of a second.
func portion(taken, all float64) float64 {
	if all <= 0 {
		return 0
	}
	return math.Round(1000*taken/all) / 1000
}
