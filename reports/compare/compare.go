// SPDX-License-Identifier: Apache-2.0

// Package compare holds reports against each other: what changed between
// versions, modes and runs. The first report is what the others are held
// against. What is written is a function of the reports, and of nothing else.
package compare

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Kind is the type of the comparison's document; its API version is the
// report's.
const Kind = "ReportComparison"

// Input is one report of a comparison.
type Input struct {
	// From says where it was read.
	From   string
	Report *v1alpha1.ConformanceReport
}

// Comparison is what two or more reports say beside each other. A list with
// one entry for each report has them in the reports' order.
type Comparison struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Reports    []Report `json:"reports"`
	// Differences are those of the surroundings: what is the same in all
	// reports is not listed.
	Differences []Difference `json:"differences,omitempty"`
	// Behaviours begin with those whose verdicts differ.
	Behaviours []Behaviour `json:"behaviours,omitempty"`
	Losses     []Loss      `json:"losses,omitempty"`
	Streams    []Stream    `json:"streams,omitempty"`
	// Worse are the behaviours that fail a run and whose verdict is worse in
	// some report than in the first, or missing there; the cells of kill matrices
	// that are, and the runs as a whole.
	Worse []string `json:"worse,omitempty"`
}

// Why a report has no verdict on a behaviour.
const (
	// Missing: its run selected the behaviour, and its report does not have it.
	Missing = "missing"
	// NotSelected: its run was not asked for it.
	NotSelected = "not selected"
)

// The levels of rows that are no behaviour's.
const (
	// LevelRun is a run's own verdict: of its errors and its controls too.
	LevelRun spec.Level = "RUN"
	// LevelCell is a cell of a kill matrix: what a behaviour made of a fault.
	LevelCell spec.Level = "FAULT"
)

// Report is one report in short.
type Report struct {
	// Name says what tells this report from the others.
	Name string            `json:"name"`
	From string            `json:"from,omitempty"`
	Date time.Time         `json:"date"`
	Took v1alpha1.Duration `json:"took,omitempty"`
	// Stolen is the share of the CPU that the host took for others meanwhile.
	Stolen  float64          `json:"stolen,omitempty"`
	Verdict spec.Verdict     `json:"verdict"`
	Summary v1alpha1.Summary `json:"summary"`
	// Attempts and Failed are those of clients that come through a Service, on
	// the ways on which it has all of its pods to choose from, in all recordings
	// but the control's.
	Attempts int `json:"attempts"`
	Failed   int `json:"failed"`
	// Judged and Lost are summed over the rules: a request that two rules
	// judge is counted by both.
	Judged      int                   `json:"judged"`
	Lost        int                   `json:"lost"`
	P           v1alpha1.Duration     `json:"p"`
	Propagation *v1alpha1.Propagation `json:"propagation,omitempty"`
	Connections *v1alpha1.Connections `json:"connections,omitempty"`
	// Command makes such a report again.
	Command string `json:"command,omitempty"`

	// parts are the name's, one for each thing that differs.
	parts []string
	// setting is where it ran, as far as a finding depends on it.
	setting setting
	// spread is T_lastnew - T_endpoint of each termination in which something
	// else was ready.
	spread []time.Duration
}

// Difference is something around the runs that is not the same in all.
type Difference struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

// Behaviour is one behaviour, or a variant of it, in all reports; or, by its
// level, a run as a whole or a cell of a kill matrix.
type Behaviour struct {
	Name  string     `json:"name"`
	Level spec.Level `json:"level"`
	// Changed: the verdicts are not all the same. Worse: one is worse than
	// the first report's.
	Changed bool `json:"changed,omitempty"`
	Worse   bool `json:"worse,omitempty"`
	// Judged has nil where a report does not have the behaviour; Absent says
	// why, and is empty where all have it.
	Judged []*Judged `json:"judged"`
	Absent []string  `json:"absent,omitempty"`
}

// Judged is what one report says of a behaviour.
type Judged struct {
	Verdict spec.Verdict `json:"verdict"`
	// Seen and Evidence are given where verdicts differ.
	Seen     string       `json:"seen,omitempty"`
	Evidence []spec.Count `json:"evidence,omitempty"`

	// off says how far a cell is from what was written down of it: a behaviour
	// that passes under its own fault is no better than one that fails.
	off int
}

// Loss is what one check counted as lost.
type Loss struct {
	Behaviour string         `json:"behaviour"`
	Check     string         `json:"check"`
	Scenario  string         `json:"scenario,omitempty"`
	Bounds    []*spec.Bounds `json:"bounds"`
}

// Stream is one flow of load in one recording, as its clients saw it. What
// failed there need not have broken a rule: a client that dials an instance
// itself goes on after its exit.
type Stream struct {
	Scenario string `json:"scenario"`
	Name     string `json:"name"`
	// Control: failures are what this recording is for.
	Control bool     `json:"control,omitempty"`
	Tallies []*Tally `json:"tallies"`
}

// Tally counts attempts.
type Tally struct {
	Attempts int            `json:"attempts"`
	Failed   int            `json:"failed"`
	Outcomes map[string]int `json:"outcomes,omitempty"`
}

// Of compares reports with the first of them.
func Of(in []Input) (*Comparison, error) {
	if len(in) < 2 {
		return nil, errors.New("a comparison takes two reports or more")
	}
	c := &Comparison{APIVersion: v1alpha1.APIVersion, Kind: Kind}
	for _, i := range in {
		c.Reports = append(c.Reports, summary(i))
	}
	c.Differences = surroundings(in)
	name(c.Reports, in)
	c.behaviours(in)
	c.losses(in)
	c.streams(in)
	return c, nil
}

// Disagree are the behaviours of which two reports have verdicts that are not the same, better or worse, at whatever
// level; both are those that two reports judge. What is inconclusive says neither.
func (c *Comparison) Disagree() (names []string, both int) {
	for i := range c.Behaviours {
		b := &c.Behaviours[i]
		if b.Level == LevelRun {
			continue
		}
		var said []*Judged
		for _, j := range b.Judged {
			if j != nil && j.Verdict != spec.Inconclusive {
				said = append(said, j)
			}
		}
		if len(said) < 2 {
			continue
		}
		both++
		if slices.ContainsFunc(said[1:], func(j *Judged) bool { return !agree(j, said[0]) }) {
			names = append(names, b.Name)
		}
	}
	slices.Sort(names)
	return names, both
}

// Changed counts the behaviours whose verdicts differ.
func (c *Comparison) Changed() int {
	n := 0
	for _, b := range c.Behaviours {
		if b.Changed {
			n++
		}
	}
	return n
}

func summary(i Input) Report {
	r := i.Report
	out := Report{
		From: i.From, Date: r.Metadata.Date, Took: r.Metadata.Took, Verdict: r.Verdict, Summary: r.Summary,
		P: r.Settings.P, Propagation: r.Propagation,
		Command: command(r), setting: settingOf(r),
	}
	if l := r.Environment.Load; l != nil {
		out.Stolen = l.Stolen
	}
	for k := range r.Scenarios {
		s := &r.Scenarios[k]
		if foreign(r, s) {
			continue
		}
		if n := s.Connections; n != nil && !control(r, s) {
			if out.Connections == nil {
				out.Connections = &v1alpha1.Connections{}
			}
			out.Connections.Add(*n)
		}
		for _, x := range s.Streams {
			if v1alpha1.ThroughService(x.Name) && !control(r, s) {
				out.Attempts += x.Attempts
				out.Failed += x.Failed
			}
		}
		for _, t := range s.Terminations {
			if t.Propagation != nil {
				out.spread = append(out.spread, t.Propagation.D())
			}
		}
	}
	for _, b := range r.Behaviours {
		for _, f := range b.Findings {
			if f.Bounds != nil {
				out.Judged += f.Bounds.Requests
				out.Lost += f.Bounds.Lost
			}
		}
	}
	return out
}

// foreign says whether a recording is of something that was broken on purpose
// while the run was not about that: what it shows is no property of the system.
func foreign(r *v1alpha1.ConformanceReport, s *v1alpha1.Scenario) bool {
	return s.Fault != "" && s.Fault != r.Settings.Fault
}

// control says whether all that a recording serves is to prove that the suite
// can see.
func control(r *v1alpha1.ConformanceReport, s *v1alpha1.Scenario) bool {
	if len(s.Behaviours) == 0 {
		return false
	}
	for _, id := range s.Behaviours {
		for i := range r.Behaviours {
			if r.Behaviours[i].ID == id && r.Behaviours[i].Level != spec.Control {
				return false
			}
		}
	}
	return true
}

// position finds an element by what identifies it, or appends a new one.
func position[T any](all *[]T, is func(*T) bool, fresh func() T) *T {
	for i := range *all {
		if is(&(*all)[i]) {
			return &(*all)[i]
		}
	}
	*all = append(*all, fresh())
	return &(*all)[len(*all)-1]
}

func (c *Comparison) behaviours(in []Input) {
	for n, i := range in {
		add := func(name string, level spec.Level, j *Judged) {
			row := position(&c.Behaviours,
				func(x *Behaviour) bool { return x.Name == name },
				func() Behaviour { return Behaviour{Name: name, Level: level, Judged: make([]*Judged, len(in))} })
			row.Judged[n] = j
		}
		for k := range i.Report.Behaviours {
			b := &i.Report.Behaviours[k]
			add(b.Name(), b.Level, judged(b))
		}
		if m := i.Report.Matrix; m != nil {
			for _, row := range m.Rows {
				for _, cell := range row.Cells {
					add(fmt.Sprintf("%s under %s", cell.Behaviour, row.Fault), LevelCell, judgedCell(cell))
				}
			}
		}
		add(wholeRun(i.Report), LevelRun, judgedRun(i.Report))
	}
	// What only one run was asked for, there is nothing to hold against.
	c.Behaviours = slices.DeleteFunc(c.Behaviours, func(b Behaviour) bool {
		others := slices.DeleteFunc(slices.Clone(b.Judged), func(j *Judged) bool { return j == nil })
		return b.Level == LevelRun && len(others) < 2
	})
	// Where all were asked for the same, nobody need be told what.
	isRun := func(b Behaviour) bool { return b.Level == LevelRun }
	if at := slices.IndexFunc(c.Behaviours, isRun); at >= 0 && !slices.ContainsFunc(c.Behaviours[at+1:], isRun) {
		c.Behaviours[at].Name = aWholeRun
	}
	for i := range c.Behaviours {
		b := &c.Behaviours[i]
		b.absent(in)
		// Where the first was not asked for it, the others are held against the
		// first that was.
		at := slices.IndexFunc(b.Judged, func(j *Judged) bool { return j != nil })
		if b.Absent != nil && b.Absent[0] == Missing {
			at = 0
		}
		first := b.Judged[at]
		for n, j := range b.Judged {
			switch {
			case n == at:
			case j == nil && b.Absent[n] == NotSelected:
			case (j == nil) != (first == nil):
				b.Changed = true
				b.Worse = b.Worse || n > 0 && at == 0 && j == nil
			case j != nil && (j.Verdict != first.Verdict || j.off != first.off):
				b.Changed = true
				b.Worse = b.Worse || at == 0 && b.worse(first, j)
			}
		}
		if !b.Changed {
			for _, j := range b.Judged {
				if j != nil {
					j.Seen, j.Evidence = "", nil
				}
			}
		}
		// A control that fails takes away what the rest leans on.
		if b.Worse && slices.Contains([]spec.Level{spec.Must, spec.Control, LevelCell, LevelRun}, b.Level) {
			c.Worse = append(c.Worse, b.Name)
		}
	}
	slices.Sort(c.Worse)
	slices.SortFunc(c.Behaviours, func(a, b Behaviour) int {
		if d := weight(b) - weight(a); d != 0 {
			return d
		}
		return strings.Compare(a.Name, b.Name)
	})
}

// absent says of each report that lacks the behaviour why it does.
func (b *Behaviour) absent(in []Input) {
	if !slices.Contains(b.Judged, nil) {
		return
	}
	b.Absent = make([]string, len(in))
	for n, j := range b.Judged {
		if j != nil {
			continue
		}
		b.Absent[n] = NotSelected
		if b.Level == LevelRun {
			continue
		}
		is, kind := in[n].Report.Settings, matrixOf(in[n].Report)
		id, _, _ := strings.Cut(b.Name, "[")
		asked := b.Level != LevelCell && kind == "" && (len(is.Labels)+len(is.Selected) == 0 || slices.Contains(is.Selected, id))
		for k, other := range in {
			was := other.Report.Settings
			asked = asked || b.Judged[k] != nil && kind == matrixOf(other.Report) && slices.Equal(is.Labels, was.Labels) && slices.Equal(is.Selected, was.Selected)
		}
		if asked {
			b.Absent[n] = Missing
		}
	}
}

// weight puts what got worse first, and then what changed.
func weight(b Behaviour) int {
	switch {
	case b.Worse:
		return 2
	case b.Changed:
		return 1
	}
	return 0
}

// worse says whether a verdict went down. What is skipped is no worse: it was
// not tried.
func worse(was, is spec.Verdict) bool {
	return is != was && is != spec.Skipped && is != spec.Pass && spec.Worse(was, is) == is
}

func (b *Behaviour) worse(was, is *Judged) bool {
	if b.Level == LevelCell {
		return is.off > was.off
	}
	return worse(was.Verdict, is.Verdict)
}

// matrixOf is the kind of a run's kill matrix; "" for a run about a system.
func matrixOf(r *v1alpha1.ConformanceReport) string {
	if r.Matrix == nil {
		return ""
	}
	return r.Matrix.Kind
}

// aWholeRun is the name of the row of LevelRun.
const aWholeRun = "the run as a whole"

// wholeRun names a run as a whole by what it was asked for: the verdict of
// another selection, or of a stricter run, is another verdict.
func wholeRun(r *v1alpha1.ConformanceReport) string {
	what := slices.Concat(r.Settings.Labels, r.Settings.Selected)
	if kind := matrixOf(r); kind != "" {
		what = append(what, kind+" matrix")
	}
	if r.Settings.Strict {
		what = append(what, "strict")
	}
	if len(what) == 0 {
		return aWholeRun
	}
	return aWholeRun + " (" + strings.Join(what, ", ") + ")"
}

func judgedRun(r *v1alpha1.ConformanceReport) *Judged {
	s := r.Summary
	seen := []string{fmt.Sprintf("%d passed, %d failed, %d inconclusive, %d error, %d skipped", s.Passed, s.Failed, s.Inconclusive, s.Errors, s.Skipped)}
	if m := r.Matrix; m != nil {
		seen = append(seen, fmt.Sprintf("matrix: %s, %s", plural(len(m.Problems), "problem", "problems"), plural(len(m.Doubts), "doubt", "doubts")))
	}
	for _, c := range r.Controls {
		if c.Verdict != spec.Pass && c.Verdict != spec.Skipped {
			seen = append(seen, strings.TrimSpace(fmt.Sprintf("control %s %s", c.Name, cmp.Or(c.Client, c.Path)))+": "+c.Verdict.String())
		}
	}
	return &Judged{Verdict: r.Verdict, Seen: strings.Join(append(seen, r.Errors...), "; ")}
}

func judgedCell(c v1alpha1.MatrixCell) *Judged {
	j := &Judged{Verdict: c.Verdict, Seen: c.Reason}
	switch {
	case c.Doubt || c.Verdict == spec.Inconclusive && c.Expected != spec.Inconclusive:
		j.off = 1
	case c.Verdict != c.Expected:
		j.off = 2
	}
	if j.Seen == "" && c.Verdict == spec.Fail {
		j.Seen = plural(c.Culprits, "culprit", "culprits")
	}
	if j.off > 0 {
		j.Seen = strings.TrimSuffix(fmt.Sprintf("expected %s: %s", c.Expected, j.Seen), ": ")
	}
	return j
}

func judged(b *v1alpha1.Behaviour) *Judged {
	j := &Judged{Verdict: b.Verdict, Seen: b.Reason}
	for _, f := range b.Findings {
		j.Evidence = append(j.Evidence, f.Evidence...)
		if f.Verdict == b.Verdict && j.Seen == "" {
			j.Seen = f.Actual
		}
	}
	return j
}

func (c *Comparison) losses(in []Input) {
	for n, i := range in {
		for k := range i.Report.Behaviours {
			b := &i.Report.Behaviours[k]
			for _, f := range b.Findings {
				if f.Bounds == nil {
					continue
				}
				row := position(&c.Losses,
					func(x *Loss) bool { return x.Behaviour == b.Name() && x.Check == f.Check },
					func() Loss {
						return Loss{Behaviour: b.Name(), Check: f.Check, Scenario: b.Scenario, Bounds: make([]*spec.Bounds, len(in))}
					})
				row.Bounds[n] = f.Bounds
			}
		}
	}
	slices.SortStableFunc(c.Losses, func(a, b Loss) int {
		if (a.lost() > 0) != (b.lost() > 0) {
			return min(1, b.lost()) - min(1, a.lost())
		}
		return strings.Compare(a.Behaviour, b.Behaviour)
	})
}

func (l *Loss) lost() int {
	n := 0
	for _, b := range l.Bounds {
		if b != nil {
			n += b.Lost
		}
	}
	return n
}

func (c *Comparison) streams(in []Input) {
	for n, i := range in {
		for k := range i.Report.Scenarios {
			s := &i.Report.Scenarios[k]
			if foreign(i.Report, s) {
				continue
			}
			add := func(name string, t Tally) {
				row := position(&c.Streams,
					func(x *Stream) bool { return x.Scenario == s.Name && x.Name == name },
					func() Stream {
						return Stream{Scenario: s.Name, Name: name, Control: control(i.Report, s), Tallies: make([]*Tally, len(in))}
					})
				row.Tallies[n] = &t
			}
			for _, x := range s.Streams {
				add(x.Name, Tally{Attempts: x.Attempts, Failed: x.Failed, Outcomes: x.Outcomes})
			}
			for _, x := range s.Pressure {
				add("pressure/"+x.Name, Tally{Attempts: x.Requests, Failed: x.Errors})
			}
			if l := s.Ledger; l != nil {
				add("ledger/lost or run twice", Tally{Attempts: l.Begun, Failed: l.Lost + l.Duplicated})
			}
		}
	}
}
