// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ticks are the times of all processors together, in the kernel's ticks.
type ticks struct{ idle, stolen, all int64 }

// readMachine reads the first line of /proc/stat.
func readMachine() ticks {
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := bytes.Cut(text, []byte("\n"))
	var t ticks
	for i, w := range strings.Fields(string(line)) {
		n, err := strconv.ParseInt(w, 10, 64)
		// cpu user nice system idle iowait irq softirq steal guest guest_nice,
		// the last two of which are in user and nice already.
		if err != nil || i > 8 {
			continue
		}
		switch t.all += n; i {
		case 4, 5:
			t.idle += n
		case 8:
			t.stolen += n
		}
	}
	return t
}

// stolen is the part of the processors' time that the host took.
func stolen(before, after ticks) float64 {
	return float64(after.stolen-before.stolen) / float64(max(1, after.all-before.all))
}

// quiet waits for a second in which the host takes less than 3% and others here
// less than 10%, or until it has waited for long enough.
func quiet(ctx context.Context, atMost time.Duration) {
	for end := time.Now().Add(atMost); ctx.Err() == nil && time.Now().Before(end); {
		before := readMachine()
		pause(ctx, time.Second)
		after := readMachine()
		all := float64(max(1, after.all-before.all))
		s := stolen(before, after)
		if s < 0.03 && 1-s-float64(after.idle-before.idle)/all < 0.10 {
			return
		}
	}
}

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// watchPeak follows the largest resident size of a process, in bytes. (That of
// rusage begins with the size of whoever started it.) What it returns ends that.
func watchPeak(pid int) (end func() int64) {
	var peak atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	path := fmt.Sprintf("/proc/%d/status", pid)
	look := func() {
		text, _ := os.ReadFile(path)
		if m := highWater.FindSubmatch(text); m != nil {
			n, _ := strconv.ParseInt(string(m[1]), 10, 64)
			peak.Store(n << 10)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			look()
			pause(ctx, 100*time.Millisecond)
		}
	}()
	return func() int64 {
		look()
		cancel()
		<-done
		return peak.Load()
	}
}

// machine says what this is measured on.
func machine() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	model := "an unnamed processor"
	if m := regexp.MustCompile(`model name\s*: (.*)`).FindSubmatch(text); m != nil {
		model = string(m[1])
	}
	var u unix.Utsname
	_ = unix.Uname(&u)
	var i unix.Sysinfo_t
	_ = unix.Sysinfo(&i)
	return fmt.Sprintf("%d × %s, %.0f GiB, Linux %s, %s", runtime.NumCPU(), model, float64(i.Totalram)*float64(i.Unit)/(1<<30),
		unix.ByteSliceToString(u.Release[:]), runtime.Version())
}

// moreFiles raises the limit of open files, for 10,000 connections here and in
// what is started.
func moreFiles(n uint64) error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("the limit of open files: %w", err)
	}
	if l.Max < n {
		return fmt.Errorf("the limit of open files is %d, %d are wanted: ulimit -Hn", l.Max, n)
	}
	l.Cur = max(l.Cur, n)
	// By package syscall, or what is started has the old one.
	if err := syscall.Setrlimit(unix.RLIMIT_NOFILE, &syscall.Rlimit{Cur: l.Cur, Max: l.Max}); err != nil {
		return fmt.Errorf("the limit of open files: %w", err)
	}
	return nil
}
