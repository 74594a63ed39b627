// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/reports/yaml"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// written writes a report with one verdict into a directory of its own.
func written(t *testing.T, v spec.Verdict) string {
	t.Helper()
	dir := t.TempDir()
	r := report(v)
	r.Metadata.Name = dir // no other run's
	took := v1alpha1.Duration(time.Second)
	at := func(d time.Duration) *v1alpha1.Instant { return &v1alpha1.Instant{At: v1alpha1.Duration(d)} }
	r.Scenarios = []v1alpha1.Scenario{{
		Name: "delete", Behaviours: []string{"pod.x"},
		Terminations: []v1alpha1.Termination{{Pod: "echo", UID: "u", Endpoint: at(time.Second), LastNew: at(2 * time.Second), Propagation: &took}},
	}}
	if _, err := yaml.WriteDir(dir, r); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestCompare(t *testing.T) {
	pass, fail, unsure := written(t, spec.Pass), written(t, spec.Fail), written(t, spec.Inconclusive)
	foreign := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(foreign, []byte("kind: Pod\napiVersion: v1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{[]string{pass, filepath.Join(pass, v1alpha1.File)}, 0, "SAME: 2 verdicts are the same", ""},
		{[]string{pass, fail}, 1, "WORSE: 2 verdicts differ of 2", "worse than in " + pass + ": pod.x, the run as a whole"},
		{[]string{fail, pass}, 0, "CHANGED: 2 verdicts differ of 2", ""},
		{[]string{"--same", pass, pass}, 0, "SAME: 2 verdicts are the same", ""},
		{[]string{"--same", fail, pass}, 1, "CHANGED", "--same: not the same verdict: pod.x"},
		{[]string{"--same", unsure, pass}, 1, "CHANGED", "--same: no behaviour has a verdict in two of these reports"},
		{[]string{"--same", fail, unsure, pass}, 1, "CHANGED", "--same: not the same verdict: pod.x"},
		{[]string{"-o", "markdown", pass, pass}, 0, "### Verdicts", ""},
		{[]string{"-o", "yaml", pass, pass}, 0, "kind: ReportComparison", ""},
		{[]string{"--propagation", pass, pass}, 0, "| kube-proxy |", ""},
		{[]string{"--propagation", "-o", "yaml", pass, pass}, 2, "", "--propagation writes markdown"},
		{[]string{"-o", "html", pass, pass}, 2, "", "it is text, markdown or yaml"},
		{[]string{pass}, 2, "", "name two reports or more"},
		{[]string{pass, foreign}, 2, "", foreign},
		{[]string{pass, "nowhere"}, 2, "", "nowhere"},
	} {
		got := lastcall(t, spec.Pass, append([]string{"report", "compare"}, tc.args...)...)
		if got.code != tc.code || !strings.Contains(got.stdout, tc.stdout) || !strings.Contains(got.stderr, tc.stderr) {
			t.Errorf("%v: exit %d, want %d\n%s\n%s", tc.args, got.code, tc.code, got.stdout, got.stderr)
		}
	}
	picture := filepath.Join(t.TempDir(), "p.png")
	if got := lastcall(t, spec.Pass, "report", "compare", "--picture", picture, pass, pass); got.code != 0 {
		t.Fatalf("exit %d\n%s", got.code, got.stderr)
	}
	b, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := png.Decode(bytes.NewReader(b)); err != nil {
		t.Error(err)
	}
}

func TestSum(t *testing.T) {
	pass, again := written(t, spec.Pass), written(t, spec.Pass)
	fail, unsure := written(t, spec.Fail), written(t, spec.Inconclusive)
	for _, tc := range []struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{[]string{pass, filepath.Join(again, v1alpha1.File)}, 0, "1 behaviour passed each time", ""},
		{[]string{pass, unsure, fail}, 1, "0 of 1 behaviour passed each time", ""},
		{[]string{pass, unsure}, 3, "What did not pass each time", ""},
		{[]string{"-o", "markdown", pass, again}, 0, "### Runs", ""},
		{[]string{"-o", "yaml", pass, again}, 0, "kind: ReportSeries", ""},
		{[]string{"-o", "html", pass, again}, 2, "", "it is text, markdown or yaml"},
		{[]string{pass, filepath.Join(pass, v1alpha1.File)}, 2, "", "are the same report"},
		{[]string{pass}, 2, "", "name two reports or more"},
		{[]string{pass, "nowhere"}, 2, "", "nowhere"},
	} {
		got := lastcall(t, spec.Pass, append([]string{"report", "sum"}, tc.args...)...)
		if got.code != tc.code || !strings.Contains(got.stdout, tc.stdout) || !strings.Contains(got.stderr, tc.stderr) {
			t.Errorf("%v: exit %d, want %d\n%s\n%s", tc.args, got.code, tc.code, got.stdout, got.stderr)
		}
	}
}

func TestShowMarkdown(t *testing.T) {
	dir := written(t, spec.Fail)
	if got := lastcall(t, spec.Pass, "report", "show", "-o", "markdown", dir); got.code != 1 || !strings.Contains(got.stdout, "| `pod.x` |") {
		t.Errorf("exit %d\n%s", got.code, got.stdout)
	}
	if got := lastcall(t, spec.Pass, "report", "show", "-o", "html", dir); got.code != 2 {
		t.Errorf("exit %d", got.code)
	}
}

// A statement is written of what failed too: what it says is no error. A report without
// profiles has nothing to state.
func TestStatement(t *testing.T) {
	old := written(t, spec.Fail)
	if got := lastcall(t, spec.Pass, "report", "statement", old); got.code != 2 || got.stdout != "" || !strings.Contains(got.stderr, old+": this report has no profiles") {
		t.Errorf("exit %d\n%s\n%s", got.code, got.stdout, got.stderr)
	}
	r := report(spec.Fail)
	for i := range r.Behaviours {
		r.Behaviours[i].Profile = spec.App
	}
	dir := t.TempDir()
	file, err := yaml.WriteDir(dir, r)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, file} {
		if got := lastcall(t, spec.Pass, "report", "statement", path); got.code != 0 || !strings.Contains(got.stdout, "**nonconformant**") || got.stderr != "" {
			t.Errorf("exit %d\n%s\n%s", got.code, got.stdout, got.stderr)
		}
	}
	if got := lastcall(t, spec.Pass, "report", "statement"); got.code != 2 {
		t.Errorf("exit %d", got.code)
	}
}

func TestShowTakesAPath(t *testing.T) {
	dir := written(t, spec.Fail)
	file := filepath.Join(dir, v1alpha1.File)
	copied := filepath.Join(t.TempDir(), "copied.yaml")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copied, b, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, rejudge := range map[string]string{dir: dir, file: dir, copied: ""} {
		got := lastcall(t, spec.Pass, "report", "show", path)
		if got.code != 1 || !strings.Contains(got.stdout, "pod.x") || got.stderr != "" {
			t.Errorf("%s: exit %d\n%s", path, got.code, got.stderr)
		}
		if has := strings.Contains(got.stdout, "report rejudge "+dir); has != (rejudge != "") {
			t.Errorf("%s: how to judge again: %t\n%s", path, has, got.stdout)
		}
	}
	if got := lastcall(t, spec.Pass, "report", "show", "nowhere"); got.code != 2 || !strings.Contains(got.stderr, "nowhere") {
		t.Errorf("exit %d\n%s", got.code, got.stderr)
	}
}
