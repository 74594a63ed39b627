// SPDX-License-Identifier: Apache-2.0

// Command steps runs the scripts of our GitHub Actions on this machine: the run:
// steps of the action, of the jobs of our workflows, and of what a release builds.
// What is run is what is committed. Actions of others are not run; some have a
// stand-in, and each is named.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "steps:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	all := targets()
	var names []string
	for _, t := range all {
		names = append(names, t.name)
	}
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: go run ./cmd/steps [-keep] [TARGET...]\ntargets: %s (default all)\n", strings.Join(names, ", "))
		flag.PrintDefaults()
	}
	keep := flag.Bool("keep", false, "keep the folders that the jobs ran in")
	flag.Parse()
	chosen := flag.Args()
	if len(chosen) == 0 {
		chosen = names
	}
	for _, name := range chosen {
		if !slices.Contains(names, name) {
			return fmt.Errorf("no target is called %q: they are %s", name, strings.Join(names, ", "))
		}
	}
	repo, err := top(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, t := range all {
		if !slices.Contains(chosen, t.name) {
			continue
		}
		if err := one(ctx, t, repo, *keep); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", t.name, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed...)
}

// top is the repository's root.
func top(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", fmt.Errorf("run this in a checkout of lastcall: %w", err)
	}
	repo := strings.TrimSpace(string(out))
	changed, err := exec.CommandContext(ctx, "git", "-C", repo, "status", "--porcelain").Output()
	if err != nil {
		return "", err
	}
	if len(changed) > 0 {
		fmt.Printf("steps: what is not committed is not run:\n%s", changed)
	}
	return repo, nil
}

func one(ctx context.Context, t target, repo string, keep bool) error {
	temp, err := os.MkdirTemp("", "steps-"+t.name+"-")
	if err != nil {
		return err
	}
	fmt.Printf("steps: ======== %s: job %s of %s, in %s\n", t.name, t.job, t.file, temp)
	r := &runner{out: os.Stdout, target: t, repo: repo, temp: temp, env: map[string]string{}}
	failed, err := r.run(ctx)
	if err == nil && failed {
		err = errors.New("the job failed")
	}
	fmt.Printf("steps: -------- %s: %d scripts were run, and %d steps were not, or not as they stand:\n", t.name, r.scripts, len(r.notRun))
	for _, what := range r.notRun {
		fmt.Println("steps:  ", what)
	}
	if keep || err != nil {
		fmt.Printf("steps: %s is kept\n", temp)
		return err
	}
	return os.RemoveAll(temp)
}
