// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/systems"
)

// How many of three pods on two nodes a path reaches, from the clients' node or through one.
func TestEligible(t *testing.T) {
	for _, tc := range []struct {
		path     flow.Path
		through  string // a node
		clients  string // their node
		eligible int
	}{
		{flow.Service, "", "n1", 3},
		{flow.ServiceLocal, "", "n1", 2},
		{flow.ServiceLocal, "", "n2", 1},
		{flow.ServiceLocal, "", "n3", 0},
		{flow.NodePort, "", "n1", 3},
		{flow.NodePortLocal, "n1", "n2", 2},
		{flow.NodePortLocal, "n2", "n1", 1},
		{flow.Sticky, "", "n1", 1},
	} {
		g := &ground{targets: threeOnTwo(), node: tc.clients}
		if got := g.eligible(tc.path, tc.through); got != tc.eligible {
			t.Errorf("%s through %q from %s: %d, want %d", tc.path, tc.through, tc.clients, got, tc.eligible)
		}
	}
}

// A Service is explored when each of its pods has answered; or when so many answers came that it
// leads somewhere, where nobody knows whose they were.
func TestReached(t *testing.T) {
	const one, other = "scout/http1/new/get@a", "scout/http1/new/get@b"
	answered := func(r *reached, stream, by string, times int) {
		for range times {
			r.note(timeline.Sample{Stream: flow.Named(stream), Outcome: timeline.OK}, by)
		}
	}
	for _, tc := range []struct {
		name  string
		wants map[string]int
		note  func(*reached)
		says  string // "": all are reached
	}{
		{"nothing is wanted", nil, func(*reached) {}, ""},
		{"all answered", map[string]int{one: 2}, func(r *reached) { answered(r, one, "p", 1); answered(r, one, "q", 1) }, ""},
		{"more than wanted", map[string]int{one: 1}, func(r *reached) { answered(r, one, "p", 1); answered(r, one, "q", 1) }, ""},
		{"one answered twice", map[string]int{one: 2}, func(r *reached) { answered(r, one, "p", 2) }, "1 of 2 pods answered on " + one},
		{"on another stream", map[string]int{one: 1}, func(r *reached) { answered(r, other, "p", 1) }, "0 of 1 pods answered on " + one},
		{"a failure is no answer", map[string]int{one: 1}, func(r *reached) {
			r.note(timeline.Sample{Stream: flow.Named(one), Outcome: timeline.Refused}, "p")
		}, "0 of 1"},
		{"both are told, in their order", map[string]int{one: 1, other: 1}, func(*reached) {}, "on " + one + "; 0 of 1 pods answered on " + other},
		{"nobody knows whose, and many", map[string]int{one: 3}, func(r *reached) { answered(r, one, "", enoughBlind) }, ""},
		{"nobody knows whose, and few", map[string]int{one: 3}, func(r *reached) { answered(r, one, "", enoughBlind-1) }, "0 of 3"},
		{"it is known of some", map[string]int{one: 3}, func(r *reached) { answered(r, one, "", enoughBlind); answered(r, one, "p", 1) }, "1 of 3"},
		{"nobody could answer", map[string]int{one: 0}, func(*reached) {}, "0 of 0"},
	} {
		r := &reached{by: map[flow.Stream]map[string]bool{}, blind: map[flow.Stream]int{}}
		tc.note(r)
		wanted := map[flow.Stream]int{}
		for name, n := range tc.wants {
			wanted[flow.Named(name)] = n
		}
		done, said := r.all(wanted)
		if done != (tc.says == "") || !strings.Contains(said, tc.says) || done && said != "" {
			t.Errorf("%s: %t, %q", tc.name, done, said)
		}
	}
}

// Where the load has TCP and HTTP, in whatever order, a look is a GET.
func TestLooks(t *testing.T) {
	sidecar, err := systems.Reference(system.Sidecar)
	if err != nil {
		t.Fatal(err)
	}
	talk := load.Profile{Flow: flow.Flow{Path: flow.Service, Protocol: flow.TCP, Conns: flow.New, Op: flow.Talk, Takes: time.Second}}
	get := load.Profile{Flow: flow.Flow{Path: flow.Service, Protocol: flow.H2C, Conns: flow.New, Op: flow.Get}}
	for _, row := range []struct {
		traffic  []load.Profile
		protocol flow.Protocol
		op       flow.Op
	}{
		{[]load.Profile{get, talk}, flow.H2C, flow.Get},
		{[]load.Profile{talk, get}, flow.H2C, flow.Get},
		{[]load.Profile{talk}, flow.TCP, flow.Talk},
	} {
		g := &ground{system: behaviour.Subject{System: sidecar}, scenario: behaviour.Scenario{Traffic: row.traffic}}
		if got := g.looks(flow.Service); got.Protocol != row.protocol || got.Op != row.op || (got.Takes > 0) != (got.Op == flow.Talk) {
			t.Errorf("%v: a look is %s", row.traffic, got.Flow)
		}
	}
}
