// SPDX-License-Identifier: Apache-2.0

package suites

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/cluster"
	"github.com/lastcall-dev/lastcall/systems"
)

// carrying is a cluster that carries all that a system claims, and records nothing.
type carrying struct {
	behaviour.Stage
	stack behaviour.Stack
}

func (c carrying) Fit(b behaviour.Behaviour) (behaviour.Behaviour, behaviour.Skip) {
	sys := c.stack.Subject(b.Topology)
	if skip := cluster.Lacks(b, c.stack.Tested(), true, true); skip.Why != "" || sys.OwnApp() {
		return b, skip
	}
	return behaviour.Fit(b, sys.System)
}

// TestRecordingsFitTheMachine: on two cores no recording takes more than the share of them
// that it may have, and what was split is whole together.
func TestRecordingsFitTheMachine(t *testing.T) {
	gateway, err := systems.Reference(system.Gateway)
	if err != nil {
		t.Fatal(err)
	}
	sidecar, err := systems.Reference(system.Sidecar)
	if err != nil {
		t.Fatal(err)
	}
	var told strings.Builder // how many recordings that takes
	for _, tc := range []struct {
		name string
		sys  *system.System
		most float64 // cores
	}{
		{"every reference", nil, 1.0},
		{"gateway", gateway, 1.0},
		{"sidecar", sidecar, 1.0},
		{"every reference, one core", nil, 0.4},
		{"gateway, many cores", gateway, 8},
	} {
		t.Run(tc.name, func(t *testing.T) {
			price := behaviour.OnCluster
			price.Share, price.Standing = tc.most/float64(runtime.NumCPU()), 0
			stack, err := behaviour.NewStack(tc.sys)
			if err != nil {
				t.Fatal(err)
			}
			stage := carrying{stack: stack}
			r, err := behaviour.NewRecorder(behaviour.Config{
				Stage: stage, Price: price, Selected: behaviour.Catalogue(),
				How: behaviour.How{Press: behaviour.Pressing{HTTP1: true, Cores: 2}},
			})
			if err != nil {
				t.Fatal(err)
			}
			names, in := map[string]bool{}, map[string]int{}
			controls := 0
			control := map[string]bool{}
			for _, s := range r.Plan() {
				if names[s.Name] {
					t.Errorf("two recordings are called %s", s.Name)
				}
				names[s.Name] = true
				if s.Cost > tc.most+0.001 && s.Lowered != 0.85 {
					t.Errorf("%s takes %.2f cores of %.2f", s.Name, s.Cost, tc.most)
				}
				if s.Control {
					controls++
					for _, p := range s.Traffic {
						control[string(s.Topology.Role)+p.Flow.String()] = true
					}
					continue
				}
				for _, id := range s.Behaviours {
					in[id]++
					b, _ := behaviour.Find(id)
					b, _ = stage.Fit(b)
					for _, p := range b.Traffic {
						if !slices.ContainsFunc(s.Traffic, func(q load.Profile) bool { return q.Flow == p.Flow }) {
							t.Errorf("%s of %s has no stream %s", id, s.Name, p.Flow.String())
						}
					}
				}
			}
			for _, b := range behaviour.Catalogue() {
				if fit, skip := stage.Fit(b); skip.Why == "" && in[b.ID] != 1 && b.ID != "pod.abrupt-death" {
					t.Errorf("%s is recorded %d times", b.ID, in[b.ID])
				} else if skip.Why == "" {
					for _, p := range fit.Traffic {
						if p.Sights() && p.Takes == 0 && !control[string(fit.Topology.Role)+p.Flow.String()] {
							t.Errorf("no control of its role has stream %s of %s", p.Flow.String(), b.ID)
						}
					}
				}
			}
			fmt.Fprintf(&told, "%s, %.1f cores: %d controls, %d recordings in all\n", tc.name, tc.most, controls, len(r.Plan()))
			for _, s := range r.Plan() {
				t.Logf("%-22s %.2f part %d lowered %.2f %v", s.Name, s.Cost, s.Part, s.Lowered, s.Behaviours)
			}
		})
	}
	golden(t, "testdata/recordings.txt", told.String())
}
