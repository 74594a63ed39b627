// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/kind/engine/bounding"
)

// Budgets of the set-up.
const (
	// answerBudget bounds one question to the engine.
	answerBudget = 30 * time.Second
	// startBudget bounds the wait for a dockerd that was just started: it
	// sweeps what a killed one left behind before it listens.
	startBudget = 3 * time.Minute
	// aptBudget bounds one call of apt-get.
	aptBudget = 10 * time.Minute
)

// setup is one run of the command. say takes one line for each thing done.
type setup struct {
	say func(format string, args ...any)
}

// run leaves a docker engine that answers and can run privileged containers,
// or says in one line why it can't.
func (s *setup) run(ctx context.Context) error {
	var lacking []string
	if runtime.GOOS == "linux" {
		set, err := bounding.Current()
		if err != nil {
			return err
		}
		lacking = set.Lacking()
	}

	state, detail := ask(ctx)
	switch state {
	case forbidden:
		return fmt.Errorf("docker's engine is there, but this user may not use it: run as root or join the group docker (%s)", detail)
	case answers:
		if len(lacking) == 0 || defaultRuntime(ctx) == runtimeName && shimInstalled() {
			s.say("docker %s answers: nothing to do", detail)
			return nil
		}
	}
	if host := os.Getenv("DOCKER_HOST"); host != "" && state != answers {
		return fmt.Errorf("DOCKER_HOST is set to %s and no engine answers there: start it, or unset DOCKER_HOST to get one on this machine", host)
	}
	if err := eligible(); err != nil {
		return err
	}

	if state != answers {
		if err := s.install(ctx); err != nil {
			return err
		}
		if err := s.prepareKernel(); err != nil {
			return err
		}
	}
	changed := false
	if len(lacking) > 0 {
		var err error
		if changed, err = s.installShim(ctx, lacking); err != nil {
			return err
		}
	}
	if state != answers {
		if err := s.start(ctx); err != nil {
			return err
		}
	} else if changed {
		if err := s.reload(ctx); err != nil {
			return err
		}
	}
	state, detail = ask(ctx)
	if state != answers {
		return fmt.Errorf("docker's engine was started and does not answer: %s (its log: %s)", detail, logFile)
	}
	if got := defaultRuntime(ctx); len(lacking) > 0 && got != runtimeName {
		return fmt.Errorf("docker's default runtime is %q and should be %q: restart dockerd so that it reads %s again", got, runtimeName, daemonFile)
	}
	s.say("docker %s answers", detail)
	return nil
}

// eligible tells whether this machine is one that we set up ourselves.
func eligible() error {
	const wanted = "install docker 20.10 or later and start it, so that `docker info` answers"
	if runtime.GOOS != "linux" {
		return fmt.Errorf("no container engine answers, and it is only set up on Debian: %s", wanted)
	}
	if release, _ := os.ReadFile("/etc/os-release"); !isDebian(string(release)) {
		return fmt.Errorf("no container engine fit for use answers, and this is not Debian: %s", wanted)
	}
	if os.Geteuid() != 0 {
		return errors.New("no container engine fit for use answers, and setting one up takes root: run `sudo make engine`, or `apt-get install docker.io` and start it")
	}
	return nil
}

// isDebian reads an os-release file.
func isDebian(release string) bool {
	for line := range strings.Lines(release) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if key == "ID" || key == "ID_LIKE" {
			for _, name := range strings.Fields(strings.Trim(value, `"'`)) {
				if name == "debian" {
					return true
				}
			}
		}
	}
	return false
}

// install gets what is missing of docker from Debian's packages.
func (s *setup) install(ctx context.Context) error {
	packages := missingPackages(func(program string) bool {
		_, err := exec.LookPath(program)
		return err == nil
	})
	if len(packages) == 0 {
		return nil
	}
	s.say("apt-get update")
	if err := s.apt(ctx, "update"); err != nil {
		return err
	}
	// From Debian 13 on the client is a package of its own.
	if _, err := exec.LookPath("docker"); err != nil {
		if err := exec.CommandContext(ctx, "apt-cache", "show", "docker-cli").Run(); err == nil {
			packages = append(packages, "docker-cli")
		}
	}
	s.say("apt-get install %s", strings.Join(packages, " "))
	return s.apt(ctx, append([]string{"install", "--yes", "--no-install-recommends"}, packages...)...)
}

// missingPackages maps the programs that dockerd and a cluster on it need to
// Debian's packages; has tells which programs are there.
func missingPackages(has func(program string) bool) []string {
	var packages []string
	for _, need := range []struct{ program, pkg string }{
		{"dockerd", "docker.io"},
		{"docker", "docker.io"},
		{"runc", "runc"},
		{"iptables", "iptables"},
	} {
		if !has(need.program) && (len(packages) == 0 || packages[len(packages)-1] != need.pkg) {
			packages = append(packages, need.pkg)
		}
	}
	return packages
}

func (s *setup) apt(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, aptBudget)
	defer cancel()
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-q", "-o", "DPkg::Lock::Timeout=120"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	// dpkg is asked to end, never killed in the middle of a package.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %s: %w: %s", strings.Join(args, " "), err, tail(string(out), 6))
	}
	return nil
}

// tail keeps the last lines of a program's output, on one line.
func tail(out string, lines int) string {
	all := strings.Split(strings.TrimSpace(out), "\n")
	return strings.Join(all[max(0, len(all)-lines):], " | ")
}
