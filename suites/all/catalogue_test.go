// SPDX-License-Identifier: Apache-2.0

package all

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-dev/lastcall/fixtures/echo"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

//go:generate go test -run TestGolden . -args -update

var update = flag.Bool("update", false, "write the golden files anew")

func TestTheCatalogueIsSound(t *testing.T) {
	if err := behaviour.Validate(behaviour.Catalogue()); err != nil {
		t.Fatal(err)
	}
}

// The golden files show each change of contract in the diff.
func TestGolden(t *testing.T) {
	golden(t, "testdata/catalogue.golden", catalogue())
	golden(t, "testdata/floors.golden", floors())
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: `make generate` writes it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s is out of date: `make generate`, and read the diff: it is the contract's.\n%s", path, diff)
	}
}

func catalogue() string {
	var w strings.Builder
	for _, b := range behaviour.Catalogue() {
		fmt.Fprintf(&w, "%s %s: %s\n", b.Level, b.ID, b.Title)
		for _, r := range b.Refs {
			fmt.Fprintf(&w, "  basis: %s: %q\n", r, r.Quote)
		}
		for _, p := range b.Traffic {
			fmt.Fprintf(&w, "  traffic: %s at %g/s\n", p.Flow.String(), p.Rate)
		}
		fmt.Fprintf(&w, "  topology: %s\n  disruption: %s\n", b.Topology, b.Disrupt)
		for _, c := range b.Checks {
			fmt.Fprintf(&w, "  accepted: %s\n", c.Expected)
		}
		fmt.Fprintf(&w, "  broken by: %v\n\n", b.BrokenBy)
	}
	return w.String()
}

func floors() string {
	var w strings.Builder
	for _, b := range behaviour.Catalogue() {
		for _, c := range b.Checks {
			for _, f := range c.Floors {
				fmt.Fprintf(&w, "%s: %s: %d", b.ID, f, f.N)
				if f.Reason != "" {
					fmt.Fprintf(&w, " (%s)", f.Reason)
				}
				w.WriteByte('\n')
			}
		}
	}
	return w.String()
}

// A floor below those of the design's rule 1 says why.
func TestFloorsSayWhy(t *testing.T) {
	for _, b := range behaviour.Catalogue() {
		for _, c := range b.Checks {
			for _, f := range c.Floors {
				if f.N < 50 && f.Reason == "" {
					t.Errorf("%s: the floor %q is %d, without a reason", b.ID, f, f.N)
				}
			}
		}
	}
}

// Every fault that a component has breaks a behaviour, but the one that breaks the suite's own
// reconciliation.
func TestEveryFaultBreaksSomething(t *testing.T) {
	for _, f := range behaviour.Faults() {
		if got := behaviour.Breaks(f.Name); (len(got) == 0) != (f.Name == echo.LieInLedger) {
			t.Errorf("fault %s breaks %v", f.Name, got)
		}
	}
}
