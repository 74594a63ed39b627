// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// The files that stand beside the raw histories, so that a verdict can be
// reached again from the recorded files alone.
const (
	runFile      = "run.json"
	scenarioFile = "scenario.json"
)

// Run is what a report's directory says of the run as a whole. Its Report is
// a skeleton: what was asked for and where it ran, without any verdict.
type Run struct {
	Report v1alpha1.ConformanceReport `json:"report"`
	// Plan are the scenarios that the run meant to record.
	Plan []Scenario `json:"plan"`
	// Cores is how much of the machine those that ran side by side could have;
	// 0: nobody wrote it down.
	Cores float64 `json:"cores,omitempty"`
	// Matrix says that the plan breaks each scenario by a fault of its own.
	Matrix Matrix `json:"matrix,omitempty"`
	// Skipped are selected behaviours that the stage can't carry, by reason.
	Skipped map[string]Skip `json:"skipped,omitempty"`
}

// Skip is why a behaviour is not recorded: the kind of reason, for what counts
// them, and the reason, for people. The zero value: it is recorded.
type Skip struct {
	Kind spec.SkipKind `json:"kind,omitempty"`
	Why  string        `json:"why"`
}

// UnmarshalJSON reads what this version writes, and the plain reason that
// earlier ones wrote.
func (s *Skip) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &s.Why)
	}
	type plain Skip
	return json.Unmarshal(b, (*plain)(s))
}

// Because is a Skip; the zero value where there is no reason.
func Because(kind spec.SkipKind, why string) Skip {
	if why == "" {
		return Skip{}
	}
	return Skip{Kind: kind, Why: why}
}

// The formats of a recording: what one has that earlier ones lack is not missed in
// those.
const (
	// FormatPressure has the summary of the closed-loop load, where the scenario asks
	// for some.
	FormatPressure = 1
	// FormatControl says which scenario is the control: a kill may be a behaviour's own
	// disruption. Its samples name who answered, and not who of what is ended was reached:
	// that is worked out when they are judged (assertions.MarkFront).
	FormatControl = 2
	// Format is that of the recordings that this version makes. A recording without
	// a number is of format 0.
	Format = FormatControl
)

// Meta is what a scenario's directory says of its recording.
type Meta struct {
	// Format is what the recording can be asked for.
	Format   int       `json:"format,omitempty"`
	Scenario Scenario  `json:"scenario"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	// Held is how long before From its history begins: its pods went up, and its load waited for recordings before it.
	Held time.Duration `json:"held,omitempty"`
	// BusyFrom and BusyTo are how much CPU the machine had used by then, in core
	// seconds since its boot; 0: nobody knows.
	BusyFrom float64 `json:"busyFrom,omitempty"`
	BusyTo   float64 `json:"busyTo,omitempty"`
	// Busy is what the machine used in the baseline, in cores.
	Busy float64 `json:"busy,omitempty"`
	// Stolen is the share of the machine's CPU time that its host took for others
	// in the worst second.
	Stolen float64 `json:"stolen,omitempty"`
	// Waited is the share of the recording's time in which something that could run waited
	// for a processor of the machine.
	Waited float64 `json:"waited,omitempty"`
	// Before are earlier recordings of the same, which were made on a busy machine and
	// proved nothing.
	Before []Attempt `json:"before,omitempty"`
	// Clients are the nodes that the clients ran on.
	Clients []string `json:"clients,omitempty"`
	// Ended: the recording came to its end. Without it the history stops
	// where the run was stopped.
	Ended bool `json:"ended"`
	// Lines is how many were written to each file of the history, once it was closed;
	// nil: nobody counted.
	Lines map[string]int `json:"lines,omitempty"`
	// Doubt is why nothing can be concluded, Error what broke; both are
	// empty for a recording that went as planned.
	Doubt string `json:"doubt,omitempty"`
	Error string `json:"error,omitempty"`
}

// Attempt is a recording that was made again.
type Attempt struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Why it proved nothing, and Busy what the machine was short of.
	Why  string `json:"why"`
	Busy string `json:"busy"`
	// History is its directory, beside that of the one that counts.
	History string `json:"history"`
}

func historyDir(dir, scenario string) string {
	return filepath.Join(dir, v1alpha1.HistoryDir, scenario)
}

// writeJSON replaces a file as a whole, so that a killed run leaves either
// the old one or the new one.
func writeJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding %s: %w", path, err)
	}
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return os.Rename(tmp, path)
}

func readJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// readMeta reads what a scenario's directory says of its recording.
func readMeta(dir string) (Meta, error) {
	var m Meta
	err := readJSON(filepath.Join(dir, scenarioFile), &m)
	if m.Format < FormatControl {
		m.Scenario.takeKillForControl()
	}
	return m, err
}

// takeKillForControl makes a scenario that is older than FormatControl say what it is.
func (s *Scenario) takeKillForControl() { s.Control = s.Disrupt.Kind == disrupt.Kill }

// readRun reads a report's directory.
func readRun(dir string) (Run, error) {
	var r Run
	err := readJSON(filepath.Join(dir, runFile), &r)
	if errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("%s holds no recorded run: %s is missing", dir, runFile)
	}
	// Each plan has a control: one that names none is older than FormatControl.
	if !slices.ContainsFunc(r.Plan, func(s Scenario) bool { return s.Control }) {
		for i := range r.Plan {
			r.Plan[i].takeKillForControl()
		}
	}
	return r, err
}
