// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const mountinfo = `24 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 24 0:26 / /sys/fs/cgroup rw - tmpfs cgroup rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
36 30 0:32 / /sys/fs/cgroup/freezer rw,relatime shared:9 - cgroup cgroup rw,freezer
40 30 0:36 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
half a line
`

func TestMounts(t *testing.T) {
	want := Hierarchies{{"/sys/fs/cgroup/freezer", v1}, {"/sys/fs/cgroup/unified", v2}}
	if diff := cmp.Diff(want, parse(mountinfo), cmp.AllowUnexported(hierarchy{}, freezing{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// What is not the whole ID of a container would find groups of others.
func TestNoGroupsOfAnInexactID(t *testing.T) {
	all, err := Mounted()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"", "d", "docker", strings.Repeat("a", 63), strings.Repeat("A", 64)} {
		if got := all.of(id); len(got) > 0 {
			t.Errorf("%q: %v", id, got)
		}
	}
}

// made is a group of this test's own in a hierarchy, and the ID that is in its name.
func made(t *testing.T, h hierarchy) (dir, id string) {
	t.Helper()
	var b [32]byte
	_, _ = rand.Read(b[:])
	id = fmt.Sprintf("%x", b)
	root := filepath.Join(h.mount, "lastcall-test")
	if err := os.Mkdir(root, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Skipf("skipped: no group can be made here: %v", err)
	}
	t.Cleanup(func() { _ = os.Remove(root) }) // the last one does
	dir = filepath.Join(root, "docker-"+id+".scope")
	for _, d := range []string{dir, filepath.Join(dir, "kubepods"), filepath.Join(dir, "kubepods", "runc")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.Remove(d); err != nil {
				t.Error(err)
			}
		})
	}
	return dir, id
}

// sleeper is a process in a group, and its end.
func sleeper(t *testing.T, dir string) (pid string, ended <-chan error) {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), "sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end := make(chan error, 1)
	go func() { end <- cmd.Wait() }()
	pid = strconv.Itoa(cmd.Process.Pid)
	write(t, filepath.Join(dir, "cgroup.procs"), pid)
	return pid, end
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0); err != nil {
		t.Fatal(err)
	}
}

// await waits for what the kernel does in its own time.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for !is() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("not within 30s: " + what)
		}
	}
}

// A real process, frozen in a group of a group of a container, as a runc leaves it that
// was killed: what holds it is named; thawed, it takes the SIGKILL that waits for it.
func TestThaw(t *testing.T) {
	all, err := Mounted()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Skip("skipped: no hierarchy that can freeze is mounted here")
	}
	for _, h := range all {
		t.Run(h.kind.control, func(t *testing.T) {
			dir, id := made(t, h)
			inner := filepath.Join(dir, "kubepods", "runc")
			pid, ended := sleeper(t, inner)
			freeze := "1"
			if h.kind == v1 {
				freeze = "FROZEN"
			}
			write(t, filepath.Join(inner, h.kind.control), freeze)
			t.Cleanup(func() { write(t, filepath.Join(inner, h.kind.control), h.kind.thaw) })
			await(t, "the group is frozen", group{inner, h.kind}.frozen)

			_, other := made(t, h)
			if got, err := all.Thaw(other); len(got) > 0 || err != nil {
				t.Errorf("another container: %v, %v", got, err)
			}
			if got := all.Left(other); got != "" {
				t.Errorf("another container: %s", got)
			}
			if got, want := all.Left(id), "process "+pid+" (sleep) is frozen in "+inner; got != want {
				t.Errorf("%q, want %q", got, want)
			}
			n, _ := strconv.Atoi(pid)
			if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if h.kind == v1 {
				select {
				case <-ended:
					t.Fatal("SIGKILL ended it although it was frozen: this test shows nothing")
				case <-time.After(300 * time.Millisecond):
				}
			}
			got, err := all.Thaw(id)
			if diff := cmp.Diff([]string{inner}, got); diff != "" || err != nil {
				t.Errorf("thawed: %v (-want +got)\n%s", err, diff)
			}
			select {
			case <-ended:
			case <-time.After(30 * time.Second):
				t.Fatalf("it lives: %s", all.Left(id))
			}
			if got, err := all.Thaw(id); len(got) > 0 || err != nil {
				t.Errorf("once more: %v, %v", got, err)
			}
			if got := all.Left(id); got != "" {
				t.Errorf("left: %s", got)
			}
		})
	}
}

// A whole container that is frozen (docker pause), with what is in it: one word at its
// top thaws all.
func TestThawFromAbove(t *testing.T) {
	all, err := Mounted()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range all {
		t.Run(h.kind.control, func(t *testing.T) {
			dir, id := made(t, h)
			pid, ended := sleeper(t, filepath.Join(dir, "kubepods"))
			freeze := "1"
			if h.kind == v1 {
				freeze = "FROZEN"
			}
			write(t, filepath.Join(dir, h.kind.control), freeze)
			await(t, "the group is frozen", group{filepath.Join(dir, "kubepods"), h.kind}.frozen)
			if got := all.Left(id); !strings.Contains(got, "is frozen") {
				t.Errorf("left: %q", got)
			}
			got, err := all.Thaw(id)
			if diff := cmp.Diff([]string{dir}, got); diff != "" || err != nil {
				t.Errorf("thawed: %v (-want +got)\n%s", err, diff)
			}
			await(t, "the process sleeps", func() bool { return all.Left(id) == "process "+pid+" (sleep) is in state S" })
			n, _ := strconv.Atoi(pid)
			if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			<-ended
		})
	}
}
