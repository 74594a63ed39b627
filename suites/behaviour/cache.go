// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
)

// Cache keeps the recordings of kill matrices: what a fault did under the same
// components, behaviours and suite need not be recorded again. Verdicts are
// never kept. The zero value keeps nothing. A run about a system has none:
// it is recorded each time.
type Cache struct {
	// Dir is where recordings are kept.
	Dir string
	// Of is a hash of everything that a recording depends on beside its
	// scenario: the agents' image, the node image, the settings, the suite.
	Of string
}

// environmentFile is the cluster that the recordings of one Of were made on.
const environmentFile = "environment.json"

func (c Cache) on() bool { return c.Dir != "" }

func (c Cache) dir(s Scenario) (string, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("a name for the recording of %s: %w", s.Name, err)
	}
	sum := sha256.Sum256(b)
	return filepath.Join(c.Dir, c.Of, hex.EncodeToString(sum[:])[:16]), nil
}

// HasAll says whether every scenario of a plan is kept.
func (c Cache) HasAll(plan []Scenario) bool {
	if !c.on() {
		return false
	}
	for _, s := range plan {
		dir, err := c.dir(s)
		if err != nil || !sound(dir) {
			return false
		}
	}
	return true
}

// sound says whether a directory holds a recording that came to its end.
func sound(dir string) bool {
	var m Meta
	err := readJSON(filepath.Join(dir, scenarioFile), &m)
	return err == nil && m.Ended && m.Doubt == "" && m.Error == ""
}

// take copies a kept recording to dir, and says whether there was one.
func (c Cache) take(s Scenario, dir string) (bool, error) {
	if !c.on() {
		return false, nil
	}
	kept, err := c.dir(s)
	if err != nil || !sound(kept) {
		return false, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return false, err
	}
	if err := os.CopyFS(dir, os.DirFS(kept)); err != nil {
		return false, fmt.Errorf("the kept recording of %s: %w", s.Name, err)
	}
	return true, nil
}

// keep copies a recording from dir.
func (c Cache) keep(s Scenario, dir string) error {
	if !c.on() || !sound(dir) {
		return nil
	}
	kept, err := c.dir(s)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(kept), ".new")
	if err != nil {
		return err
	}
	err = os.CopyFS(tmp, os.DirFS(dir))
	if err == nil {
		err = os.RemoveAll(kept)
	}
	if err == nil {
		err = os.Rename(tmp, kept)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("keeping the recording of %s: %w", s.Name, err), os.RemoveAll(tmp))
	}
	return nil
}

// remember keeps where the recordings were made.
func (c Cache) remember(env v1alpha1.Environment) error {
	if !c.on() {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(c.Dir, c.Of), 0o755); err != nil {
		return err
	}
	return writeJSON(filepath.Join(c.Dir, c.Of, environmentFile), env)
}

// Stage is a stage on which nothing can be recorded: for a plan that is kept
// as a whole.
func (c Cache) Stage() Stage { return keptStage{c} }

type keptStage struct{ cache Cache }

// Skip implements Stage.
func (keptStage) Skip(Behaviour) string { return "" }

// Describe implements Stage: it is the cluster that stood then.
func (k keptStage) Describe(context.Context) (v1alpha1.Environment, error) {
	var env v1alpha1.Environment
	err := readJSON(filepath.Join(k.cache.Dir, k.cache.Of, environmentFile), &env)
	return env, err
}

// Open implements Stage.
func (keptStage) Open(_ context.Context, s Scenario, _ *Sink) (Ground, error) {
	return nil, fmt.Errorf("the recording of %s was kept, and is gone", s.Name)
}

// Close implements Stage.
func (keptStage) Close(context.Context) (*v1alpha1.Egress, error) { return nil, nil }
