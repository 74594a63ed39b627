// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRecord(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	elsewhere := filepath.Join(t.TempDir(), "kubeconfig")
	r := record{Name: "a", IPFamily: IPv4, KubeProxy: NFTables, Ranges: candidate(0, IPv4), Kubeconfig: elsewhere}
	if err := r.claim(); err != nil {
		t.Fatal(err)
	}
	if err := r.claim(); err == nil || !strings.Contains(err.Error(), "half made") {
		t.Errorf("second claim of a half-made one: %v", err)
	}
	r.Ready = true
	if err := r.save(); err != nil {
		t.Fatal(err)
	}
	if err := r.claim(); err == nil || !strings.Contains(err.Error(), "cluster a exists") {
		t.Errorf("second claim: %v", err)
	}
	got, err := load("a")
	if err != nil {
		t.Fatal(err)
	}
	// Compared as text: netip has unexported fields.
	if got.Ranges.Pods[0] != r.Ranges.Pods[0] || got.Ranges.Network6.IsValid() || !got.Ready {
		t.Errorf("loaded %+v, saved %+v", got, r)
	}
	if got.KubeProxy != NFTables || got.IPFamily != IPv4 {
		t.Errorf("loaded mode %q and family %q", got.KubeProxy, got.IPFamily)
	}
	if names, err := recorded(); err != nil || !cmp.Equal(names, []string{"a"}) {
		t.Errorf("recorded = %v, %v", names, err)
	}

	for path, want := range map[string]bool{elsewhere: true, filepath.Dir(elsewhere) + "/./kubeconfig": true, "kubeconfig": false} {
		if is, err := MadeHere(path); err != nil || is != want {
			t.Errorf("%s is ours: %v, %v", path, is, err)
		}
	}

	if err := os.WriteFile(elsewhere, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	removed, err := forget("a")
	if err != nil || len(removed) != 2 {
		t.Errorf("forget = %v, %v; want kubeconfig and folder", removed, err)
	}
	if _, err := os.Lstat(elsewhere); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the kubeconfig is still there: %v", err)
	}
	if err := r.save(); err == nil {
		t.Error("a cluster that was cleaned up meanwhile was saved")
	}
	if removed, err := forget("a"); err != nil || len(removed) != 0 {
		t.Errorf("forget of what is gone = %v, %v", removed, err)
	}
}

// What stood before there was a choice runs the one mode that there was.
func TestRecordWithoutMode(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	if err := (record{Name: "a"}).claim(); err != nil {
		t.Fatal(err)
	}
	if got, err := load("a"); err != nil || got.KubeProxy != IPTables {
		t.Errorf("mode %q, %v", got.KubeProxy, err)
	}
}

func TestParseNode(t *testing.T) {
	for _, test := range []struct {
		line, family string
		want         string // addresses; "" for an error
	}{
		{"/lastcall-a-worker worker 172.18.0.3 fd1c:a57c:a10::3", Dual, "[172.18.0.3 fd1c:a57c:a10::3]"},
		{"/lastcall-a-worker worker 172.18.0.3 fd1c:a57c:a10::3", IPv6, "[fd1c:a57c:a10::3]"},
		{"/lastcall-a-worker worker 172.18.0.3 ", IPv4, "[172.18.0.3]"},
		{"/lastcall-a-worker worker  ", IPv4, "[]"}, // a container that is stopped
		{"/lastcall-a-worker", IPv4, ""},
		{"/lastcall-a-worker worker 172.18.0", IPv4, ""},
	} {
		got, err := parseNode(test.line, test.family)
		if test.want == "" {
			if err == nil {
				t.Errorf("%q was taken: %+v", test.line, got)
			}
			continue
		}
		if err != nil || got.Name != "lastcall-a-worker" || got.Role != workerRole || fmt.Sprint(got.Addresses) != test.want {
			t.Errorf("%q of an %s cluster: %+v, %v, want %s", test.line, test.family, got, err, test.want)
		}
	}
}

func TestOwner(t *testing.T) {
	for _, test := range []struct {
		name string
		in   container
		want string
	}{
		{"a node of ours", container{cluster: "lastcall-a", networks: []string{"lastcall-a"}}, "a"},
		{"a node of ours, connected elsewhere too", container{cluster: "lastcall-a", networks: []string{"x", "lastcall-a"}}, "a"},
		{"a proof's container", container{helps: "lastcall-a", networks: []string{"lastcall-a"}}, "a"},
		{"the user's own cluster", container{cluster: "a", networks: []string{"kind"}}, ""},
		{"the user's own, of a name like ours", container{cluster: "lastcall-a", networks: []string{"kind"}}, ""},
		{"anything on our network", container{networks: []string{"lastcall-a"}}, ""},
		{"anything", container{networks: []string{"bridge"}}, ""},
	} {
		if got := test.in.owner(); got != test.want {
			t.Errorf("%s: owner %q, want %q", test.name, got, test.want)
		}
	}
}

func TestLogger(t *testing.T) {
	var lines []string
	l := logger{func(line string) { lines = append(lines, line) }}
	l.V(0).Infof(" • %s  ...\n", "Preparing nodes 📦 📦 ")
	l.V(0).Infof(" ✓ %s\n", "Preparing nodes 📦 📦 ")
	l.V(1).Info("debug")
	l.V(0).Info("")
	l.Warn("WARNING: Here be dragons! This is not supported currently.")
	want := []string{"kind: Preparing nodes ...", "kind: done: Preparing nodes"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
}

func TestRoomFor(t *testing.T) {
	if err := roomFor(t.TempDir(), 1); err != nil {
		t.Errorf("one byte: %v", err)
	}
	if err := roomFor(t.TempDir(), 1<<62); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("more than any disk has: %v", err)
	}
	if err := roomFor("/nowhere/of/an/engine", 1<<62); err != nil {
		t.Errorf("a folder that is not on this machine: %v", err)
	}
}

// Two runs in one cluster would remove each other's namespaces.
func TestHold(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	r := record{Name: "a"}
	if err := r.claim(); err != nil {
		t.Fatal(err)
	}
	first, second := &Cluster{record: r}, &Cluster{record: r}
	release, err := first.Hold()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.Hold(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("(process %d)", os.Getpid())) {
		t.Errorf("held twice: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	again, err := second.Hold()
	if err != nil {
		t.Fatalf("it was given back: %v", err)
	}
	if err := again(); err != nil {
		t.Error(err)
	}
}
