// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"strings"
)

// scope is what expressions of one job, or of one action in it, can name.
type scope struct {
	inputs  map[string]string            // of an action
	outputs map[string]map[string]string // of steps, by their IDs
	path    string                       // of an action: github.action_path
	table   map[string]string            // all else, by the expression's text
}

var expression = regexp.MustCompile(`\$\{\{\s*(.*?)\s*\}\}`)

// fill puts values in the place of a text's expressions. Those that name an input, or
// the output of a step, have the value that they have here; all others stand in the
// table, letter by letter, or are an error: nothing is evaluated.
func (s *scope) fill(text string) (string, error) {
	var bad error
	filled := expression.ReplaceAllStringFunc(text, func(match string) string {
		value, err := s.value(expression.FindStringSubmatch(match)[1])
		if err != nil && bad == nil {
			bad = err
		}
		return value
	})
	return filled, bad
}

var (
	inputName  = regexp.MustCompile(`^inputs\.([\w-]+)$`)
	outputName = regexp.MustCompile(`^steps\.([\w-]+)\.outputs\.([\w-]+)$`)
)

func (s *scope) value(text string) (string, error) {
	if value, ok := s.table[text]; ok {
		return value, nil
	}
	if m := inputName.FindStringSubmatch(text); m != nil {
		if value, ok := s.inputs[m[1]]; ok {
			return value, nil
		}
	}
	if m := outputName.FindStringSubmatch(text); m != nil {
		// The output of a step that did not come so far is empty.
		if outputs, ok := s.outputs[m[1]]; ok {
			return outputs[m[2]], nil
		}
	}
	if text == "github.action_path" && s.path != "" {
		return s.path, nil
	}
	return "", fmt.Errorf("the expression %q has no value: it is not in the table of cmd/steps/targets.go", text)
}

func (s *scope) fillAll(texts map[string]scalar) (map[string]string, error) {
	out := make(map[string]string, len(texts))
	for name, text := range texts {
		var err error
		if out[name], err = s.fill(string(text)); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return out, nil
}

// wanted tells whether a step with that condition is to run.
func wanted(condition string, failed bool) (bool, error) {
	text := strings.TrimSpace(condition)
	if m := expression.FindStringSubmatch(text); m != nil && m[0] == text {
		text = m[1]
	}
	switch text {
	case "", "success()":
		return !failed, nil
	case "always()", "!cancelled()":
		return true, nil
	case "failure()":
		return failed, nil
	}
	return false, fmt.Errorf("the condition %q is not known here: cmd/steps/expression.go lists those that are", condition)
}
