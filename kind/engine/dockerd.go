// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// logFile takes what a dockerd says that we started in the background.
	logFile = "/var/log/lastcall-dockerd.log"
	pidFile = "/var/run/docker.pid"
	// containerdPidFile belongs to the containerd that dockerd starts itself.
	containerdPidFile = "/var/run/docker/containerd/containerd.pid"
	// systemContainerdSocket makes dockerd use the system's containerd as soon
	// as the file exists, alive or not.
	systemContainerdSocket = "/run/containerd/containerd.sock"
)

// answer is what became of a question to the engine.
type answer int

const (
	silent answer = iota
	answers
	forbidden
)

// ask returns the engine's version where it answers, and otherwise the reason.
func ask(ctx context.Context) (answer, string) {
	if _, err := exec.LookPath("docker"); err != nil {
		return silent, "no docker client in PATH"
	}
	ctx, cancel := context.WithTimeout(ctx, answerBudget)
	defer cancel()
	var stderr strings.Builder
	cmd := exec.CommandContext(ctx, "docker", "version", "--format", "{{.Server.Version}}")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		return answers, strings.TrimSpace(string(out))
	}
	reason := tail(stderr.String(), 1)
	if strings.Contains(reason, "permission denied") {
		return forbidden, reason
	}
	if ctx.Err() != nil {
		reason = fmt.Sprintf("no answer within %s", answerBudget)
	}
	return silent, reason
}

// defaultRuntime is the name of the runtime that containers get; "" where the
// engine does not say.
func defaultRuntime(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, answerBudget)
	defer cancel()
	out, err := exec.CommandContext(ctx, "docker", "info", "--format", "{{.DefaultRuntime}}").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// start makes an installed dockerd answer: by systemd where it rules, in the
// background where it does not.
func (s *setup) start(ctx context.Context) error {
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		s.say("systemctl restart docker")
		if out, err := exec.CommandContext(ctx, "systemctl", "restart", "docker").CombinedOutput(); err != nil {
			return fmt.Errorf("systemctl restart docker: %w: %s (see journalctl -u docker)", err, tail(string(out), 3))
		}
		return waitForAnswer(ctx, nil)
	}
	if pid, ok := living(pidFile, "dockerd"); ok {
		s.say("dockerd runs already (pid %d): waiting for it", pid)
		return waitForAnswer(ctx, nil)
	}
	if err := s.sweep(); err != nil {
		return err
	}
	return s.startInBackground(ctx)
}

// startInBackground starts dockerd in a session of its own, so that it outlives
// us and the terminal, and waits for it.
func (s *setup) startInBackground(ctx context.Context) error {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		return fmt.Errorf("open dockerd's log: %w", err)
	}
	defer log.Close()
	// Not bound to ctx: it is meant to outlive this command.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "dockerd")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start dockerd: %w", err)
	}
	s.say("dockerd started in the background (pid %d, log %s)", cmd.Process.Pid, logFile)
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	return waitForAnswer(ctx, exited)
}

// waitForAnswer polls the engine until it answers, startBudget is over, or the
// process whose end comes through exited (which may be nil) is gone.
func waitForAnswer(ctx context.Context, exited <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, startBudget)
	defer cancel()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	last := "it was not asked yet"
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("dockerd did not answer within %s: %s (its log, if we started it: %s)", startBudget, last, logFile)
		case err := <-exited:
			if err == nil {
				err = errors.New("exit status 0")
			}
			out, _ := os.ReadFile(logFile)
			return fmt.Errorf("dockerd ended (%w): %s (whole log: %s)", err, tail(string(out), 4), logFile)
		case <-tick.C:
			state, reason := ask(ctx)
			if state == answers {
				return nil
			}
			last = reason
		}
	}
}

// sweep removes what a killed dockerd left behind and what would keep the next
// one from starting: pid files of processes that are gone or are something
// else by now, and the socket of a system containerd that nobody serves.
// Containers, networks and volumes are dockerd's to sort out, or `lastcall
// cleanup`'s.
func (s *setup) sweep() error {
	for file, program := range map[string]string{pidFile: "dockerd", containerdPidFile: "containerd"} {
		if _, ok := living(file, program); ok {
			continue
		}
		if err := s.remove(file); err != nil {
			return err
		}
	}
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(context.Background(), "unix", systemContainerdSocket)
	if err == nil {
		return conn.Close()
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return s.remove(systemContainerdSocket)
	}
	return nil
}

func (s *setup) remove(file string) error {
	err := os.Remove(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove what a killed engine left: %w", err)
	}
	s.say("removed %s, which a killed engine left", file)
	return nil
}

// living reads a pid file and tells whether that process lives and is the
// named program: after a crash the number may belong to another one.
func living(file, program string) (pid int, ok bool) {
	content, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	pid, err = strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0, false
	}
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	comm, err := os.ReadFile(filepath.Join(proc, "comm"))
	if err != nil || strings.TrimSpace(string(comm)) != program {
		return pid, false
	}
	// A zombie keeps its name, and serves nobody.
	stat, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		return pid, false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return pid, !strings.HasPrefix(after, "Z")
}

// reload makes a running dockerd read daemonFile again: by SIGHUP, which it
// answers by reloading its runtimes, or else by a restart.
func (s *setup) reload(ctx context.Context) error {
	pid, ok := living(pidFile, "dockerd")
	if !ok {
		return fmt.Errorf("an engine answers, but %s names no dockerd: restart it yourself so that it reads %s", pidFile, daemonFile)
	}
	s.say("SIGHUP to dockerd (pid %d), so that it reads %s", pid, daemonFile)
	if err := syscall.Kill(pid, syscall.SIGHUP); err != nil {
		return fmt.Errorf("signal dockerd: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerBudget)
	defer cancel()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	last := ""
	for last != runtimeName {
		select {
		case <-ctx.Done():
			return fmt.Errorf("dockerd did not take %s up within %s, its default runtime is still %q: restart it", daemonFile, answerBudget, last)
		case <-tick.C:
			last = defaultRuntime(ctx)
		}
	}
	return nil
}
