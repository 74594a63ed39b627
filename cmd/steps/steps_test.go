// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/lastcall-dev/lastcall/kind"
	"github.com/lastcall-dev/lastcall/kind/nodeimage"
)

const root = "../.."

var pinned = regexp.MustCompile(`^[\w.-]+/[\w.-]+(/[\w./-]+)?@[0-9a-f]{40}$`)

// faultsOf lists what is wrong with the steps of an action or a job: what actionlint
// says of a workflow and not of an action, and what our rules say of both.
func faultsOf(steps []step, inputs map[string]input, composite bool) []string {
	var bad []string
	wrong := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	scripts := map[string]string{} // of the steps so far, by ID
	for _, st := range steps {
		if (st.Run == "") == (st.Uses == "") {
			wrong("%s: a step has either run or uses", st.title())
		}
		if strings.Contains(st.Run, "${{") {
			wrong("%s: an expression stands in a script: hand it over by env", st.title())
		}
		if composite && st.Run != "" && st.Shell != "bash" {
			wrong("%s: a script of an action names its shell", st.title())
		}
		if st.Uses != "" && !strings.HasPrefix(st.Uses, "./") && st.Uses != ownAction && !pinned.MatchString(st.Uses) {
			wrong("%s: %s is not pinned by its commit", st.title(), st.Uses)
		}
		if _, err := wanted(st.If, false); err != nil {
			wrong("%s: %v", st.title(), err)
		}
		for _, text := range texts(st) {
			bad = append(bad, unknown(text, inputs, scripts)...)
		}
		if st.ID != "" {
			scripts[st.ID] = st.Run
		}
	}
	return bad
}

// texts are all of a step's texts in which an expression may stand.
func texts(st step) []string {
	out := []string{st.WorkingDirectory}
	for _, m := range []map[string]scalar{st.Env, st.With} {
		for _, value := range m {
			out = append(out, string(value))
		}
	}
	slices.Sort(out)
	return out
}

// unknown lists the inputs and outputs that a text names and nobody declares.
func unknown(text string, inputs map[string]input, scripts map[string]string) []string {
	var bad []string
	for _, m := range expression.FindAllStringSubmatch(text, -1) {
		if in := inputName.FindStringSubmatch(m[1]); in != nil {
			if _, ok := inputs[in[1]]; !ok {
				bad = append(bad, fmt.Sprintf("no input %q is declared", in[1]))
			}
		}
		out := outputName.FindStringSubmatch(m[1])
		if out == nil {
			continue
		}
		script, ok := scripts[out[1]]
		switch {
		case !ok:
			bad = append(bad, fmt.Sprintf("no step before it is called %q", out[1]))
		case script != "" && !regexp.MustCompile(`\b`+out[2]+`=.*GITHUB_OUTPUT`).MatchString(script):
			bad = append(bad, fmt.Sprintf("step %q does not write %q", out[1], out[2]))
		}
	}
	return bad
}

// faultsOfAction lists what is wrong with a whole action.
func faultsOfAction(a action) []string {
	bad := faultsOf(a.Runs.Steps, a.Inputs, true)
	scripts, used := map[string]string{}, map[string]bool{}
	for _, st := range a.Runs.Steps {
		if st.ID != "" {
			scripts[st.ID] = st.Run
		}
		for _, text := range texts(st) {
			for _, m := range expression.FindAllStringSubmatch(text, -1) {
				if in := inputName.FindStringSubmatch(m[1]); in != nil {
					used[in[1]] = true
				}
			}
		}
	}
	for name, in := range a.Inputs {
		if !used[name] {
			bad = append(bad, fmt.Sprintf("nobody reads the input %q", name))
		}
		if in.Description == "" {
			bad = append(bad, fmt.Sprintf("the input %q has no description", name))
		}
	}
	for name, out := range a.Outputs {
		if !expression.MatchString(out.Value) {
			bad = append(bad, fmt.Sprintf("the output %q says nothing", name))
		}
		bad = append(bad, unknown(out.Value, a.Inputs, scripts)...)
	}
	return bad
}

func TestAction(t *testing.T) {
	a := ours(t)
	for _, bad := range faultsOfAction(a) {
		t.Error(bad)
	}
	if got := string(a.Inputs["k8s"].Default); got != kind.DefaultKubernetes {
		t.Errorf("its Kubernetes is %s, and ours %s", got, kind.DefaultKubernetes)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/actions.md"))
	if err != nil {
		t.Fatal(err)
	}
	for name := range a.Inputs {
		if !strings.Contains(string(page), "\n| `"+name+"` | ") {
			t.Errorf("docs/actions.md does not say what the input %s is", name)
		}
	}
}

func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, ".github/workflows/*.yml"))
	if err != nil || len(files) < 3 {
		t.Fatalf("workflows %v, %v", files, err)
	}
	for _, file := range files {
		w, err := read[workflow](file)
		if err != nil {
			t.Fatal(err)
		}
		inputs, err := w.inputs()
		if err != nil {
			t.Fatal(err)
		}
		for name, j := range w.Jobs {
			for _, bad := range faultsOf(j.Steps, inputs, false) {
				t.Errorf("%s, %s: %s", filepath.Base(file), name, bad)
			}
		}
	}
}

// The matrix runs each version that there is an image for, unless it is told which.
func TestMatrixOfAllVersions(t *testing.T) {
	w, err := read[workflow](filepath.Join(root, ".github/workflows/matrix.yml"))
	if err != nil {
		t.Fatal(err)
	}
	inputs, err := w.inputs()
	if err != nil {
		t.Fatal(err)
	}
	var versions []string
	if err := yaml.Unmarshal([]byte(inputs["k8s"].Default), &versions); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(versions, nodeimage.Supported()) {
		t.Errorf("it runs %v, there are %v", versions, nodeimage.Supported())
	}
}

func TestFaultsOfAction(t *testing.T) {
	const good = `
inputs: {stage: {description: where}}
outputs: {verdict: {value: "${{ steps.a.outputs.verdict }}"}}
runs:
  using: composite
  steps:
    - {id: a, shell: bash, env: {STAGE: "${{ inputs.stage }}"}, run: 'echo "verdict=$STAGE" >> "$GITHUB_OUTPUT"'}
    - {uses: actions/cache@27d5ce7f107fe9357f9df03efb73ab90386fccae, with: {path: "${{ steps.a.outputs.verdict }}"}}
`
	for _, test := range []struct{ name, from, to, want string }{
		{"good", "", "", ""},
		{"an input that is not declared", "inputs.stage }}", "inputs.stag }}", `no input "stag"`},
		{"an input that nobody reads", "{stage: {description: where}}", "{stage: {description: where}, k8s: {description: what}}", `nobody reads the input "k8s"`},
		{"an output of no step", "steps.a.outputs.verdict }}\"}}\nruns", "steps.b.outputs.verdict }}\"}}\nruns", `no step before it is called "b"`},
		{"an output that is not written", `verdict=$STAGE`, `verdit=$STAGE`, `step "a" does not write "verdict"`},
		{"an expression in a script", "$STAGE\" >>", "${{ inputs.stage }}\" >>", "an expression stands in a script"},
		{"no shell", "shell: bash, ", "", "names its shell"},
		{"a tag", "cache@27d5ce7f107fe9357f9df03efb73ab90386fccae", "cache@v5", "not pinned"},
		{"a condition", "{id: a,", "{id: a, if: \"inputs.stage == 'kind'\",", "is not known here"},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := strings.Replace(good, test.from, test.to, 1)
			if test.from != "" && text == good {
				t.Fatal("the test changes nothing")
			}
			var a action
			if err := yaml.UnmarshalStrict([]byte(text), &a); err != nil {
				t.Fatal(err)
			}
			bad := strings.Join(faultsOfAction(a), "\n")
			if test.want == "" && bad != "" || !strings.Contains(bad, test.want) {
				t.Errorf("%q, want %q", bad, test.want)
			}
		})
	}
}

func TestFill(t *testing.T) {
	s := &scope{
		inputs:  map[string]string{"stage": "host"},
		outputs: map[string]map[string]string{"a": {"verdict": "Pass"}},
		table:   map[string]string{"inputs.profile || 'ci'": "ci"},
		path:    "/there",
	}
	for text, want := range map[string]string{
		"plain":               "plain",
		"${{ inputs.stage }}": "host",
		"a ${{inputs.stage}}-${{ inputs.profile || 'ci' }} b": "a host-ci b",
		"${{ steps.a.outputs.verdict }}":                      "Pass",
		"${{ steps.a.outputs.none }}":                         "",
		"${{ github.action_path }}/go.mod":                    "/there/go.mod",
	} {
		if got, err := s.fill(text); err != nil || got != want {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"${{ github.sha }}", "${{ inputs.none }}", "${{ steps.b.outputs.x }}", "${{ inputs.stage == 'host' }}"} {
		if got, err := s.fill(text); err == nil {
			t.Errorf("%s: %q, want an error", text, got)
		}
	}
}

func TestVariables(t *testing.T) {
	file := filepath.Join(t.TempDir(), "output")
	for _, test := range []struct {
		text string
		want map[string]string // nil: an error
	}{
		{"", map[string]string{}},
		{"a=1\nb=x=y<<z\n", map[string]string{"a": "1", "b": "x=y<<z"}},
		{"a<<END\none=1\ntwo\nEND\nb=2\n", map[string]string{"a": "one=1\ntwo", "b": "2"}},
		{"a<<END\none\n", nil},
		{"a\n", nil},
	} {
		if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := variables(file)
		if (err == nil) != (test.want != nil) || test.want != nil && fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%q: %v, %v", test.text, got, err)
		}
	}
}

// Every target can be read, and what a workflow does not say is refused.
func TestTargetsLoad(t *testing.T) {
	for _, target := range targets() {
		steps, _, err := target.load(root)
		if err != nil || len(steps) == 0 {
			t.Errorf("%s: %d steps, %v", target.name, len(steps), err)
		}
		for _, name := range target.only {
			if !slices.ContainsFunc(steps, func(st step) bool { return st.Name == name && st.Run != "" }) {
				t.Errorf("%s: no script is called %q", target.name, name)
			}
		}
	}
	for _, bad := range []target{
		{file: ".github/workflows/matrix.yml", job: "none"},
		{file: ".github/workflows/matrix.yml", job: "compare", inputs: map[string]string{"none": ""}},
		{file: "README.md", job: "lastcall"},
	} {
		if _, _, err := bad.load(root); err == nil {
			t.Errorf("%v was read", bad)
		}
	}
}

// What a job is made of: outputs, conditions, a failure that the job goes on after.
func TestSteps(t *testing.T) {
	for _, test := range []struct {
		name, steps string
		failed      bool
		want, not   string // in the output
	}{
		{"an output", `[{id: a, run: 'echo "x=1" >> "$GITHUB_OUTPUT"'}, {env: {X: "${{ steps.a.outputs.x }}"}, run: 'echo "got $X"'}]`, false, "got 1", ""},
		{"the environment", `[{run: 'echo "X=1" >> "$GITHUB_ENV"; echo /some/where >> "$GITHUB_PATH"'}, {run: 'echo "got $X ${PATH%%:*}"'}]`, false, "got 1 /some/where", ""},
		{"a failure", `[{run: "false\necho after"}, {run: echo next}, {if: always(), run: echo last}]`, true, "last", "after"},
		{"a failure that is let pass", `[{run: exit 3, continue-on-error: true}, {run: echo next}]`, false, "next", ""},
		{"a pipe, without a shell named", `[{run: false | true}]`, false, "exit 0", ""},
		{"a pipe, in bash", `[{run: false | true, shell: bash}]`, true, "exit 1", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var steps []step
			if err := yaml.UnmarshalStrict([]byte(test.steps), &steps); err != nil {
				t.Fatal(err)
			}
			r, out := newRunner(t)
			failed, err := r.steps(t.Context(), steps, &scope{outputs: map[string]map[string]string{}})
			if err != nil {
				t.Fatal(err)
			}
			if failed != test.failed || !strings.Contains(out.String(), test.want) || test.not != "" && strings.Contains(out.String(), "\n"+test.not+"\n") {
				t.Errorf("failed: %t\n%s", failed, out)
			}
		})
	}
}

// The action's first step refuses what it should, in one line for each mistake, and
// before anything is built.
func TestInputsAreChecked(t *testing.T) {
	a := ours(t)
	check := a.Runs.Steps[:1]
	for _, test := range []struct{ input, value, want string }{
		{"stage", "host", ""},
		{"stage", "kind", ""},
		{"stage", "cluster", "::error::stage: cluster is not host or kind"},
		{"stage", "", "::error::stage: '' is not host or kind"},
		{"k8s", "1.37", ""},
		{"k8s", "1.37.2", ""},
		{"k8s", "latest", "::error::k8s: latest is not"},
		{"kube-proxy", "ipvs", ""},
		{"kube-proxy", "none", "::error::kube-proxy: none"},
		{"ip", "dual", ""},
		{"ip", "5", "::error::ip: 5"},
		{"labels", "core,area:pod", ""},
		{"labels", "core;rm -rf /", `::error::labels: core\;rm\ -rf\ / is not`},
		{"labels", "a\n::warning::b", `::error::labels: $'a\n::warning::b' is not`},
		{"profile", "full", ""},
		{"profile", "huge", "::error::profile: huge"},
		{"artifact", "lastcall-1.37", ""},
		{"artifact", "../../etc", "::error::artifact: ../../etc"},
		{"artifact", "", "::error::artifact: ''"},
		{"system", "there.yaml", ""},
		{"system", "none.yaml", "::error::system: there is no file none.yaml"},
	} {
		t.Run(test.input+" "+test.value, func(t *testing.T) {
			r, out := newRunner(t)
			if err := os.WriteFile(filepath.Join(r.workspace(), "there.yaml"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			s := &scope{inputs: map[string]string{}, outputs: map[string]map[string]string{}}
			for name, in := range a.Inputs {
				s.inputs[name] = string(in.Default)
			}
			s.inputs[test.input] = test.value
			failed, err := r.steps(t.Context(), check, s)
			if err != nil {
				t.Fatal(err)
			}
			errors := strings.Count(out.String(), "\n::")
			if test.want == "" && (failed || errors > 0) || test.want != "" && (!failed || errors != 1 || !strings.Contains(out.String(), test.want)) {
				t.Errorf("failed: %t, want %q\n%s", failed, test.want, out)
			}
			if got := s.outputs["inputs"]["report"]; test.want == "" && got != "lastcall-report/"+s.inputs["artifact"] {
				t.Errorf("the report is in %q", got)
			}
		})
	}
}

func ours(t *testing.T) action {
	t.Helper()
	a, err := read[action](filepath.Join(root, "action.yml"))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func newRunner(t *testing.T) (*runner, *bytes.Buffer) {
	t.Helper()
	out := new(bytes.Buffer)
	r := &runner{out: out, temp: t.TempDir(), env: map[string]string{}}
	if err := os.Mkdir(r.workspace(), 0o755); err != nil {
		t.Fatal(err)
	}
	return r, out
}
