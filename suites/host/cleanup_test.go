// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/lastcall-dev/lastcall/fixtures/host"
)

// patience bounds what is waited for, on a machine that may stand still.
const patience = time.Minute

// TestMain lets this binary be a run that is killed.
func TestMain(m *testing.M) {
	if os.Getenv("LASTCALL_TEST_RUNS") != "" {
		lock, err := runAndFork(os.Stdout)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed
		_ = lock.Close()
		return
	}
	os.Exit(m.Run())
}

// runAndFork is what a run makes: a folder, and in it a process that leaves two others: one in a
// session of its own whose parent is gone, and one in its own group. It says the folder,
// their numbers, and that of the first process, which dies with the run.
func runAndFork(to io.Writer) (lock *os.File, err error) {
	dir, lock, err := newFolder()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "pids")
	script := "setsid sh -c 'sleep 600 >/dev/null 2>&1 & echo $! >" + file + "' & wait; sleep 600 & echo $! >>" + file + "; echo $$ >>" + file + "; exec sleep 600"
	if _, err := host.Press([]string{"sh", "-c", script}, "test", "", 0, 0, filepath.Join(dir, "scenario", "one"), filepath.Join(dir, "log")); err != nil {
		return nil, err
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		b, _ := os.ReadFile(file)
		pids := strings.Fields(string(b))
		if len(pids) == 3 && !slices.ContainsFunc(pids, func(pid string) bool { return !asleep(pid) }) {
			fmt.Fprintln(to, dir, strings.Join(pids, " "))
			break
		}
	}
	return lock, nil
}

// asleep says whether a process has become what it was to be.
func asleep(pid string) bool {
	name, _ := os.ReadFile(filepath.Join("/proc", pid, "comm"))
	return string(name) == "sleep\n"
}

// run is one in a process of its own.
type run struct {
	dir   string
	pids  []int // that outlive it
	first int   // which dies with it, a moment later
	kill  func()
}

func start(t *testing.T) run {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), self)
	cmd.Env = append(os.Environ(), "LASTCALL_TEST_RUNS=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := run{kill: func() { _ = cmd.Process.Kill(); _ = in.Close(); _ = cmd.Wait() }}
	t.Cleanup(func() { r.kill(); _, _ = remove(context.Background(), []string{r.dir}) })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range strings.Fields(line) {
		if i == 0 {
			r.dir = text
			continue
		}
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		r.pids = append(r.pids, pid)
	}
	last := len(r.pids) - 1
	r.pids, r.first = r.pids[:last], r.pids[last]
	return r
}

// alive are the processes of a run that live.
func (r run) alive() []int { return slices.DeleteFunc(slices.Clone(r.pids), dead) }

func dead(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	_, state, _ := strings.Cut(string(stat), ") ")
	return err != nil || strings.HasPrefix(state, "Z")
}

// Of two runs side by side one is killed: what it left is ended and removed, and the other
// one keeps all that it has. A folder that was removed by hand hides no process.
func TestCleanupAfterKill(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skipf("skipped: %v", err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	killed, bare, lives := start(t), start(t), start(t)
	dirs := []string{killed.dir, bare.dir, lives.dir}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	if removed, err := remove(ctx, dirs); len(removed) > 0 || err != nil {
		t.Errorf("all live: %q, %v", removed, err)
	}
	killed.kill()
	bare.kill()
	if err := os.RemoveAll(bare.dir); err != nil {
		t.Fatal(err)
	}
	for _, r := range []run{killed, bare} {
		gomega.NewWithT(t).Eventually(func() bool { return dead(r.first) }).WithTimeout(patience).Should(gomega.BeTrue())
		if got := r.alive(); !slices.Equal(got, r.pids) {
			t.Fatalf("what outlives the run is to be %v, and is %v", r.pids, got)
		}
	}
	known, err := known()
	if err != nil || !slices.Contains(known, killed.dir) || !slices.Contains(known, bare.dir) {
		t.Errorf("known: %q, %v", known, err)
	}

	removed, err := remove(ctx, dirs)
	if err != nil {
		t.Error(err)
	}
	var want []string
	for _, r := range []run{killed, bare} {
		for _, pid := range r.pids {
			want = append(want, fmt.Sprintf("process %d (sleep) of %s", pid, r.dir))
		}
	}
	want = append(want, "folder "+killed.dir)
	slices.Sort(removed)
	slices.Sort(want)
	if !slices.Equal(removed, want) {
		t.Errorf("removed %q, want %q", removed, want)
	}
	for _, r := range []run{killed, bare} {
		if got := r.alive(); len(got) > 0 {
			t.Errorf("%v live", got)
		}
		if _, err := os.Stat(r.dir); err == nil {
			t.Errorf("%s is there", r.dir)
		}
	}
	if got := lives.alive(); !slices.Equal(got, lives.pids) {
		t.Errorf("of the run that lives %v live, and %v are its own", got, lives.pids)
	}
	if _, err := os.Stat(filepath.Join(lives.dir, lockFile)); err != nil {
		t.Error(err)
	}
}

// A folder of an older version has no lock: the number in its name says whether its run
// lives.
func TestCleanup(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	mine, lock, err := newFolder()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	// No process has the largest number of all (proc(5), pid_max).
	dead := filepath.Join(os.TempDir(), folders+"2147483647-1")
	other := filepath.Join(os.TempDir(), folders+"notes")
	older := filepath.Join(os.TempDir(), fmt.Sprintf("%s%d-1", folders, os.Getpid()))
	for _, dir := range []string{dead, other, older} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	found, err := known()
	if err != nil {
		t.Fatal(err)
	}
	// Only this test's: a run on this machine may have been killed.
	found = slices.DeleteFunc(found, func(dir string) bool { return filepath.Dir(dir) != os.TempDir() })
	removed, err := remove(t.Context(), found)
	if err != nil || !slices.Equal(removed, []string{"folder " + dead}) {
		t.Errorf("%v, %v", removed, err)
	}
	for _, dir := range []string{mine, other, older} {
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
}

func TestRunOf(t *testing.T) {
	const run = "/tmp/x/" + folders + "12-34"
	for dir, want := range map[string]string{
		run: run, run + "/a/b": run, "/tmp/x": "", "/": "", "": "", "notes/" + folders + "12-34": "notes/" + folders + "12-34",
		"/tmp/" + folders + "12": "", "/tmp/" + folders + "-1-2": "", "/tmp/" + folders + "notes-1": "",
	} {
		if got := runOf(dir); got != want {
			t.Errorf("%q: %q, want %q", dir, got, want)
		}
	}
}
