// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"slices"

	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Matrix says how much of the kill matrix a run records, which proves the
// suite itself: each behaviour is put to components that are broken on
// purpose.
type Matrix string

// The kinds of matrices.
const (
	// NoMatrix judges the system.
	NoMatrix Matrix = ""
	// Diagonal breaks each behaviour by the first of its own faults.
	Diagonal Matrix = "diagonal"
	// Whole records each fault in every scenario of the behaviours that name
	// it, and judges all of the scenario's behaviours.
	Whole Matrix = "full"
)

// How says in which way the selected behaviours are recorded.
type How struct {
	// Fault breaks the reference component in all scenarios.
	Fault spec.Fault
	// Isolate records each behaviour apart.
	Isolate bool
	// Matrix breaks each scenario by a fault of its own instead.
	Matrix Matrix
	// Press says what closed-loop load there is beside the streams.
	Press Pressing
}

// Plan are the scenarios of a run, in the order in which they are recorded.
// The control is always among them: without it every stream is blind.
func Plan(selected []Behaviour, how How) []Scenario {
	selected = withControl(selected, controlOf(Catalogue()))
	var plan []Scenario
	switch how.Matrix {
	case Diagonal:
		plan = diagonal(selected)
	case Whole:
		plan = whole(selected)
	default:
		plan = Fold(selected, how.Fault, how.Isolate)
	}
	how.Press.on(plan, selected)
	return plan
}

// healthyControl are the controls that answer for all streams of the selected.
func healthyControl(selected []Behaviour) []Scenario {
	all := Fold(selected, "", false)
	return slices.DeleteFunc(all, func(s Scenario) bool { return !s.Control })
}

func diagonal(selected []Behaviour) []Scenario {
	byFault := map[spec.Fault][]Behaviour{}
	var order []spec.Fault
	for _, b := range selected {
		f := b.BrokenBy[0]
		if byFault[f] == nil {
			order = append(order, f)
		}
		byFault[f] = append(byFault[f], b)
	}
	out := healthyControl(selected)
	for _, f := range order {
		out = append(out, Fold(briefly(byFault[f]), f, false)...)
	}
	inOrder(out)
	return out
}

// briefly are behaviours as they are recorded under a fault of their own: with one end
// instead of one after the other, because every instance has the fault, and one that is
// seen to break the rule is seen. A client that sticks to one instance is not seen to
// move when another one ends, of a controller's replicas one leads, and of sidecars that leave at zero each has another reason to
// leave or to stay.
func briefly(all []Behaviour) []Behaviour {
	out := slices.Clone(all)
	for i := range out {
		b := &out[i]
		sticks := slices.ContainsFunc(b.Traffic, func(p load.Profile) bool { return p.Path == flow.Sticky })
		if b.Disrupt.Drains() && b.Disrupt.Serial && !sticks && b.Topology.Role != system.Controller && !b.Topology.AtZero {
			b.Disrupt.Targets = 1
		}
	}
	return out
}

func whole(selected []Behaviour) []Scenario {
	breaks := map[string][]spec.Fault{}
	var faults []spec.Fault
	for _, b := range selected {
		breaks[b.ID] = b.BrokenBy
		for _, f := range b.BrokenBy {
			if !slices.Contains(faults, f) {
				faults = append(faults, f)
			}
		}
	}
	out := healthyControl(selected)
	for _, s := range Fold(selected, "", false) {
		for _, f := range faults {
			named := slices.ContainsFunc(s.Behaviours, func(id string) bool { return slices.Contains(breaks[id], f) })
			if named {
				broken := s
				broken.Fault = f
				out = append(out, broken.finished())
			}
		}
	}
	inOrder(out)
	return out
}
