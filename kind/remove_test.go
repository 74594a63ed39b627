// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/lastcall-dev/lastcall/kind/cgroup"
	"github.com/lastcall-dev/lastcall/kind/docker"
	"github.com/lastcall-dev/lastcall/kind/egress"
)

// A run that was killed leaves anything behind: here a folder, a guard, a
// network, a node container that was never started and one of a proof. Down must
// find it all, and nothing of a user's own cluster whose name looks like ours.
func TestDownOfHalfMade(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if _, err := docker.Ask(ctx); err != nil {
		t.Skipf("skipped: %v", err)
	}
	if err := egress.Check(); err != nil {
		t.Skipf("skipped: %v", err)
	}
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	run := func(args ...string) string {
		t.Helper()
		out, err := docker.Output(ctx, args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	const name = "half-made-test"
	r := record{Name: name, Ranges: candidate(63, Dual), Bridge: bridgeName(name), Kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	if err := r.claim(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.Kubeconfig, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := egress.Install(ctx, guardConfig(r)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := egress.Remove(context.Background(), prefix+name); err != nil {
			t.Error(err)
		}
	})
	if err := (&plan{record: r}).network(ctx); err != nil {
		t.Fatal(err)
	}

	// An image of nothing: its containers are made, and never started.
	var empty bytes.Buffer
	if err := tar.NewWriter(&empty).Close(); err != nil {
		t.Fatal(err)
	}
	image, err := docker.Pipe(ctx, &empty, "import", "-")
	if err != nil {
		t.Fatal(err)
	}
	foreign := run("create", "--label", kindLabel+"="+prefix+name, image, "/none")
	t.Cleanup(func() {
		if _, err := docker.Output(context.Background(), "rm", "--force", foreign); err != nil {
			t.Error(err)
		}
		if _, err := docker.Output(context.Background(), "image", "rm", image); err != nil {
			t.Error(err)
		}
	})
	node := run("create", "--network", prefix+name, "--label", kindLabel+"="+prefix+name, image, "/none")
	proof := run("create", "--network", prefix+name, "--label", egress.Label+"="+prefix+name, image, "/none")

	if err := nameIsFree(ctx, name); err == nil || !strings.Contains(err.Error(), "half made") {
		t.Errorf("the name of a half-made cluster: %v", err)
	}
	names, err := ours(ctx)
	if err != nil || !slices.Contains(names, name) {
		t.Errorf("ours = %v, %v", names, err)
	}
	if err := Down(ctx, name); err != nil {
		t.Fatal(err)
	}

	left := run("ps", "--all", "--quiet", "--no-trunc")
	for what, id := range map[string]string{"node": node, "proof": proof} {
		if strings.Contains(left, id) {
			t.Errorf("the %s's container is left", what)
		}
	}
	if !strings.Contains(left, foreign) {
		t.Error("a container of somebody else's cluster is gone")
	}
	if networks := run("network", "ls", "--format", "{{.Name}}"); strings.Contains(networks, prefix+name) {
		t.Error("the network is left")
	}
	if guards, err := egress.Standing(prefix); err != nil || slices.Contains(guards, prefix+name) {
		t.Errorf("guards that stand: %v, %v", guards, err)
	}
	if _, err := os.Lstat(r.Kubeconfig); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the kubeconfig is left: %v", err)
	}
	if err := Down(ctx, name); err == nil || !strings.Contains(err.Error(), "there is no cluster") {
		t.Errorf("Down of what is gone: %v", err)
	}
	// The name that looks like ours is still not free.
	if err := nameIsFree(ctx, name); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("the name of somebody else's cluster: %v", err)
	}
}

// engine puts a docker into PATH that does with `docker rm` what a script says: no engine
// can be made to hang without harm.
func engine(t *testing.T, rm string) {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\n[ \"$1\" = rm ] || exit 9\n" + rm + "\n"
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// stuck is a container of which a process is left, in a real control group that can freeze
// like cgroup v1; the group is frozen by writing FROZEN into state.
func stuck(t *testing.T) (c container, pid int, state string) {
	t.Helper()
	const root = "/sys/fs/cgroup/freezer/lastcall-test"
	c = container{name: "lastcall-x-worker", id: strings.Repeat("0123456789abcdef", 4)}
	dir := filepath.Join(root, "docker", c.id)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Skipf("skipped: no group of cgroup v1 can be made here: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "freezer.state")); err != nil {
		t.Skipf("skipped: %v", err)
	}
	cmd := exec.CommandContext(context.Background(), "sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		// Also where the test has failed.
		_ = cmd.Process.Kill()
		_ = os.WriteFile(filepath.Join(dir, "freezer.state"), []byte("THAWED"), 0)
		<-ended
		for _, d := range []string{dir, filepath.Dir(dir), root} {
			// To the kernel a group has those in it for a moment that were removed just before.
			gomega.NewWithT(t).Eventually(func() error { return os.Remove(d) }).WithTimeout(5 * time.Second).Should(gomega.Succeed())
		}
	})
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), fmt.Append(nil, cmd.Process.Pid), 0); err != nil {
		t.Fatal(err)
	}
	return c, cmd.Process.Pid, filepath.Join(dir, "freezer.state")
}

// What is frozen in a container can't be killed: it is thawed, also where it is frozen
// only while the container is being removed.
func TestRemoveWhatIsFrozen(t *testing.T) {
	groups, err := cgroup.Mounted()
	if err != nil {
		t.Fatal(err)
	}
	for name, freeze := range map[string]string{"before": "", "meanwhile": "echo FROZEN >$STATE; "} {
		t.Run(name, func(t *testing.T) {
			c, pid, state := stuck(t)
			// An engine waits until what it has killed is gone.
			t.Setenv("PID", strconv.Itoa(pid))
			t.Setenv("STATE", state)
			engine(t, freeze+"kill -9 $PID; while kill -0 $PID; do sleep 0.02; done")
			if freeze == "" {
				if err := os.WriteFile(state, []byte("FROZEN"), 0); err != nil {
					t.Fatal(err)
				}
			}
			got, err := removeContainer(t.Context(), c, groups, time.Minute)
			if want := "container lastcall-x-worker (frozen control groups in it that were thawed: 1)"; got != want || err != nil {
				t.Errorf("%q, %v; want %q", got, err, want)
			}
		})
	}
}

// A removal that does not end is given up, and says whose it was and what holds it.
func TestRemoveWhatHangs(t *testing.T) {
	groups, err := cgroup.Mounted()
	if err != nil {
		t.Fatal(err)
	}
	c, pid, _ := stuck(t)
	engine(t, "exec sleep 600")
	got, err := removeContainer(t.Context(), c, groups, time.Second)
	want := fmt.Sprintf("container lastcall-x-worker: not gone within 1s: process %d (sleep) is in state S", pid)
	if got != "" || err == nil || err.Error() != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	engine(t, "echo 'no such thing' >&2; exit 1")
	if got, err := removeContainer(t.Context(), c, groups, time.Minute); got != "" || err == nil || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("%q, %v", got, err)
	}
	engine(t, "exit 0")
	if got, err := removeContainer(t.Context(), c, groups, time.Minute); got != "container lastcall-x-worker" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestNetworkRangesAreFree(t *testing.T) {
	if err := egress.Check(); err != nil {
		t.Skipf("skipped: %v", err)
	}
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	first := record{Name: "a"}
	var err error
	if first.Ranges, err = choose("a", Dual, nil); err != nil {
		t.Fatal(err)
	}
	if err := first.claim(); err != nil {
		t.Fatal(err)
	}
	used, err := takenPrefixes()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(used, first.Ranges.Pods[0]) {
		t.Errorf("the ranges of a cluster of ours are not among those taken: %v", used)
	}
	if !slices.ContainsFunc(used, func(p netip.Prefix) bool { return p.Addr().IsLoopback() }) {
		t.Errorf("the host's own routes are not among those taken: %v", used)
	}
}
