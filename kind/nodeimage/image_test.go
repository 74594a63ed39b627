// SPDX-License-Identifier: Apache-2.0

package nodeimage

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// asKind does to the manifest what kind does before it applies it, as far as text goes
// (kind v0.33.0, pkg/cluster/internal/create/actions/installcni).
func asKind(t *testing.T, manifest, podSubnet string) string {
	t.Helper()
	for _, sentence := range []string{"would you kindly template this file", "would you kindly patch this file"} {
		if !strings.Contains(manifest, sentence) {
			t.Errorf("kind would not understand: no %q", sentence)
		}
	}
	tmpl, err := template.New("cni").Parse(manifest)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := tmpl.Execute(&out, &struct{ PodSubnet string }{podSubnet}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestDefaultCNI(t *testing.T) {
	manifests, err := renderManifests()
	if err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(asKind(t, manifests["default-cni.yaml"], "10.244.0.0/16,fd00:10:244::/56"), "\n---\n")
	if len(documents) != 4 {
		t.Fatalf("%d documents", len(documents))
	}
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict([]byte(documents[1]), &role); err != nil {
		t.Fatal(err)
	}
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}}}
	if diff := cmp.Diff(rules, role.Rules); diff != "" {
		t.Errorf("rights (-want +got):\n%s", diff)
	}
	var set appsv1.DaemonSet
	if err := yaml.UnmarshalStrict([]byte(documents[3]), &set); err != nil {
		t.Fatal(err)
	}
	pod := set.Spec.Template.Spec
	c := pod.Containers[0]
	if c.Image != podnetImage || c.ImagePullPolicy != "Never" {
		t.Errorf("image %s, pulled %s", c.Image, c.ImagePullPolicy)
	}
	if !pod.HostNetwork || len(pod.Tolerations) != 1 || pod.Tolerations[0].Operator != "Exists" || pod.Tolerations[0].Key != "" {
		t.Error("not on every node, in its network namespace")
	}
	if *c.SecurityContext.Privileged || len(c.SecurityContext.Capabilities.Add) != 1 || c.SecurityContext.Capabilities.Add[0] != "NET_ADMIN" {
		t.Errorf("security context %v", c.SecurityContext)
	}
	for _, e := range c.Env {
		if e.Name == "POD_SUBNET" && e.Value != "10.244.0.0/16,fd00:10:244::/56" {
			t.Errorf("POD_SUBNET %q", e.Value)
		}
	}
}

// kind fails where the storage manifest holds no object.
func TestDefaultStorageHasAnObject(t *testing.T) {
	manifests, err := renderManifests()
	if err != nil {
		t.Fatal(err)
	}
	var object struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal([]byte(manifests["default-storage.yaml"]), &object); err != nil || object.Kind != "StorageClass" {
		t.Errorf("%+v, %v", object, err)
	}
}

func TestContainerdConfig(t *testing.T) {
	const original = "version = 2\n  sandbox_image = \"registry.k8s.io/pause:3.10\"\n  # restrict_oom_score_adj needs to be true when\n  restrict_oom_score_adj = false\n"
	const want = "version = 2\n  sandbox_image = \"registry.k8s.io/pause:3.10.1\"\n  # restrict_oom_score_adj needs to be true when\n  restrict_oom_score_adj = true\n"
	got, err := containerdConfig(original, table[0])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := containerdConfig("version = 3\n", table[0]); err == nil {
		t.Error("a configuration without the two lines was taken")
	}
}

func TestBaseSpec(t *testing.T) {
	got, err := baseSpec(`{"ociVersion":"1.2.1","process":{"cwd":"/","rlimits":[{"type":"RLIMIT_NOFILE","hard":1024}]}}`)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"ociVersion": "1.2.1", "process": map[string]any{"cwd": "/"},
		"hooks": map[string]any{"createContainer": []any{map[string]any{"path": "/kind/bin/mount-product-files.sh"}}},
	}
	var have map[string]any
	if err := json.Unmarshal([]byte(got), &have); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, bad := range []string{"", "{}", `{"process":1}`} {
		if _, err := baseSpec(bad); err == nil {
			t.Errorf("%q was taken for a spec", bad)
		}
	}
}

func TestThrowawayModule(t *testing.T) {
	upstream, err := modfile.Parse("go.mod", []byte(`module k8s.io/kubernetes
go 1.24.0
godebug default=go1.24
require (
	github.com/x/y v0.0.0
	k8s.io/api v0.0.0
	k8s.io/klog/v2 v2.130.1
)
replace k8s.io/api => ./staging/src/k8s.io/api
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	p := program{name: "kubernetes", require: []module.Version{{Path: "k8s.io/kubernetes", Version: "v1.34.4"}}}
	got, err := throwaway(p, upstream)
	if err != nil {
		t.Fatal(err)
	}
	const want = `module lastcall.dev/nodeimage/kubernetes

go 1.24.0

godebug default=go1.24

require k8s.io/kubernetes v1.34.4

replace k8s.io/api => k8s.io/api v0.34.4
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestComponentArchive(t *testing.T) {
	dir := t.TempDir()
	c := component{reference: "example.test/x:1", entrypoint: []string{"/x"}, fill: func(t *tarball) error {
		t.text("a/b/x", 0o755, "content")
		t.link("y", "a/b/x")
		return nil
	}}
	var archives [2][]byte
	for i := range archives {
		path := filepath.Join(dir, "image.tar")
		if err := c.archive(path, "amd64"); err != nil {
			t.Fatal(err)
		}
		var err error
		if archives[i], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("the same image twice gives two archives")
	}
	names := map[string]string{}
	for r := tar.NewReader(bytes.NewReader(archives[0])); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		names[h.Name] = string(content)
	}
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal([]byte(names["manifest.json"]), &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest) != 1 || manifest[0].RepoTags[0] != c.reference || names[manifest[0].Config] == "" || names[manifest[0].Layers[0]] == "" {
		t.Errorf("manifest %+v over %d files", manifest, len(names))
	}
}

// Parents come before what is in them, once.
func TestTarballParents(t *testing.T) {
	var out bytes.Buffer
	w := newTarball(&out)
	w.text("/a/b/c", 0o644, "")
	w.text("a/b/d", 0o644, "")
	w.directory("e", 0o1777)
	w.text("e/f", 0o644, "")
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(&out); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		names = append(names, h.Name)
	}
	if diff := cmp.Diff([]string{"a/", "a/b/", "a/b/c", "a/b/d", "e/", "e/f"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The kubelet writes the same setting in the same words.
func TestLogind(t *testing.T) {
	if got := logind(); got != "[Login]\nInhibitDelayMaxSec=40\n" {
		t.Errorf("%q", got)
	}
}
