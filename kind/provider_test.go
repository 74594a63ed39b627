// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/e2e-framework/support"
	theirs "sigs.k8s.io/e2e-framework/support/kind"

	"github.com/lastcall-dev/lastcall/kind/docker"
)

// nowhere has no cluster, and no engine to make one with.
func nowhere(t *testing.T) {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
}

// What was asked for reaches the cluster's configuration, in every way to ask.
func TestProviderConfig(t *testing.T) {
	p := NewProvider()
	p.SetDefaults().WithName("a").WithVersion("1.36").WithPath("/nowhere").WithOpts(WithNodes(2), WithIPFamily(IPv6), WithKubeProxy(NFTables), WithImage("i"), WithNew())
	c := p.config
	if c.Name != "a" || c.Kubernetes != "1.36" || c.Nodes != 2 || c.IPFamily != IPv6 || c.KubeProxy != NFTables || c.Image != "i" || !p.fresh {
		t.Errorf("%+v, fresh %t", c, p.fresh)
	}
	if got := ProviderFor(Config{Name: "b", Nodes: 4}).config; got.Name != "b" || got.Nodes != 4 {
		t.Errorf("%+v", got)
	}
	theirs.NewProvider().WithOpts(WithNodes(2)) // passes it by
}

// Without an engine Create says what is missing. What can be told without one is told
// first, and whatever stands under the name is never taken for nothing.
func TestCreateRefuses(t *testing.T) {
	for _, test := range []struct {
		name   string
		record string // of a cluster of that name; "" for none
		config Config
		is     error
		want   string
	}{
		{"no engine", "", Config{Name: "a"}, docker.ErrNoEngine, "run `make engine`"},
		{"no name", "", Config{}, nil, "a cluster needs a name"},
		{"a version that nobody has", "", Config{Name: "a", Kubernetes: "1.20"}, nil, "is not known here"},
		{"a half-made one", `{"name":"a"}`, Config{Name: "a"}, nil, "cluster a is half made"},
		{"one that nobody can read", `{`, Config{Name: "a"}, nil, "the record of cluster a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			nowhere(t)
			if test.record != "" {
				dir, err := stateDir("a")
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, recordFile), []byte(test.record), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			p := ProviderFor(test.config)
			file, err := p.Create(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.want) || test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if file != "" || p.Cluster() != nil || p.Made() {
				t.Errorf("kubeconfig %q, cluster %v, made %t after an error", file, p.Cluster(), p.Made())
			}
			// It needs no engine, so it misses none.
			if err := p.Check(t.Context()); (err == nil) != (test.is != nil) {
				t.Errorf("Check: %v", err)
			}
		})
	}
	if _, err := NewProvider().Create(t.Context(), "--wait"); err == nil || !strings.Contains(err.Error(), "use WithOpts") {
		t.Errorf("arguments: %v", err)
	}
	if _, err := NewProvider().CreateWithConfig(t.Context(), "kind.yaml"); err == nil {
		t.Error("a kind configuration was taken")
	}
}

// What needs a cluster says so before there is one.
func TestBeforeCreate(t *testing.T) {
	nowhere(t)
	p := NewProvider()
	node := &support.Node{Name: "a"}
	for name, do := range map[string]func(context.Context) error{
		"LoadImage":          func(ctx context.Context) error { return p.LoadImage(ctx, "i") },
		"LoadImageArchive":   func(ctx context.Context) error { return p.LoadImageArchive(ctx, "i.tar") },
		"ExportLogs":         func(ctx context.Context) error { return p.ExportLogs(ctx, t.TempDir()) },
		"GenerateKubeconfig": func(context.Context) error { _, err := p.GenerateKubeconfig(); return err },
		"ListNode":           func(ctx context.Context) error { _, err := p.ListNode(ctx); return err },
		"StartNode":          func(ctx context.Context) error { return p.StartNode(ctx, node) },
		"StopNode":           func(ctx context.Context) error { return p.StopNode(ctx, node) },
		"RemoveNode":         func(ctx context.Context) error { return p.RemoveNode(ctx, node) },
	} {
		if err := do(t.Context()); !errors.Is(err, errNoCluster) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if p.GetKubeconfig() != "" || p.GetKubectlContext() != "" || p.KubernetesRestConfig() != nil {
		t.Error("there is a kubeconfig of no cluster")
	}
	if err := p.Release(); err != nil {
		t.Errorf("nothing to release: %v", err)
	}
	if err := p.Destroy(t.Context()); err == nil || !strings.Contains(err.Error(), "a cluster needs a name") {
		t.Errorf("Destroy of no name: %v", err)
	}
}

// A cluster that stands must be what was asked for; what was not asked for may be
// anything.
func TestFits(t *testing.T) {
	c := &Cluster{
		record: record{Name: "a", Kubernetes: "v1.35.4", Image: "i", IPFamily: Dual, KubeProxy: NFTables},
		nodes:  make([]Node, 3),
	}
	for _, test := range []struct {
		name   string
		wanted Config
		want   string // part of the error; "" for none
	}{
		{"anything", Config{}, ""},
		{"all of it", Config{Kubernetes: "1.35", Nodes: 3, IPFamily: Dual, KubeProxy: NFTables, Image: "i"}, ""},
		{"its patch release", Config{Kubernetes: "v1.35.4"}, ""},
		{"another patch release", Config{Kubernetes: "1.35.8"}, "runs Kubernetes 1.35.4, not 1.35.8"},
		{"a version that begins like it", Config{Kubernetes: "1.3"}, "runs Kubernetes 1.35.4, not 1.3"},
		{"another image", Config{Image: "j"}, "has node image i, not j"},
		{"fewer nodes", Config{Nodes: 1}, "has 3 nodes, not 1"},
		{"another family", Config{IPFamily: IPv6}, "has IP family dual, not ipv6"},
		{"half of its family", Config{IPFamily: IPv4}, "has IP family dual, not ipv4"},
		{"another mode", Config{KubeProxy: IPTables}, "has kube-proxy in mode nftables, not iptables"},
	} {
		err := c.fits(test.wanted)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: refused: %v", test.name, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), "cluster a stands and "+test.want+": take another name, or `lastcall down --name a` first")):
			t.Errorf("%s: error %v, want %q", test.name, err, test.want)
		}
	}
}
