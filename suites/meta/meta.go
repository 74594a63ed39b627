// SPDX-License-Identifier: Apache-2.0

// Package meta tests the suite itself: what each fault must fail, and what it
// must leave alone, is written down before the run.
package meta

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

//go:embed expected/*.yaml
var expected embed.FS

// Expectation is what a run with a fault must say.
type Expectation struct {
	Fault    spec.Fault         `json:"fault"`
	Verdicts map[string]Verdict `json:"verdicts"`
}

// Verdict is what must be said of one behaviour.
type Verdict struct {
	Verdict spec.Verdict `json:"verdict"`
	// Reason is part of the reason that an Inconclusive must give.
	Reason string `json:"reason,omitempty"`
}

// Expected returns what a fault must do; fs.ErrNotExist where nothing is
// written down for it.
func Expected(fault spec.Fault) (Expectation, error) {
	var e Expectation
	b, err := expected.ReadFile("expected/" + string(fault) + ".yaml")
	if errors.Is(err, fs.ErrNotExist) {
		return e, fmt.Errorf("nothing is written down of what fault %q must do: %w", fault, err)
	}
	if err != nil {
		return e, err
	}
	if err := yaml.UnmarshalStrict(b, &e); err != nil {
		return e, fmt.Errorf("expected/%s.yaml: %w", fault, err)
	}
	if e.Fault != fault {
		return e, fmt.Errorf("expected/%s.yaml is about fault %q", fault, e.Fault)
	}
	return e, nil
}

// Compare says how a report differs from what was expected; nil if it does
// not. A behaviour that the run did not select is not missed.
func Compare(e Expectation, r *v1alpha1.ConformanceReport) error {
	var bugs []error
	if r.Settings.Fault != e.Fault {
		bugs = append(bugs, fmt.Errorf("the run had fault %q, and %q is expected", r.Settings.Fault, e.Fault))
	}
	got := map[string]v1alpha1.Behaviour{}
	for _, b := range r.Behaviours {
		got[b.ID] = b
		if _, ok := e.Verdicts[b.ID]; !ok {
			bugs = append(bugs, fmt.Errorf("%s: %s, and nothing is written down for it", b.ID, b.Verdict))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(e.Verdicts)) {
		b, ok := got[id]
		if !ok {
			continue
		}
		want := e.Verdicts[id]
		switch {
		case b.Verdict != want.Verdict:
			bugs = append(bugs, fmt.Errorf("%s: %s, expected %s. %s", id, b.Verdict, want.Verdict, b.Reason))
		case !strings.Contains(b.Reason, want.Reason):
			bugs = append(bugs, fmt.Errorf("%s: %s for another reason than %q: %s", id, b.Verdict, want.Reason, b.Reason))
		case b.Verdict == spec.Fail && !hasCulprit(b):
			bugs = append(bugs, fmt.Errorf("%s: failed without a culprit: that is no kill", id))
		}
	}
	return errors.Join(bugs...)
}

func hasCulprit(b v1alpha1.Behaviour) bool {
	return slices.ContainsFunc(b.Findings, func(f spec.Finding) bool {
		return f.Verdict == spec.Fail && len(f.Culprits) > 0
	})
}
