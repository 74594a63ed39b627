// SPDX-License-Identifier: Apache-2.0

// Command pressure measures what a common load generator would have passed: under each
// fault of the areas pod and rollout that breaks a system, fortio with and without
// keep-alive and hey run beside the suite's own clients, over the same Service, while the
// same thing is done to it. It takes up where it stopped, and writes a page of it.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/kind"
	"github.com/lastcall-dev/lastcall/reports/yaml"
	_ "github.com/lastcall-dev/lastcall/suites/all" // the behaviours
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "pressure:", err)
		os.Exit(1)
	}
}

// areas are those whose faults are measured.
var areas = []string{"pod", "rollout"}

// ofSuite are faults that break the suite itself, and no system.
var ofSuite = []spec.Fault{behaviour.DeafClients, disrupt.KillMisses}

// row is what all saw of one fault.
type row struct {
	Fault     spec.Fault   `json:"fault"`
	Component string       `json:"component"`
	Does      string       `json:"does"`
	Behaviour string       `json:"behaviour"`
	Verdict   spec.Verdict `json:"verdict"`
	Reason    string       `json:"reason,omitempty"`
	// Sent and Failed are the probe's attempts through the Service, in all its protocols,
	// from the first disruption on; Elsewhere and ElsewhereFailed those to the pods' own
	// addresses and to other Services.
	Sent            int `json:"sent"`
	Failed          int `json:"failed"`
	Elsewhere       int `json:"elsewhere"`
	ElsewhereFailed int `json:"elsewhereFailed"`
	// Clients are the common load generators, in the order of generators.
	Clients    []client `json:"clients"`
	Kubernetes string   `json:"kubernetes"`
	Revision   string   `json:"revision,omitempty"`
}

// client is what one load generator says.
type client struct {
	Name     string         `json:"name"`
	Requests int            `json:"requests"`
	Errors   int            `json:"errors"`
	Kinds    map[string]int `json:"kinds,omitempty"`
}

// ofApp are the faults of a behaviour that an app without a mesh can have.
func ofApp(b behaviour.Behaviour) []spec.Fault {
	return slices.DeleteFunc(slices.Clone(b.BrokenBy), func(f spec.Fault) bool {
		of, ours := system.RoleOf(behaviour.ComponentOf(f))
		return ours && of.Meshed
	})
}

// rows are what is to be measured: the healthy app first, in the longest recording of all,
// and the faults, each in the recording of the first behaviour by name that it must fail.
func rows(only []string) []row {
	by := map[spec.Fault][]string{}
	for _, b := range behaviour.Catalogue() {
		if area, _, _ := strings.Cut(b.ID, "."); !slices.Contains(areas, area) {
			continue
		}
		for _, f := range ofApp(b) {
			by[f] = append(by[f], b.ID)
		}
	}
	var out []row
	if len(only) == 0 || slices.Contains(only, healthy) {
		out = append(out, row{Does: "nothing: what a generator sees here is its own doing, or the load's", Behaviour: "rollout.zero-failed"})
	}
	for _, f := range behaviour.Faults() {
		ids := by[f.Name]
		if len(ids) == 0 || slices.Contains(ofSuite, f.Name) || len(only) > 0 && !slices.Contains(only, string(f.Name)) {
			continue
		}
		out = append(out, row{Fault: f.Name, Component: f.Component, Does: f.Does, Behaviour: ids[0]})
	}
	return out
}

// place is where it runs.
type place struct {
	dir, bin string
	k8s      string
	name     string
	cluster  *kind.Cluster
}

func run(ctx context.Context) (err error) {
	p := place{}
	var page, only string
	flag.StringVar(&p.dir, "out", "lastcall-report/pressure", "folder for what was measured; what has its file there is not measured again")
	flag.StringVar(&page, "page", "docs/findings/pressure.md", "page to write")
	flag.StringVar(&p.k8s, "k8s", kind.DefaultKubernetes, "Kubernetes version")
	flag.StringVar(&p.name, "name", "pressure", "name of the cluster, which is made and taken away")
	flag.StringVar(&only, "only", "", "these faults alone, separated by commas")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("it takes flags only, not %q: see -h", flag.Args())
	}
	var names []string
	if only != "" {
		names = strings.Split(only, ",")
	}
	all := rows(names)
	for _, name := range names {
		if !slices.ContainsFunc(all, func(r row) bool { return r.key() == name }) {
			return fmt.Errorf("-only: no fault of the areas %s that breaks a system is called %q", strings.Join(areas, ", "), name)
		}
	}
	if p.dir, err = filepath.Abs(p.dir); err != nil {
		return err
	}
	p.bin = filepath.Join(p.dir, "bin")
	for i := range all {
		begun := time.Now()
		done, err := p.row(ctx, &all[i])
		if err != nil {
			return errors.Join(fmt.Errorf("fault %s: %w", all[i].key(), err), p.down(ctx))
		}
		if done {
			fmt.Printf("pressure: %d of %d: %s was measured before\n", i+1, len(all), all[i].key())
			continue
		}
		fmt.Printf("pressure: %d of %d: %s, %s\n", i+1, len(all), all[i].key(), time.Since(begun).Round(time.Second))
	}
	if err := p.down(ctx); err != nil {
		return err
	}
	if len(names) > 0 {
		fmt.Printf("pressure: %s is left as it is: it is of all faults\n", page)
		return nil
	}
	return os.WriteFile(page, write(all), 0o644)
}

// healthy is the name of the row of no fault.
const healthy = "none"

// key is a row's name.
func (r row) key() string { return cmp.Or(string(r.Fault), healthy) }

// file is where a row is kept.
func (p *place) file(r row) string { return filepath.Join(p.dir, r.key()+".json") }

// recording is where the recording of a row is.
func (p *place) recording(r row) string { return filepath.Join(p.dir, r.key()) }

// row measures one fault, unless that is done.
func (p *place) row(ctx context.Context, r *row) (done bool, err error) {
	kept, err := os.ReadFile(p.file(*r))
	if err == nil {
		if err := json.Unmarshal(kept, r); err != nil {
			return false, fmt.Errorf("%s: %w", p.file(*r), err)
		}
		// What the recording says is read again where it is still there.
		if report, err := yaml.ReadDir(p.recording(*r)); err == nil {
			return true, r.fill(report, p.recording(*r))
		}
		return true, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	if err := p.up(ctx); err != nil {
		return false, err
	}
	if err := p.measure(ctx, r); err != nil {
		return false, err
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return false, err
	}
	return false, os.WriteFile(p.file(*r), append(b, '\n'), 0o644)
}

// up builds the programs and makes the cluster, once.
func (p *place) up(ctx context.Context) (err error) {
	if p.cluster != nil {
		return nil
	}
	if err := os.MkdirAll(p.bin, 0o755); err != nil {
		return err
	}
	for name, args := range map[string][]string{
		"lastcall": {"./cmd/lastcall"}, "agent": {"./cmd/agent"},
		"hey": {"-modfile=.tools/peers.mod", "github.com/rakyll/hey"},
	} {
		if err := command(ctx, nil, "go", append([]string{"build", "-trimpath", "-o", filepath.Join(p.bin, name)}, args...)...); err != nil {
			return err
		}
	}
	if err := command(ctx, os.Stdout, filepath.Join(p.bin, "lastcall"), "up", "--name", p.name, "--k8s", p.k8s); err != nil {
		return err
	}
	if p.cluster, err = kind.Open(ctx, p.name); err != nil {
		return err
	}
	for _, name := range []string{"agent", "hey"} {
		if err := command(ctx, nil, "docker", "cp", filepath.Join(p.bin, name), p.node()+":/usr/local/bin/"+name); err != nil {
			return err
		}
	}
	return nil
}

// node is the control plane's, where the generators run: no disruption takes it away.
func (p *place) node() string {
	for _, n := range p.cluster.Nodes() {
		if n.Role == "control-plane" {
			return n.Name
		}
	}
	return p.cluster.Nodes()[0].Name
}

func (p *place) down(ctx context.Context) error {
	if p.cluster == nil {
		return nil
	}
	return kind.Down(context.WithoutCancel(ctx), p.name)
}

// command runs a program; what it says is its error's, or goes to out.
func command(ctx context.Context, out *os.File, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 3 * time.Minute
	if out != nil {
		cmd.Stdout, cmd.Stderr = out, out
		return cmd.Run()
	}
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, said)
	}
	return nil
}
