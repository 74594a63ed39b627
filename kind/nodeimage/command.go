// SPDX-License-Identifier: Apache-2.0

package nodeimage

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// command is one program run. Output is kept only to explain a failure, unless
// stdout is given.
type command struct {
	dir    string
	env    []string // added to the caller's environment
	stdin  io.Reader
	stdout io.Writer
}

// tailBytes is how much of a failed command's output goes into its error.
const tailBytes = 2000

// run starts the program in a process group of its own and ends the whole group
// when ctx ends, as Ctrl-C would: go build and debootstrap leave children behind
// otherwise, and clean up at SIGINT only.
func (c command) run(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Stdin = c.stdin
	out := &tail{limit: tailBytes}
	cmd.Stderr = out
	cmd.Stdout = out
	if c.stdout != nil {
		cmd.Stdout = c.stdout
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", name, context.Cause(ctx))
		}
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// output runs the program and returns what it wrote to its standard output.
func (c command) output(ctx context.Context, name string, args ...string) (string, error) {
	var out bytes.Buffer
	c.stdout = &out
	err := c.run(ctx, name, args...)
	return out.String(), err
}

// tail keeps the last limit bytes written to it.
type tail struct {
	limit int
	buf   []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - t.limit; over > 0 {
		t.buf = t.buf[over:]
	}
	return len(p), nil
}

func (t *tail) String() string { return strings.TrimSpace(string(t.buf)) }
