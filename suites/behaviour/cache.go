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
	"slices"
	"strings"

	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
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

// environmentFile lies beside a kept recording: the cluster that it was made on.
const environmentFile = "environment.json"

// surroundings are what a recording depends on of the cluster that it is made
// on. What was asked for does not say it: a cluster may have stood already, and
// what is not asked for is the machine's choice.
type surroundings struct {
	kubernetes, nodeImage, runtime, kubeProxy, families string
	nodes                                               int
}

func surroundingsOf(env v1alpha1.Environment) surroundings {
	return surroundings{
		kubernetes: env.Kubernetes, nodeImage: env.NodeImage, runtime: env.ContainerRuntime,
		kubeProxy: env.KubeProxyMode, families: strings.Join(env.IPFamilies, " "), nodes: len(env.Nodes),
	}
}

func (c Cache) on() bool { return c.Dir != "" }

func (c Cache) dir(s Scenario) (string, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("a name for the recording of %s: %w", s.Name, err)
	}
	sum := sha256.Sum256(b)
	return filepath.Join(c.Dir, c.Of, hex.EncodeToString(sum[:])[:16]), nil
}

// Whole is a stage on which nothing can be recorded, for a plan that is kept as
// a whole, all of it made in the same surroundings; ok is false for another one.
func (c Cache) Whole(plan []Scenario) (stage Stage, ok bool) {
	if !c.on() || len(plan) == 0 {
		return nil, false
	}
	var stood v1alpha1.Environment
	for i, s := range plan {
		_, env, kept := c.kept(s)
		if i == 0 {
			stood = env
		}
		if !kept || surroundingsOf(env) != surroundingsOf(stood) {
			return nil, false
		}
	}
	return keptStage{stood}, true
}

// kept finds a kept recording, and the cluster that it was made on.
func (c Cache) kept(s Scenario) (dir string, env v1alpha1.Environment, ok bool) {
	if !c.on() {
		return "", env, false
	}
	dir, err := c.dir(s)
	if err != nil || !sound(dir) || readJSON(filepath.Join(dir, environmentFile), &env) != nil {
		return "", env, false
	}
	return dir, env, true
}

// sound says whether a directory holds a recording that came to its end.
func sound(dir string) bool {
	m, err := readMeta(dir)
	return err == nil && m.Ended && m.Doubt == "" && m.Error == ""
}

// take copies a kept recording to dir, and says whether there was one that was
// made in such surroundings.
func (c Cache) take(s Scenario, dir string, env v1alpha1.Environment) (bool, error) {
	from, made, ok := c.kept(s)
	if !ok || surroundingsOf(made) != surroundingsOf(env) {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return false, err
	}
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		return false, fmt.Errorf("the kept recording of %s: %w", s.Name, err)
	}
	return true, nil
}

// keep copies a recording from dir, with the cluster that it was made on.
func (c Cache) keep(s Scenario, dir string, env v1alpha1.Environment) error {
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
		err = writeJSON(filepath.Join(tmp, environmentFile), env)
	}
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

// drop takes a kept recording away.
func (c Cache) drop(s Scenario) error {
	if !c.on() {
		return nil
	}
	dir, err := c.dir(s)
	if err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// forget drops what was kept of a judged plan and can prove nothing, so that it
// is recorded anew: recordings with a doubt about them, the rows of doubtful
// cells, and a control that a stream is blind on. It is not asked before: to read
// a history while others are recorded would take the CPU that these need.
func (c Cache) forget(j *judgement, report *v1alpha1.ConformanceReport) error {
	if !c.on() || report.Matrix == nil {
		return nil
	}
	drop := map[string]bool{}
	for _, row := range report.Matrix.Rows {
		for _, cell := range row.Cells {
			drop[cell.Scenario] = drop[cell.Scenario] || cell.Doubt
		}
	}
	blind := slices.ContainsFunc(report.Controls, func(k v1alpha1.Control) bool { return k.Verdict != spec.Pass })
	var errs []error
	for _, r := range j.recs {
		s := r.meta.Scenario
		if !r.recorded {
			continue // what is kept of it is another run's
		}
		if !drop[s.Name] && r.doubt() == "" && !(blind && s.Control && !j.ofMatrix(r)) {
			continue
		}
		errs = append(errs, c.drop(s))
	}
	return errors.Join(errs...)
}

// keptStage is where the recordings of a plan were made that are all kept.
type keptStage struct{ env v1alpha1.Environment }

// Fit implements Stage.
func (keptStage) Fit(b Behaviour) (Behaviour, Skip) { return b, Skip{} }

// Describe implements Stage: it is the cluster that stood then.
func (k keptStage) Describe(context.Context) (v1alpha1.Environment, error) { return k.env, nil }

// Open implements Stage.
func (keptStage) Open(_ context.Context, s Scenario, _ *Sink) (Ground, error) {
	return nil, fmt.Errorf("the recording of %s was kept, and is gone", s.Name)
}

// Close implements Stage.
func (keptStage) Close(context.Context) (*v1alpha1.Egress, error) { return nil, nil }
