// SPDX-License-Identifier: Apache-2.0

package markdown_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-dev/lastcall/reports/markdown"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/reports/yaml"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The same reports as for a terminal.
func TestGolden(t *testing.T) {
	for _, name := range []string{"passed", "failed"} {
		t.Run(name, func(t *testing.T) {
			in, err := os.Open(filepath.Join("..", "text", "testdata", name+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			r, err := yaml.Read(in)
			if err != nil {
				t.Fatal(err)
			}
			r.Conclude()
			var got bytes.Buffer
			if err := markdown.Write(&got, r); err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name+".md")
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got.String()); d != "" {
				t.Errorf("not as in %s (-want +got); `go test ./reports/markdown -update` writes it anew\n%s", golden, d)
			}
		})
	}
}

func TestEscape(t *testing.T) {
	if got, want := markdown.Escape("a|b <c> `d`\ne"), "a\\|b &lt;c> \\`d\\` e"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A step that failed is what to look at first, on a page too.
func TestSuspects(t *testing.T) {
	r := &v1alpha1.ConformanceReport{
		Stage:      "host",
		Behaviours: []v1alpha1.Behaviour{{ID: "gateway.x", Level: spec.Must, Verdict: spec.Fail, Scenario: "a"}},
		Scenarios: []v1alpha1.Scenario{{Name: "a", FailedSteps: []v1alpha1.FailedStep{{
			Step: "POST /drain on port admin", Error: "404 Not Found", Instances: []string{"gateway-1"}, Times: 1,
		}}}},
	}
	r.Conclude()
	var b bytes.Buffer
	if err := markdown.Write(&b, r); err != nil {
		t.Fatal(err)
	}
	if want := "POST /drain on port admin: 404 Not Found (gateway-1): look at this first"; !strings.Contains(b.String(), want) {
		t.Errorf("no %q in\n%s", want, b.String())
	}
}

// So it does of what is claimed and was never served: the rule itself was not asked.
func TestWhatWasNeverServed(t *testing.T) {
	r := &v1alpha1.ConformanceReport{Behaviours: []v1alpha1.Behaviour{{
		ID: "a.b", Title: "It says so", Level: spec.Should, Verdict: spec.Fail, Recorded: true,
		Refs: []spec.Ref{{Doc: "RFC 1", Quote: "Servers SHOULD say so."}}, Why: "Because.", Fix: "Say so.",
		Findings: v1alpha1.Findings{{Check: spec.Claimed, Verdict: spec.Fail}},
	}}}
	r.Conclude()
	var b bytes.Buffer
	if err := markdown.Write(&b, r); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		"file claims is served": true, "Look at what answers at the port": true,
		"SHOULD say so": false, "Because.": false, "Fix: Say so.": false,
	} {
		if got := strings.Contains(b.String(), text); got != want {
			t.Errorf("%q: %t in\n%s", text, got, b.String())
		}
	}
}

// A page says of a known deviation what a terminal does.
func TestKnownDeviations(t *testing.T) {
	r := &v1alpha1.ConformanceReport{
		Behaviours: []v1alpha1.Behaviour{
			{ID: "a.known", Level: spec.Must, Profile: spec.Gateway, Verdict: spec.Fail, Recorded: true},
			{ID: "a.passed", Level: spec.Must, Profile: spec.Gateway, Verdict: spec.Pass, Recorded: true},
		},
		Deviations: []v1alpha1.Deviation{{Behaviour: "a.known", Reason: "by design", Link: "https://example.com/1"}, {Behaviour: "a.passed", Reason: "it did not"}},
	}
	r.Conclude()
	var b bytes.Buffer
	if err := markdown.Write(&b, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| ❌ Fail, known | MUST | `a.known` |", "1 failed (1 known)", "- Known deviation: by design (https://example.com/1)",
		"- Known: a.passed is listed as a known deviation, and it passed", "Profiles: app unjudged",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
