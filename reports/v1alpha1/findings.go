// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Findings are what the checks of one behaviour said. The spec package counts
// in nanoseconds; here the same fields read and write as readable durations.
type Findings []spec.Finding

// finding is the wire form of a spec.Finding: field by field the same, but
// for the types of its times.
type finding struct {
	Check        string       `json:"check"`
	Verdict      spec.Verdict `json:"verdict"`
	Expected     string       `json:"expected"`
	Actual       string       `json:"actual"`
	Window       window       `json:"window"`
	Evidence     []spec.Count `json:"evidence,omitempty"`
	Bounds       *spec.Bounds `json:"bounds,omitempty"`
	Culprits     []culprit    `json:"culprits,omitempty"`
	MoreCulprits int          `json:"moreCulprits,omitempty"`
	Cause        string       `json:"cause,omitempty"`
}

type window struct {
	From Duration `json:"from"`
	To   Duration `json:"to"`
}

type culprit struct {
	At     Duration `json:"at"`
	Target string   `json:"target,omitempty"`
	ID     string   `json:"id,omitempty"`
	Text   string   `json:"text"`
}

// Failed are the names of the checks that failed.
func (fs Findings) Failed() []string {
	var out []string
	for _, f := range fs {
		if f.Verdict == spec.Fail {
			out = append(out, f.Check)
		}
	}
	return out
}

// MarshalJSON writes the findings with readable durations.
func (fs Findings) MarshalJSON() ([]byte, error) {
	out := make([]finding, 0, len(fs))
	for _, f := range fs {
		w := finding{
			Check: f.Check, Verdict: f.Verdict, Expected: f.Expected, Actual: f.Actual,
			Window:   window{From: Duration(f.Window.From), To: Duration(f.Window.To)},
			Evidence: f.Evidence, Bounds: f.Bounds, MoreCulprits: f.MoreCulprits, Cause: f.Cause,
		}
		for _, c := range f.Culprits {
			w.Culprits = append(w.Culprits, culprit{At: Duration(c.At), Target: c.Target, ID: c.ID, Text: c.Text})
		}
		out = append(out, w)
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads findings, and refuses fields that it does not know.
func (fs *Findings) UnmarshalJSON(b []byte) error {
	var in []finding
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return fmt.Errorf("findings: %w", err)
	}
	*fs = nil
	for _, w := range in {
		f := spec.Finding{
			Check: w.Check, Verdict: w.Verdict, Expected: w.Expected, Actual: w.Actual,
			Window:   spec.Window{From: time.Duration(w.Window.From), To: time.Duration(w.Window.To)},
			Evidence: w.Evidence, Bounds: w.Bounds, MoreCulprits: w.MoreCulprits, Cause: w.Cause,
		}
		for _, c := range w.Culprits {
			f.Culprits = append(f.Culprits, spec.Culprit{At: time.Duration(c.At), Target: c.Target, ID: c.ID, Text: c.Text})
		}
		*fs = append(*fs, f)
	}
	return nil
}
