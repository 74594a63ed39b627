// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/fixtures/deploy"
)

// apiServer answers for a cluster with two namespaces of ours, which go when they are deleted, and
// one of somebody else's. It has no pods.
type apiServer struct {
	forbids bool
	// stays has a namespace of ours not go; cordoned has node-2 be one that a run had cordoned.
	stays, cordoned bool

	mu   sync.Mutex
	left []string
	// deleted is what was deleted of the kinds that it does not know.
	deleted []string
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	answer := func(code int, v any) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(v)
	}
	type object map[string]any
	const namespaces = "/api/v1/namespaces"
	success := object{"kind": "Status", "apiVersion": "v1", "status": "Success"}
	switch {
	case a.forbids:
		answer(http.StatusForbidden, object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "message": "not you", "code": 403})
	case r.Method == http.MethodGet && r.URL.Path == namespaces:
		items := []object{}
		for _, name := range a.left {
			items = append(items, object{"metadata": object{"name": name}})
		}
		if r.URL.Query().Get("labelSelector") != deploy.RunLabel {
			items = append(items, object{"metadata": object{"name": "somebodys"}})
		}
		answer(http.StatusOK, object{"kind": "NamespaceList", "apiVersion": "v1", "items": items})
	case r.Method == http.MethodGet && r.URL.Path == "/api/v1/nodes":
		node := func(name string, notes object) object {
			return object{"metadata": object{"name": name, "annotations": notes}}
		}
		notes := object{}
		if a.cordoned {
			notes["lastcall.dev/cordoned"] = "lastcall-r1"
		}
		answer(http.StatusOK, object{"kind": "NodeList", "apiVersion": "v1", "items": []object{node("node-1", nil), node("node-2", notes)}})
	case r.Method == http.MethodPatch && r.URL.Path == "/api/v1/nodes/node-2":
		a.cordoned = false
		answer(http.StatusOK, object{"kind": "Node", "apiVersion": "v1", "metadata": object{"name": "node-2"}})
	case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/pods"):
		answer(http.StatusOK, object{"kind": "PodList", "apiVersion": "v1", "items": []object{}})
	case r.Method == http.MethodDelete && strings.Count(r.URL.Path, "/") == strings.Count(namespaces, "/")+1:
		name := strings.TrimPrefix(r.URL.Path, namespaces+"/")
		a.left = slices.DeleteFunc(a.left, func(one string) bool { return one == name && !a.stays })
		a.deleted = append(a.deleted, name)
		answer(http.StatusOK, success)
	case r.Method == http.MethodDelete:
		answer(http.StatusOK, success)
	default:
		answer(http.StatusNotFound, object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404})
	}
}

// kubeconfigOf is the file that leads to it.
func kubeconfigOf(t *testing.T, url string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "` + url + `"}}]
users: [{name: u, user: {}}]
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// execs are the commands that nodes were given.
type execs struct {
	says  map[string]string // by node
	fails error

	mu  sync.Mutex
	all []string
}

// Exec implements disrupt.NodeShell.
func (e *execs) Exec(_ context.Context, node string, argv ...string) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, node+": "+strings.Join(argv, " "))
	return e.says[node], e.fails
}

// What runs left behind is removed and told of, and nothing else is touched.
func TestCleanup(t *testing.T) {
	api := &apiServer{left: []string{"lastcall-r1", "lastcall-r2"}, cordoned: true}
	server := httptest.NewServer(api)
	defer server.Close()
	did := &execs{says: map[string]string{"node-1": `removed '/etc/cni/net.d/05-lastcall.conflist'
removed '/run/lastcall/mesh/lastcall-r1/agent.sock'
removed directory '/run/lastcall/mesh/lastcall-r1'
removed directory '/run/lastcall/mesh'
removed directory '/run/lastcall'
`}}
	got, err := Cleanup(t.Context(), kubeconfigOf(t, server.URL), did)
	want := []string{
		"cordon of node node-2", "namespace lastcall-r1", "namespace lastcall-r2",
		"/etc/cni/net.d/05-lastcall.conflist of node node-1", "/run/lastcall of node node-1",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	slices.Sort(api.deleted)
	if want := []string{"lastcall-r1", "lastcall-r2"}; !slices.Equal(api.deleted, want) || len(api.left) > 0 {
		t.Errorf("deleted %v, want %v", api.deleted, want)
	}
	slices.Sort(did.all)
	// The list of the CNI plugin goes before the program that it names.
	const rm = ": rm -rfv /etc/cni/net.d/05-lastcall.conflist /etc/cni/net.d/.05-lastcall.conflist.new " +
		"/opt/cni/bin/lastcall-mesh /opt/cni/bin/.lastcall-mesh.new /var/lib/lastcall /run/lastcall"
	if want := []string{"node-1" + rm, "node-2" + rm}; !slices.Equal(did.all, want) {
		t.Errorf("did %q on the nodes, want %q", did.all, want)
	}
	did.fails = errors.New("no engine")
	if _, err := Cleanup(t.Context(), kubeconfigOf(t, server.URL), did); err == nil || !strings.Contains(err.Error(), "left on node node-2: no engine") {
		t.Errorf("of a node that can't be asked: %v", err)
	}
	// A second time there is nothing.
	if got, err := Cleanup(t.Context(), kubeconfigOf(t, server.URL), nil); err != nil || len(got) > 0 {
		t.Errorf("%v, %v", got, err)
	}
}

// As long as pods of ours may be there, nothing is taken away below them.
func TestCleanupOfPodsThatStay(t *testing.T) {
	server := httptest.NewServer(&apiServer{left: []string{"lastcall-r1"}, stays: true})
	defer server.Close()
	did := &execs{}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := Cleanup(ctx, kubeconfigOf(t, server.URL), did); err == nil || len(did.all) > 0 {
		t.Errorf("%v; did %q on the nodes while pods are left", err, did.all)
	}
}

// Who may not look says so, and claims to have removed nothing.
func TestCleanupOfWhatCantBeSeen(t *testing.T) {
	server := httptest.NewServer(&apiServer{forbids: true})
	defer server.Close()
	for says, kubeconfig := range map[string]string{
		"kubeconfig":             filepath.Join(t.TempDir(), "missing"),
		"the namespaces of runs": kubeconfigOf(t, server.URL),
	} {
		if got, err := Cleanup(t.Context(), kubeconfig, nil); err == nil || !strings.Contains(err.Error(), says) || len(got) > 0 {
			t.Errorf("%s: %v, %v", says, got, err)
		}
	}
}
