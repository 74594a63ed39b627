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

// Expectation is what a run with a fault must say. What a behaviour names the fault for must
// fail, and all else pass: the files hold what is to be otherwise, or more precise.
type Expectation struct {
	Fault    spec.Fault         `json:"fault"`
	Verdicts map[string]Verdict `json:"verdicts"`
}

// Verdict is what must be said of one behaviour. A behaviour of which nothing
// is written down must pass.
type Verdict struct {
	Verdict spec.Verdict `json:"verdict"`
	// Checks are some of those that must fail, by name, where the behaviour has several:
	// each of a behaviour's is here under one of its faults, whatever stage carries that.
	Checks []string `json:"checks,omitempty"`
	// Reason is part of the reason that an Inconclusive must give.
	Reason string `json:"reason,omitempty"`
	// Why must be said where the fault makes a behaviour fail that it does not
	// name, or Inconclusive.
	Why string `json:"why,omitempty"`
}

// Expected returns what a fault must do, of which some behaviours say that it breaks them;
// fs.ErrNotExist where none does and nothing else is written down for it.
func Expected(fault spec.Fault, named []string) (Expectation, error) {
	e := Expectation{Fault: fault, Verdicts: map[string]Verdict{}}
	for _, id := range named {
		e.Verdicts[id] = Verdict{Verdict: spec.Fail}
	}
	b, err := expected.ReadFile("expected/" + string(fault) + ".yaml")
	switch {
	case errors.Is(err, fs.ErrNotExist) && len(named) > 0:
		return e, nil
	case errors.Is(err, fs.ErrNotExist):
		return e, fmt.Errorf("no behaviour names fault %q, and nothing is written down of what it must do: %w", fault, err)
	case err != nil:
		return e, err
	}
	var file Expectation
	if err := yaml.UnmarshalStrict(b, &file); err != nil {
		return e, fmt.Errorf("expected/%s.yaml: %w", fault, err)
	}
	if file.Fault != fault {
		return e, fmt.Errorf("expected/%s.yaml is about fault %q", fault, file.Fault)
	}
	maps.Copy(e.Verdicts, file.Verdicts)
	return e, nil
}

// Of is what must be said of a behaviour.
func (e Expectation) Of(id string) Verdict {
	if v, ok := e.Verdicts[id]; ok {
		return v
	}
	return Verdict{Verdict: spec.Pass}
}

// Check fills in what was expected of each cell of a kill matrix, and lists
// what is otherwise. breaks are the behaviours that name a fault.
func Check(m *v1alpha1.Matrix, breaks func(spec.Fault) []string) {
	for i := range m.Rows {
		row := &m.Rows[i]
		kills := breaks(row.Fault)
		e, err := Expected(row.Fault, kills)
		if err != nil {
			m.Problems = append(m.Problems, err.Error())
		}
		for k := range row.Cells {
			c := &row.Cells[k]
			want := e.Of(c.Behaviour)
			c.Expected, c.Why = want.Verdict, want.Why
			named := slices.Contains(kills, c.Behaviour)
			wrong := func(format string, args ...any) {
				m.Problems = append(m.Problems, fmt.Sprintf("%s under %s: ", c.Behaviour, row.Fault)+fmt.Sprintf(format, args...))
			}
			unsure := func(format string, args ...any) {
				c.Doubt = true
				m.Doubts = append(m.Doubts, fmt.Sprintf("%s under %s: Inconclusive", c.Behaviour, row.Fault)+fmt.Sprintf(format, args...))
			}
			switch {
			case c.Verdict == spec.Inconclusive && want.Verdict != spec.Inconclusive:
				unsure(", expected %s. %s", want.Verdict, c.Reason)
			case c.Verdict == spec.Inconclusive && !strings.Contains(c.Reason, want.Reason):
				unsure(" for another reason than %q: %s", want.Reason, c.Reason)
			case c.Verdict != want.Verdict:
				wrong("%s, expected %s. %s", c.Verdict, want.Verdict, c.Reason)
			case c.Verdict == spec.Fail && c.Culprits == 0:
				wrong("failed without a culprit: that is no kill")
			case named && !slices.ContainsFunc(c.Failed, func(name string) bool { return name != spec.Claimed }) && len(c.Failed) > 0:
				wrong("never served at all: none of its checks was put to it, and that is no kill")
			case named && c.Verdict != spec.Fail:
				wrong("%s, and the fault is there to make it fail", c.Verdict)
			case len(want.beyond(c.Failed)) > 0:
				wrong("not by its check %q. %s", want.beyond(c.Failed)[0], c.Reason)
			case !named && want.Verdict != spec.Pass && want.Why == "":
				wrong("%s without a written reason", c.Verdict)
			}
		}
	}
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
	}
	for _, id := range slices.Sorted(maps.Keys(got)) {
		b, want := got[id], e.Of(id)
		switch {
		case b.Verdict != want.Verdict:
			bugs = append(bugs, fmt.Errorf("%s: %s, expected %s. %s", id, b.Verdict, want.Verdict, b.Reason))
		case !strings.Contains(b.Reason, want.Reason):
			bugs = append(bugs, fmt.Errorf("%s: %s for another reason than %q: %s", id, b.Verdict, want.Reason, b.Reason))
		case b.Verdict == spec.Fail && !hasCulprit(b):
			bugs = append(bugs, fmt.Errorf("%s: failed without a culprit: that is no kill", id))
		case len(want.beyond(b.Findings.Failed())) > 0:
			bugs = append(bugs, fmt.Errorf("%s: failed, and not by its check %q. %s", id, want.beyond(b.Findings.Failed())[0], b.Reason))
		}
	}
	return errors.Join(bugs...)
}

// beyond are the checks that had to fail and are not among those that did.
func (v Verdict) beyond(failed []string) []string {
	return slices.DeleteFunc(slices.Clone(v.Checks), func(name string) bool { return slices.Contains(failed, name) })
}

func hasCulprit(b v1alpha1.Behaviour) bool {
	return slices.ContainsFunc(b.Findings, func(f spec.Finding) bool {
		return f.Verdict == spec.Fail && len(f.Culprits) > 0
	})
}
