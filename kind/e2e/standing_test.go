// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/e2e-framework/klient/wait"
	"sigs.k8s.io/e2e-framework/support"

	"github.com/lastcall-dev/lastcall/kind"
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
	if !provider.Made() {
		t.Error("the cluster is said to have stood before")
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

// A node that is stopped and started is Ready again, behind its part of the guard.
func TestNodeLifeCycle(t *testing.T) {
	needsCluster(t)
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
	worker := &support.Node{Name: provider.Cluster().Nodes()[1].Name}
	if err := provider.StopNode(ctx, worker); err != nil {
		t.Fatal(err)
	}
	if s := state(); s["worker"] != "exited" || s["control-plane"] != "running" {
		t.Errorf("the worker was stopped, and the nodes are %v", s)
	}
	if err := provider.StartNode(ctx, worker); err != nil {
		t.Fatal(err)
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
	if err := provider.StopNode(ctx, &support.Node{Name: "nobody"}); err == nil {
		t.Error("a node of nobody's was stopped")
	}
}
