// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"slices"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// However small the parts of a control are, each stream is in one of them, with who stands in for it: alone it would be blind.
func TestPartsKeepWhoStandsIn(t *testing.T) {
	var all []load.Profile
	for _, p := range []flow.Protocol{flow.HTTP1, flow.H2C} {
		for _, conns := range []flow.Conns{flow.New, flow.Reused} {
			for _, delay := range []time.Duration{0, 20 * time.Millisecond} {
				of := func(op flow.Op, takes time.Duration) load.Profile {
					return load.Profile{Flow: flow.Flow{Path: flow.Service, Protocol: p, Conns: conns, Op: op, Takes: takes, Delay: delay}, Rate: 20}
				}
				all = append(all, of(flow.Get, 0), of(flow.Slow, assertions.StandInTakes))
			}
		}
	}
	whole := Scenario{
		Control: true, Traffic: all, Behaviours: []string{controlID}, Disrupt: disrupt.KillEach(1),
		Topology: Topology{Replicas: 1, MinDrain: 2 * time.Second, Deadline: 20 * time.Second, Grace: 30 * time.Second},
	}.finished()
	check := func(parts []Scenario) {
		t.Helper()
		names, streams := map[string]bool{}, []flow.Flow{}
		for _, s := range parts {
			names[s.Name] = true
			var own []flow.Flow
			for _, p := range s.Traffic {
				own = append(own, p.Flow)
			}
			for _, f := range own {
				if !slices.Contains(own, assertions.StandIn(f)) {
					t.Errorf("%s: %s lacks %s", s.Name, f, assertions.StandIn(f))
				}
			}
			streams = append(streams, own...)
		}
		slices.SortFunc(streams, flow.Compare)
		if len(names) != len(parts) || len(slices.Compact(streams)) != len(all) {
			t.Errorf("%d parts of %d names have %d streams, want %d", len(parts), len(names), len(streams), len(all))
		}
	}
	price := OnHost
	parts := []Scenario{whole}
	for len(parts) < 8 { // halves, and halves of these
		var next []Scenario
		last := 0
		for _, s := range parts {
			last = max(last, s.Part)
		}
		for _, s := range parts {
			halves := price.halved(s, last)
			for _, h := range halves {
				last = max(last, h.Part)
			}
			next = append(next, halves...)
		}
		check(next)
		parts = next
	}
	price.Weight = 20
	split := price.splitControl(whole)
	if len(split) < 2 {
		t.Errorf("a slow machine records the control in %d parts", len(split))
	}
	check(split)
}

// What takes more than there is has its rates lowered, and says so where the least of them are still too much.
func TestBeyond(t *testing.T) {
	price := OnCluster
	for _, tc := range []struct {
		asks            float64 // of what the recordings may take together
		lowered, beyond bool
	}{
		{0.9, false, false},
		{1.05, true, false},
		{2, true, true},
	} {
		b := sample("a.a")
		b.Traffic[0].Rate = (tc.asks*price.cores()/price.Weight - costIdle) / costNew
		got := price.fitting(Fold([]Behaviour{b}, "", false), []Behaviour{b})[0]
		if (got.Lowered > 0) != tc.lowered || (got.Beyond > 0) != tc.beyond {
			t.Errorf("asks for %v: lowered to %v, beyond %v", tc.asks, got.Lowered, got.Beyond)
		}
		if tc.beyond && (got.Lowered != leastShare || got.Beyond < 1.6 || got.Beyond > 1.8) {
			t.Errorf("asks for %v: lowered to %v, and takes %v times what there is", tc.asks, got.Lowered, got.Beyond)
		}
	}
}
