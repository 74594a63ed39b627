// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestCacheKeepsSoundRecordingsOnly(t *testing.T) {
	c := Cache{Dir: t.TempDir(), Of: "x"}
	s := Scenario{Name: "delete-1", Fault: "f"}
	env := v1alpha1.Environment{Kubernetes: "v1.34.4"}
	has := func(c Cache, plan ...Scenario) bool {
		_, ok := c.Whole(plan)
		return ok
	}
	record := func(m Meta) string {
		t.Helper()
		dir := t.TempDir()
		m.Scenario = s
		if err := writeJSON(filepath.Join(dir, scenarioFile), m); err != nil {
			t.Fatal(err)
		}
		if err := c.keep(s, dir, env); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for name, m := range map[string]Meta{
		"stopped":  {},
		"doubtful": {Ended: true, Doubt: "d"},
		"broken":   {Ended: true, Error: "e"},
	} {
		record(m)
		if has(c, s) {
			t.Errorf("a recording that was %s is kept", name)
		}
	}
	record(Meta{Ended: true, Clients: []string{"n1"}})
	other := s
	other.Fault = "g"
	if !has(c, s) || has(c, s, other) || has(Cache{Dir: c.Dir, Of: "y"}, s) || has(c) {
		t.Error("it is kept under its own scenario and its own hash, and under no other")
	}
	into := filepath.Join(t.TempDir(), "history", "delete-1")
	if ok, err := c.take(s, into, env); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, err := os.Stat(filepath.Join(into, scenarioFile)); err != nil {
		t.Error(err)
	}
	if ok, err := (Cache{}).take(s, into, env); ok || err != nil {
		t.Error("no cache keeps nothing", ok, err)
	}
}

func TestCacheAsksWhereARecordingWasMade(t *testing.T) {
	c := Cache{Dir: t.TempDir(), Of: "x"}
	one, two := Scenario{Name: "delete-1"}, Scenario{Name: "delete-2"}
	made := v1alpha1.Environment{
		Kubernetes: "v1.34.4", NodeImage: "node:1", ContainerRuntime: "containerd://2.2.1", KubeProxyMode: "iptables",
		IPFamilies: []string{"IPv4", "IPv6"}, Nodes: make([]v1alpha1.Node, 3), Kernel: "6.18",
	}
	keep := func(s Scenario, env v1alpha1.Environment) {
		t.Helper()
		dir := t.TempDir()
		if err := writeJSON(filepath.Join(dir, scenarioFile), Meta{Scenario: s, Ended: true}); err != nil {
			t.Fatal(err)
		}
		if err := c.keep(s, dir, env); err != nil {
			t.Fatal(err)
		}
	}
	keep(one, made)
	for _, tc := range []struct {
		name string
		edit func(*v1alpha1.Environment)
		want bool
	}{
		{"the same", func(*v1alpha1.Environment) {}, true},
		{"what comes and goes", func(e *v1alpha1.Environment) { e.Load, e.CPUs, e.Kernel = &v1alpha1.Load{Begin: 1}, 4, "7.0" }, true},
		{"another patch release", func(e *v1alpha1.Environment) { e.Kubernetes = "v1.34.11" }, false},
		{"another node image", func(e *v1alpha1.Environment) { e.NodeImage = "node:2" }, false},
		{"another runtime", func(e *v1alpha1.Environment) { e.ContainerRuntime = "containerd://2.3.0" }, false},
		{"another mode", func(e *v1alpha1.Environment) { e.KubeProxyMode = "nftables" }, false},
		{"one family", func(e *v1alpha1.Environment) { e.IPFamilies = []string{"IPv4"} }, false},
		{"fewer nodes", func(e *v1alpha1.Environment) { e.Nodes = e.Nodes[:1] }, false},
	} {
		is := made
		tc.edit(&is)
		if got, err := c.take(one, filepath.Join(t.TempDir(), "delete-1"), is); got != tc.want || err != nil {
			t.Errorf("%s: taken %t (%v), want %t", tc.name, got, err, tc.want)
		}
		keep(two, is)
		stage, got := c.Whole([]Scenario{one, two})
		if got != tc.want {
			t.Errorf("%s: one plan %t, want %t", tc.name, got, tc.want)
		}
		if !got {
			continue
		}
		if env, err := stage.Describe(t.Context()); err != nil || env.Kubernetes != made.Kubernetes {
			t.Errorf("it is the cluster that stood then, and not %+v (%v)", env, err)
		}
	}
}

func TestCacheForgetsWhatProvedNothing(t *testing.T) {
	b := sample("a.a")
	b.Checks = says(spec.Finding{Verdict: spec.Pass})
	kill := sample("a.kill")
	kill.Disrupt, kill.Level = KillEach, spec.Control
	control := Fold([]Behaviour{b, kill}, "", false)[0]
	row := Fold([]Behaviour{b}, "f", false)[0]
	lost := func(emit func(timeline.Record), _ *Meta) {
		emit(timeline.Record{Event: &timeline.Event{At: 7e9, Source: "t", Kind: timeline.AgentLost, Attrs: map[string]string{"agent": "probe"}}})
	}
	for _, tc := range []struct {
		name                   string
		row                    func(func(timeline.Record), *Meta)
		doubt, blind           bool
		wantControl, wantFault bool
	}{
		{name: "sound", wantControl: true, wantFault: true},
		{name: "a lost agent", row: lost, wantControl: true},
		{name: "a doubtful cell", doubt: true, wantControl: true},
		{name: "a blind control", blind: true, wantFault: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := Cache{Dir: t.TempDir(), Of: "x"}
			dir := t.TempDir()
			tape(t, dir, control, nil)
			tape(t, dir, row, tc.row)
			j := &judgement{}
			for _, s := range []Scenario{control, row} {
				if err := c.keep(s, historyDir(dir, s.Name), v1alpha1.Environment{}); err != nil {
					t.Fatal(err)
				}
				r, err := readRecording(dir, s, 3e9)
				if err != nil {
					t.Fatal(err)
				}
				j.recs = append(j.recs, r)
			}
			report := &v1alpha1.ConformanceReport{Matrix: &v1alpha1.Matrix{Rows: []v1alpha1.MatrixRow{{
				Fault: "f", Cells: []v1alpha1.MatrixCell{{Behaviour: "a.a", Scenario: row.Name, Doubt: tc.doubt}},
			}}}}
			if tc.blind {
				report.Controls = []v1alpha1.Control{{Name: "abrupt-kill", Verdict: spec.Inconclusive}}
			}
			if err := c.forget(j, report); err != nil {
				t.Fatal(err)
			}
			for _, k := range []struct {
				s    Scenario
				want bool
			}{{control, tc.wantControl}, {row, tc.wantFault}} {
				if _, _, ok := c.kept(k.s); ok != k.want {
					t.Errorf("%s is kept: %t, want %t", k.s.Name, ok, k.want)
				}
			}
		})
	}
}
