// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func mustPrefixes(t *testing.T, list string) []netip.Prefix {
	t.Helper()
	out, err := prefixes(list)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRenderGolden(t *testing.T) {
	for name, c := range map[string]struct {
		cidrs string
		mtu   int
	}{
		"ipv4.conflist": {"10.244.1.0/24", 1500},
		"ipv6.conflist": {"fd00:10:244:1::/64", 0},
		"dual.conflist": {"10.244.1.0/24,fd00:10:244:1::/64", 1450},
	} {
		want, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := render(mustPrefixes(t, c.cidrs), c.mtu)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestInstall(t *testing.T) {
	const (
		own   = `{"cniVersion":"1.1.0","name":"podnet","plugins":[{"type":"ptp","mtu":1400},{"type":"portmap"}]}`
		other = `{"cniVersion":"1.1.0","name":"podnet","plugins":[{"type":"ptp","mtu":1500},{"type":"portmap"}]}`
		// What an installer makes of it, that writes in its own way.
		chained = `{"plugins":[{"mtu":1400,"type":"ptp"},{"type":"portmap"},{"type":"vendor","n":1}],"name":"podnet","cniVersion":"1.1.0","disableCheck":true}`
		renewed = `{"cniVersion":"1.1.0","disableCheck":true,"name":"podnet","plugins":[{"mtu":1500,"type":"ptp"},{"type":"portmap"},{"n":1,"type":"vendor"}]}`
	)
	for name, c := range map[string]struct {
		there, own, want string
		wrote            bool
	}{
		"none":                            {"", own, own, true},
		"the same":                        {own, own, own, false},
		"another":                         {other, own, own, true},
		"somebody has chained a plugin":   {chained, own, chained, false},
		"chained, and ours is another":    {chained, other, renewed, true},
		"another's altogether":            {`{"plugins":[{"type":"bridge"},{"type":"vendor"},{"type":"x"}]}`, own, own, true},
		"somebody has taken a plugin out": {`{"cniVersion":"1.1.0","name":"podnet","plugins":[{"type":"ptp","mtu":1400}]}`, own, own, true},
		"no list":                         {"[]", own, own, true},
		"half of one":                     {own[:20], own, own, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, conflistName)
			if c.there != "" {
				if err := os.WriteFile(path, []byte(c.there), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			wrote, err := install(dir, []byte(c.own))
			if err != nil || wrote != c.wrote {
				t.Errorf("wrote %v, %v", wrote, err)
			}
			got, err := os.ReadFile(path)
			var flat bytes.Buffer
			if err != nil || json.Compact(&flat, got) != nil || flat.String() != c.want {
				t.Errorf("it is %s, %v, want %s", got, err, c.want)
			}
			if wrote, err := install(dir, []byte(c.own)); wrote || err != nil {
				t.Errorf("it wrote again, %v", err)
			}
			if left, _ := os.ReadDir(dir); len(left) != 1 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func node(name string, podCIDRs []string, addresses ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: podCIDRs}}
	n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: name})
	for _, a := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	return n
}

func TestRoutesFor(t *testing.T) {
	dual := func(subnets ...string) []string { return subnets }
	for name, c := range map[string]struct {
		nodes   []*corev1.Node
		subnets string
		want    []string
	}{
		"one family": {
			nodes:   []*corev1.Node{node("self", dual("10.244.0.0/24"), "172.18.0.2"), node("other", dual("10.244.1.0/24"), "172.18.0.3")},
			subnets: "10.244.0.0/16",
			want:    []string{"10.244.0.0/16 unreachable", "10.244.1.0/24 via 172.18.0.3"},
		},
		"two families": {
			nodes: []*corev1.Node{
				node("self", dual("10.244.0.0/24", "fd00:10:244::/64"), "172.18.0.2", "fc00::2"),
				node("other", dual("10.244.1.0/24", "fd00:10:244:1::/64"), "172.18.0.3", "fc00::3"),
			},
			subnets: "10.244.0.0/16,fd00:10:244::/56",
			want: []string{
				"10.244.0.0/16 unreachable", "fd00:10:244::/56 unreachable",
				"10.244.1.0/24 via 172.18.0.3", "fd00:10:244:1::/64 via fc00::3",
			},
		},
		"a node without subnet, one without address, one without that family": {
			nodes: []*corev1.Node{
				node("new", nil, "172.18.0.4"), node("nowhere", dual("10.244.2.0/24")),
				node("old", dual("10.244.3.0/24", "fd00:10:244:3::/64"), "172.18.0.5"),
			},
			subnets: "10.244.0.0/16",
			want:    []string{"10.244.0.0/16 unreachable", "10.244.3.0/24 via 172.18.0.5"},
		},
		"own subnet outside the cluster's, or that one unknown": {
			nodes: []*corev1.Node{node("self", dual("10.1.0.0/24"), "172.18.0.2")},
			want:  []string{"10.1.0.0/24 unreachable"},
		},
	} {
		got, err := routesFor("self", c.nodes, mustPrefixes(t, c.subnets))
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, r := range got {
			if r.via.IsValid() {
				lines = append(lines, r.dst.String()+" via "+r.via.String())
			} else {
				lines = append(lines, r.dst.String()+" unreachable")
			}
		}
		if !slices.Equal(lines, c.want) {
			t.Errorf("%s: %v, want %v", name, lines, c.want)
		}
	}
	if _, err := routesFor("self", []*corev1.Node{node("other", []string{"nonsense"}, "172.18.0.3")}, nil); err == nil {
		t.Error("a subnet that is none was taken")
	}
}

// What the kernel gives back for a wish is that wish: otherwise each round would set
// all routes again.
func TestKernelForm(t *testing.T) {
	for _, r := range []route{
		{dst: netip.MustParsePrefix("10.244.0.0/16")},
		{dst: netip.MustParsePrefix("10.244.1.0/24"), via: netip.MustParseAddr("172.18.0.3")},
		{dst: netip.MustParsePrefix("fd00:10:244::/56")},
		{dst: netip.MustParsePrefix("fd00:10:244:1::/64"), via: netip.MustParseAddr("fc00::3")},
	} {
		if got := fromKernel(*toKernel(r)); got != r {
			t.Errorf("%v came back as %v", r, got)
		}
	}
}

func TestServicesProgrammed(t *testing.T) {
	v4, both := mustPrefixes(t, "10.244.1.0/24"), mustPrefixes(t, "10.244.1.0/24,fd00::/64")
	for _, c := range []struct {
		says  string
		cidrs []netip.Prefix
		want  bool
	}{
		{`{"lastUpdated":"2026-01-01T00:00:00Z","status":{}}`, v4, false},
		{`{"status":{"IPv4":{"healthy":true}}}`, v4, true},
		{`{"status":{"IPv4":{"healthy":true}}}`, both, false},
		{`{"status":{"IPv4":{"healthy":false},"IPv6":{"healthy":true}}}`, both, true},
		{`nonsense`, v4, false},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, c.says)
		}))
		err := servicesProgrammed(t.Context(), server.Client(), server.URL, c.cidrs)
		server.Close()
		if (err == nil) != c.want {
			t.Errorf("%s for %v: %v", c.says, c.cidrs, err)
		}
	}
}
