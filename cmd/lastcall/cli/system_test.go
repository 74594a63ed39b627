// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

var update = flag.Bool("update", false, "write the golden files anew")

// said is what a `lastcall system` command writes.
func said(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := newSystem()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&bytes.Buffer{})
	cmd.SetArgs(args)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: run with -update", err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("not as in %s (-want +got); `go test ./cmd/lastcall/cli -run TestSystem -args -update` writes it anew\n%s", path, d)
	}
}

// What init writes is what a vendor reads first, and check says that it is
// valid as it stands.
func TestSystemInit(t *testing.T) {
	text, err := said(t, "init", "front-door")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/system-init.yaml", text)
	file := filepath.Join(t.TempDir(), "s.yaml")
	if out, err := said(t, "init", "front-door", "-o", file); err != nil || out != "" {
		t.Fatal(out, err)
	}
	got, err := said(t, "check", file)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/system-check.txt", strings.ReplaceAll(got, file, "s.yaml"))
	if _, err := said(t, "init", "-o", file); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("an existing file is never written over: %v", err)
	}
	if _, err := said(t, "init", "Front Door"); err == nil || !strings.Contains(err.Error(), "can't be a name") {
		t.Error(err)
	}
}

func TestSystemCheck(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	text, err := said(t, "init")
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{good: text, bad: strings.NewReplacer("roles: [gateway]", "roles: [gatway]", "signal: TERM", "signal: SIGTERM").Replace(text)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := said(t, "check", bad, good, filepath.Join(dir, "none.yaml"))
	if err == nil {
		t.Fatal("two of three are bad")
	}
	if !strings.HasPrefix(got, good+": my-proxy is my-proxy 1.0.0 by Example\n") {
		t.Errorf("the good one is told all the same: %s", got)
	}
	for _, want := range []string{bad + ":", `there is no role "gatway": write gateway`, `"SIGTERM" is called TERM here`, "no such file"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
}

// A sidecar is told by what it adds to the app's pods.
func TestSystemCheckOfASidecar(t *testing.T) {
	got, err := said(t, "check", "--render", "../../../systems/envoy-sidecar-native.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"  beside    the suite's own app, by manifests/envoy-sidecar.yaml, manifests/envoy-sidecar-config.yaml (native)\n", "\n--- manifests/envoy-sidecar.yaml\n", "restartPolicy: Always", "\n--- manifests/envoy-sidecar-config.yaml\n", "kind: ConfigMap"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// A known deviation that names no rule would excuse nothing: check and run tell its line, and
// start nothing.
func TestSystemCheckKnowsTheCatalogue(t *testing.T) {
	text, err := said(t, "init")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "s.yaml")
	text += "deviations:\n  - behaviour: pod.inflight-completes\n    reason: it ends at once\n    link: https://example.com/issues/1\n"
	line := strings.Count(text, "\n") + 1
	write := func(more string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text+more), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	got, err := said(t, "check", file)
	if want := "known     to break pod.inflight-completes: it ends at once (https://example.com/issues/1)"; err != nil || !strings.Contains(got, want) {
		t.Errorf("%v, no %q in\n%s", err, want, got)
	}
	for more, want := range map[string]string{
		"  - {behaviour: pod.inflight-complete, reason: so}\n":           `no behaviour is called "pod.inflight-complete": write pod.inflight-completes, or remove it`,
		"  - {behaviour: zzz, reason: so}\n":                             "use one that `lastcall list` shows, or remove it",
		"  - reason: so\n    behaviour: pod.abrupt-death\n":              "is a control of the suite",
		"  - {behaviour: pod.serving-while-able, reason: so, link: x}\n": "is no address of a page",
	} {
		write(more)
		at := line
		if strings.HasPrefix(more, "  - reason") {
			at++
		}
		want = fmt.Sprintf("%s:%d: deviations[1].", file, at) + "|" + want
		place, what, _ := strings.Cut(want, "|")
		if _, err := said(t, "check", file); err == nil || !strings.Contains(err.Error(), place) || !strings.Contains(err.Error(), what) {
			t.Errorf("check: no %s...%s in %v", place, what, err)
		}
		r := RunRequest{Stage: stageHost, P: time.Second, Profile: behaviour.CI, Dir: filepath.Join(t.TempDir(), "out")}
		err := r.check(t.Context(), func(string) bool { return false }, "", "", []string{file})
		if err == nil || !strings.Contains(err.Error(), place) || !strings.Contains(err.Error(), what) {
			t.Errorf("run: no %s...%s in %v", place, what, err)
		}
	}
}

// What is odd is told beside what the file says, and is no error.
func TestSystemCheckWarns(t *testing.T) {
	text, err := said(t, "init")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(text, "- sleep: 5s", "- sleep: 1s", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := newSystem()
	var out, warned bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&warned)
	cmd.SetArgs([]string{"check", file})
	if err := cmd.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), "is my-proxy") {
		t.Errorf("%v, %s", err, out.String())
	}
	if want := "lastcall: warning: " + file + ":"; !strings.HasPrefix(warned.String(), want) || !strings.Contains(warned.String(), "drain.minDrain") {
		t.Errorf("%q, want %q", warned.String(), want)
	}
}

func TestSystemSchema(t *testing.T) {
	got, err := said(t, "schema")
	if err != nil || !json.Valid([]byte(got)) {
		t.Errorf("%v\n%s", err, got)
	}
}

// An image is made of the program that the host stage starts, for who has one.
func TestSystemImage(t *testing.T) {
	dir := t.TempDir()
	text, err := said(t, "init")
	if err != nil {
		t.Fatal(err)
	}
	cluster := "\ncluster: {manifests: [pods.yaml], images: [example.com/my-proxy:1]}\n"
	pods := `{apiVersion: apps/v1, kind: Deployment, metadata: {name: my-proxy}, spec: {template: {spec: {containers: [{name: my-proxy}]}}}}`
	if err := os.WriteFile(filepath.Join(dir, "pods.yaml"), []byte(pods), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"no-cluster":  {text, "cluster.images"},
		"no-program":  {text + cluster, "my-proxy in the PATH"},
		"no-manifest": {text + strings.Replace(cluster, "pods", "none", 1), "none.yaml"},
	} {
		file := filepath.Join(dir, name+".yaml")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := said(t, "image", file); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
