// SPDX-License-Identifier: Apache-2.0

package meta_test

import (
	"errors"
	"io/fs"
	"slices"
	"testing"

	_ "github.com/lastcall-dev/lastcall/suites/all"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/meta"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Each fault that a behaviour names has its expectation, and what is written down besides
// agrees with what the behaviours say, and says more than they do.
func TestExpectationsSpeakOfTheCatalogue(t *testing.T) {
	for _, f := range behaviour.Faults() {
		breaks := behaviour.Breaks(f.Name)
		if len(breaks) == 0 {
			continue
		}
		e, err := meta.Expected(f.Name, breaks)
		if err != nil {
			t.Error(err)
			continue
		}
		for id, v := range e.Verdicts {
			if _, ok := behaviour.Find(id); !ok {
				t.Errorf("%s: %q is no behaviour", f.Name, id)
			}
			if v.Verdict != spec.Pass && v.Why == "" && !slices.Contains(breaks, id) {
				t.Errorf("%s: %s is expected to be %s, and neither names the fault nor has a reason", f.Name, id, v.Verdict)
			}
			// Without it, a lost agent would do as well.
			if v.Verdict == spec.Inconclusive && v.Reason == "" {
				t.Errorf("%s: %s is expected to be Inconclusive, for any reason at all", f.Name, id)
			}
		}
		for _, id := range breaks {
			if e.Of(id).Verdict != spec.Fail {
				t.Errorf("%s: %s says that it breaks it, the expectation says %s", f.Name, id, e.Of(id).Verdict)
			}
		}
	}
	if _, err := meta.Expected("no-such-fault", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an unknown fault: %v", err)
	}
}

// Where a behaviour has several checks, it is written of each which of its faults fails
// it: a matrix on a stage that can't carry that fault leaves it to another stage's, which
// holds it to what is written.
func TestEachCheckHasItsFault(t *testing.T) {
	for _, b := range behaviour.Catalogue() {
		claimed := map[string]bool{}
		for _, f := range b.BrokenBy {
			e, err := meta.Expected(f, behaviour.Breaks(f))
			if err != nil {
				t.Error(err)
			}
			for _, name := range e.Of(b.ID).Checks {
				claimed[name] = true
			}
		}
		for _, k := range b.Checks {
			if len(b.Checks) > 1 && !claimed[k.Name] {
				t.Errorf("%s: of no fault is written that it fails %q", b.ID, k.Name)
			}
			delete(claimed, k.Name)
		}
		for name := range claimed {
			t.Errorf("%s: a fault is said to fail %q, which is no check of it", b.ID, name)
		}
	}
}
