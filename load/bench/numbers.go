// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// percentile is the nearest rank of sorted values: 100 is the largest.
func percentile[T any](sorted []T, p float64) T {
	var none T
	if len(sorted) == 0 {
		return none
	}
	return sorted[max(0, int(math.Ceil(p/100*float64(len(sorted))))-1)]
}

// median is that of a few values, in any order; of an even number the lower one.
func median[T cmp.Ordered](values []T) T {
	return percentile(slices.Sorted(slices.Values(values)), 50)
}

// settling is how much of a run's begin is left out of its schedule.
const settling = time.Second

// offSchedule says by how much each arrival missed its turn, sorted. The ideal is
// one in each 1/rate, in the phase of the first second after settling; who falls
// behind is later and later. rate is what was reached.
func offSchedule(arrivals []time.Duration, rate float64) (errs []time.Duration, reached float64) {
	arrivals = slices.Sorted(slices.Values(arrivals))
	if len(arrivals) == 0 {
		return nil, 0
	}
	i, _ := slices.BinarySearch(arrivals, arrivals[0]+settling)
	if arrivals = arrivals[i:]; len(arrivals) < 2 {
		return nil, 0
	}
	ideal := func(k int) time.Duration { return time.Duration(float64(k) / rate * float64(time.Second)) }
	var phase []time.Duration
	for k, at := range arrivals {
		if at-arrivals[0] > time.Second {
			break
		}
		phase = append(phase, at-ideal(k))
	}
	begin := median(phase)
	for k, at := range arrivals {
		errs = append(errs, (at - ideal(k) - begin).Abs())
	}
	slices.Sort(errs)
	return errs, float64(len(arrivals)-1) / (arrivals[len(arrivals)-1] - arrivals[0]).Seconds()
}

// atLeast is the lower bound of a probability of which k of n were seen: with 95%
// confidence, one-sided, by Clopper and Pearson.
func atLeast(k, n int) float64 {
	if k == 0 || n == 0 {
		return 0
	}
	low, high := 0.0, 1.0
	for range 60 {
		p := (low + high) / 2
		// The chance of k or more.
		chance := 0.0
		for i := k; i <= n; i++ {
			chance += math.Exp(logChoose(n, i) + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
		}
		if chance < 0.05 {
			low = p
		} else {
			high = p
		}
	}
	return low
}

func logChoose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}
