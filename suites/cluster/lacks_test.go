// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Over all behaviours, and all systems that have a file: a cluster of others carries nothing that
// one of ours does not, nor one that can't be reached what one does not that can; nodes are touched
// on ours alone; and what is skipped says why, and which kind of reason that is. The reasons
// themselves are in suites/testdata/skips.txt.
func TestLacks(t *testing.T) {
	files, err := filepath.Glob("../../systems/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	tested := map[string]*system.System{"the reference": nil}
	for _, file := range files {
		if tested[filepath.Base(file)], err = system.Load(file); err != nil {
			t.Fatal(err)
		}
	}
	for name, sys := range tested {
		carried := 0
		for _, b := range behaviour.Catalogue() {
			skip := map[[2]bool]behaviour.Skip{}
			for _, ours := range []bool{true, false} {
				for _, reachable := range []bool{true, false} {
					s := Lacks(b, sys, ours, reachable)
					skip[[2]bool{ours, reachable}] = s
					if (s.Why == "") != (s == behaviour.Skip{}) || s.Why != "" && s.Kind != spec.Uncarried && s.Kind != spec.Unclaimed && s.Kind != spec.OtherRole {
						t.Errorf("%s of %s: %+v", b.ID, name, s)
					}
				}
			}
			most := skip[[2]bool{true, true}]
			if most.Why == "" {
				carried++
			}
			for at, s := range skip {
				if most.Why != "" && s.Why == "" {
					t.Errorf("%s of %s is carried with ours %t, reachable %t, and not with both", b.ID, name, at[0], at[1])
				}
			}
			if b.Disrupt.NodeWide() && skip[[2]bool{false, true}].Why == "" {
				t.Errorf("%s of %s would touch the nodes of others", b.ID, name)
			}
			// Its clients, or who asks for its instances' health, or looks at the nodes' wires.
			outside := slices.Contains(b.Needs, spec.LBHealth) || slices.Contains(b.Needs, spec.Wire) || slices.ContainsFunc(b.Traffic, func(p load.Profile) bool { return p.Path.Outside() })
			if lacks := skip[[2]bool{true, false}]; outside && lacks.Why == "" || !outside && lacks != most {
				t.Errorf("%s of %s, dialled from outside %t, in a cluster that can't be reached: %+v", b.ID, name, outside, lacks)
			}
		}
		if carried == 0 {
			t.Errorf("of %s nothing is carried at all", name)
		}
	}
}
