// SPDX-License-Identifier: Apache-2.0

package behaviour_test

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
	"github.com/lastcall-dev/lastcall/systems"
)

// Who is tested stands for all roles; where nobody is, each role has its reference.
func TestStack(t *testing.T) {
	vendors := &system.System{Roles: []system.Role{system.Gateway}}
	for name, tc := range map[string]struct {
		tested *system.System
		role   system.Role
		want   string
		named  bool
	}{
		"an app":              {nil, "", "echo", false},
		"a gateway":           {nil, system.Gateway, "gateway", false},
		"a vendor's":          {vendors, system.Gateway, "", true},
		"a vendor's, as apps": {vendors, "", "", true},
	} {
		s, err := behaviour.NewStack(tc.tested)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Subject(behaviour.Topology{Role: tc.role}); got.Metadata.Name != tc.want || got.Named != tc.named {
			t.Errorf("%s: %q, named %v", name, got.Metadata.Name, got.Named)
		}
	}
}

// An app that has paths of its own is asked for what these can show.
func TestFitOfAnyApp(t *testing.T) {
	in := func(op flow.Op, conns flow.Conns, takes time.Duration) load.Profile {
		return load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: conns, Op: op, Takes: takes}, Rate: 5}
	}
	get, kept := in(flow.Get, flow.New, 0), in(flow.Get, flow.Reused, 0)
	slow, upload := in(flow.Slow, flow.Reused, 2*time.Second), in(flow.Upload, flow.Reused, 2*time.Second)
	app := func(slow string) *system.System {
		return &system.System{
			Roles: []system.Role{system.App}, Features: []spec.Feature{spec.HTTP1}, Instances: 2,
			Drain:     system.Drain{Timeout: system.DrainTimeout(20 * time.Second), Grace: system.Duration(30 * time.Second)},
			Terminate: []system.Step{{Signal: "TERM"}}, App: &system.Paths{Get: []system.Get{{Path: "/"}}, Slow: slow},
		}
	}
	b := behaviour.Behaviour{Topology: behaviour.Gated, Disrupt: behaviour.EndBoth, Traffic: []load.Profile{get, kept, slow, upload}}
	for name, tc := range map[string]struct {
		sys     *system.System
		appsToo bool
		checks  []assertions.Check
		want    []load.Profile
		why     string
	}{
		"with a slow path":     {app("/slow?s={{seconds}}"), true, nil, []load.Profile{get, kept, slow}, ""},
		"without one":          {app(""), true, nil, []load.Profile{get}, ""},
		"of gateways":          {app(""), false, nil, nil, "it is about a gateway"},
		"what lasts":           {app(""), true, []assertions.Check{assertions.CompletesInflight()}, nil, "write app.slow"},
		"what lasts, and does": {app("/{{millis}}"), true, []assertions.Check{assertions.CompletesInflight()}, []load.Profile{get, kept, slow}, ""},
		"what a ledger shows":  {app("/{{millis}}"), true, []assertions.Check{assertions.NothingTwice()}, nil, "leave app out"},
		"a part of it":         {app("/{{millis}}"), true, []assertions.Check{assertions.NothingTwice(), assertions.ZeroFailed()}, []load.Profile{get, kept, slow}, ""},
		"what an upload shows": {app("/{{millis}}"), true, []assertions.Check{assertions.Lingers()}, nil, "leave app out"},
	} {
		one := b
		one.AppsToo, one.Checks = tc.appsToo, tc.checks
		got, skip := behaviour.Fit(one, tc.sys)
		if (skip.Why == "") != (tc.why == "") || !strings.Contains(skip.Why, tc.why) {
			t.Errorf("%s: %q, want %q", name, skip.Why, tc.why)
			continue
		}
		if tc.why == "" && (!slices.Equal(got.Traffic, tc.want) || got.Topology.Role != "") {
			t.Errorf("%s: %v of role %q, want %v", name, got.Traffic, got.Topology.Role, tc.want)
		}
	}
}

// A gateway that takes tunnels is judged by what is said of a sidecar's, in its own times and without
// what only a sidecar has.
func TestGatewaysTakeTunnels(t *testing.T) {
	tunnels := load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.New, Op: flow.Get}, Rate: 5}
	b := behaviour.Behaviour{Topology: behaviour.Tunnelled, Disrupt: behaviour.EndBoth, Traffic: []load.Profile{tunnels}, GatewaysToo: true}
	sys := &system.System{
		Roles: []system.Role{system.Gateway}, Features: []spec.Feature{spec.HBONE}, Instances: 2,
		Drain:     system.Drain{MinDrain: system.Duration(5 * time.Second), Timeout: system.DrainTimeout(20 * time.Second), Grace: system.Duration(30 * time.Second)},
		Terminate: []system.Step{{Signal: "TERM"}},
	}
	got, skip := behaviour.Fit(b, sys)
	want := behaviour.Topology{Role: system.Gateway, Replicas: 2, MinDrain: 5 * time.Second, Deadline: 20 * time.Second, Grace: 30 * time.Second}
	if skip.Why != "" || got.Topology != want || !slices.Equal(got.Traffic, b.Traffic) {
		t.Errorf("%q: %+v with %v, want %+v", skip.Why, got.Topology, got.Traffic, want)
	}
	b.GatewaysToo = false
	if _, skip := behaviour.Fit(b, sys); !strings.Contains(skip.Why, "it is about a sidecar") {
		t.Errorf("of sidecars alone: %q", skip.Why)
	}
}

// What an app is asked for goes with the streams.
func TestStreamsAskForPages(t *testing.T) {
	s := behaviour.Scenario{Asks: &system.Paths{Get: []system.Get{{Path: "/"}, {Path: "/new", Status: 201}}, Slow: "/slow?s={{seconds}}&ms={{millis}}"}}
	for op, want := range map[flow.Op][]load.Page{
		flow.Get:  {{Path: "/", Status: http.StatusOK}, {Path: "/new", Status: http.StatusCreated}},
		flow.Slow: {{Path: "/slow?s=2.5&ms=2500", Status: http.StatusOK}},
	} {
		p := load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: op, Takes: 2500 * time.Millisecond}, Rate: 1}
		if got := s.Stream(p, "", "127.0.0.1:80", "here").Pages; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", op, got, want)
		}
	}
	s.Asks = nil
	if got := s.Stream(load.Profile{}, "", "127.0.0.1:80", "here").Pages; got != nil {
		t.Errorf("of the suite's own: %v", got)
	}
}

// The app that a vendor's sidecar is put beside has the times of the behaviour, whatever the sidecar's
// are; the pod has the sidecar's form, and what is of another form or of the suite's mesh is skipped.
func TestFitOfASidecar(t *testing.T) {
	beside := func(form system.Form) *system.System {
		return &system.System{
			Metadata: system.Metadata{Name: "small"}, Roles: []system.Role{system.Sidecar}, Features: []spec.Feature{spec.HTTP1}, Instances: 2,
			Drain:     system.Drain{MinDrain: system.Duration(time.Second), Timeout: system.DrainTimeout(2 * time.Second), Grace: system.Duration(3 * time.Second)},
			Terminate: []system.Step{{Signal: "TERM"}}, Cluster: &system.Cluster{Patch: "patch.yaml", Form: form},
		}
	}
	slow := load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Slow, Takes: 2 * time.Second}, Rate: 5}
	for name, tc := range map[string]struct {
		form     system.Form
		topology behaviour.Topology
		disrupt  disrupt.Disruption
		needs    []spec.Feature
		want     string
	}{
		"of its form":               {system.Plain, behaviour.Beside, behaviour.DeleteEach, nil, ""},
		"of any, in the other form": {system.Native, behaviour.Beside, behaviour.DeleteEach, nil, ""},
		"of native ones":            {system.Native, behaviour.BesideLongNative, behaviour.DeleteAtLength, nil, ""},
		"of native ones, and plain": {system.Plain, behaviour.BesideLongNative, behaviour.DeleteAtLength, nil, "it is about native sidecars"},
		"Jobs, and plain":           {system.Plain, behaviour.BesideNative, behaviour.RunJobs, nil, ""},
		"of apps":                   {system.Plain, behaviour.SlowDrain, behaviour.DeleteEach, nil, ""},
		"of a grace that is short":  {system.Plain, behaviour.Exhausted, behaviour.DeleteEach, nil, ""},
		"of a hook of the app's":    {system.Plain, behaviour.Hooked, behaviour.DeleteEach, nil, "it sets the system's own times"},
		"of tunnels":                {system.Plain, behaviour.Beside, behaviour.DeleteEach, []spec.Feature{spec.HBONE}, "tunnels of the suite's own mesh"},
		"of gateways":               {system.Plain, behaviour.Gated, behaviour.EndBoth, nil, "it is about a gateway"},
	} {
		b := behaviour.Behaviour{Topology: tc.topology, Disrupt: tc.disrupt, Needs: tc.needs, Traffic: []load.Profile{slow}}
		got, skip := behaviour.Fit(b, beside(tc.form))
		if (skip.Why != "") != (tc.want != "") || !strings.Contains(skip.Why, tc.want) {
			t.Errorf("%s: %q", name, skip.Why)
			continue
		}
		if skip.Why != "" {
			continue
		}
		want := tc.topology
		want.Role, want.Form = system.Sidecar, tc.form
		if want.Replicas = max(2, tc.disrupt.Targets); tc.disrupt.Targets == 0 {
			want.Replicas = tc.topology.Replicas
		}
		if got.Topology != want || !slices.Equal(got.Traffic, []load.Profile{slow}) {
			t.Errorf("%s: %+v, want %+v; %+v", name, got.Topology, want, got.Traffic)
		}
	}
}

// What a vendor's system has in hand of one kind it is asked for alone; the suite's own is asked for all at once.
func TestFitAlone(t *testing.T) {
	b := behaviour.Behaviour{Topology: behaviour.Talking, Disrupt: behaviour.EndBoth, Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.TCP, Conns: flow.New, Op: flow.Talk, Takes: 3 * time.Second}, Rate: 5},
	}}
	ours, err := systems.Reference(system.Gateway)
	if err != nil {
		t.Fatal(err)
	}
	theirs, host := *ours, *ours.Host
	host.Command = []string{"another"}
	theirs.Host = &host
	for sys, want := range map[*system.System]string{ours: "", &theirs: behaviour.Talking.Alone} {
		got, skip := behaviour.Fit(b, sys)
		if skip.Why != "" || got.Topology.Alone != want {
			t.Errorf("%v: %q, %q, want %q", sys.Host.Command[:1], skip.Why, got.Topology.Alone, want)
		}
	}
}

// With the form native the suite's own sidecar is told by its preStop hook what a plain one hears by SIGTERM; what asks
// for a native one has it as ever, and what is about a plain one's start is no matter of it.
func TestFitOfANativeReference(t *testing.T) {
	for name, tc := range map[string]struct {
		form     system.Form
		topology behaviour.Topology
		preStop  bool
		skip     string
	}{
		"of plain ones":                {system.Native, behaviour.Beside, true, ""},
		"of tunnels":                   {system.Native, behaviour.Tunnelled, true, ""},
		"of any":                       {system.Native, behaviour.BesideStreaming, true, ""},
		"of native ones":               {system.Native, behaviour.BesideLongNative, false, ""},
		"of those that leave at zero":  {system.Native, behaviour.BesideAtZero, true, ""},
		"of plain ones that are late":  {system.Native, behaviour.BesideLate, false, "which its app waits for"},
		"of plain ones, and it is":     {system.Plain, behaviour.Beside, false, ""},
		"of plain ones, by themselves": {"", behaviour.Beside, false, ""},
	} {
		sys := &system.System{
			Roles: []system.Role{system.App, system.Sidecar}, Features: []spec.Feature{spec.HTTP1}, Instances: 2,
			Terminate: []system.Step{{Signal: "TERM"}}, Cluster: &system.Cluster{Form: tc.form},
			Implementation: system.Implementation{Organization: "lastcall-dev", Project: "reference"},
		}
		got, skip := behaviour.Fit(behaviour.Behaviour{Topology: tc.topology, Disrupt: behaviour.DeleteEach}, sys)
		want := cmp.Or(tc.form, tc.topology.Form)
		if (skip.Why != "") != (tc.skip != "") || !strings.Contains(skip.Why, tc.skip) {
			t.Errorf("%s: %q", name, skip.Why)
		} else if skip.Why == "" && (got.Topology.Form != want || got.Topology.PreStop != tc.preStop) {
			t.Errorf("%s: %+v", name, got.Topology)
		}
	}
}
