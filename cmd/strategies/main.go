// SPDX-License-Identifier: Apache-2.0

// Command strategies measures what linkerd2 issue 10379 and its likes dispute: when a sidecar
// should accept no more. It runs each way to leave on a cluster of its own, as a native sidecar, with
// a preStop hook and without, and as a plain container, under a short grace period and under one of an
// hour, and writes a page of what was lost. It takes up where it stopped.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/kind"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "strategies:", err)
		os.Exit(1)
	}
}

// strategy is one way to leave.
type strategy struct {
	// Name is that of its systems, and their folders', with that of a part; Does is what the page says of it.
	Name, Does string
	// Leave is what the pod's annotation says.
	Leave string
}

// strategies are those that the field has. The app accepts for 12 s from D: one wait is over before it
// has ended, and the other long after.
var strategies = []strategy{
	{"with-app", "accepts until the app is gone", string(sidecar.WithApp)},
	{"at-once", "accepts no more", string(sidecar.AtOnce)},
	{"waits-shorter", "accepts for 5 s", string(sidecar.Waits) + ", wait: 5s"},
	{"waits-longer", "accepts for 25 s", string(sidecar.Waits) + ", wait: 25s"},
	{"at-zero", "accepts until nothing passes through it", string(sidecar.AtZero)},
}

func run(ctx context.Context) error {
	var dir, page, k8s, name string
	var keep bool
	flag.StringVar(&dir, "out", "lastcall-report/strategies", "folder for the runs; a part of a strategy that has its report there is not run again")
	flag.StringVar(&page, "page", "docs/strategies.md", "page to write")
	flag.StringVar(&k8s, "k8s", kind.DefaultKubernetes, "Kubernetes version")
	flag.StringVar(&name, "name", "strategies", "name of the cluster, which is made and taken away")
	flag.BoolVar(&keep, "keep", false, "leave the cluster standing")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("it takes flags only, not %q: see -h", flag.Args())
	}
	declare()
	for _, p := range parts {
		var left []*system.System
		for _, s := range strategies {
			own := filepath.Join(dir, p.of(s))
			if _, err := os.Stat(filepath.Join(own, v1alpha1.File)); err == nil {
				continue
			}
			// What was begun and not ended can't be gone on with.
			if err := os.RemoveAll(own); err != nil {
				return err
			}
			sys, err := s.system(filepath.Join(dir, "systems"), p.of(s))
			if err != nil {
				return fmt.Errorf("%s: %w", p.of(s), err)
			}
			left = append(left, sys)
		}
		if len(left) == 0 {
			continue
		}
		cfg := suites.Config{
			Stage: suites.StageKind, Kubernetes: k8s, Nodes: 3, Name: name, Keep: keep, Behaviours: p.ids(), Out: dir,
			Say: func(format string, args ...any) { fmt.Printf("strategies: "+format+"\n", args...) },
		}
		if _, err := suites.ExecuteEach(ctx, cfg, left); err != nil {
			return err
		}
		for _, s := range strategies {
			if _, err := os.Stat(filepath.Join(dir, p.of(s), v1alpha1.File)); err != nil {
				return fmt.Errorf("%s: its run left no report: %w", p.of(s), err)
			}
		}
		return anew(ctx)
	}
	var rows []row
	for _, s := range strategies {
		r, err := measured(dir, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		rows = append(rows, r)
	}
	return os.WriteFile(page, write(rows), 0o644)
}

// anew goes on in a process of its own, which finds the reports of this one: Ginkgo runs its suite once in each.
func anew(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	next := exec.CommandContext(ctx, self, os.Args[1:]...)
	next.Cancel = func() error { return next.Process.Signal(syscall.SIGTERM) } // it removes its cluster
	next.Stdout, next.Stderr = os.Stdout, os.Stderr
	return next.Run()
}

// system is the reference with a strategy, under a name: its file and its manifest, written to a folder.
func (s strategy) system(dir, name string) (*system.System, error) {
	const file, manifest = "reference-sidecar.yaml", "manifests/reference-sidecar.yaml"
	const own, leaves = "{name: sidecar}", "deadline: {{.Timeout}}"
	text, err := os.ReadFile(filepath.Join("systems", file))
	if err != nil {
		return nil, fmt.Errorf("run it in the checkout's folder: %w", err)
	}
	pods, err := os.ReadFile(filepath.Join("systems", manifest))
	if err != nil {
		return nil, err
	}
	if strings.Count(string(text), own) != 1 || strings.Count(string(pods), leaves) != 1 {
		return nil, errors.New("the reference's files are no more as this command knows them")
	}
	files := map[string]string{
		name + ".yaml":      strings.Replace(strings.Replace(string(text), own, "{name: "+name+"}", 1), manifest, name+"-pods.yaml", 1),
		name + "-pods.yaml": strings.Replace(string(pods), leaves, leaves+", leave: "+s.Leave, 1),
	}
	if err := system.WriteFiles(dir, files, 0o644); err != nil {
		return nil, err
	}
	return system.Load(filepath.Join(dir, name+".yaml"))
}
