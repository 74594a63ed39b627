// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// workflow is a file in .github/workflows. Keys that are not here are an error: a
// step could depend on what they say.
type workflow struct {
	Name        string            `json:"name"`
	On          map[string]any    `json:"true"` // to YAML 1.1, "on" is a yes
	Permissions map[string]string `json:"permissions"`
	Concurrency map[string]any    `json:"concurrency"`
	Jobs        map[string]job    `json:"jobs"`
}

type job struct {
	Name           string            `json:"name"`
	Needs          string            `json:"needs"`
	If             string            `json:"if"`
	RunsOn         string            `json:"runs-on"`
	TimeoutMinutes any               `json:"timeout-minutes"`
	Permissions    map[string]string `json:"permissions"`
	Strategy       any               `json:"strategy"`
	Env            map[string]scalar `json:"env"`
	Steps          []step            `json:"steps"`
	Uses           string            `json:"uses"` // a workflow, in the place of steps
	With           map[string]scalar `json:"with"`
}

// action is an action.yml of the composite kind.
type action struct {
	Name        string           `json:"name"`
	Description string           `json:"description"`
	Author      string           `json:"author"`
	Inputs      map[string]input `json:"inputs"`
	Outputs     map[string]struct {
		Description string `json:"description"`
		Value       string `json:"value"`
	} `json:"outputs"`
	Runs struct {
		Using string `json:"using"`
		Steps []step `json:"steps"`
	} `json:"runs"`
}

// input is one of an action or of a workflow that is called.
type input struct {
	Description string `json:"description"`
	Type        string `json:"type"` // of a workflow alone
	Required    bool   `json:"required"`
	Default     scalar `json:"default"`
}

type step struct {
	ID               string            `json:"id"`
	Name             string            `json:"name"`
	If               string            `json:"if"`
	Uses             string            `json:"uses"`
	Run              string            `json:"run"`
	Shell            string            `json:"shell"`
	WorkingDirectory string            `json:"working-directory"`
	ContinueOnError  bool              `json:"continue-on-error"`
	Env              map[string]scalar `json:"env"`
	With             map[string]scalar `json:"with"`
}

// title is how a step is called in the output.
func (s step) title() string {
	if s.Name != "" {
		return s.Name
	}
	return s.Uses
}

// scalar is a string, a number or a boolean, as it is written.
type scalar string

func (s *scalar) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*s = scalar(text)
		return nil
	}
	var other any
	if err := json.Unmarshal(data, &other); err != nil {
		return err
	}
	switch other.(type) {
	case bool, float64:
		*s = scalar(data)
		return nil
	}
	return fmt.Errorf("%s is no string, no number and no boolean", data)
}

// read reads a workflow or an action.
func read[T workflow | action](path string) (T, error) {
	var out T
	data, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return out, err
	}
	if err := yaml.UnmarshalStrict(data, &out); err != nil {
		return out, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
}
