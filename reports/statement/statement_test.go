// SPDX-License-Identifier: Apache-2.0

package statement_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-dev/lastcall/reports/statement"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/reports/yaml"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

var update = flag.Bool("update", false, "write the golden files anew")

func read(t *testing.T, name string) *v1alpha1.ConformanceReport {
	t.Helper()
	in, err := os.Open(filepath.Join("testdata", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	r, err := yaml.Read(in)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func written(t *testing.T, r *v1alpha1.ConformanceReport) string {
	t.Helper()
	var got bytes.Buffer
	if err := statement.Write(&got, r); err != nil {
		t.Fatal(err)
	}
	return got.String()
}

func TestGolden(t *testing.T) {
	for _, name := range []string{"partial", "conformant"} {
		t.Run(name, func(t *testing.T) {
			got := written(t, read(t, name))
			golden := filepath.Join("testdata", name+".md")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Errorf("not as in %s (-want +got); `go test ./reports/statement -update` writes it anew\n%s", golden, d)
			}
		})
	}
}

// What a report's profiles say by themselves is nobody's word: they are worked out of its
// behaviours. And the report stays as it was.
func TestStatesWhatTheBehavioursSay(t *testing.T) {
	r := read(t, "conformant")
	r.Behaviours[0].Verdict = spec.Fail
	r.Profiles = []v1alpha1.Profile{{Name: spec.ServiceNetwork, Result: v1alpha1.Conformant}}
	if got := written(t, r); !strings.Contains(got, "| service network | endpoints.\\* | **nonconformant** |") || !strings.Contains(got, "- failed: `endpoints.conditions`") {
		t.Error(got)
	}
	if r.Verdict != spec.Pass || len(r.Profiles) != 1 {
		t.Errorf("the report was changed: %v, %+v", r.Verdict, r.Profiles)
	}
}

// A run that is in doubt as a whole says so in its statement.
func TestDoubts(t *testing.T) {
	r := read(t, "conformant")
	r.Settings.Fault = "no-goaway"
	r.Errors = []string{"a packet left the machine"}
	got := written(t, r)
	for _, want := range []string{"| **partial** |", "fault no-goaway", "- the run itself: a packet left the machine", " --fault no-goaway "} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// A profile of which nothing is claimed is not conformant, and says why.
func TestNothingClaimed(t *testing.T) {
	r := read(t, "conformant")
	r.Behaviours[1].Verdict, r.Behaviours[1].Skip = spec.Skipped, spec.Unclaimed
	if got := written(t, r); !strings.Contains(got, "gateway, unjudged:\n\n- the system claims none of the features that a MUST needs\n") {
		t.Error(got)
	}
}

func TestRefuses(t *testing.T) {
	old := read(t, "conformant")
	for i := range old.Behaviours {
		old.Behaviours[i].Profile = ""
	}
	matrix := read(t, "conformant")
	matrix.Matrix = &v1alpha1.Matrix{}
	for want, r := range map[string]*v1alpha1.ConformanceReport{"report rejudge DIR": old, "--matrix": matrix} {
		var out bytes.Buffer
		if err := statement.Write(&out, r); err == nil || !strings.Contains(err.Error(), want) || out.Len() > 0 {
			t.Errorf("%v, want %q\n%s", err, want, out.String())
		}
	}
}

func TestCommand(t *testing.T) {
	r := &v1alpha1.ConformanceReport{Stage: "cluster"}
	r.Settings.P = v1alpha1.Duration(5e9)
	r.Settings.Selected = []string{"a.b", "c.d"}
	r.Settings.Isolate = true
	if got, want := statement.Command(r), "lastcall run --stage cluster --kubeconfig KUBECONFIG --p 5s --behaviours a.b,c.d --isolate --out again"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// What passed by a part of its checks is stated so.
func TestInPart(t *testing.T) {
	r := read(t, "conformant")
	const left = "the ledger: not judged: it keeps none"
	for i := range r.Behaviours {
		if r.Behaviours[i].Verdict == spec.Pass {
			r.Behaviours[i].Findings = append(r.Behaviours[i].Findings, spec.Finding{Check: "the ledger", Verdict: spec.Skipped, Actual: "not judged: it keeps none"})
			break
		}
	}
	if text := written(t, r); strings.Count(text, left) != 1 || !strings.Contains(text, "## Passed by a part of their checks") {
		t.Errorf("no %q in\n%s", left, text)
	}
}
