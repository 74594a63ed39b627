// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/e2e-framework/klient/wait"
	"sigs.k8s.io/e2e-framework/support"

	"github.com/lastcall-dev/lastcall/kind"
	"github.com/lastcall-dev/lastcall/kind/docker"
)

// A cluster that stands is nobody else's while somebody holds it, and never one that was
// not asked for.
func TestStandingCluster(t *testing.T) {
	needsCluster(t)
	for want, p := range map[string]support.E2EClusterProvider{
		"a run uses it":                  kind.ProviderFor(kind.Config{Name: cluster}),
		"stands and has 2 nodes, not 3":  kind.ProviderFor(kind.Config{Name: cluster, Nodes: 3}),
		"stands and runs Kubernetes 1.3": kind.ProviderFor(kind.Config{Name: cluster, Kubernetes: "1.20"}),
		"exists: take another name":      kind.ProviderFor(kind.Config{Name: cluster}).WithOpts(kind.WithNew()),
	} {
		if file, err := p.Create(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("kubeconfig %q, error %v, want %q", file, err, want)
		}
	}
	if err := provider.Release(); err != nil {
		t.Fatal(err)
	}
	second := kind.ProviderFor(kind.Config{Name: cluster, Nodes: nodes})
	file, err := second.Create(t.Context())
	if err != nil || second.Made() || second.Cluster() == nil || second.GetKubeconfig() != file {
		t.Errorf("given back, and then: kubeconfig %q, made %t, %v", file, second.Made(), err)
	}
	if err := second.Release(); err != nil {
		t.Error(err)
	}
	// The other tests go on with it.
	if _, err := provider.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A node that is favoured has a larger share of the CPU than the others, whichever was favoured before.
func TestFavour(t *testing.T) {
	needsCluster(t)
	ctx := t.Context()
	all := provider.Cluster().Nodes()
	// What the kernel goes by: cgroup v1 says shares (1024 by default), v2 a weight (100).
	share := func(node string) int {
		t.Helper()
		said, err := docker.Output(ctx, "exec", node, "sh", "-c", "cat /sys/fs/cgroup/cpu/cpu.shares 2>/dev/null || cat /sys/fs/cgroup/cpu.weight")
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(strings.TrimSpace(said))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	other, favoured := all[0].Name, all[1].Name
	for _, node := range []string{other, favoured} {
		if err := provider.Cluster().Favour(ctx, node); err != nil {
			t.Fatal(err)
		}
	}
	if has, others := share(favoured), share(other); has < 2*others {
		t.Errorf("the favoured node has a share of %d, and another one %d", has, others)
	}
	if err := provider.Cluster().Favour(ctx, "nobody"); err == nil {
		t.Error("a node of nobody's was favoured")
	}
}

// A node that was stopped or killed is behind its part of the guard as soon as it is started, and Ready again.
func TestNodeLifeCycle(t *testing.T) {
	needsCluster(t)
	ctx := t.Context()
	worker := &support.Node{Name: provider.Cluster().Nodes()[1].Name}
	if lacks := unguarded(t, worker.Name); len(lacks) > 0 {
		t.Fatalf("node %s lacks %q before anything was done to it", worker.Name, lacks)
	}
	for _, way := range []struct {
		how string
		end func() error
	}{
		{"stopped", func() error { return provider.StopNode(ctx, worker) }},
		{"killed", func() error {
			_, err := docker.Output(ctx, "kill", worker.Name)
			return err
		}},
	} {
		t.Run(way.how, func(t *testing.T) { endAndStart(t, worker, way.end) })
	}
	if err := provider.StopNode(ctx, &support.Node{Name: "nobody"}); err == nil {
		t.Error("a node of nobody's was stopped")
	}
}

func endAndStart(t *testing.T, worker *support.Node, end func() error) {
	ctx := t.Context()
	state := func() map[string]string {
		list, err := provider.ListNode(ctx)
		if err != nil {
			t.Fatal(err)
		}
		states := map[string]string{}
		for _, n := range list {
			states[n.Role] = n.State
		}
		return states
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if s := state(); s["worker"] != "exited" || s["control-plane"] != "running" {
		t.Errorf("the worker was ended, and the nodes are %v", s)
	}
	// The engine's own start brings nothing back, so that what is there after the provider's is its doing. Meanwhile
	// the host's rule stands alone.
	if _, err := docker.Output(ctx, "start", worker.Name); err != nil {
		t.Fatal(err)
	}
	if lacks := unguarded(t, worker.Name); !slices.Contains(lacks, "table inet lastcall") {
		t.Errorf("started by the engine alone, the worker lacks %q only: the look at its guard sees nothing", lacks)
	}
	if err := provider.StartNode(ctx, worker); err != nil {
		t.Fatal(err)
	}
	if lacks := unguarded(t, worker.Name); len(lacks) > 0 {
		t.Errorf("the worker was started, and lacks %q", lacks)
	}
	var dead []netip.Addr
	for _, pods := range provider.Cluster().PodSubnets() {
		dead = append(dead, lastButOne(pods))
	}
	if proof, err := provider.Cluster().Guard().Prove(ctx, provider.Cluster().Image(), dead...); err != nil || len(proof.Dials) == 0 {
		t.Errorf("the host's part of the guard: %v, by %+v", err, proof.Dials)
	}
	var last error
	ready := func(ctx context.Context) (bool, error) {
		last = provider.WaitForControlPlane(ctx, testenv.EnvConf().Client())
		return last == nil, nil
	}
	if err := wait.For(ready, wait.WithContext(ctx), wait.WithTimeout(time.Minute), wait.WithInterval(time.Second)); err != nil {
		t.Errorf("after its start: %v: %v", err, last)
	}
	if s := state(); s["worker"] != "running" {
		t.Errorf("the worker was started, and the nodes are %v", s)
	}
}

// unguarded is what a node lacks of its part of the guard: what egress.Guard.Routes puts there.
func unguarded(t *testing.T, node string) []string {
	t.Helper()
	says := func(argv ...string) string {
		t.Helper()
		out, err := docker.Output(t.Context(), append([]string{"exec", "--privileged", node}, argv...)...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	has := func(out string, is func(line string) bool) bool {
		for line := range strings.Lines(out) {
			if is(line) {
				return true
			}
		}
		return false
	}
	var lacks []string
	var rules string
	const table = "table inet lastcall"
	if has(says("nft", "list", "tables"), func(line string) bool { return strings.TrimSpace(line) == table }) {
		rules = says("nft", "list", "table", "inet", "lastcall")
	} else {
		lacks = append(lacks, table)
	}
	limits := []string{"net.ipv4.icmp_ratelimit"}
	for _, pods := range provider.Cluster().PodSubnets() {
		family := "-4"
		if pods.Addr().Is6() {
			family, limits = "-6", append(limits, "net.ipv6.icmp.ratelimit")
		}
		if !has(says("ip", family, "route", "show"), func(line string) bool {
			words := strings.Fields(line)
			return len(words) > 1 && words[0] == "unreachable" && words[1] == pods.String()
		}) {
			lacks = append(lacks, "the unreachable route "+pods.String())
		}
		if !has(rules, func(line string) bool {
			return strings.Contains(line, "daddr "+pods.String()+" ") && strings.Contains(line, " reject ")
		}) {
			lacks = append(lacks, "the rule for "+pods.String())
		}
	}
	for _, limit := range limits {
		if value := says("sysctl", "-n", limit); value != "0" {
			lacks = append(lacks, limit+"=0, which is "+value)
		}
	}
	return lacks
}

// lastButOne is an address of a range of pods that none of them has: nodes get their shares from its begin.
func lastButOne(pods netip.Prefix) netip.Addr {
	bytes := pods.Masked().Addr().AsSlice()
	for bit := pods.Bits(); bit < 8*len(bytes)-1; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	address, _ := netip.AddrFromSlice(bytes)
	return address
}
