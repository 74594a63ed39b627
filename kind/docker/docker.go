// SPDX-License-Identifier: Apache-2.0

// Package docker asks the container engine through its command line client:
// kind does the same, so that whatever reaches the engine for it (contexts,
// DOCKER_HOST, wrappers) reaches it for us.
package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

var (
	// ErrNoEngine: no engine answers, or there is no client to ask it with.
	ErrNoEngine = errors.New("no container engine answers: run `make engine` (or install docker and start it)")
	// ErrForbidden: an engine is there, and this user may not use it.
	ErrForbidden = errors.New("the container engine refuses this user: run as root, or join the group docker")
)

// CommandError is a docker command that failed, in a form that can be pasted
// into a shell.
type CommandError struct {
	Args   []string
	Output string // standard error, or what the command printed
	Err    error
}

func (e *CommandError) Error() string {
	return fmt.Sprintf("docker %s: %v: %s", strings.Join(e.Args, " "), e.Err, OneLine(e.Output))
}

// OneLine puts what docker printed on one line, without its advice on --help.
func OneLine(output string) string {
	var kept []string
	for line := range strings.Lines(output) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "Run 'docker ") && !strings.HasPrefix(line, "See 'docker ") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, " | ")
}

func (e *CommandError) Unwrap() error { return e.Err }

// Output runs docker and returns its standard output without the last newline.
func Output(ctx context.Context, args ...string) (string, error) {
	return Pipe(ctx, nil, args...)
}

// Pipe is Output with a standard input.
func Pipe(ctx context.Context, in io.Reader, args ...string) (string, error) {
	var stdout, stderr strings.Builder
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &stdout, &stderr
	// A client that was cancelled must not keep us waiting through a child
	// that holds its pipes.
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		output := stderr.String()
		if strings.TrimSpace(output) == "" {
			output = stdout.String()
		}
		return "", &CommandError{Args: args, Output: output, Err: err}
	}
	return strings.TrimSuffix(stdout.String(), "\n"), nil
}

// Lines is Output cut into lines; no output is no line.
func Lines(ctx context.Context, args ...string) ([]string, error) {
	out, err := Output(ctx, args...)
	if err != nil || out == "" {
		return nil, err
	}
	return strings.Split(out, "\n"), nil
}

// Engine is what the engine says of itself.
type Engine struct {
	Version       string // "20.10.24+dfsg1"
	Root          string // the folder of its images and containers, on its own host
	CgroupVersion string // "1" or "2"
}

// Ask returns what the engine says of itself, or ErrNoEngine or ErrForbidden
// with the reason, within 30 s: one that was started a moment ago, on a machine
// with other work, takes its time.
func Ask(ctx context.Context) (Engine, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if _, err := exec.LookPath("docker"); err != nil {
		return Engine{}, fmt.Errorf("%w: no docker client in PATH", ErrNoEngine)
	}
	out, err := Output(ctx, "info", "--format", "{{.ServerVersion}}\n{{.DockerRootDir}}\n{{.CgroupVersion}}\n{{range .ServerErrors}}{{.}} {{end}}")
	fields := strings.Split(out, "\n")
	// Some clients exit 0 with the daemon's absence in ServerErrors.
	if err == nil && len(fields) == 4 && fields[0] != "" {
		return Engine{Version: fields[0], Root: fields[1], CgroupVersion: fields[2]}, nil
	}
	reason := strings.TrimSpace(fields[len(fields)-1])
	var failed *CommandError
	if errors.As(err, &failed) {
		reason = OneLine(failed.Output)
	}
	if strings.Contains(reason, "permission denied") {
		return Engine{}, fmt.Errorf("%w (%s)", ErrForbidden, reason)
	}
	return Engine{}, fmt.Errorf("%w (%s)", ErrNoEngine, reason)
}
