// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	_ "github.com/lastcall-dev/lastcall/suites/all" // the catalogue
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// claiming is the starter's system with other claims.
func claiming(t *testing.T, features []spec.Feature) *system.System {
	t.Helper()
	files, err := system.Starter(system.Gateway, "mine")
	if err != nil {
		t.Fatal(err)
	}
	sys, err := system.Parse("mine.yaml", []byte(files[0].Text))
	if err != nil {
		t.Fatal(err)
	}
	if features != nil {
		sys.Features = features
	}
	for _, f := range sys.Features {
		if port := system.Port(f); port != "" {
			sys.Ports[port] = 0
		}
	}
	return sys
}

// recordedBaseline is what the judge has of a scenario's traffic when its disruption begins:
// each stream has run since long before the gate opened, as slowly as its schedule may be,
// and all is answered in the time that it takes by design, and a little more.
func recordedBaseline(s behaviour.Scenario) assertions.Case {
	const steady, answering = time.Minute, 50 * time.Millisecond
	disturbed := steady + s.Baseline()
	tl := &timeline.Timeline{Events: []timeline.Event{
		{At: steady, Kind: timeline.Marker, Attrs: map[string]string{"what": assertions.MarkSteady}},
		{At: disturbed, Kind: timeline.Disruption},
	}}
	for _, p := range s.Traffic {
		targets := 1
		if p.Path == flow.Direct {
			targets = s.Topology.Replicas
		}
		takes := p.Takes
		if p.Op == flow.Idle || p.Op == flow.Mute {
			takes = 0 // what is held has been answered
		}
		every := time.Duration(float64(time.Second) / p.Rate)
		for n := range targets {
			// An attempt comes just before the gate, so that the next is a whole slot later.
			for at := steady - time.Millisecond; at < disturbed; at += every {
				tl.Samples = append(tl.Samples, timeline.Sample{
					Stream: flow.To(p.Flow, strconv.Itoa(n)), ID: fmt.Sprintf("%s@%d-%d", p.Flow.String(), n, len(tl.Samples)),
					Due: at, Start: at, End: at + takes + 2*p.Delay + answering, Outcome: timeline.OK, Phase: timeline.PhaseDone,
				})
			}
		}
	}
	tl.Sort()
	return assertions.NewCase(tl, 3*time.Second)
}

// The first command of docs/vendors.md runs one behaviour, of a system with the starter's
// times: what a request takes is then more than an ordinary baseline, and the behaviour's
// own traffic has to give one all the same.
func TestEachBehaviourAloneHasABaseline(t *testing.T) {
	alone := func(b behaviour.Behaviour, of string) {
		t.Helper()
		for _, s := range behaviour.Fold([]behaviour.Behaviour{b}, "", false) {
			failed, n := behaviour.InBaseline(recordedBaseline(s))
			if failed > 0 || n < behaviour.SteadyRun {
				t.Errorf("%s of %s: %d failed, and %d in a baseline of %s, which takes %d", b.ID, of, failed, n, s.Baseline(), behaviour.SteadyRun)
			}
		}
	}
	for _, b := range behaviour.Catalogue() {
		alone(b, "the reference")
	}
	for _, features := range [][]spec.Feature{
		nil, // the starter's own
		system.Features(),
		{spec.HTTP1, spec.WebSocket},
		{spec.H2C, spec.GRPC},
		{spec.TLS},
		{spec.TLS, spec.HTTP2, spec.GRPC},
		{spec.HTTP1, spec.TCP},
	} {
		sys := claiming(t, features)
		for _, b := range behaviour.Catalogue() {
			if slices.ContainsFunc(b.Needs, func(f spec.Feature) bool { return slices.Contains(system.Features(), f) && !sys.Claims(f) }) {
				continue
			}
			fitted, skip := behaviour.Fit(b, sys)
			if skip.Why != "" || len(fitted.Traffic) == 0 {
				continue
			}
			alone(fitted, fmt.Sprintf("a system that claims %v", sys.Features))
		}
	}
}

// Nobody waits for longer because of a slow stream beside which others give a baseline: what
// each scenario of a whole run takes stays as it was.
func TestWholeRunsKeepTheirBaseline(t *testing.T) {
	sys := claiming(t, system.Features())
	var fitted []behaviour.Behaviour
	for _, b := range behaviour.Catalogue() {
		if f, skip := behaviour.Fit(b, sys); skip.Why == "" {
			fitted = append(fitted, f)
		}
	}
	for _, s := range behaviour.Fold(fitted, "", false) {
		if got := s.Baseline(); got != 5*time.Second {
			t.Errorf("%s: a baseline of %s for %s", s.Name, got, strings.Join(s.Behaviours, ", "))
		}
	}
	for _, s := range behaviour.Fold(behaviour.Catalogue(), "", false) {
		if got := s.Baseline(); got != 5*time.Second {
			t.Errorf("the reference's %s: a baseline of %s for %s", s.Name, got, strings.Join(s.Behaviours, ", "))
		}
	}
}

// Who promises no drain timeout is asked until SIGKILL comes.
func TestFitWithoutATimeout(t *testing.T) {
	sys := claiming(t, system.Features())
	sys.Drain.Timeout = system.NoTimeout
	for _, id := range []string{"gateway.timer-order", "tcp.cut-is-visible", "h2.deadline"} {
		b, _ := behaviour.Find(id)
		fitted, skip := behaviour.Fit(b, sys)
		if skip.Why != "" {
			t.Errorf("%s: %s", id, skip.Why)
		}
		longest := time.Duration(0)
		for _, p := range fitted.Traffic {
			longest = max(longest, p.Takes)
		}
		if grace := sys.Drain.Grace.D(); !fitted.Topology.UntilKilled() || fitted.Topology.Deadline != grace || longest <= grace {
			t.Errorf("%s: until K %t, a deadline of %s, requests of up to %s; the grace is %s", id, fitted.Topology.UntilKilled(), fitted.Topology.Deadline, longest, grace)
		}
	}
	for _, b := range behaviour.Catalogue() {
		if b.Topology.UntilKilled() {
			t.Errorf("%s: the reference promises a timeout, and its topology has none", b.ID)
		}
	}
}

// What can give no baseline, however long it takes, is waited for no longer than others.
func TestABaselineEnds(t *testing.T) {
	s := behaviour.Scenario{Topology: behaviour.SlowDrain, Traffic: []load.Profile{{Flow: flow.Flow{Path: flow.Service, Op: flow.Get}, Rate: 0.001}}}
	if got := s.Baseline(); got > 2*time.Minute {
		t.Error(got)
	}
}
