// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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
