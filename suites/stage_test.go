// SPDX-License-Identifier: Apache-2.0

package suites

import (
	"errors"
	"strings"
	"testing"

	"github.com/lastcall-dev/lastcall/kind"
	"github.com/lastcall-dev/lastcall/systems"
)

// cluster35 is one that stands.
type cluster35 struct{}

func (cluster35) Kubernetes() string { return "v1.35.4" }
func (cluster35) Nodes() []kind.Node { return make([]kind.Node, 3) }
func (cluster35) IPFamily() string   { return kind.Dual }
func (cluster35) KubeProxy() string  { return kind.NFTables }

func TestFits(t *testing.T) {
	for _, test := range []struct {
		name   string
		wanted kind.Config
		want   string // part of the error; "" for none
	}{
		{"anything", kind.Config{}, ""},
		{"all of it", kind.Config{Kubernetes: "1.35", Nodes: 3, IPFamily: kind.Dual, KubeProxy: kind.NFTables}, ""},
		{"its patch release", kind.Config{Kubernetes: "v1.35.4"}, ""},
		{"another patch release", kind.Config{Kubernetes: "1.35.8"}, "runs Kubernetes 1.35.4, not 1.35.8"},
		{"a version that begins like it", kind.Config{Kubernetes: "1.3"}, "runs Kubernetes 1.35.4, not 1.3"},
		{"fewer nodes", kind.Config{Nodes: 1}, "has 3 nodes, not 1"},
		{"another family", kind.Config{IPFamily: kind.IPv6}, "has IP family dual, not ipv6"},
		{"half of its family", kind.Config{IPFamily: kind.IPv4}, "has IP family dual, not ipv4"},
		{"another mode", kind.Config{KubeProxy: kind.IPTables}, "has kube-proxy in mode nftables, not iptables"},
	} {
		test.wanted.Name = "a"
		err := fits(cluster35{}, test.wanted)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: refused: %v", test.name, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), "cluster a stands and "+test.want+": take another --name, or `lastcall down --name a` first")):
			t.Errorf("%s: error %v, want %q", test.name, err, test.want)
		}
	}
}

func TestKindConfig(t *testing.T) {
	got := kindConfig(Config{Name: "a", Kubernetes: "1.36", Nodes: 2, IPFamily: kind.IPv6, KubeProxy: kind.NFTables})
	if got.Name != "a" || got.Kubernetes != "1.36" || got.Nodes != 2 || got.IPFamily != kind.IPv6 || got.KubeProxy != kind.NFTables {
		t.Errorf("%+v", got)
	}
}

// A version that there is no image for is refused before the agent is built, an
// agent that can't be built before a cluster is begun: neither asks for a
// container engine.
func TestRefusedBeforeTheCluster(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
	t.Chdir(t.TempDir()) // no checkout
	for version, want := range map[string]string{
		"1.20": `version "1.20" of Kubernetes is not known here: there are 1.34`,
		"1.34": "run this in a checkout of lastcall",
	} {
		_, err := OpenStage(t.Context(), Config{Stage: StageKind, Name: "a", Kubernetes: version}.withDefaults())
		var usage *UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", version, err, want)
		}
	}
}

// A system that a cluster can't have is refused before anything else is looked at.
func TestSystemsRefusedInACluster(t *testing.T) {
	gate, err := systems.Gateway()
	if err != nil {
		t.Fatal(err)
	}
	app, err := systems.App()
	if err != nil {
		t.Fatal(err)
	}
	app.Cluster = gate.Cluster
	bare := *gate
	bare.Cluster = nil
	for want, cfg := range map[string]Config{
		"has no cluster part":     {Stage: StageKind, System: &bare},
		"is no gateway":           {Stage: StageKind, System: app},
		"on stages host and kind": {Stage: StageCluster, System: gate},
	} {
		_, err := OpenStage(t.Context(), cfg.withDefaults())
		var usage *UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
