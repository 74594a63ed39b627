// SPDX-License-Identifier: Apache-2.0

package yaml_test

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/reports/yaml"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func sample() *v1alpha1.ConformanceReport {
	one := 0
	return &v1alpha1.ConformanceReport{
		APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.Kind,
		Metadata: v1alpha1.Metadata{Name: "echo-kind", Date: time.Date(2026, 11, 21, 18, 0, 0, 0, time.UTC)},
		Settings: v1alpha1.Settings{P: v1alpha1.Duration(3 * time.Second)},
		Scenarios: []v1alpha1.Scenario{{
			Name: "delete",
			Terminations: []v1alpha1.Termination{{
				Pod: "echo-1", UID: "u1", Deletion: &v1alpha1.Instant{At: v1alpha1.Duration(1234567 * time.Microsecond), Source: "observe"},
				ExitCode: &one,
			}},
		}},
		Behaviours: []v1alpha1.Behaviour{{
			ID: "pod.x", Level: spec.Must, Verdict: spec.Fail, Recorded: true,
			Findings: v1alpha1.Findings{{
				Check: "served", Verdict: spec.Fail, Window: spec.Window{From: time.Second, To: 4 * time.Second},
				Evidence: []spec.Count{{Name: "new", N: 210, Floor: 200}},
				Culprits: []spec.Culprit{{At: 1500 * time.Millisecond, Target: "echo-1", ID: "r1", Text: "refused"}},
				Bounds:   &spec.Bounds{Terminations: 8, Affected: 1, PerTermination: 0.5, Requests: 10, Lost: 1, PerRequest: 0.3},
			}},
		}},
		Summary: v1alpha1.Summary{Failed: 1}, Verdict: spec.Fail, ExitCode: 1,
	}
}

func TestRoundTrip(t *testing.T) {
	var b bytes.Buffer
	if err := yaml.Write(&b, sample()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"at: 1.234567s", "p: 3s", "to: 4s", "verdict: Fail", "at: 1.5s"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	got, err := yaml.Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(sample(), got); d != "" {
		t.Error(d)
	}
}

func TestDir(t *testing.T) {
	dir := t.TempDir()
	if _, err := yaml.ReadDir(dir); err == nil || !strings.Contains(err.Error(), "no report in") {
		t.Errorf("got %v", err)
	}
	if _, err := yaml.WriteDir(dir, sample()); err != nil {
		t.Fatal(err)
	}
	if _, err := yaml.ReadDir(dir); err != nil {
		t.Error(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}

func TestReadRefuses(t *testing.T) {
	head := "apiVersion: lastcall.dev/v1alpha1\nkind: ConformanceReport\n"
	for name, in := range map[string]string{
		"another kind":       "apiVersion: v1\nkind: Pod\n",
		"no YAML":            "\t{",
		"unknown field":      head + "nodes: 3\n",
		"unknown in finding": head + "behaviours: [{id: x, findings: [{check: c, colour: red}]}]\n",
		"doubled key":        head + "stage: kind\nstage: kind\n",
		"bad duration":       head + "settings: {p: 3}\n",
		"unknown verdict":    head + "verdict: Maybe\n",
	} {
		if r, err := yaml.Read(strings.NewReader(in)); err == nil {
			t.Errorf("%s: read as %+v", name, r)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
}

// A report whose writing or copying was cut short is YAML at every line's end.
func TestReadRefusesHalves(t *testing.T) {
	var b bytes.Buffer
	if err := yaml.Write(&b, sample()); err != nil {
		t.Fatal(err)
	}
	lines := slices.Collect(strings.Lines(b.String()))
	for n := range lines {
		if r, err := yaml.Read(strings.NewReader(strings.Join(lines[:n], ""))); err == nil {
			t.Errorf("cut after line %d: read as %+v", n, r)
		}
	}
	short := strings.Replace(b.String(), "failed: 1", "failed: 2", 1)
	if _, err := yaml.Read(strings.NewReader(short)); err == nil || !strings.Contains(err.Error(), "the report ends too early") {
		t.Errorf("its summary counts more than it holds: %v", err)
	}
}
