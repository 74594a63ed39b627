// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/bench"
	"github.com/lastcall-dev/lastcall/fixtures/controller"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	area "github.com/lastcall-dev/lastcall/suites/controller"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// The mesh's controllers go one after the other, and then both at once: who is told by them resumes, and
// with a controller that is broken it is seen.
func TestHandOver(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: it builds programs, and starts them")
	}
	if err := bench.Lacks(bench.IPv4); err != nil {
		t.Skipf("skipped: %v", err)
	}
	agent, mesh := program(t, "agent"), program(t, "mesh")
	for fault, want := range map[spec.Fault]spec.Verdict{
		"": spec.Pass, controller.ForgetsRemovals: spec.Fail, controller.SpeaksBeforeItKnows: spec.Fail,
	} {
		t.Run("fault "+string(fault), func(t *testing.T) {
			s, err := Open(t.Context(), Config{Agent: agent, Mesh: mesh, Logs: t.TempDir(), P: 3 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if _, err := s.Close(context.WithoutCancel(t.Context())); err != nil {
					t.Error(err)
				}
			})
			tl := recorded(t, s, behaviour.Scenario{
				Name: "handover", Topology: behaviour.Resuming, Disrupt: behaviour.HandOver, Fault: fault,
				Traffic: []load.Profile{{
					Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 25,
				}},
				Resolution: 60 * time.Millisecond,
			})
			c := assertions.NewCase(tl, 3*time.Second)
			whole, served := area.ResumesWhole().Run(c), area.ServesNewcomers().Run(c)
			if whole.Verdict != want {
				t.Errorf("%s: %s %+v %+v", whole.Verdict, whole.Actual, whole.Culprits, whole.Evidence)
			}
			if apps := fault == controller.SpeaksBeforeItKnows; (served.Verdict == spec.Fail) != apps || fault == "" && served.Verdict != spec.Pass {
				t.Errorf("%s: %s %+v %+v", served.Verdict, served.Actual, served.Culprits, served.Evidence)
			}
		})
	}
}
