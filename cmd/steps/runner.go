// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// maxSummary is what GitHub takes of one step's summary: above it, none is shown.
const maxSummary = 1 << 20

// runner runs the steps of one job as GitHub's runner would, as far as they are
// scripts.
type runner struct {
	out     io.Writer
	target  target
	repo    string // what is committed here is what is run
	temp    string // all that the job sees of its own
	shims   string // commands in the place of those that are missing
	env     map[string]string
	path    []string // before PATH
	scripts int
	notRun  []string // steps in whose place something else was done, or nothing
}

func (r *runner) workspace() string { return filepath.Join(r.temp, "workspace") }

// run runs the target, and tells whether the job failed. An error is something else:
// what the file says can't be followed here.
func (r *runner) run(ctx context.Context) (failed bool, err error) {
	if err := os.MkdirAll(r.workspace(), 0o755); err != nil {
		return false, err
	}
	if r.shims, err = r.standIns(); err != nil {
		return false, err
	}
	// What runs is what is committed, so that is where it is read, too.
	source := filepath.Join(r.temp, "source")
	if err := r.clone(ctx, source); err != nil {
		return false, err
	}
	steps, s, err := r.target.load(source)
	if err != nil {
		return false, err
	}
	return r.steps(ctx, steps, s)
}

// steps runs the steps of a job or of an action, in their order.
func (r *runner) steps(ctx context.Context, steps []step, s *scope) (failed bool, err error) {
	for i, st := range steps {
		if st.ID != "" {
			s.outputs[st.ID] = map[string]string{}
		}
		if st.Run != "" && len(r.target.only) > 0 && !slices.Contains(r.target.only, st.Name) {
			r.say("not run", st, "it is not among the scripts that are run here")
			continue
		}
		ok, err := wanted(st.If, failed)
		if err != nil {
			return false, fmt.Errorf("step %d (%s): %w", i+1, st.title(), err)
		}
		if !ok {
			fmt.Fprintf(r.out, "steps: skipped after a failure: %s\n", st.title())
			continue
		}
		wrong, err := r.step(ctx, st, s)
		if err != nil {
			return false, fmt.Errorf("step %d (%s): %w", i+1, st.title(), err)
		}
		if wrong && st.ContinueOnError {
			fmt.Fprintf(r.out, "steps: failed, and the job goes on: %s\n", st.title())
			continue
		}
		failed = failed || wrong
	}
	return failed, nil
}

func (r *runner) step(ctx context.Context, st step, s *scope) (failed bool, err error) {
	with, err := s.fillAll(st.With)
	if err != nil {
		return false, err
	}
	switch {
	case st.Uses == ownAction:
		path := filepath.Join(r.temp, "actions", "lastcall")
		if err := r.clone(ctx, path); err != nil {
			return false, err
		}
		// A runner unpacks an archive.
		if err := os.RemoveAll(filepath.Join(path, ".git")); err != nil {
			return false, err
		}
		return r.composite(ctx, st, s, path, with)
	case strings.HasPrefix(st.Uses, "./"):
		return r.composite(ctx, st, s, filepath.Join(r.workspace(), st.Uses), with)
	case st.Uses != "":
		return false, r.uses(ctx, st, with)
	}
	env, err := s.fillAll(st.Env)
	if err != nil {
		return false, err
	}
	script, err := s.fill(st.Run)
	if err != nil {
		return false, err
	}
	return r.script(ctx, st, s, script, env)
}

// composite runs another action of ours.
func (r *runner) composite(ctx context.Context, st step, s *scope, path string, with map[string]string) (bool, error) {
	a, err := read[action](filepath.Join(path, "action.yml"))
	if err != nil {
		return false, err
	}
	for name, value := range r.target.with {
		if with[name] != value {
			fmt.Fprintf(r.out, "steps: %s is %q here, not %q\n", name, value, with[name])
		}
		with[name] = value
	}
	inner := &scope{inputs: map[string]string{}, outputs: map[string]map[string]string{}, path: path, table: s.table}
	for name, in := range a.Inputs {
		inner.inputs[name] = string(in.Default)
		if value, ok := with[name]; ok {
			inner.inputs[name] = value
		}
		delete(with, name)
	}
	for name := range with {
		return false, fmt.Errorf("the action has no input %q", name)
	}
	fmt.Fprintf(r.out, "steps: ---- the action %s, with %v\n", st.Uses, inner.inputs)
	failed, err := r.steps(ctx, a.Runs.Steps, inner)
	if err != nil {
		return false, err
	}
	for name, out := range a.Outputs {
		value, err := inner.fill(out.Value)
		if err != nil {
			return false, err
		}
		fmt.Fprintf(r.out, "steps: ---- its output %s is %q\n", name, value)
		if st.ID != "" {
			s.outputs[st.ID][name] = value
		}
	}
	return failed, nil
}

// script runs a step's own commands.
func (r *runner) script(ctx context.Context, st step, s *scope, script string, env map[string]string) (failed bool, err error) {
	r.scripts++
	own := filepath.Join(r.temp, fmt.Sprintf("step-%d", r.scripts))
	if err := os.Mkdir(own, 0o755); err != nil {
		return false, err
	}
	commands := map[string]string{}
	for _, name := range []string{"GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STEP_SUMMARY"} {
		commands[name] = filepath.Join(own, name)
		if err := os.WriteFile(commands[name], nil, 0o644); err != nil {
			return false, err
		}
	}
	file := filepath.Join(own, "script.sh")
	if err := os.WriteFile(file, []byte(script), 0o644); err != nil {
		return false, err
	}
	arguments := []string{"-e", file} // what a runner does with a step that names no shell
	switch st.Shell {
	case "":
	case "bash":
		arguments = []string{"--noprofile", "--norc", "-eo", "pipefail", file}
	default:
		return false, fmt.Errorf("the shell %q is not known here", st.Shell)
	}
	command := exec.CommandContext(ctx, "bash", arguments...)
	command.Dir = filepath.Join(r.workspace(), st.WorkingDirectory)
	command.Env = r.environ(s, commands, env)
	command.Stdout, command.Stderr = r.out, r.out
	// The whole group hears of the end, as all of a runner's processes do.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	command.WaitDelay = 2 * time.Minute

	fmt.Fprintf(r.out, "steps: ==== run: %s\n", st.title())
	begin := time.Now()
	err = command.Run()
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return false, err
	}
	fmt.Fprintf(r.out, "steps: exit %d after %s: %s\n", command.ProcessState.ExitCode(), time.Since(begin).Round(time.Second/10), st.title())
	return err != nil, r.said(st, s, commands)
}

// environ is a script's environment. What stands later counts.
func (r *runner) environ(s *scope, commands, env map[string]string) []string {
	// What `make actions` was given is not for a make in a script.
	mine := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL"}, name)
	})
	out := append(mine,
		"CI=true", "GITHUB_ACTIONS=true",
		"GITHUB_WORKSPACE="+r.workspace(),
		"RUNNER_OS=Linux", "RUNNER_ARCH="+strings.ToUpper(runtime.GOARCH), "RUNNER_TEMP="+r.temp,
		"PATH="+strings.Join(append(slices.Clone(r.path), r.shims, os.Getenv("PATH")), ":"),
	)
	if s.path != "" {
		out = append(out, "GITHUB_ACTION_PATH="+s.path)
	}
	for _, more := range []map[string]string{commands, r.env, env} {
		for _, name := range slices.Sorted(maps.Keys(more)) {
			out = append(out, name+"="+more[name])
		}
	}
	return out
}

// said takes in what a script wrote into the files that it was given.
func (r *runner) said(st step, s *scope, commands map[string]string) error {
	outputs, err := variables(commands["GITHUB_OUTPUT"])
	if err != nil {
		return err
	}
	if len(outputs) > 0 {
		fmt.Fprintf(r.out, "steps: outputs %v\n", outputs)
	}
	if st.ID != "" {
		maps.Copy(s.outputs[st.ID], outputs)
	}
	env, err := variables(commands["GITHUB_ENV"])
	if err != nil {
		return err
	}
	maps.Copy(r.env, env)
	paths, err := os.ReadFile(commands["GITHUB_PATH"])
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(paths)) {
		r.path = slices.Insert(r.path, 0, strings.TrimSpace(line))
	}
	summary, err := os.ReadFile(commands["GITHUB_STEP_SUMMARY"])
	if err != nil {
		return err
	}
	switch {
	case len(summary) > maxSummary:
		return fmt.Errorf("its summary has %d bytes, and GitHub takes %d", len(summary), maxSummary)
	case len(summary) > 0:
		head, _, _ := strings.Cut(strings.TrimSpace(string(summary)), "\n")
		fmt.Fprintf(r.out, "steps: a summary of %d bytes (%s): %s\n", len(summary), commands["GITHUB_STEP_SUMMARY"], head)
	}
	return nil
}

// variables reads NAME=VALUE, a line each, and NAME<<END, with the value in the lines
// up to END.
func variables(file string) (map[string]string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		if lines[i] == "" {
			continue
		}
		name, value, one := strings.Cut(lines[i], "=")
		long, end, many := strings.Cut(lines[i], "<<")
		switch {
		case many && (!one || len(long) < len(name)):
			from := i + 1
			for i++; i < len(lines) && lines[i] != end; i++ {
			}
			if i == len(lines) {
				return nil, fmt.Errorf("%s: %s has no line %q at its end", filepath.Base(file), long, end)
			}
			out[long] = strings.Join(lines[from:i], "\n")
		case one:
			out[name] = value
		default:
			return nil, fmt.Errorf("%s: %q is not NAME=VALUE", filepath.Base(file), lines[i])
		}
	}
	return out, nil
}
