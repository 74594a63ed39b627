// SPDX-License-Identifier: Apache-2.0

package suites

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
	"github.com/lastcall-dev/lastcall/systems"
)

// least is a system file that says no more than it has to.
const least = `apiVersion: lastcall.dev/v1alpha1
kind: System
metadata: {name: small}
implementation: {organization: Example, project: small, url: https://example.com, version: "1.0", contact: [a@example.com]}
roles: [gateway]
features: [HTTP1]
ports: {http1: 0, admin: 0}
drain: {minDrain: 5s, timeout: 30s, grace: 45s}
health: {ready: {port: http1, path: /ready}}
admin: {post: /drain}
terminate: [{http: {post: /drain}}, {sleep: 5s}, {signal: TERM}]
host: {command: [server]}
`

// inGo is that system as Go has it.
func inGo() *system.System {
	return &system.System{
		APIVersion: system.APIVersion, Kind: system.Kind, Metadata: system.Metadata{Name: "small"},
		Implementation: system.Implementation{
			Organization: "Example", Project: "small", URL: "https://example.com", Version: "1.0", Contact: []string{"a@example.com"},
		},
		Roles: []system.Role{system.Gateway}, Features: []spec.Feature{spec.HTTP1},
		Ports: map[string]int{"http1": 0, "admin": 0},
		Drain: system.Drain{
			MinDrain: system.Duration(5 * time.Second), Timeout: system.DrainTimeout(30 * time.Second), Grace: system.Duration(45 * time.Second),
		},
		Health: system.Health{Ready: &system.HTTPGet{Port: "http1", Path: "/ready"}},
		Admin:  &system.HTTPStep{Post: "/drain"},
		Terminate: []system.Step{
			{HTTP: &system.HTTPStep{Post: "/drain"}}, {Sleep: system.Duration(5 * time.Second)}, {Signal: "TERM"},
		},
		Host: &system.Host{Command: []string{"server"}},
	}
}

// Both forms of a system are the same to a run, and who made one in Go keeps it as it was.
func TestSystemOfGo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "small.yaml")
	if err := os.WriteFile(file, []byte(least), 0o600); err != nil {
		t.Fatal(err)
	}
	loaded, err := system.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	mine := inGo()
	cfg := Config{Stage: StageHost, System: mine, Out: t.TempDir()}.withDefaults()
	if _, _, err := cfg.validate(); err != nil {
		t.Fatal(err)
	}
	unseen := cmpopts.IgnoreUnexported(system.System{})
	if d := cmp.Diff(loaded, cfg.System, unseen); d != "" {
		t.Errorf("not as from the file (-file +Go)\n%s", d)
	}
	if d := cmp.Diff(inGo(), mine, unseen); d != "" {
		t.Errorf("the caller's own has changed (-before +after)\n%s", d)
	}
}

// idle is a stage on which nothing is recorded.
type idle struct{ behaviour.Stage }

func (idle) Fit(b behaviour.Behaviour) (behaviour.Behaviour, behaviour.Skip) {
	return b, behaviour.Skip{}
}

// What was tested lies beside the report, as soon as a stage stands, and without the values of
// its environment.
func TestSystemBesideTheReport(t *testing.T) {
	sys := inGo()
	sys.Host.Env = map[string]string{"TOKEN": "hush"}
	cfg := Config{Stage: StageHost, System: sys, Out: t.TempDir(), Behaviours: []string{"pod.inflight-completes"}}.withDefaults()
	all, err := subjects(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	stands := func(context.Context, Config) (behaviour.Stage, error) { return idle{}, nil }
	fails := func(context.Context, Config) (behaviour.Stage, error) { return nil, errors.New("no program") }
	file := filepath.Join(cfg.Out, "system", "system.yaml")
	if _, err := record(t.Context(), all, fails); err == nil {
		t.Fatal("a stage that fails")
	}
	if _, err := os.Stat(filepath.Dir(file)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what failed before it began leaves something: %v", err)
	}
	if _, err := record(t.Context(), all, stands); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(text), "hush") || !strings.Contains(string(text), "TOKEN:") {
		t.Errorf("%v\n%s", err, text)
	}
	if _, err := system.Load(file); err != nil {
		t.Error(err)
	}
}

// Where nobody can say how fast the machine is, the run is planned as on one that is as fast as meant.
func TestPlannedWithoutASpeed(t *testing.T) {
	var said []string
	cfg := Config{
		Stage: StageHost, Out: t.TempDir(), Behaviours: []string{"pod.inflight-completes"},
		Say: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) },
	}.withDefaults()
	all, err := subjects(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	over, end := context.WithCancel(t.Context())
	end()
	planned, err := record(over, all, func(context.Context, Config) (behaviour.Stage, error) { return idle{}, nil })
	if err != nil || len(planned) != 1 || len(planned[0].Plan()) == 0 {
		t.Errorf("planned %v: %v", planned, err)
	}
	if text := strings.Join(said, "\n"); !strings.Contains(text, "was not measured") {
		t.Errorf("said %q", text)
	}
}

// A module that requires this one has the sums of what package suites imports, in go.sum: all
// that the agent is built from has to be among it.
func TestTheAgentBuildsElsewhere(t *testing.T) {
	modules := func(pkg string) []string {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", pkg).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(out))
	}
	have := modules(".")
	for _, m := range modules("../cmd/agent") {
		if !slices.Contains(have, m) {
			t.Errorf("the agent needs %s, of which package suites imports nothing", m)
		}
	}
}

// What a file could not say is refused before anything is started, and each of it is told.
func TestUnsoundSystemsOfGo(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*system.System)
		want []string
	}{
		"an empty one": {
			func(s *system.System) { *s = system.System{} },
			[]string{"metadata.name: it is empty", "terminate: it is empty", "health.ready: it is empty", "roles: it is empty"},
		},
		"no command":      {func(s *system.System) { s.Host.Command = nil }, []string{"host.command: it is empty"}},
		"no steps":        {func(s *system.System) { s.Terminate = nil }, []string{"terminate: it is empty"}},
		"an unnamed port": {func(s *system.System) { s.Health.Ready.Port = "" }, []string{"health.ready.port: it is empty"}},
		"manifests of nowhere": {
			func(s *system.System) { s.Cluster = &system.Cluster{Manifests: []string{"pods.yaml"}} },
			[]string{"cluster.manifests: nobody said in which folder"},
		},
		"no such manifest": {
			func(s *system.System) {
				s.Cluster = &system.Cluster{Manifests: []string{"pods.yaml"}}
				s.In(os.DirFS(t.TempDir()))
			},
			[]string{"cluster.manifests: pods.yaml"},
		},
	} {
		for _, stage := range []string{StageHost, StageKind} {
			if strings.Contains(name, "manifest") && stage == StageHost {
				continue // where nobody reads them
			}
			sys := inGo()
			c.edit(sys)
			_, err := Execute(t.Context(), Config{Stage: stage, System: sys, Out: filepath.Join(t.TempDir(), "out")})
			var usage *UsageError
			if !errors.As(err, &usage) {
				t.Errorf("%s on stage %s: %v", name, stage, err)
				continue
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s on stage %s: no %q in\n%v", name, stage, want, err)
				}
			}
		}
	}
}

// Known deviations reach the report, with the system's name; one that names no rule is
// refused before anything is started, also of a system that no file described.
func TestDeviationsOfASystem(t *testing.T) {
	sys := inGo()
	sys.Deviations = []system.Deviation{{Behaviour: "pod.inflight-completes", Reason: "so", Link: "https://example.com/1"}}
	cfg := Config{Stage: StageHost, System: sys, Out: t.TempDir()}.withDefaults()
	if _, _, err := cfg.validate(); err != nil {
		t.Fatal(err)
	}
	r := skeleton(cfg, "")
	want := []v1alpha1.Deviation{{Behaviour: "pod.inflight-completes", Reason: "so", Link: "https://example.com/1"}}
	if d := cmp.Diff(want, r.Deviations); d != "" || r.Settings.System != sys.Metadata.Name {
		t.Errorf("%q %s", r.Settings.System, d)
	}
	sys.Deviations[0].Behaviour = "pod.inflight"
	var usage *UsageError
	if _, _, err := cfg.validate(); !errors.As(err, &usage) || !strings.Contains(err.Error(), `deviations[0].behaviour: no behaviour is called "pod.inflight"`) {
		t.Errorf("%v", err)
	}
	sys.Deviations[0] = system.Deviation{Behaviour: "pod.inflight-completes"}
	if _, _, err := cfg.validate(); err == nil || !strings.Contains(err.Error(), "deviations[0].reason: it is empty") {
		t.Errorf("%v", err)
	}
}

// The reference that is tested beside the reference of one role leaves that role's behaviours to it.
func TestReferenceBesideASystem(t *testing.T) {
	sidecar, err := systems.Reference(system.Sidecar)
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := systems.Reference(system.NodeProxy)
	if err != nil {
		t.Fatal(err)
	}
	all, err := subjects(Config{Stage: StageKind, Out: t.TempDir()}, []*system.System{nil, sidecar, proxy})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"reference", "sidecar", "node-proxy"} {
		if got := filepath.Base(all[i].cfg.Out); got != want {
			t.Errorf("subject %d has the folder %s, want %s", i, got, want)
		}
	}
	if got := all[0].cfg.tested(); len(got) != 2 || got[0] != sidecar || got[1] != proxy {
		t.Errorf("tested is %v, want the two systems that have a file", got)
	}
	for _, row := range []struct {
		subject int
		id      string
		role    system.Role
		want    bool
	}{
		{0, "pod.x", "", false}, {0, "h2.x", system.Gateway, false}, {0, "sidecar.x", system.Sidecar, true}, {0, "node.x", system.NodeProxy, true},
		{1, "sidecar.x", system.Sidecar, false}, {1, "h2.x", system.Gateway, false},
		{2, "node.x", system.NodeProxy, false}, {2, "pod.x", "", false}, {2, "h2.x", system.Gateway, true}, {2, "tcp.x", system.Gateway, false},
	} {
		b := behaviour.Behaviour{ID: row.id, Topology: behaviour.Topology{Role: row.role}}
		if got := all[row.subject].cfg.elsewhere(b).Why != ""; got != row.want {
			t.Errorf("subject %d, %s of role %q: judged elsewhere is %v", row.subject, row.id, row.role, got)
		}
	}
	if _, err := subjects(Config{Stage: StageKind, Out: t.TempDir()}, []*system.System{nil, nil}); err == nil {
		t.Error("the reference may stand twice")
	}
}
