// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// bench measures clients against one backend. Client and backend have a
// processor each, the same for all clients.
type bench struct {
	dir  string
	in   *json.Encoder
	out  *json.Decoder
	runs int
	// net is where the addresses begin: each run has one of its own, so that it
	// has all ports to dial from.
	net int
	// calm is how long a run waits for a quiet machine, at most.
	calm time.Duration
	log  func(format string, args ...any)
}

// clientCPU and serverCPU are the processors, on a machine with two or more.
const (
	clientCPU = 0
	serverCPU = 1
)

// startOn starts a command on one processor: it has what the thread has that
// starts it.
func startOn(cpu int, c *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("reading the processors: %w", err)
	}
	one.Set(cpu)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return fmt.Errorf("processor %d: %w", cpu, err)
	}
	return errors.Join(c.Start(), unix.SchedSetaffinity(0, &before))
}

// newBench starts the backend. It ends with end.
func newBench(ctx context.Context, self string) (b *bench, end func(), err error) {
	b = &bench{net: rand.N(200) + 1}
	if b.dir, err = os.MkdirTemp("", "lastcall-bench"); err != nil {
		return nil, nil, err
	}
	c := exec.CommandContext(ctx, self, "backend")
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := startOn(serverCPU, c); err != nil {
		return nil, nil, fmt.Errorf("the backend: %w", err)
	}
	b.in, b.out = json.NewEncoder(in), json.NewDecoder(out)
	return b, func() {
		_ = in.Close()
		_ = c.Wait()
		_ = os.RemoveAll(b.dir)
	}, nil
}

// ask gives the backend an order and takes its answer.
func (b *bench) ask(o order) (count, error) {
	var c count
	if err := b.in.Encode(o); err != nil {
		return c, fmt.Errorf("an order to the backend: %w", err)
	}
	if err := b.out.Decode(&c); err != nil {
		return c, fmt.Errorf("the backend's answer: %w", err)
	}
	return c, nil
}

// measured is one run of a client.
type measured struct {
	count  count
	result result
	cpu    time.Duration // user and system
	peak   int64         // bytes
	took   time.Duration
	stolen float64 // of all processors' time, 0 to 1
}

// run runs a client once. meanwhile may do something to the backend; where it
// returns true the client is ended by force, and says nothing.
func (b *bench) run(ctx context.Context, p *peer, t task, arrivals bool, meanwhile func(pid int) (bool, error)) (m measured, err error) {
	b.runs++
	n := b.net*250 + b.runs
	at := fmt.Sprintf("127.77.%d.%d:18077", n/250%256, n%250+1)
	t.Addr = at
	quiet(ctx, b.calm)
	ctx, cancel := context.WithTimeout(ctx, t.Lasts+time.Minute)
	defer cancel()
	if _, err := b.ask(order{Listen: at, Hold: t.Hold}); err != nil {
		return m, err
	}
	out := filepath.Join(b.dir, fmt.Sprintf("out-%d", b.runs))
	c := exec.CommandContext(ctx, p.path, p.args(t, out)...)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if p.input != nil {
		c.Stdin = strings.NewReader(p.input(t))
	}
	before, begun := readMachine(), time.Now()
	if err := startOn(clientCPU, c); err != nil {
		return m, fmt.Errorf("%s: %w", p.name, err)
	}
	peak := watchPeak(c.Process.Pid)
	killed := false
	if meanwhile != nil {
		if killed, err = meanwhile(c.Process.Pid); err != nil || killed {
			m.peak = peak()
			_ = c.Process.Kill()
		}
	}
	werr := c.Wait()
	m.took, m.stolen = time.Since(begun), stolen(before, readMachine())
	m.cpu = c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	if m.peak == 0 {
		m.peak = peak()
	}
	var eerr error
	if m.count, eerr = b.ask(order{Tell: true, Arrivals: arrivals}); eerr != nil {
		return m, eerr
	}
	if _, eerr = b.ask(order{End: true}); eerr != nil || err != nil || killed {
		return m, errors.Join(err, eerr)
	}
	if werr != nil {
		return m, fmt.Errorf("%s: %w: %s", p.name, werr, stderr.Bytes())
	}
	if m.result, err = p.read(p, stdout.Bytes(), out); err != nil {
		return m, err
	}
	_ = os.Remove(out) // goes with the folder at the latest
	return m, nil
}

// pause waits.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// underway waits until the backend has had a request.
func (b *bench) underway(ctx context.Context) error {
	for range 100 {
		c, err := b.ask(order{Tell: true})
		if err != nil || c.Requests > 0 {
			return err
		}
		pause(ctx, 50*time.Millisecond)
	}
	return fmt.Errorf("no request within 5 s: %w", io.ErrNoProgress)
}

// shut is what an outage run does meanwhile.
func (b *bench) shut(ctx context.Context, length time.Duration, times int) func(int) (bool, error) {
	return func(int) (bool, error) {
		if err := b.underway(ctx); err != nil {
			return false, err
		}
		pause(ctx, 500*time.Millisecond) // it has its stride by then
		_, err := b.ask(order{Shut: length, Times: times})
		return false, err
	}
}

// hold is what a memory run does meanwhile: it waits until n connections are
// open, or no more come, and then a moment.
func (b *bench) hold(ctx context.Context, n int) func(int) (bool, error) {
	return func(int) (bool, error) {
		last, since := 0, time.Now()
		for last < n && time.Since(since) < 5*time.Second {
			c, err := b.ask(order{Tell: true})
			if err != nil {
				return true, err
			}
			if c.Requests > last {
				last, since = c.Requests, time.Now()
			}
			pause(ctx, 100*time.Millisecond)
		}
		pause(ctx, time.Second)
		return true, ctx.Err()
	}
}
