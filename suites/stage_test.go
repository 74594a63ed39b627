// SPDX-License-Identifier: Apache-2.0

package suites

import (
	"errors"
	"strings"
	"testing"

	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/kind"
	"github.com/lastcall-dev/lastcall/systems"
)

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
	gate, err := systems.Reference(system.Gateway)
	if err != nil {
		t.Fatal(err)
	}
	bare := *gate
	bare.Cluster = nil
	for want, cfg := range map[string]Config{
		"has no cluster part":     {Stage: StageKind, System: &bare},
		"on stages host and kind": {Stage: StageCluster, System: gate},
	} {
		_, err := OpenStage(t.Context(), cfg.withDefaults())
		var usage *UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
