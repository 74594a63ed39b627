// SPDX-License-Identifier: Apache-2.0

// Package rejudged_test judges kept recordings again and compares what the
// judge says today with what it said when they were kept. It is the net under
// each change of the judge: testdata/README.md says what each recording is.
package rejudged_test

import (
	"cmp"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	_ "github.com/lastcall-dev/lastcall/suites/all" // the behaviours
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

var update = flag.Bool("update", false, "write the golden files anew: say in the commit why each verdict changed")

// judged is what a golden file keeps of a report: what a change of the judge may
// not change by accident. Sentences are for people, and may be written better.
type judged struct {
	Verdict    spec.Verdict    `json:"verdict"`
	Behaviours []judgedOf      `json:"behaviours"`
	Controls   []judgedControl `json:"controls"`
}

type judgedOf struct {
	ID       string          `json:"id"`
	Verdict  spec.Verdict    `json:"verdict"`
	Findings []judgedFinding `json:"findings,omitempty"`
}

type judgedFinding struct {
	Check    string            `json:"check"`
	Verdict  spec.Verdict      `json:"verdict"`
	From     v1alpha1.Duration `json:"from"`
	To       v1alpha1.Duration `json:"to"`
	Evidence []spec.Count      `json:"evidence,omitempty"`
	Culprits []judgedCulprit   `json:"culprits,omitempty"`
	More     int               `json:"moreCulprits,omitempty"`
}

type judgedCulprit struct {
	At     v1alpha1.Duration `json:"at"`
	Target string            `json:"target,omitempty"`
	ID     string            `json:"id,omitempty"`
}

type judgedControl struct {
	Name     string       `json:"name"`
	Path     string       `json:"path"`
	Client   string       `json:"client,omitempty"`
	Verdict  spec.Verdict `json:"verdict"`
	Attempts int          `json:"attempts,omitempty"`
	Failed   int          `json:"failed,omitempty"`
}

// of is the part of a report that is kept, as a golden file has it: times in it are
// rounded to the microsecond.
func of(t *testing.T, r *v1alpha1.ConformanceReport) judged {
	t.Helper()
	b, err := yaml.Marshal(kept(r))
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, "a report", b)
}

func kept(r *v1alpha1.ConformanceReport) judged {
	out := judged{Verdict: r.Verdict}
	for _, b := range r.Behaviours {
		one := judgedOf{ID: b.Name(), Verdict: b.Verdict}
		for _, f := range b.Findings {
			finding := judgedFinding{
				Check: f.Check, Verdict: f.Verdict, Evidence: f.Evidence, More: f.MoreCulprits,
				From: v1alpha1.Duration(f.Window.From), To: v1alpha1.Duration(f.Window.To),
			}
			for _, c := range f.Culprits {
				finding.Culprits = append(finding.Culprits, judgedCulprit{v1alpha1.Duration(c.At), c.Target, c.ID})
			}
			one.Findings = append(one.Findings, finding)
		}
		out.Behaviours = append(out.Behaviours, one)
	}
	for _, c := range r.Controls {
		out.Controls = append(out.Controls, judgedControl{c.Name, c.Path, c.Client, c.Verdict, c.Attempts, c.Failed})
	}
	slices.SortFunc(out.Controls, func(a, b judgedControl) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Client, b.Client))
	})
	return out
}

// recordings are the folders of kept runs.
func recordings(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	if len(out) < 4 {
		t.Fatalf("testdata has the recordings %q: the net had four", out)
	}
	return out
}

// TestRejudged judges each kept run again.
func TestRejudged(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: judging the kept recordings takes a minute; `make rejudged` does it")
	}
	for _, name := range recordings(t) {
		t.Run(name, func(t *testing.T) {
			got := of(t, rejudge(t, name, nil))
			golden := filepath.Join("testdata", name+".golden.yaml")
			if *update {
				b, err := yaml.Marshal(got)
				if err == nil {
					err = os.WriteFile(golden, b, 0o644)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if diff := gocmp.Diff(read(t, golden), got); diff != "" {
				t.Errorf("%s is judged otherwise than when it was kept (-then +now). Where that is meant: `go test ./suites/rejudged -update`, and the reason in the commit.\n%s", name, diff)
			}
		})
	}
}

func read(t *testing.T, golden string) judged {
	t.Helper()
	b, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, golden, b)
}

func parse(t *testing.T, what string, b []byte) judged {
	t.Helper()
	var out judged
	if err := yaml.UnmarshalStrict(b, &out); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return out
}

// rejudge judges a copy of a kept run, because judging writes beside the
// recordings. change may spoil the copy before.
func rejudge(t *testing.T, name string, change func(dir string)) *v1alpha1.ConformanceReport {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", name))); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(dir)
	}
	report, err := behaviour.Finish(dir)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestNetHolds proves that the net can catch something: one lost ledger changes
// verdicts, and the comparison says so.
func TestNetHolds(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: judging a kept recording takes ten seconds; `make rejudged` does it")
	}
	const name = "kind-gateway-overloaded"
	got := of(t, rejudge(t, name, func(dir string) {
		lost, err := filepath.Glob(filepath.Join(dir, "history", "push-*", "ledger.jsonl*"))
		if err != nil || len(lost) != 1 {
			t.Fatalf("the ledger to lose: %q, %v", lost, err)
		}
		if err := os.Remove(lost[0]); err != nil {
			t.Fatal(err)
		}
	}))
	if gocmp.Equal(read(t, filepath.Join("testdata", name+".golden.yaml")), got) {
		t.Error("a recording without its ledger is judged as one with it: the golden file compares nothing")
	}
}
