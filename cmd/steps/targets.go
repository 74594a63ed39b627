// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// ownAction is how somebody else's workflow names ours.
const ownAction = "lastcall-dev/lastcall@v0"

// target is a job that is run here, with what its expressions are worth.
type target struct {
	name string
	// file is a workflow, or a page whose first workflow is meant.
	file, job string
	// only are the names of the scripts that are run; none: all.
	only []string
	// inputs are those of a workflow that is called; what is missing has its default.
	inputs map[string]string
	// with goes over the inputs of our own action.
	with map[string]string
	// table has the values of expressions, by their text.
	table map[string]string
	// files are what is checked out, and where it is taken from; none: all of ours.
	files map[string]string
	// artifacts are the folders that are downloaded.
	artifacts string
}

// targets are in the order in which they cost more. What publishes is not among them.
func targets() []target {
	called := map[string]string{
		"job.workflow_repository": "lastcall-dev/lastcall",
		"job.workflow_sha":        "HEAD",
	}
	return []target{
		{
			name: "release", file: ".github/workflows/release.yml", job: "binaries",
			only: []string{"Build", "Checksums"},
		},
		{
			name: "compare", file: ".github/workflows/matrix.yml", job: "compare",
			table: called, artifacts: "docs/findings/full-ci/1.*",
		},
		{
			// The page's own example, on the reference gateway.
			name: "action", file: "docs/actions.md", job: "lastcall",
			files: map[string]string{
				"my-proxy.yaml":                    "systems/reference-gateway.yaml",
				"manifests/reference-gateway.yaml": "systems/manifests/reference-gateway.yaml",
			},
			with:  map[string]string{"labels": "core"},
			table: map[string]string{"github.run_id": "here"},
		},
		{
			name: "cell", file: ".github/workflows/matrix.yml", job: "conformance",
			inputs: map[string]string{"labels": "core"},
			table: map[string]string{
				"job.workflow_repository": "lastcall-dev/lastcall",
				"job.workflow_sha":        "HEAD",
				"matrix.k8s":              "1.37",
				"matrix.kube-proxy":       "iptables",
				"matrix.ip":               "ipv4",
				"runner.arch":             "X64",
				"hashFiles('.lastcall/kind/nodeimage/**')": "0",
				"github.run_id": "here",
			},
		},
		{
			name: "host", file: ".github/workflows/conformance.yml", job: "host",
			table: map[string]string{"github.run_id": "here"},
		},
	}
}

// load reads the target's steps from the repository in dir.
func (t target) load(dir string) ([]step, *scope, error) {
	file := filepath.Join(dir, t.file)
	var w workflow
	var err error
	if strings.HasSuffix(file, ".md") {
		w, err = example(file)
	} else {
		w, err = read[workflow](file)
	}
	if err != nil {
		return nil, nil, err
	}
	j, ok := w.Jobs[t.job]
	if !ok {
		return nil, nil, fmt.Errorf("%s has no job %q", t.file, t.job)
	}
	inputs, err := w.inputs()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", t.file, err)
	}
	s := &scope{inputs: map[string]string{}, outputs: map[string]map[string]string{}, table: t.table}
	for name, in := range inputs {
		s.inputs[name] = string(in.Default)
	}
	for name, value := range t.inputs {
		if _, ok := inputs[name]; !ok {
			return nil, nil, fmt.Errorf("%s has no input %q", t.file, name)
		}
		s.inputs[name] = value
	}
	return j.Steps, s, nil
}

// inputs are those of a workflow that can be called.
func (w workflow) inputs() (map[string]input, error) {
	call, ok := w.On["workflow_call"]
	if !ok {
		return nil, nil
	}
	data, err := json.Marshal(call)
	if err != nil {
		return nil, err
	}
	var called struct {
		Inputs map[string]input `json:"inputs"`
	}
	return called.Inputs, json.Unmarshal(data, &called)
}

// example is the first workflow that stands in a page.
func example(file string) (workflow, error) {
	var w workflow
	data, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return w, err
	}
	_, rest, found := strings.Cut(string(data), "\n```yaml\n")
	text, _, closed := strings.Cut(rest, "\n```\n")
	if !found || !closed {
		return w, fmt.Errorf("%s: no workflow stands in it", file)
	}
	if err := yaml.UnmarshalStrict([]byte(text), &w); err != nil {
		return w, fmt.Errorf("%s: its workflow: %w", file, err)
	}
	return w, nil
}
