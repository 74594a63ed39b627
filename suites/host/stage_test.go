// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/fixtures/bench"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
	"github.com/lastcall-dev/lastcall/systems"
)

// vendors is a gateway of somebody else, which is as the reference is.
func vendors(t *testing.T) *system.System {
	t.Helper()
	sys, err := systems.Reference(system.Gateway)
	if err != nil {
		t.Fatal(err)
	}
	started := *sys.Host
	started.Command = append([]string{"proxy"}, sys.Host.Command[1:]...)
	sys.Host = &started
	return sys
}

// The reference has the times of each recording, by its file too; a vendor's system
// has its own.
func TestFitTimes(t *testing.T) {
	theirs := vendors(t)
	ours, err := systems.Reference(system.Gateway)
	if err != nil {
		t.Fatal(err)
	}
	long := load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Slow, Takes: 14 * time.Second}, Rate: 4}
	short := behaviour.Behaviour{Topology: behaviour.GatedShort, Disrupt: behaviour.EndBoth, Traffic: []load.Profile{long}}
	for name, c := range map[string]struct {
		sys             *system.System
		deadline, takes time.Duration
	}{
		"ours":   {ours, behaviour.GatedShort.Deadline, long.Takes},
		"theirs": {theirs, 20 * time.Second, long.Takes + 20*time.Second - behaviour.GatedShort.Deadline},
	} {
		b, skip := stageOf(t, c.sys).Fit(short)
		if skip.Why != "" || b.Topology.Deadline != c.deadline || b.Traffic[0].Takes != c.takes {
			t.Errorf("%s: %q, %s, %s", name, skip.Why, b.Topology.Deadline, b.Traffic[0].Takes)
		}
	}
}

// What a drain finds in hand outlasts a vendor's minimum, where its timeout leaves that much, and
// as much is in hand as before.
func TestFitOutlastsTheMinimum(t *testing.T) {
	asked := load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Slow, Takes: 2 * time.Second}, Rate: 7}
	for name, c := range map[string]struct {
		path     flow.Path
		op       flow.Op
		min, out time.Duration
		takes    time.Duration
		rate     float64
	}{
		"a long minimum":            {flow.Direct, flow.Slow, 5 * time.Second, 20 * time.Second, 7 * time.Second, 2},
		"a WebSocket":               {flow.Direct, flow.WebSocket, 5 * time.Second, 20 * time.Second, 7 * time.Second, 2},
		"a late header":             {flow.Direct, flow.HalfHeader, 5 * time.Second, 20 * time.Second, 7 * time.Second, 2},
		"a header that is too late": {flow.Direct, flow.HalfHeader, 7 * time.Second, 20 * time.Second, 2 * time.Second, 7},
		"a call":                    {flow.Direct, flow.Bidi, 5 * time.Second, 20 * time.Second, 2 * time.Second, 7},
		"to no instance itself":     {flow.Service, flow.Slow, 5 * time.Second, 20 * time.Second, 2 * time.Second, 7},
		"none":                      {flow.Direct, flow.Slow, 0, 20 * time.Second, 2 * time.Second, 7},
		"a timeout just behind it":  {flow.Direct, flow.Slow, 5 * time.Second, 7 * time.Second, 6 * time.Second, 14. / 6},
		"a timeout with it":         {flow.Direct, flow.Slow, 5 * time.Second, 6 * time.Second, 2 * time.Second, 7},
		"a timeout just far enough": {flow.Direct, flow.Slow, 5 * time.Second, 8 * time.Second, 7 * time.Second, 2},
	} {
		sys := *vendors(t)
		sys.Drain.MinDrain, sys.Drain.Timeout = system.Duration(c.min), system.DrainTimeout(c.out)
		p := asked
		p.Path, p.Op = c.path, c.op
		b, skip := stageOf(t, &sys).Fit(behaviour.Behaviour{Topology: behaviour.Gated, Disrupt: behaviour.EndBoth, Traffic: []load.Profile{p}})
		if skip.Why != "" || b.Traffic[0].Takes != c.takes || math.Abs(b.Traffic[0].Rate-c.rate) > 1e-9 {
			t.Errorf("%s: %q, %s at %v/s, want %s at %v/s", name, skip.Why, b.Traffic[0].Takes, b.Traffic[0].Rate, c.takes, c.rate)
		}
	}
	for least, rate := range map[time.Duration]float64{5 * time.Second: 20, 2 * time.Second: 32.5, 100 * time.Millisecond: 100, 0: 20} {
		sys := *vendors(t)
		sys.Drain.MinDrain = system.Duration(least)
		get := load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 20}
		b, skip := stageOf(t, &sys).Fit(behaviour.Behaviour{Topology: behaviour.GatedIdle, Disrupt: behaviour.EndBoth, Traffic: []load.Profile{get}})
		if skip.Why != "" || b.Traffic[0].Rate != rate {
			t.Errorf("a minimum of %s, held by who is idle: %q, %v/s, want %v", least, skip.Why, b.Traffic[0].Rate, rate)
		}
	}
	for grace, takes := range map[time.Duration]time.Duration{30 * time.Second: 35 * time.Second, time.Hour: 55 * time.Second} {
		sys := *vendors(t)
		sys.Drain.Grace = system.Duration(grace)
		idle := load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Idle, Takes: 20 * time.Second}, Rate: 2}
		b, skip := stageOf(t, &sys).Fit(behaviour.Behaviour{Topology: behaviour.Gated, Disrupt: behaviour.EndBoth, Traffic: []load.Profile{idle}})
		if skip.Why != "" || b.Traffic[0].Takes != takes {
			t.Errorf("a grace period of %s: %q, held for %s, want %s", grace, skip.Why, b.Traffic[0].Takes, takes)
		}
	}
	overlong := asked
	overlong.Takes = behaviour.Exhausted.Grace + 2*time.Second
	exhausted := behaviour.Behaviour{Topology: behaviour.Exhausted, Disrupt: behaviour.DeleteOne, Traffic: []load.Profile{overlong, asked}}
	for timeout, why := range map[system.DrainTimeout]string{system.NoTimeout: "", system.DrainTimeout(20 * time.Second): "its own times"} {
		sys := *vendors(t)
		sys.Drain.Timeout = timeout
		b, skip := stageOf(t, &sys).Fit(exhausted)
		switch {
		case why != "":
			if !strings.Contains(skip.Why, "own times") {
				t.Errorf("a timeout of %s: %q", time.Duration(timeout), skip.Why)
			}
		case skip.Why != "" || b.Traffic[0].Takes != sys.Drain.Grace.D()+2*time.Second || b.Traffic[1].Takes != asked.Takes:
			t.Errorf("no timeout: %q, %v", skip.Why, b.Traffic)
		}
	}
	twice := behaviour.Behaviour{Topology: behaviour.SlowDrain, Disrupt: behaviour.DeleteTwice, Traffic: []load.Profile{asked}}
	sys := *vendors(t)
	sys.Terminate = []system.Step{{Signal: "TERM"}}
	if b, skip := stageOf(t, &sys).Fit(twice); skip.Why != "" || b.Traffic[0].Takes != behaviour.DeleteTwice.After+4*time.Second {
		t.Errorf("with a second signal midway: %q, %v", skip.Why, b.Traffic)
	}
}

// stageOf is a stage that tests a system; nil: the reference. It is not open.
func stageOf(t *testing.T, sys *system.System) *Stage {
	t.Helper()
	stack, err := behaviour.NewStack(sys)
	if err != nil {
		t.Fatal(err)
	}
	return &Stage{cfg: Config{System: sys}, stack: stack}
}

// A vendor's gateway whose times are all the same keeps the recordings apart that
// are about different clients; and what it does not name it is not asked for.
func TestFitOfAVendor(t *testing.T) {
	sys := vendors(t)
	s := stageOf(t, sys)
	seen := map[behaviour.Topology]string{}
	for name, of := range map[string]behaviour.Topology{"gated": behaviour.Gated, "idle": behaviour.GatedIdle, "short": behaviour.GatedShort} {
		b, skip := s.Fit(behaviour.Behaviour{Topology: of, Disrupt: behaviour.EndBoth, Needs: []spec.Feature{spec.LBHealth}})
		if skip.Why != "" {
			t.Errorf("%s: %s", name, skip.Why)
		}
		if other := seen[b.Topology]; other != "" {
			t.Errorf("%s and %s would be recorded at once", name, other)
		}
		seen[b.Topology] = name
	}
	bare := *sys
	bare.Health.LB = nil
	s = stageOf(t, &bare)
	if _, skip := s.Fit(behaviour.Behaviour{Topology: behaviour.Gated, Disrupt: behaviour.EndBoth, Needs: []spec.Feature{spec.LBHealth}}); !strings.Contains(skip.Why, "health.lb") || skip.Kind != spec.Unclaimed {
		t.Errorf("without health.lb: %+v", skip)
	}
	intruded := behaviour.Behaviour{Topology: behaviour.Gated, Disrupt: behaviour.IntrudeOnOne, Needs: []spec.Feature{spec.Admin}}
	if _, skip := s.Fit(intruded); skip.Why != "" {
		t.Errorf("with admin: %s", skip.Why)
	}
	bare.Admin = nil
	if _, skip := s.Fit(intruded); !strings.Contains(skip.Why, "no request that begins its drain") {
		t.Errorf("without admin: %q", skip.Why)
	}
	bare.Terminate = slices.Insert(slices.Clone(bare.Terminate), 0, system.Step{HTTP: &system.HTTPStep{Port: "admin", Post: "/drain"}})
	if _, skip := s.Fit(intruded); skip.Why != "" {
		t.Errorf("with a step: %s", skip.Why)
	}
}

// fitted is the traffic that a system with some features gets of a behaviour, or skip.Why
// it gets none.
type fitted struct {
	features []spec.Feature
	want     []load.Profile
	why      string
}

// judgeFits puts a behaviour to systems with other features.
func judgeFits(t *testing.T, b behaviour.Behaviour, cases map[string]fitted) {
	t.Helper()
	sys, err := systems.Reference(system.Gateway)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range cases {
		vendor := *sys
		vendor.Features = tc.features
		got, skip := stageOf(t, &vendor).Fit(b)
		if tc.why != "" {
			if !strings.Contains(skip.Why, tc.why) {
				t.Errorf("%s: %q, want %q", name, skip.Why, tc.why)
			}
			continue
		}
		if skip.Why != "" || !slices.Equal(got.Traffic, tc.want) {
			t.Errorf("%s: %q, %v, want %v", name, skip.Why, got.Traffic, tc.want)
		}
	}
}

// Who takes HTTP/2 in TLS only is asked for it there, once.
func TestFitInTLS(t *testing.T) {
	plain := load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2C, Conns: flow.Reused, Op: flow.Get}, Rate: 25}
	other := load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.H2C, Conns: flow.Reused, Op: flow.Unary}, Rate: 5}
	secure := plain
	secure.Protocol, secure.Rate = flow.H2, 15
	b := behaviour.Behaviour{
		Topology: behaviour.Gated, Disrupt: behaviour.EndBoth, Needs: []spec.Feature{spec.H2C},
		Traffic: []load.Profile{plain, secure, other},
	}
	both := plain
	both.Protocol = flow.H2
	otherInTLS := other
	otherInTLS.Protocol = flow.H2
	judgeFits(t, b, map[string]fitted{
		"both":    {[]spec.Feature{spec.H2C, spec.TLS, spec.HTTP2}, b.Traffic, ""},
		"in TLS":  {[]spec.Feature{spec.TLS, spec.HTTP2}, []load.Profile{both, otherInTLS}, ""},
		"neither": {[]spec.Feature{spec.HTTP1, spec.TLS}, nil, "does not claim H2C"},
	})
}

// What is about HTTP of any version is asked of each system in the one that it
// takes, and as much of it.
func TestFitInOneVersion(t *testing.T) {
	in := func(p flow.Protocol, rate float64) load.Profile {
		return load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: p, Conns: flow.Reused, Op: flow.Get}, Rate: rate}
	}
	b := behaviour.Behaviour{
		Topology: behaviour.Gated, Disrupt: behaviour.EndBoth, Needs: []spec.Feature{spec.HTTP},
		Traffic: []load.Profile{in(flow.HTTP1, 25), in(flow.H2C, 15), in(flow.TLS1, 5)},
	}
	judgeFits(t, b, map[string]fitted{
		"both":           {[]spec.Feature{spec.HTTP1, spec.H2C, spec.TLS}, b.Traffic, ""},
		"HTTP/1.1 alone": {[]spec.Feature{spec.HTTP1}, []load.Profile{in(flow.HTTP1, 40)}, ""},
		"HTTP/2 alone":   {[]spec.Feature{spec.H2C}, []load.Profile{in(flow.H2C, 40)}, ""},
		"in TLS alone":   {[]spec.Feature{spec.TLS}, []load.Profile{in(flow.TLS1, 40)}, ""},
		"in TLS, HTTP/2": {[]spec.Feature{spec.TLS, spec.HTTP2}, []load.Profile{in(flow.TLS1, 25), in(flow.H2, 15)}, ""},
		"neither":        {[]spec.Feature{spec.TCP}, nil, "claims no HTTP: if it speaks some, add HTTP1"},
	})
}

// What is about HTTP/1.1 is asked in TLS of who takes it there alone.
func TestFitHTTP1InTLS(t *testing.T) {
	in := func(p flow.Protocol, rate float64) load.Profile {
		return load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: p, Conns: flow.Reused, Op: flow.Get}, Rate: rate}
	}
	b := behaviour.Behaviour{
		Topology: behaviour.Gated, Disrupt: behaviour.EndBoth, Needs: []spec.Feature{spec.HTTP1},
		Traffic: []load.Profile{in(flow.HTTP1, 25), in(flow.TLS1, 15)},
	}
	judgeFits(t, b, map[string]fitted{
		"both":    {[]spec.Feature{spec.HTTP1, spec.TLS}, b.Traffic, ""},
		"in TLS":  {[]spec.Feature{spec.TLS, spec.HTTP2}, []load.Profile{in(flow.TLS1, 25)}, ""},
		"neither": {[]spec.Feature{spec.H2C}, nil, "does not claim HTTP1"},
	})
	balanced := b
	balanced.Traffic = []load.Profile{{Flow: flow.Flow{Path: flow.Balanced, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 20}}
	judgeFits(t, balanced, map[string]fitted{
		"balanced":           {[]spec.Feature{spec.HTTP1, spec.TLS}, balanced.Traffic, ""},
		"balanced, TLS only": {[]spec.Feature{spec.TLS}, nil, "a load balancer that passes on to the port http1"},
	})
}

func TestUnfit(t *testing.T) {
	plain, err := systems.Reference(system.Gateway)
	if err != nil {
		t.Fatal(err)
	}
	hooked := *plain
	hooked.Terminate = slices.Insert(slices.Clone(plain.Terminate), 0, system.Step{Sleep: system.Duration(time.Second)})
	app := *plain
	app.Roles = []system.Role{system.App}
	twice := behaviour.Behaviour{Topology: behaviour.SlowDrain, Disrupt: behaviour.DeleteTwice}
	once := behaviour.Behaviour{Topology: behaviour.Gated, Disrupt: behaviour.EndBoth}
	for name, row := range map[string]struct {
		b   behaviour.Behaviour
		sys *system.System
		why string
	}{
		"a second signal":                    {twice, plain, ""},
		"a second signal, after a hook":      {twice, &hooked, "the drain of gateway begins with another step (sleep 1s)"},
		"one signal, after a hook":           {once, &hooked, ""},
		"a gateway's":                        {once, plain, ""},
		"a gateway's, of an app":             {once, &app, "is none"},
		"the system's own times":             {behaviour.Behaviour{Topology: behaviour.Hooked, Disrupt: behaviour.DeleteEach}, plain, "own times"},
		"a deadline beyond the grace period": {behaviour.Behaviour{Topology: behaviour.Exhausted, Disrupt: behaviour.DeleteEach}, plain, "own times"},
	} {
		if _, skip := behaviour.Fit(row.b, row.sys); (skip.Why == "") != (row.why == "") || !strings.Contains(skip.Why, row.why) {
			t.Errorf("%s: %q, want %q", name, skip.Why, row.why)
		}
	}
}

// What stands before an app that is ended changes nothing of that app's times.
func TestFitOfAnAppBehind(t *testing.T) {
	sys, err := systems.Reference(system.Gateway)
	if err != nil {
		t.Fatal(err)
	}
	bare := *sys
	bare.Features = []spec.Feature{spec.HTTP1}
	want := behaviour.Behaviour{Topology: behaviour.Pooled, Disrupt: behaviour.RollingUpdate, Traffic: []load.Profile{
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Post, Takes: time.Minute}, Rate: 3},
		{Flow: flow.Flow{Path: flow.Service, Protocol: flow.H2C, Conns: flow.Reused, Op: flow.Unary}, Rate: 3},
	}}
	for name, s := range map[string]*Stage{"the reference": stageOf(t, nil), "a vendor's": stageOf(t, sys)} {
		b, skip := s.Fit(want)
		if skip.Why != "" || b.Topology != want.Topology || !slices.Equal(b.Traffic, want.Traffic) {
			t.Errorf("%s: %q, %+v %v", name, skip.Why, b.Topology, b.Traffic)
		}
	}
	b, skip := stageOf(t, &bare).Fit(want)
	if skip.Why != "" || !slices.Equal(b.Traffic, want.Traffic[:1]) {
		t.Errorf("without HTTP/2: %q %v", skip.Why, b.Traffic)
	}
	app := *sys
	app.Roles = []system.Role{system.App}
	if _, skip := stageOf(t, &app).Fit(want); !strings.Contains(skip.Why, "is none") {
		t.Errorf("an app: %q", skip.Why)
	}
}

// Without network namespaces there are no pods, and what is about a sidecar is skipped with the reason.
func TestFitWithoutNamespaces(t *testing.T) {
	s := stageOf(t, nil)
	var lacks error
	s.shared = &shared{lacks: func() error { return lacks }}
	meshed := behaviour.Behaviour{Topology: behaviour.Beside, Disrupt: behaviour.DeleteEach}
	if _, skip := s.Fit(meshed); skip.Why != "" {
		t.Error(skip.Why)
	}
	lacks = fmt.Errorf("%w: it takes root", bench.ErrNone)
	const want = "it is about a sidecar, whose pods are network namespaces on this stage, and this machine lets nobody make such namespaces: it takes root: use --stage kind"
	if _, skip := s.Fit(meshed); skip.Why != want || skip.Kind != spec.Uncarried {
		t.Errorf("%+v, want %q", skip, want)
	}
	if _, skip := s.Fit(behaviour.Behaviour{Topology: behaviour.SlowDrain, Disrupt: behaviour.DeleteEach}); skip.Why != "" {
		t.Error(skip.Why)
	}
}
