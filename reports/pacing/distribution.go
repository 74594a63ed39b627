// SPDX-License-Identifier: Apache-2.0

package pacing

import (
	"math"
	"sort"
)

// Distribution is that of the time until one agent has all its tunnels.
//
// With j tunnels missing the number k of failed tries is geometric, and the time is the
// sum of k waits: a mixture over k of sums of uniforms, and a convolution of those of
// the stages j = missing, ..., 1. It is computed on a grid: each wait is rounded to the
// nearest point. So it is the exact distribution of waits that are rounded, and a sum of
// n waits is off by no more than n half steps, in every single case. Within t there is
// room for waits(t) of them, which bounds the error of a quantile with no word about
// chance. What the rounding of floats adds is some 1e-13 of probability.
type Distribution struct {
	// step divides 2 s, so that the ends of each wait are points of the grid.
	step    float64
	missing int
	// late[i] is the probability of more than i and a half steps.
	late []float64
}

// waits is how many waits fit into t, at most: the shortest are 2, 4, 6, ... seconds,
// and they are shared out best when each stage has as many.
func waits(t float64, missing int) float64 {
	m := float64(missing)
	return m * (math.Sqrt(0.25+t/m) - 0.5)
}

// grid is the number of steps in 2 s: as many as make the error 5 ms, or as many as
// memory and patience have room for. It is not ok where the error would be a
// hundredth of the time or more.
func (q Question) grid() (perTwo int, ok bool) {
	const (
		wanted = 0.005 // seconds
		cells  = 2e6
		work   = 2e8 // cells that are touched
		most   = 1e9 // of them, on the coarsest grid
	)
	t := q.horizon()
	if !(t <= horizonLimit) {
		return 0, false
	}
	passes := 1.0
	for j := 1; j <= q.Missing; j++ {
		passes += min(waits(t, 1), q.lastTry(j))
	}
	n := waits(t, q.Missing) + 1
	steps := math.Ceil(min(n/wanted, 2*cells/t, 2*work/(t*passes)) - 1)
	steps = max(steps, 1)
	return int(steps), t*passes/2 <= most && n/steps < 0.01*t
}

// lastTry is the try behind which less is left than a float64 adds to 1.
func (q Question) lastTry(j int) float64 {
	if j == q.Replicas {
		return 0
	}
	return math.Log(1e-18) / math.Log1p(-float64(j)/float64(q.Replicas))
}

func (q Question) distribution(perTwo int) *Distribution {
	d := &Distribution{step: 2 / float64(perTwo), missing: q.Missing}
	// What is not back by the horizon falls off the grid, and is late.
	cells := int(math.Ceil(q.horizon()/d.step)) + 2
	from := support{mass: make([]float64, cells)}
	from.mass[0] = 1
	scratch := make([]float64, cells)
	for j := q.Missing; j > 0; j-- {
		found := float64(j) / float64(q.Replicas)
		last := int(q.lastTry(j))
		to := make([]float64, cells)
		for n := 0; ; n++ {
			for i := from.low; i <= from.high; i++ {
				to[i] += found * from.mass[i]
			}
			if n >= last || !from.wait(n+1, perTwo, 1-found, scratch) {
				break
			}
		}
		from = support{mass: to, high: cells - 1}
	}
	d.late = from.mass
	left := 1.0
	for i, m := range d.late {
		left = max(0, left-m)
		d.late[i] = left
	}
	return d
}

// support is a distribution on the grid, and where it begins and ends.
type support struct {
	mass      []float64
	low, high int
}

// wait adds the wait before try n for the part of the agents whose try before it
// failed. It is false when all of it falls off the grid.
//
// A uniform of 2n to 4n seconds that is rounded to the nearest point has the same
// weight at all points between, and half of it at both ends.
func (s *support) wait(n, perTwo int, failed float64, scratch []float64) bool {
	length := n * perTwo
	low, high := s.low+length, min(s.high+2*length, len(s.mass)-1)
	if low > high {
		return false
	}
	// twice[i] is what lies at i or below and what lies below i, together.
	twice := scratch
	sum := 0.0
	for i := s.low; i <= s.high; i++ {
		twice[i] = 2*sum + s.mass[i]
		sum += s.mass[i]
	}
	for i := s.high + 1; i <= high-length; i++ {
		twice[i] = 2 * sum
	}
	weight := failed / float64(2*length)
	full := min(s.low+2*length, high+1)
	for i := low; i < full; i++ {
		s.mass[i] = weight * twice[i-length]
	}
	for i := full; i <= high; i++ {
		s.mass[i] = weight * (twice[i-length] - twice[i-2*length])
	}
	s.low, s.high = low, high
	return true
}

// Late is the probability that an agent is not back by then. Beyond the grid, which
// is beyond what was asked for, it is that at its end.
func (d *Distribution) Late(seconds float64) float64 {
	if seconds < 0 {
		return 1
	}
	at := min(seconds/d.step-0.5, float64(len(d.late)-1))
	if at <= 0 {
		return d.late[0]
	}
	i := int(at)
	if i == len(d.late)-1 {
		return d.late[i]
	}
	return d.late[i] + (at-float64(i))*(d.late[i+1]-d.late[i])
}

// Quantile is the first time by which an agent is late with no more than this
// probability.
func (d *Distribution) Quantile(tail float64) float64 {
	// Between 4 s and 6 s nothing happens: who asks for just what is reached at 4 s
	// must not get 6 s for a last digit.
	enough := tail * (1 + 1e-9)
	i := sort.Search(len(d.late), func(i int) bool { return d.late[i] <= enough })
	if i == 0 {
		return 0
	}
	if i == len(d.late) {
		return math.Inf(1)
	}
	before := d.late[i-1]
	part := min(1, (before-tail)/(before-d.late[i]))
	return (float64(i) - 0.5 + part) * d.step
}

// Error is the most by which a quantile that lies there may be off: half a step for
// each wait, and half a step because between two points it is a straight line.
func (d *Distribution) Error(seconds float64) float64 {
	return (waits(seconds, d.missing) + 1) * d.step / 2
}
