// SPDX-License-Identifier: Apache-2.0

package text_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lastcall-dev/lastcall/reports/text"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/reports/yaml"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestGolden renders each testdata/*.yaml and compares it with the .txt.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no reports to render: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			in, err := os.Open(file)
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
			if err := text.Write(&got, r, text.Options{Dir: "lastcall-report/run"}); err != nil {
				t.Fatal(err)
			}
			golden := file[:len(file)-len(".yaml")] + ".txt"
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
				t.Errorf("not as in %s (-want +got); `go test ./reports/text -update` writes it anew\n%s", golden, d)
			}
		})
	}
}

func TestColour(t *testing.T) {
	r := &v1alpha1.ConformanceReport{Behaviours: []v1alpha1.Behaviour{{ID: "pod.x", Level: spec.Must, Verdict: spec.Pass}}}
	r.Conclude()
	for _, colour := range []bool{false, true} {
		var b bytes.Buffer
		if err := text.Write(&b, r, text.Options{Colour: colour}); err != nil {
			t.Fatal(err)
		}
		if got := bytes.Contains(b.Bytes(), []byte("\x1b[")); got != colour {
			t.Errorf("colour %v: escapes %v", colour, got)
		}
	}
	if text.Terminal(&bytes.Buffer{}) {
		t.Error("a buffer is no terminal")
	}
}

func TestBounds(t *testing.T) {
	for _, tc := range []struct {
		in   *spec.Bounds
		want string
	}{
		{nil, ""},
		{
			&spec.Bounds{Terminations: 8, PerTermination: 3. / 8, Requests: 33412, PerRequest: 3. / 33412},
			"0 of 8 terminations lost anything: at most 37.5% of terminations do (95%); 0 of 33,412 requests lost: at most 0.009% within these terminations",
		},
		{
			&spec.Bounds{Terminations: 8, Affected: 2, PerTermination: 0.6509, Requests: 1200, Lost: 7, PerRequest: 0.012},
			"2 of 8 terminations lost something: at most 65.1% of terminations do (95%); 7 of 1,200 requests lost: at most 1.2% within these terminations",
		},
		{
			&spec.Bounds{Terminations: 1, PerTermination: 3, Requests: 1, PerRequest: 3},
			"0 of 1 termination lost anything: too few terminations to say how many do; 0 of 1 request lost: at most 100% within these terminations",
		},
	} {
		if got := text.Bounds(tc.in); got != tc.want {
			t.Errorf("got  %s\nwant %s", got, tc.want)
		}
	}
}
