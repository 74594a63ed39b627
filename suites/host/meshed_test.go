// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/bench"
	"github.com/lastcall-dev/lastcall/fixtures/datapath"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/injector"
	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	_ "github.com/lastcall-dev/lastcall/suites/all" // a recording is of some behaviour
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

// What a recording wants of its sidecars gets into their pods: form, times and fault.
func TestTemplate(t *testing.T) {
	stack, err := behaviour.NewStack(nil)
	if err != nil {
		t.Fatal(err)
	}
	m := &meshed{ground: &ground{subject: stack.Subject(behaviour.Tunnelled)}}
	template := func(of system.Place) sidecar.Settings {
		of.Name, of.UID, of.Address = "a", "a", "198.18.0.2"
		of.MinDrain, of.Unready, of.Timeout, of.Grace = time.Second, time.Second, 9*time.Second, 20*time.Second
		made, err := m.template(of)
		if err != nil {
			t.Fatal(err)
		}
		got, err := sidecar.Parse(made.Annotations[injector.SettingsAnnotation])
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	got := template(system.Place{Form: system.Plain, Waits: 7 * time.Second, Fault: string(datapath.TunnelsUntold)})
	if got.Form != system.Plain || got.PreStop || got.Leave != sidecar.Waits || got.Wait.D() != 7*time.Second || got.Deadline.D() != 9*time.Second || got.Fault != datapath.TunnelsUntold {
		t.Errorf("%v", got)
	}
	got = template(system.Place{Form: system.Native, PreStop: true, AtZero: true})
	if got.Form != system.Native || !got.PreStop || got.Leave != sidecar.AtZero {
		t.Errorf("%v", got)
	}
}

// program builds one of the suite's.
func program(t *testing.T, name string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "../../cmd/"+name).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return []string{path}
}

// short is a scenario of one pod with a sidecar, that is deleted.
func short(form system.Form) behaviour.Scenario {
	return behaviour.Scenario{
		Name: "short-" + string(form),
		Topology: behaviour.Topology{
			Role: system.Sidecar, Form: form, Replicas: 1, MinDrain: 500 * time.Millisecond, Unready: 100 * time.Millisecond,
			Deadline: 10 * time.Second, Grace: 30 * time.Second,
		},
		Disrupt: disrupt.DeleteEach(1),
		Traffic: []load.Profile{
			{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 20},
			{Flow: flow.Flow{Path: flow.Service, Protocol: flow.H2C, Conns: flow.New, Op: flow.Get}, Rate: 20},
			{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.New, Op: flow.Get}, Rate: 10},
			{Flow: flow.Flow{Path: flow.Outbound, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 20},
			{Flow: flow.Flow{Path: flow.Outbound, Protocol: flow.DNS, Conns: flow.New, Op: flow.Lookup}, Rate: 20},
		},
		Resolution: 20 * time.Millisecond,
	}
}

// once is a stage that records one scenario of its own by hand, in place of what it is asked for.
type once struct {
	*Stage
	scenario behaviour.Scenario
	in       string // the recording that it is in
	err      error
}

var errOnce = errors.New("it has recorded its own")

func (*once) Fit(b behaviour.Behaviour) (behaviour.Behaviour, behaviour.Skip) {
	return b, behaviour.Skip{}
}

func (o *once) Open(ctx context.Context, asked behaviour.Scenario, sink *behaviour.Sink) (behaviour.Ground, error) {
	if o.in != "" {
		return nil, errOnce
	}
	o.in = asked.Name
	g, err := o.Stage.Open(ctx, o.scenario, sink)
	if err == nil {
		_, _, err = g.Start(ctx)
	}
	if err == nil {
		err = disrupt.Pause(ctx, 2*time.Second)
	}
	if err == nil {
		err = errors.Join(g.Disrupt(ctx), g.Stop(ctx))
	}
	o.err = errors.Join(err, g.Close(context.WithoutCancel(ctx)))
	return nil, errOnce
}

// Close leaves the stage standing.
func (*once) Close(context.Context) (*v1alpha1.Egress, error) { return nil, nil }

// recorded is the recording of a scenario on the bench.
func recorded(t *testing.T, s *Stage, sc behaviour.Scenario) *timeline.Timeline {
	t.Helper()
	dir := t.TempDir()
	i := slices.IndexFunc(behaviour.Catalogue(), func(b behaviour.Behaviour) bool { return b.ID == "sidecar.accepts-while-app-serves" })
	o := &once{Stage: s, scenario: sc}
	r, err := behaviour.NewRecorder(behaviour.Config{Stage: o, Dir: dir, Selected: behaviour.Catalogue()[i : i+1]})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Record(t.Context()), o.err); err != nil {
		t.Fatal(err)
	}
	tl, err := timeline.Read(filepath.Join(dir, v1alpha1.HistoryDir, o.in))
	if err != nil {
		t.Fatal(err)
	}
	return tl
}

// A pod with a sidecar is reached through a tunnel, by its own address and by its Service's, calls
// others through one, and ends in the kubelet's order.
func TestMeshed(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: it builds programs, and starts them")
	}
	agent, mesh := program(t, "agent"), program(t, "mesh")
	for name, tc := range map[string]struct {
		form  system.Form
		pods  bench.Stack
		delay time.Duration
	}{
		"native":           {form: system.Native},
		"plain, IPv6":      {form: system.Plain, pods: bench.IPv6},
		"native, dual":     {form: system.Native, pods: bench.Dual},
		"native, far away": {form: system.Native, delay: 20 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			if err := bench.Lacks(tc.pods); err != nil {
				t.Skipf("skipped: %v", err)
			}
			s, err := Open(t.Context(), Config{Agent: agent, Mesh: mesh, Logs: t.TempDir(), P: time.Second, Pods: tc.pods, TunnelDelay: tc.delay})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if _, err := s.Close(context.WithoutCancel(t.Context())); err != nil {
					t.Error(err)
				}
			})
			tl := recorded(t, s, short(tc.form))
			endsInOrder(t, tl, tc.form)
			looksUp(t, tl)
			takes(t, tl, tc.delay)
		})
	}
}

// looksUp says whether the instances were told whom they call.
func looksUp(t *testing.T, tl *timeline.Timeline) {
	t.Helper()
	told := 0
	for _, one := range tl.Samples {
		if one.Stream.Flow().Op != flow.Lookup {
			continue
		}
		if one.Failed() || len(one.Answers) != 1 {
			t.Errorf("%+v", one)
		}
		told++
	}
	if told < 20 {
		t.Errorf("%d lookups", told)
	}
}

// takes says whether requests took as long as the wire makes them, by the quickest of each flow: one by
// HTTP goes there and back, and its CONNECT before it. A new tunnel is two ways more for TCP, and for TLS.
func takes(t *testing.T, tl *timeline.Timeline, delay time.Duration) {
	t.Helper()
	least := map[flow.Flow]time.Duration{}
	for _, one := range tl.Samples {
		f := one.Stream.Flow()
		if took, ok := least[f]; !one.Failed() && (!ok || one.End-one.Start < took) {
			least[f] = one.End - one.Start
		}
	}
	for f, took := range least {
		want := 4 * delay
		switch f.Protocol {
		case flow.DNS:
			want = 0
		case flow.HBONE:
			want = 8 * delay
		}
		if took < want || delay > 0 && took > want+2*delay {
			t.Errorf("%v takes %v", f, took)
		}
		t.Logf("%v takes %v", f, took)
	}
}

func endsInOrder(t *testing.T, tl *timeline.Timeline, form system.Form) {
	t.Helper()
	deleted := tl.EventsOf(timeline.PodDeletion, "")
	if len(deleted) != 1 {
		t.Fatalf("%d deletions", len(deleted))
	}
	uid, d := deleted[0].Subject, deleted[0].At
	served, own := map[flow.Path]int{}, 0
	for _, one := range tl.Samples {
		if one.End >= d {
			continue
		}
		if one.Failed() {
			t.Errorf("before D: %+v", one)
		}
		served[one.Stream.Flow().Path]++
		if one.Stream.Flow().Protocol == flow.HBONE {
			own++
		}
	}
	if own < 10 {
		t.Errorf("%d requests in the client's own tunnels", own)
	}
	if served[flow.Direct] < 20 || served[flow.Service] < 20 || served[flow.Outbound] < 20 {
		t.Errorf("served before D: %v", served)
	}
	for _, of := range []string{clientUID, uid} {
		held := 0
		for _, e := range tl.EventsOf(timeline.Sockets, of) {
			held += len(e.Held())
		}
		if held == 0 {
			t.Errorf("%s had no tunnel", of)
		}
	}
	for _, e := range tl.EventsOf(timeline.WatchGap, "") {
		t.Errorf("%+v", e)
	}
	var app, side time.Duration
	for _, e := range tl.EventsOf(timeline.ProcExit, uid) {
		if e.Attrs["container"] == injector.SidecarName {
			side = e.At
		} else {
			app = e.At
		}
	}
	gone := tl.EventsOf(timeline.NetGone, uid)
	if app == 0 || side == 0 || len(gone) != 1 {
		t.Fatalf("the app left at %v, the sidecar at %v, %d interfaces went", app, side, len(gone))
	}
	if app >= side || side >= gone[0].At {
		t.Errorf("D %v, the app left at %v, the sidecar at %v, the interface at %v", d, app, side, gone[0].At)
	}
	// A plain one has waited until it had seen no socket of the app's for 5 s.
	if waits := side-app > 4*time.Second; waits != (form == system.Plain) {
		t.Errorf("%s: it left %v after its app", form, side-app)
	}
}

// An endpoint of whom the instances dial is none of the Service of what is ended.
func TestOfPeer(t *testing.T) {
	was := timeline.Event{At: 1, Kind: timeline.Endpoint, Subject: "uid-p", Attrs: map[string]string{"service": echoName, "ready": "false"}}
	told, is := ofPeer(was)
	if !is || told.Attrs["service"] != behaviour.CallPeer || told.Attrs["ready"] != "false" || was.Attrs["service"] != echoName {
		t.Errorf("%v, %v, of %v", told, is, was)
	}
	if _, is := ofPeer(timeline.Event{Kind: timeline.ProcExit}); is {
		t.Error("an exit is no endpoint")
	}
}
