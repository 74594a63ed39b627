// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"cmp"
	"math"
	"slices"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// leastShare is the least that rates are lowered to. rollout.zero-failed gets 38,000
// attempts at its full rates where a gateway is rolled out, and 43,000 with the app; it needs
// 30,000, which is 0.79 of the fewer. What is lowered otherwise was seen at 0.87 and more.
const leastShare = 0.85

// fitting is a plan whose recordings fit the machine, each with its cost: what takes more
// than the recordings may take together is split, and a behaviour that takes more alone
// has its rates lowered. A generator that starves measures itself.
func (p Price) fitting(plan []Scenario, of []Behaviour) []Scenario {
	var out []Scenario
	for _, s := range plan {
		if s.Cost = p.weigh(s); p.fits(s) {
			out = append(out, s)
			continue
		}
		out = append(out, p.split(s, of)...)
	}
	return out
}

// fits says whether a scenario takes no more than the recordings may take together.
func (p Price) fits(s Scenario) bool { return s.Cost <= p.cores()+grain }

// split makes of a scenario several that each fit: a behaviour joins those with which it
// shares the most traffic, by protocol above all. One that fits at lowered rates only joins
// others of that kind too, where all of them together fit so.
func (p Price) split(s Scenario, of []Behaviour) []Scenario {
	if s.Control {
		return p.splitControl(s)
	}
	var parts [][]Behaviour
	part := func(of []Behaviour) Scenario {
		out := s
		out.Behaviours, out.Traffic, out.Fitted = nil, nil, nil
		for _, b := range of {
			out.join(b)
		}
		return p.priced(out.finished())
	}
	for _, b := range heaviest(s, of) {
		best, least := -1, math.Inf(1)
		tooMuch := !p.fits(part([]Behaviour{b}))
		for i, others := range parts {
			together := append(slices.Clone(others), b)
			with := part(together)
			fits := p.fits(with) || tooMuch && p.fits(p.lowered(with, together))
			if more := with.Cost - part(others).Cost; fits && more < least {
				best, least = i, more
			}
		}
		if best < 0 {
			best, parts = len(parts), append(parts, nil)
		}
		parts[best] = append(parts[best], b)
	}
	var out []Scenario
	for _, of := range parts {
		one := part(of)
		if !p.fits(one) {
			one = p.lowered(one, of)
		}
		out = append(out, one)
	}
	return out
}

// heaviest are a scenario's behaviours, those that take the most alone first.
func heaviest(s Scenario, of []Behaviour) []Behaviour {
	var out []Behaviour
	for _, b := range of {
		if slices.Contains(s.Behaviours, b.ID) {
			out = append(out, b)
		}
	}
	slices.SortStableFunc(out, func(a, b Behaviour) int {
		return cmp.Or(cmp.Compare(b.Cost(), a.Cost()), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// splitControl makes of a control several, each with some of the streams: what a stream
// sees of a death is its own, or is what the one sees that stands in for it.
func (p Price) splitControl(s Scenario) []Scenario {
	var out []Scenario
	for _, some := range inseparable(s.Traffic) {
		if n := len(out); n > 0 {
			wider := out[n-1]
			wider.Traffic = union(wider.Traffic, some)
			if wider = p.priced(wider); p.fits(wider) {
				out[n-1] = wider
				continue
			}
		}
		part := s
		part.Traffic, part.Part = some, len(out)+1
		out = append(out, p.priced(part.finished()))
	}
	return out
}

// halved is a control in two parts, each with half of its streams: the first one is the part that it was, and those up to last
// are others. One whose streams stand in for each other is whole.
func (p Price) halved(s Scenario, last int) []Scenario {
	all := inseparable(s.Traffic)
	if len(all) < 2 {
		return []Scenario{s}
	}
	at, n := 1, len(all[0])
	for at < len(all)-1 && n+len(all[at]) <= (len(s.Traffic)+1)/2 {
		n += len(all[at])
		at++
	}
	one, other := s, s
	one.Part = cmp.Or(s.Part, last+1)
	other.Part = max(one.Part, last) + 1
	one.Traffic, other.Traffic = slices.Concat(all[:at]...), slices.Concat(all[at:]...)
	return []Scenario{p.priced(one.finished()), p.priced(other.finished())}
}

// inseparable are the streams of a control: those together for which the same one stands in (assertions.StandIn), and those
// of a protocol beside each other.
func inseparable(traffic []load.Profile) [][]load.Profile {
	all := slices.Clone(traffic)
	slices.SortStableFunc(all, func(a, b load.Profile) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), flow.Compare(assertions.StandIn(a.Flow), assertions.StandIn(b.Flow)))
	})
	var out [][]load.Profile
	for i, one := range all {
		if i == 0 || assertions.StandIn(one.Flow) != assertions.StandIn(all[i-1].Flow) {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], one)
	}
	return out
}

// priced is a scenario with what it takes on the stage.
func (p Price) priced(s Scenario) Scenario {
	s.Cost = cost(s.Topology, s.Traffic, s.presses())
	s.Cost = p.weigh(s)
	return s
}

// presses is the rate of the closed-loop load, in requests per second.
func (s Scenario) presses() float64 {
	if s.Pressure == nil {
		return 0
	}
	return s.Pressure.QPS
}

// lowered is a scenario at rates that fit, or at the least that shows anything.
func (p Price) lowered(s Scenario, of []Behaviour) Scenario {
	still := s
	still.Traffic = nil
	rest := p.priced(still).Cost // what the rates don't change
	share := max(leastShare, math.Floor(100*(p.cores()-rest)/(s.Cost-rest))/100)
	one := p.at(share, s, of)
	for share > leastShare && !p.fits(one) { // costs are rounded
		share = max(leastShare, math.Round(100*share-1)/100)
		one = p.at(share, s, of)
	}
	if !p.fits(one) {
		one.Beyond = math.Round(100*one.Cost/p.cores()) / 100
	}
	return one
}

// at is a scenario at a share of its rates.
func (p Price) at(share float64, s Scenario, of []Behaviour) Scenario {
	slower := func(ps []load.Profile) []load.Profile {
		out := slices.Clone(ps)
		for i := range out {
			out[i].Rate *= share
		}
		return out
	}
	s.Lowered, s.Traffic = share, slower(s.Traffic)
	s.Fitted = nil
	for _, b := range of {
		b.Traffic = slower(b.Traffic)
		s.fit(b)
	}
	return p.priced(s)
}
