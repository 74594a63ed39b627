// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bufio"
	"context"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/lastcall-dev/lastcall/suites"
)

// scoped are the kinds of objects that a run makes and that live in no namespace.
var scoped = []schema.GroupVersionResource{
	{Version: "v1", Resource: "namespaces"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"},
	{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
}

// standing are the names of such objects, by their kinds.
func standing(ctx context.Context, cs metadata.Interface) (map[string][]string, error) {
	all := map[string][]string{}
	for _, kind := range scoped {
		list, err := cs.Resource(kind).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, o := range list.Items {
			all[kind.Resource] = append(all[kind.Resource], o.Name)
		}
		slices.Sort(all[kind.Resource])
	}
	return all, nil
}

// A run that was killed in the middle of a recording, in a mesh with webhook, controller, plugin, agents and node proxies, leaves nothing
// behind a cleanup: no object that lives in no namespace, and the nodes as they were.
func TestKilledRunner(t *testing.T) {
	needsCluster(t)
	ctx := t.Context()
	cs, err := metadata.NewForConfig(provider.KubernetesRestConfig())
	if err != nil {
		t.Fatal(err)
	}
	nodesBefore, err := listed(ctx)
	if err != nil {
		t.Fatal(err)
	}
	before, err := standing(ctx, cs)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "lastcall")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/lastcall")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	kubeconfig := provider.GetKubeconfig()
	if err := provider.Release(); err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(ctx, program, "run", "--stage", "kind", "--name", cluster, "--nodes", strconv.Itoa(nodes), "--keep",
		"--system", "systems/reference-node-proxy.yaml", "--behaviours", "node.pod-ends", "--out", t.TempDir())
	run.Dir = "../.."
	said, says := io.Pipe()
	run.Stdout, run.Stderr = says, says
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- run.Wait()
		_ = says.Close()
	}()
	var lines []string
	killed := false
	for text := bufio.NewScanner(said); text.Scan(); {
		lines = append(lines, text.Text())
		if !killed && strings.Contains(text.Text(), "recording the baseline") {
			during, err := standing(ctx, cs)
			if added := cmp.Diff(before, during); err != nil || !strings.Contains(added, "lastcall") {
				t.Errorf("a recording is under way, and nothing of it is seen (%v): %s", err, added)
			}
			if killed = true; run.Process.Kill() != nil {
				t.Error("it had ended")
			}
		}
	}
	if err := <-ended; !killed || err == nil {
		t.Fatalf("it ended by itself (%v):\n%s", err, strings.Join(lines, "\n"))
	}
	// The other tests go on with the cluster.
	if _, err := provider.Create(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := suites.CleanupIn(ctx, kubeconfig); err != nil {
		t.Fatal(err)
	}
	restored(t, 2*time.Minute, before, func(ctx context.Context) (map[string][]string, error) { return standing(ctx, cs) })
	restored(t, 2*time.Minute, nodesBefore, listed)
}
