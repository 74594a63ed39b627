// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/load/work"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestPressing(t *testing.T) {
	plain := &Pressure{Conns: 100, QPS: 100}
	as := func(d disrupt.Disruption) func(*Behaviour) { return func(b *Behaviour) { b.Disrupt = d } }
	full := func(qps float64) func(*Behaviour) {
		return func(b *Behaviour) {
			b.Disrupt = RollingUpdate
			b.Full = &Extent{Topology: b.Topology, Traffic: b.Traffic, Checks: b.Checks, Pressure: qps}
			*b = b.In(FullSize)
		}
	}
	for _, tc := range []struct {
		name     string
		edit     func(*Behaviour)
		cores    int
		another  bool // than HTTP/1.1 is all that it takes
		want     *Pressure
		lowered  bool
		costMore float64
	}{
		{"a deletion", as(DeleteEach), 2, false, plain, false, 0.08},
		{"a deletion in an outage", as(DeleteInOutage), 2, false, plain, false, 0.08},
		{"a roll-out", as(RollingUpdate), 2, false, plain, false, 0.08},
		{"what takes no HTTP/1.1", as(DeleteEach), 2, true, nil, false, 0},
		{"connections that idle", func(b *Behaviour) { b.Topology.Idle = true }, 2, false, nil, false, 0},
		{"what is cut", func(b *Behaviour) { b.Topology.Cut = true }, 2, false, nil, false, 0},
		{"a controller", func(b *Behaviour) { b.Topology.Role = system.Controller }, 2, false, nil, false, 0},
		{"a kill", as(KillEach), 2, false, nil, false, 0},
		{"an intruder", as(IntrudeOnOne), 2, false, nil, false, 0},
		{"a push", as(PushNothing), 2, false, nil, false, 0},
		{"a node's shutdown", as(ShutNode), 2, false, nil, false, 0},
		{"a scale-down", as(ScaleToZero), 2, false, nil, false, 0},
		{"a restart of kube-proxy", as(RestartProxies), 2, false, &Pressure{Conns: 100, QPS: 100, UntilUnserved: true}, false, 0.08},
		{"a restart of kube-proxy, and no HTTP/1.1", as(RestartProxies), 2, true, nil, false, 0},
		{"the full profile", full(1000), 4, false, &Pressure{Conns: 100, QPS: 1000}, false, 0.8},
		{"the full profile on more cores", full(1000), 16, false, &Pressure{Conns: 100, QPS: 1000}, false, 0.8},
		{"the full profile on fewer cores", full(1000), 2, false, &Pressure{Conns: 100, QPS: 500, Wanted: 1000}, true, 0.4},
		{"never less than the others have", full(150), 2, false, &Pressure{Conns: 100, QPS: 100, Wanted: 150}, true, 0.08},
		{"who wants less has no less", full(20), 4, false, plain, false, 0.08},
	} {
		b := sample("a.a")
		tc.edit(&b)
		of := []Behaviour{b}
		plan := Fold(of, "", false)
		without := plan[0].Cost
		Pressing{HTTP1: !tc.another, Cores: tc.cores}.on(plan, of)
		got := plan[0].Pressure
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s (-want +got)\n%s", tc.name, d)
		}
		if more := plan[0].Cost - without; more < tc.costMore-0.011 || more > tc.costMore+0.011 {
			t.Errorf("%s: it costs %v cores more, want %v", tc.name, more, tc.costMore)
		}
		if got != nil && (got.lowered() != "") != tc.lowered {
			t.Errorf("%s: lowered: %q", tc.name, got.lowered())
		}
	}
}

// Each scenario of a plan has its own.
func TestPlanPresses(t *testing.T) {
	a, b, kill := sample("a.a"), sample("a.b"), sample("a.kill")
	a.Pressure = 1000
	b.Disrupt = RollingUpdate
	kill.Disrupt, kill.Level = KillEach, spec.Control
	want := map[disrupt.Kind]float64{disrupt.Delete: 1000, disrupt.RollOut: 100, disrupt.Kill: 0}
	for _, s := range Plan([]Behaviour{a, b, kill}, How{Press: Pressing{HTTP1: true, Cores: 4}}) {
		qps := 0.0
		if s.Pressure != nil {
			qps = s.Pressure.QPS
		}
		if qps != want[s.Disrupt.Kind] {
			t.Errorf("%s has %v/s, want %v", s.Name, qps, want[s.Disrupt.Kind])
		}
	}
}

// pressed is a recording with pressure, of these events.
func pressed(format int, events ...timeline.Event) recording {
	return recording{
		meta:  Meta{Format: format, Scenario: Scenario{Pressure: &Pressure{Conns: 100, QPS: 100}}},
		scene: assertions.Case{Timeline: &timeline.Timeline{Events: events}},
	}
}

func summaryOf(attrs ...string) timeline.Event {
	e := timeline.Event{Kind: timeline.Pressure, Name: work.Pressure, Attrs: map[string]string{}}
	for i := 0; i+1 < len(attrs); i += 2 {
		e.Attrs[attrs[i]] = attrs[i+1]
	}
	return e
}

func TestUnpressed(t *testing.T) {
	lost, whole := summaryOf("error", "the process left no summary"), summaryOf("requests", "7")
	unasked := pressed(FormatPressure)
	unasked.meta.Scenario.Pressure = nil
	for _, tc := range []struct {
		name string
		r    recording
		want string // in the reason; "": there is none
	}{
		{"of a time that had none", pressed(0), ""},
		{"without a summary", pressed(FormatPressure), "no summary of it"},
		{"that lost it", pressed(FormatPressure, lost), "the process left no summary"},
		{"that sent nothing", pressed(FormatPressure, summaryOf("requests", "0")), "sent nothing but the first request"},
		{"with its summary", pressed(FormatPressure, whole), ""},
		{"that was not asked for it", unasked, ""},
	} {
		if got := tc.r.unpressed(); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("a recording %s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// What a newer lastcall recorded may say what this one does not look at.
func TestANewerFormatIsRefused(t *testing.T) {
	s := Fold([]Behaviour{sample("a.a")}, "", false)[0]
	for format, want := range map[int]string{
		0: "", Format: "",
		Format + 1: "is of format " + strconv.Itoa(Format+1) + ", and this version reads up to " + strconv.Itoa(Format) + ": judge it with",
	} {
		dir := t.TempDir()
		tape(t, dir, s, func(_ func(timeline.Record), m *Meta) { m.Format = format })
		r, err := readRecording(dir, s, time.Second)
		if want == "" && (err != nil || !r.recorded) || want != "" && (err == nil || r.recorded || !strings.Contains(err.Error(), want)) {
			t.Errorf("format %d: recorded %t, %v", format, r.recorded, err)
		}
	}
}

func TestServed(t *testing.T) {
	served := func(uid string, n int, final bool) timeline.Event {
		e := timeline.Event{Kind: timeline.PressureServed, Subject: uid, Attrs: map[string]string{"served": strconv.Itoa(n)}}
		if final {
			e.Attrs["final"] = "true"
		}
		return e
	}
	for _, tc := range []struct {
		name   string
		events []timeline.Event
		ended  []string
		want   *v1alpha1.PressureServed
	}{
		{"nobody told", nil, []string{"a"}, nil},
		{"all is accounted for", []timeline.Event{served("a", 40, false), served("a", 60, true), served("b", 50, true)}, []string{"a", "b"},
			&v1alpha1.PressureServed{Count: 110}},
		{"one stays", []timeline.Event{served("a", 60, true), served("b", 50, false)}, []string{"a"},
			&v1alpha1.PressureServed{Count: 110}},
		{"two were killed", []timeline.Event{served("b", 30, false), served("a", 60, false), served("c", 20, true)}, []string{"a", "b", "c"},
			&v1alpha1.PressureServed{Count: 110, AtLeast: []string{"a", "b"}}},
		{"some was repeated", []timeline.Event{served("a", 117, true)}, []string{"a"},
			&v1alpha1.PressureServed{Count: 117, Rest: 7}},
		{"some was not told", []timeline.Event{served("a", 100, false)}, []string{"a"},
			&v1alpha1.PressureServed{Count: 100, AtLeast: []string{"a"}, Rest: -10}},
		{"a container that was restarted", []timeline.Event{served("a", 90, true), served("a", 15, false), served("a", 20, true)}, nil,
			&v1alpha1.PressureServed{Count: 110}},
		{"one that served more than before it", []timeline.Event{served("a", 15, true), served("a", 95, true)}, []string{"a"},
			&v1alpha1.PressureServed{Count: 110}},
		{"one that was killed and restarted", []timeline.Event{served("a", 90, false), served("a", 20, true)}, []string{"a"},
			&v1alpha1.PressureServed{Count: 110, AtLeast: []string{"a"}}},
		{"a number that is none", []timeline.Event{{Kind: timeline.PressureServed, Subject: "a", Attrs: map[string]string{"served": "x"}}}, nil, nil},
	} {
		r := pressed(FormatPressure, tc.events...)
		for _, uid := range tc.ended {
			r.scene.Terminations = append(r.scene.Terminations, assertions.Ending{UID: uid, Exit: assertions.Instant{At: time.Second, Source: "t"}})
		}
		if d := cmp.Diff(tc.want, r.served(v1alpha1.Pressure{OK: 100, WarmUps: 10})); d != "" {
			t.Errorf("%s (-want +got)\n%s", tc.name, d)
		}
	}
}

// Errors of the pressure are a warning where the probe lost nothing over the same path
// in the same time.
func TestPressureWarning(t *testing.T) {
	const began, ended = 5 * time.Second, 9 * time.Second
	at := func(stream string, end time.Duration, outcome timeline.Outcome) timeline.Sample {
		return timeline.Sample{Stream: flow.Named(stream), Start: end - 1, End: end, Outcome: outcome, Phase: timeline.PhaseDone}
	}
	const same, other = "service/http1/new/get", "direct/http1/new/get@a"
	after, before, behind := 6*time.Second, 4*time.Second, 10*time.Second
	ok := []timeline.Sample{at(same, after, timeline.OK), at(same, after, timeline.OK)}
	for _, tc := range []struct {
		name    string
		errors  int
		samples []timeline.Sample
		asked   bool
		want    string // in it; "": there is none
	}{
		{"no errors", 0, ok, true, ""},
		{"errors, and the probe lost nothing", 3, ok, true, "3 errors in 40 requests, where the probe lost 0 of 2"},
		{"what was lost before it began", 3, append(ok, at(same, before, timeline.Reset)), true, "lost 0 of 2"},
		{"what was lost behind its end", 3, append(ok, at(same, behind, timeline.Reset)), true, "lost 0 of 2"},
		{"the probe lost some too", 3, append(ok, at(same, after, timeline.Reset)), true, ""},
		{"the probe lost some on another path", 3, append(ok, at(other, after, timeline.Reset)), true, "lost 0 of 2"},
		{"the probe asked nothing over the path", 3, []timeline.Sample{at(other, after, timeline.OK)}, true, "the probe asked nothing over the same path"},
		{"an old recording's", 3, ok, false, ""},
	} {
		r := pressed(FormatPressure)
		r.scene.Timeline.Samples = tc.samples
		if !tc.asked {
			r.meta.Scenario.Pressure = nil
		}
		took := v1alpha1.Duration(ended - began)
		got := r.pressureWarning(v1alpha1.Pressure{Name: work.Pressure, Requests: 40, Errors: tc.errors, Took: took}, ended)
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// A summary is told with all that it has; an old one has less.
func TestDescribePressure(t *testing.T) {
	ms := func(n float64) v1alpha1.Duration { return v1alpha1.Duration(n * float64(time.Millisecond)) }
	asked := pressed(FormatPressure, summaryOf(
		"requests", "40", "warmups", "10", "ok", "37", "errors", "3", "socketErrors", "1", "status.503", "2", "sockets", "12", "conns", "10",
		"qps", "12.5", "seconds", "3.250", "p50ms", "0.500", "p90ms", "1.250", "p99ms", "20.000", "maxms", "30.125",
		"histogram", "1.000:35 30.125:5 x 3:y", "stopped", "why"))
	asked.meta.Scenario.Pressure.Wanted = 1000
	old := pressed(0, summaryOf("requests", "40", "ok", "40", "errors", "0", "sockets", "10", "p50ms", "0.5", "p99ms", "2"))
	old.meta.Scenario.Pressure = nil
	for name, tc := range map[string]struct {
		r    recording
		want []v1alpha1.Pressure
	}{
		"none": {pressed(FormatPressure), nil},
		"whole": {asked, []v1alpha1.Pressure{{
			Name: "fortio", Conns: 10, QPS: 12.5, Took: ms(3250), Stopped: "why", Requests: 40, WarmUps: 10, OK: 37, Errors: 3, SocketErrors: 1,
			Statuses: map[string]int{"503": 2}, Sockets: 12, P50: ms(0.5), P90: ms(1.25), P99: ms(20), Max: ms(30.125),
			Histogram: []v1alpha1.Bucket{{UpTo: ms(1), Count: 35}, {UpTo: ms(30.125), Count: 5}, {UpTo: ms(3)}},
			Lowered:   asked.meta.Scenario.Pressure.lowered(), Warning: asked.pressureWarning(v1alpha1.Pressure{Name: "fortio", Errors: 3, Requests: 40}, 0),
		}}},
		"an old one": {old, []v1alpha1.Pressure{{Name: "fortio", Requests: 40, OK: 40, Sockets: 10, P50: ms(0.5), P99: ms(2)}}},
		"lost":       {pressed(FormatPressure, summaryOf("error", "gone")), []v1alpha1.Pressure{{Name: "fortio", Error: "gone"}}},
	} {
		if d := cmp.Diff(tc.want, tc.r.describePressure()); d != "" {
			t.Errorf("%s (-want +got)\n%s", name, d)
		}
	}
}

// It is waited for the backends' last number, and no longer than that.
func TestAwaitServed(t *testing.T) {
	for _, tc := range []struct {
		name   string
		before time.Duration // since a backend told, when the load ends; 0: none has
		tells  int           // four times a second from then on
		took   time.Duration
		fails  bool
	}{
		{"nobody tells", 0, 0, servedQuiet, false},
		{"they had told all", time.Minute, 0, servedQuiet, false},
		{"they told a moment before", 100 * time.Millisecond, 0, servedQuiet, false},
		{"they tell for two seconds", 0, 8, 2*time.Second + servedQuiet, false},
		{"they tell on", 0, 80, servedBudget, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				rec, err := timeline.NewRecorder(dir, 0)
				if err != nil {
					t.Fatal(err)
				}
				k := newSink(rec, "")
				tell := func() {
					k.Emit(timeline.Record{Event: &timeline.Event{Source: "echo", Kind: timeline.PressureServed, Subject: "a"}}, 0)
				}
				if tc.before > 0 {
					tell()
					<-time.After(tc.before)
				}
				ctx, cancel := context.WithCancel(t.Context())
				told := make(chan struct{})
				go func() {
					defer close(told)
					for range tc.tells {
						select {
						case <-time.After(echoTells):
							tell()
						case <-ctx.Done():
							return
						}
					}
				}()
				began := time.Now()
				err = k.awaitServed(t.Context(), servedBudget)
				// It looks five times a second.
				if took := time.Since(began); (err != nil) != tc.fails || took < tc.took || took > tc.took+servedQuiet/4 {
					t.Errorf("it took %s, want %s: %v", took, tc.took, err)
				}
				cancel()
				<-told
				if err := rec.Close(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// echoTells is how often a backend tells.
const echoTells = 250 * time.Millisecond

func TestOverPressurePath(t *testing.T) {
	for stream, want := range map[string]bool{
		"service/http1/new/get": true, "service/http1/reused/get@20ms": true,
		"service/h2c/new/get": false, "direct/http1/new/get@a": false, "scout/service/http1/new/get": false,
	} {
		if got := overPressurePath(flow.Parse(stream)); got != want {
			t.Errorf("%s: %t", stream, got)
		}
	}
	// As the streams are called.
	if p := (load.Profile{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Get}}); !overPressurePath(p.Flow) {
		t.Errorf("%s is the pressure's path", p.Flow)
	}
}
