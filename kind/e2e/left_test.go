// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/e2e-framework/klient/wait"
	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/lastcall-dev/lastcall/fixtures/deploy"
	"github.com/lastcall-dev/lastcall/kind/docker"
	"github.com/lastcall-dev/lastcall/suites"
)

// kept are the commands that list what a run could leave on a node. Of interfaces and namespaces of pods their number
// is told, and of the service network's own rules nothing: these change by themselves. Nor of the chains that the portmap
// plugin makes at a node's first hostPort, and leaves.
var kept = []string{
	`cd /etc/cni/net.d && ls -A | xargs md5sum`,
	`ls -A /opt/cni/bin`,
	`ls -d /run/*lastcall* /var/lib/*lastcall* 2>/dev/null`,
	`ls /run/netns | wc -l`,
	`find /run/cni-ipam-state -type f ! -name 'last_reserved_ip*' ! -name lock | xargs -r -n 1 dirname | sort | uniq -c`,
	`ip -o link | awk '{print $2}' | sed 's/veth.*/veth/' | sort | uniq -c`,
	`ip -4 route | sed 's/veth[^ ]*/veth/' | sort`,
	`ip -6 route | sed 's/veth[^ ]*/veth/' | sort`,
	`ip -4 rule; ip -6 rule`,
	`tc qdisc | sed 's/veth[^ ]*/veth/' | sort | uniq -c`,
	`nft list tables | sort`,
	`(iptables-save; ip6tables-save) 2>/dev/null | sed 's/\[.*\]//' | grep -v '^#\|KUBE-\|CNI-HOSTPORT' | sort`,
	`ss -Hlntu | awk '{print $1, $5}' | sort`,
	`ps -eo comm= | grep -E 'mesh|agent|lastcall|cni' | sort | uniq -c`,
}

// listed is what is kept on each node: by node and command.
func listed(ctx context.Context) (map[string][]string, error) {
	all := map[string][]string{}
	for _, n := range provider.Cluster().Nodes() {
		for _, command := range kept {
			out, err := docker.Output(ctx, "exec", "--privileged", n.Name, "sh", "-c", command+" || true")
			if err != nil {
				return nil, err
			}
			all[n.Name+": "+command] = strings.Split(out, "\n")
		}
	}
	return all, nil
}

// After a cleanup nodes are as they were, even where the CNI plugin's installers were killed before they had taken it
// away: they are stopped here, and have no use of the time that they are given to end.
func TestNothingLeft(t *testing.T) {
	needsCluster(t)
	ctx := t.Context()
	cs, err := kubernetes.NewForConfig(provider.KubernetesRestConfig())
	if err != nil {
		t.Fatal(err)
	}
	before, err := listed(ctx)
	if err != nil {
		t.Fatal(err)
	}
	run := envconf.RandomName("left", 10)
	scope := deploy.Scope{Run: run, Namespace: "lastcall-" + run, Image: image.Ref, KindName: provider.Cluster().Network()}
	if err := scope.Open(ctx, cs, deploy.Privileged); err != nil {
		t.Fatal(err)
	}
	set := scope.PluginInstaller(deploy.LedgerRoot + "/" + run)
	if err := deploy.Create(ctx, cs, set); err != nil {
		t.Fatal(err)
	}
	if _, err := scope.DaemonsReady(ctx, cs, set.Name, deploy.PluginName, nodes, time.Minute); err != nil {
		t.Fatal(err)
	}
	for _, n := range provider.Cluster().Nodes() {
		if _, err := docker.Output(ctx, "exec", n.Name, "pkill", "-STOP", "-f", "install-plugin"); err != nil {
			t.Fatal(err)
		}
	}
	if during, err := listed(ctx); err != nil || cmp.Equal(before, during) {
		t.Errorf("the plugin is installed, and nothing of it is seen on any node (%v)", err)
	}
	removed, err := suites.CleanupIn(ctx, provider.GetKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range provider.Cluster().Nodes() {
		for _, what := range []string{"/etc/cni/net.d/05-lastcall.conflist", "/opt/cni/bin/lastcall-mesh", deploy.RunRoot} {
			if !slices.Contains(removed, what+" of node "+n.Name) {
				t.Errorf("it did not remove %s of node %s, which was there; it removed %q", what, n.Name, removed)
			}
		}
	}
	restored(t, time.Minute, before, listed)
}

// restored waits until what a look finds is what there was before.
func restored(t *testing.T, within time.Duration, before map[string][]string, look func(context.Context) (map[string][]string, error)) {
	t.Helper()
	var differs string
	same := func(ctx context.Context) (bool, error) {
		after, err := look(ctx)
		if err == nil {
			differs = cmp.Diff(before, after)
		}
		return err == nil && differs == "", err
	}
	if err := wait.For(same, wait.WithContext(t.Context()), wait.WithTimeout(within), wait.WithInterval(time.Second), wait.WithImmediate()); err != nil {
		t.Errorf("it is not as it was (-before +after): %v\n%s", err, differs)
	}
}
