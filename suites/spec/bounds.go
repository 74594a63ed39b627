// SPDX-License-Identifier: Apache-2.0

package spec

import "math"

// BoundsOf states how sure a loss rate is: k terminations of which affected
// lost something, and n requests of which lost were lost, at 95%.
func BoundsOf(k, affected, n, lost int) *Bounds {
	return &Bounds{
		Terminations: k, Affected: affected, PerTermination: upper(affected, k), PerTerminationAtLeast: lower(affected, k),
		Requests: n, Lost: lost, PerRequest: upper(lost, n), PerRequestAtLeast: lower(lost, n),
	}
}

// upper is the 95% upper bound of a proportion of which x of n were seen: the
// rule of three (3/n, at most 1) when none was, else the upper end of the
// two-sided Clopper-Pearson interval.
func upper(x, n int) float64 {
	switch {
	case n <= 0:
		return 1
	case x == 0:
		return math.Min(1, 3/float64(n))
	case x >= n:
		return 1
	}
	// P(X <= x | p) falls as p rises; find where it is 2.5%.
	lo, hi := float64(x)/float64(n), 1.0
	for range 100 {
		mid := (lo + hi) / 2
		if binomialCDF(x, n, mid) > 0.025 {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// lower is the 95% lower bound of such a proportion: the upper one of its opposite.
func lower(x, n int) float64 {
	if n <= 0 || x <= 0 {
		return 0
	}
	return 1 - upper(max(n-x, 0), n)
}

// binomialCDF is P(X <= x) for X ~ B(n, p), 0 < p < 1.
func binomialCDF(x, n int, p float64) float64 {
	lnN, _ := math.Lgamma(float64(n + 1))
	sum := 0.0
	for i := range x + 1 {
		lnI, _ := math.Lgamma(float64(i + 1))
		lnR, _ := math.Lgamma(float64(n - i + 1))
		sum += math.Exp(lnN - lnI - lnR + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return math.Min(1, sum)
}
