// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bufio"
	"context"
	"io"
	"os"
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

// state is what there is of a cluster that a run could leave something of: objects in no namespace, and its nodes.
type state struct{ objects, nodes map[string][]string }

// running is a run of the CLI's on the cluster, which is given to it for that time, and given back by whoever waits for it.
type running struct {
	t      *testing.T
	cs     metadata.Interface
	cmd    *exec.Cmd
	said   io.Reader
	ended  chan error
	before state
	out    string
}

// begin begins one of some behaviours, whose pods node proxies serve.
func begin(t *testing.T, behaviours string) *running {
	t.Helper()
	ctx := t.Context()
	r := &running{t: t, ended: make(chan error, 1), out: t.TempDir()}
	var err error
	if r.cs, err = metadata.NewForConfig(provider.KubernetesRestConfig()); err != nil {
		t.Fatal(err)
	}
	if r.before.nodes, err = listed(ctx); err != nil {
		t.Fatal(err)
	}
	if r.before.objects, err = standing(ctx, r.cs); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "lastcall")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/lastcall")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := provider.Release(); err != nil {
		t.Fatal(err)
	}
	r.cmd = exec.CommandContext(ctx, program, "run", "--stage", "kind", "--name", cluster, "--nodes", strconv.Itoa(nodes), "--keep",
		"--system", "systems/reference-node-proxy.yaml", "--behaviours", behaviours, "--out", r.out)
	r.cmd.Dir = "../.."
	said, says := io.Pipe()
	r.said, r.cmd.Stdout, r.cmd.Stderr = said, says, says
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		r.ended <- r.cmd.Wait()
		_ = says.Close()
	}()
	return r
}

// wait reads what the run says, each line of which it passes on, until it has ended, and takes the cluster back. It returns all
// that the run said, and how it ended.
func (r *running) wait(each func(line string)) (said string, err error) {
	r.t.Helper()
	var lines []string
	for text := bufio.NewScanner(r.said); text.Scan(); {
		lines = append(lines, text.Text())
		each(text.Text())
	}
	err = <-r.ended
	// The other tests go on with the cluster.
	if _, taken := provider.Create(r.t.Context()); taken != nil {
		r.t.Fatal(taken)
	}
	return strings.Join(lines, "\n"), err
}

// seen looks for what the run adds to the cluster while it goes on.
func (r *running) seen() {
	r.t.Helper()
	during, err := standing(r.t.Context(), r.cs)
	if added := cmp.Diff(r.before.objects, during); err != nil || !strings.Contains(added, "lastcall") {
		r.t.Errorf("a recording is under way, and nothing of it is seen (%v): %s", err, added)
	}
}

// leftNothing waits until the cluster is as it was.
func (r *running) leftNothing() {
	r.t.Helper()
	restored(r.t, 2*time.Minute, r.before.objects, func(ctx context.Context) (map[string][]string, error) { return standing(ctx, r.cs) })
	restored(r.t, 2*time.Minute, r.before.nodes, listed)
}

// A run that was killed in the middle of a roll-out of node proxies, in a mesh with webhook, controller, plugin and agents, leaves nothing
// behind a cleanup: no object that lives in no namespace, and the nodes as they were.
func TestKilledRunner(t *testing.T) {
	needsCluster(t)
	kubeconfig := provider.GetKubeconfig()
	r := begin(t, "node.proxy-ends")
	killed := false
	said, err := r.wait(func(line string) {
		if !killed && strings.Contains(line, "replace the node proxies") {
			r.seen()
			if killed = true; r.cmd.Process.Kill() != nil {
				t.Error("it had ended")
			}
		}
	})
	if !killed || err == nil {
		t.Fatalf("it ended by itself (%v):\n%s", err, said)
	}
	if _, err := suites.CleanupIn(t.Context(), kubeconfig); err != nil {
		t.Fatal(err)
	}
	r.leftNothing()
}

// So does one that ends by itself, on a cluster that stays, without any cleanup.
func TestEndedRunner(t *testing.T) {
	needsCluster(t)
	r := begin(t, "node.pod-ends")
	looked := false
	said, err := r.wait(func(line string) {
		if !looked && strings.Contains(line, "recording the baseline") {
			looked = true
			r.seen()
		}
	})
	if _, none := os.Stat(filepath.Join(r.out, "report.yaml")); none != nil || !looked {
		t.Fatalf("it made no report (%v, %v), or no recording:\n%s", err, none, said)
	}
	r.leftNothing()
}
