// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"slices"
	"testing"

	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
)

// Several systems are recorded side by side: their controls first, then all the rest, the longest first, and what
// must be alone at the end. Who is given up takes nobody along.
func TestPlanTogether(t *testing.T) {
	one := disrupt.DeleteEach(1)
	control := Scenario{Name: "control", Control: true, Disrupt: KillEach}
	first := &Recorder{run: Run{Plan: []Scenario{control, {Name: "a", Disrupt: one}, {Name: "b", Disrupt: one}, {Name: "c", Disrupt: one}, {Name: "node", Disrupt: ShutNode}}}}
	second := &Recorder{run: Run{Plan: []Scenario{control, {Name: "a", Disrupt: one}}}}
	g := group{all: []*Recorder{first, second}}
	plan, of := g.plan()
	var names []string
	for _, s := range plan {
		names = append(names, s.Name)
	}
	if want := []string{"control", "control", "a", "a", "b", "c", "node"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	if want := []int{0, 1, 0, 1, 0, 0, 0}; !slices.Equal(of, want) {
		t.Errorf("of %d, want %d", of, want)
	}
	first.run.Plan[2].Topology, second.run.Plan[1].Topology = SlowDrain, GatedShort
	plan, of = g.plan()
	names = nil
	for _, s := range plan[2:6] {
		names = append(names, s.Name)
	}
	if want := []string{"b", "a", "a", "c"}; !slices.Equal(names, want) || of[3] != 1 {
		t.Errorf("the longest first: %q of %d, want %q", names, of[2:6], want)
	}
	a := newAdmission(oneCore(), "", plan, of, 1, nil)
	x, ok := a.next()
	if !ok || x.of != 0 || x.Name != "control" {
		t.Fatalf("%+v begins", x)
	}
	given := a.stop(0)
	if len(given) != 4 {
		t.Errorf("given up: %d", len(given))
	}
	a.stands(x)
	a.ended(x)
	if x, ok = a.next(); !ok || x.of != 1 || x.Name != "control" {
		t.Errorf("after it was given up, %q of %d begins", x.Name, x.of)
	}
}

// Outages of the control plane are apart: a kubelet that has just started its containers again does so later the next time.
func TestOutagesApart(t *testing.T) {
	outage, wide := disrupt.DeleteEach(1), ShutNode
	outage.Midway = disrupt.ControlPlaneOutage
	control := Scenario{Name: "control", Control: true, Disrupt: KillEach}
	shared := Scenario{Name: "shared", Disrupt: disrupt.DeleteEach(1)}
	for _, tc := range []struct {
		name string
		of   [][]string // each recorder's
		want []string
	}{
		{"one system", [][]string{{"wide", "outage"}}, []string{"control", "shared", "wide", "outage"}},
		{"two", [][]string{{"wide", "wide", "outage"}, {"outage"}}, []string{"control", "control", "outage", "shared", "shared", "wide", "wide", "outage"}},
		{"three", [][]string{{"wide", "outage"}, {"outage"}, {"wide", "wide", "outage"}},
			[]string{"control", "control", "control", "outage", "shared", "shared", "shared", "outage", "wide", "wide", "wide", "outage"}},
		{"four", [][]string{{"wide", "wide", "outage"}, {"outage"}, {"wide", "wide", "outage"}, {"outage"}},
			[]string{"control", "control", "control", "control", "outage", "shared", "shared", "shared", "shared", "outage", "wide", "wide", "outage", "wide", "wide", "outage"}},
	} {
		var g group
		for _, of := range tc.of {
			plan := []Scenario{control, shared}
			for _, name := range of {
				s := Scenario{Name: name, Disrupt: wide}
				if name == "outage" {
					s.Disrupt = outage
				}
				plan = append(plan, s)
			}
			g.all = append(g.all, &Recorder{run: Run{Plan: plan}})
		}
		plan, _ := g.plan()
		var got []string
		for _, s := range plan {
			got = append(got, s.Name)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
