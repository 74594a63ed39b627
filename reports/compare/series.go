// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/reports/text"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// SeriesKind is the type of a series' document; its API version is the report's.
const SeriesKind = "ReportSeries"

// Series is what several runs of the same say together: how often each behaviour passed, and what its evidence
// comes to.
type Series struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Implementation, Stage and Fault are those of all of them.
	Implementation string     `json:"implementation"`
	Stage          string     `json:"stage"`
	Fault          spec.Fault `json:"fault,omitempty"`
	Reports        []Report   `json:"reports"`
	// Differences are those of the surroundings.
	Differences []Difference `json:"differences,omitempty"`
	// Behaviours begin with those that did not pass each time.
	Behaviours []Repeated `json:"behaviours,omitempty"`
	// Verdict is the worst of all runs, and ExitCode what a run of that would end with.
	Verdict  spec.Verdict `json:"verdict"`
	ExitCode int          `json:"exitCode"`
}

// Repeated is one behaviour, or a variant of it, in all reports of a series.
type Repeated struct {
	Name  string     `json:"name"`
	Level spec.Level `json:"level"`
	// Passed is in how many of Judged reports it passed; where it was skipped, or is not there, it was not judged.
	Passed int `json:"passed"`
	Judged int `json:"judged"`
	// Lost are the losses of each check that bounds them, over all reports in which it passed or failed: what was
	// Inconclusive bounds nothing.
	Lost []Summed `json:"lost,omitempty"`
	// Evidence is that of the same reports, each count once of each, where several checks have it.
	Evidence []spec.Count `json:"evidence,omitempty"`
	// Otherwise is what was said where it did not pass.
	Otherwise []Otherwise `json:"otherwise,omitempty"`
}

// Summed is what one check counted as lost, over all reports.
type Summed struct {
	Check  string       `json:"check"`
	Bounds *spec.Bounds `json:"bounds"`
}

// Otherwise is one report's verdict that is neither Pass nor Skipped. Report is its number, from 1.
type Otherwise struct {
	Report  int          `json:"report"`
	Verdict spec.Verdict `json:"verdict"`
	Seen    string       `json:"seen,omitempty"`
}

// SeriesOf adds reports up. They have to be of the same: of one system on one stage, with one fault or none, and no
// kill matrix, which says nothing of a system.
func SeriesOf(in []Input) (*Series, error) {
	if len(in) < 2 {
		return nil, errors.New("a series takes two reports or more")
	}
	first := in[0].Report
	s := &Series{
		APIVersion: v1alpha1.APIVersion, Kind: SeriesKind,
		Implementation: implementation(first), Stage: first.Stage, Fault: first.Settings.Fault, Verdict: spec.Skipped,
	}
	var bad []error
	for n, i := range in {
		r := i.Report
		once := slices.IndexFunc(in, func(o Input) bool {
			return o.Report.Metadata.Name == r.Metadata.Name && o.Report.Metadata.Date.Equal(r.Metadata.Date)
		})
		switch is := implementation(r); {
		case once < n:
			bad = append(bad, fmt.Errorf("%s and %s are the same report", in[once].From, i.From))
		case r.Matrix != nil:
			bad = append(bad, fmt.Errorf("%s: a kill matrix tests the suite, and is no run of a system", i.From))
		case is != s.Implementation || r.Settings.System != first.Settings.System:
			bad = append(bad, fmt.Errorf("%s is a report of %s, and %s one of %s: add up those of one system", i.From, named(r), in[0].From, named(first)))
		case r.Stage != s.Stage:
			bad = append(bad, fmt.Errorf("%s is of stage %s, and %s of stage %s: their recordings are not alike", i.From, r.Stage, in[0].From, s.Stage))
		case r.Settings.Fault != s.Fault:
			bad = append(bad, fmt.Errorf("%s was run with %s, and %s with %s", i.From, faulty(r), in[0].From, faulty(first)))
		}
		s.Reports = append(s.Reports, summary(i))
		s.Verdict = spec.Worse(s.Verdict, r.Verdict)
		if v1alpha1.WorseExit(r.ExitCode, s.ExitCode) {
			s.ExitCode = r.ExitCode
		}
	}
	if len(bad) > 0 {
		return nil, errors.Join(bad...)
	}
	s.Differences = surroundings(in)
	name(s.Reports, in)
	for n, i := range in {
		for k := range i.Report.Behaviours {
			s.add(n+1, &i.Report.Behaviours[k])
		}
	}
	slices.SortStableFunc(s.Behaviours, func(a, b Repeated) int {
		return cmp.Or(cmp.Compare(b.off(), a.off()), strings.Compare(a.Name, b.Name))
	})
	return s, nil
}

func named(r *v1alpha1.ConformanceReport) string {
	if r.Settings.System == "" {
		return implementation(r)
	}
	return fmt.Sprintf("%s (%s)", r.Settings.System, implementation(r))
}

func faulty(r *v1alpha1.ConformanceReport) string {
	if r.Settings.Fault == "" {
		return "no fault"
	}
	return "fault " + string(r.Settings.Fault)
}

// off is how often it was judged, and did not pass.
func (b Repeated) off() int { return b.Judged - b.Passed }

// add adds what the nth report says of a behaviour.
func (s *Series) add(nth int, b *v1alpha1.Behaviour) {
	if b.Verdict == spec.Skipped {
		return
	}
	row := position(&s.Behaviours,
		func(x *Repeated) bool { return x.Name == b.Name() },
		func() Repeated { return Repeated{Name: b.Name(), Level: b.Level} })
	row.Judged++
	if b.Verdict == spec.Pass {
		row.Passed++
	} else {
		row.Otherwise = append(row.Otherwise, Otherwise{Report: nth, Verdict: b.Verdict, Seen: b.Line()})
	}
	if b.Verdict != spec.Pass && b.Verdict != spec.Fail {
		return
	}
	counted := map[spec.Count]bool{} // in this report, by what it is a count of
	for _, f := range b.Findings {
		if n := f.Bounds; n != nil {
			sum := position(&row.Lost,
				func(x *Summed) bool { return x.Check == f.Check },
				func() Summed { return Summed{Check: f.Check, Bounds: &spec.Bounds{}} })
			was := sum.Bounds
			sum.Bounds = spec.BoundsOf(was.Terminations+n.Terminations, was.Affected+n.Affected, was.Requests+n.Requests, was.Lost+n.Lost)
		}
		for _, e := range f.Evidence {
			// Where each target has a count of its own, the report has the fewest of them.
			if e.At != "" {
				e.Name, e.At = e.Name+", at each", ""
			}
			what := spec.Count{Of: e.Of, Name: e.Name}
			if counted[what] {
				continue
			}
			counted[what] = true
			sum := position(&row.Evidence,
				func(x *spec.Count) bool { return x.Of == e.Of && x.Name == e.Name },
				func() spec.Count { return spec.Count{Of: e.Of, Name: e.Name} })
			sum.N, sum.Floor = sum.N+e.N, sum.Floor+e.Floor
		}
	}
}

// steady counts the behaviours that passed each time.
func (s *Series) steady() int {
	n := 0
	for _, b := range s.Behaviours {
		if b.off() == 0 {
			n++
		}
	}
	return n
}

func (s *Series) sections() []section {
	c := Comparison{Reports: s.Reports, Differences: s.Differences}
	return filled(c.runs(), c.sources(), c.around(), s.otherwise(), s.losses(), s.evidence())
}

// otherwise is what did not pass, and where.
func (s *Series) otherwise() section {
	out := section{title: "What did not pass each time", table: table{head: []string{"level", "behaviour", "passed", "#", "verdict", "seen"}, numbers: 6}}
	for _, b := range s.Behaviours {
		head := []string{string(b.Level), b.Name, b.share()}
		for _, o := range b.Otherwise {
			out.table.rows = append(out.table.rows, append(head, strconv.Itoa(o.Report), words[o.Verdict], o.Seen))
			head = []string{"", "", ""}
		}
	}
	return out
}

func (b Repeated) share() string { return fmt.Sprintf("%d/%d", b.Passed, b.Judged) }

// losses are how sure the whole series makes of what was lost, or was not.
func (s *Series) losses() section {
	out := section{title: "Losses, of all runs together in which it was decided", table: table{head: []string{"behaviour", "lost"}, numbers: 2}}
	for _, b := range s.Behaviours {
		for _, l := range b.Lost {
			out.table.rows = append(out.table.rows, []string{b.Name + "\n  " + cut(l.Check, 48), text.Bounds(l.Bounds)})
		}
	}
	return out
}

// evidence is how often each behaviour passed, and on what.
func (s *Series) evidence() section {
	out := section{title: "Behaviours, and their evidence of all runs together", table: table{head: []string{"level", "behaviour", "passed", "evidence"}, numbers: 4}}
	for _, b := range s.Behaviours {
		var seen []string
		for _, e := range b.Evidence {
			seen = append(seen, text.Counted(e))
		}
		out.table.rows = append(out.table.rows, []string{string(b.Level), b.Name, b.share(), strings.Join(seen, "; ")})
	}
	out.notes = []string{"passed: in so many of the runs that judged it, and did not skip it; evidence: each count of its checks, added up over the runs in which it passed or failed; \"at each\": the fewest that a target had, added up."}
	return out
}

// conclusion is the last line.
func (s *Series) conclusion() string {
	took := time.Duration(0)
	for _, r := range s.Reports {
		took += r.Took.D()
	}
	out := fmt.Sprintf("%s in %s", text.Count(len(s.Reports), "run"), took.Round(time.Second))
	switch all := len(s.Behaviours); {
	case all == 0:
		return out + ": no report judged any behaviour."
	case s.steady() == all:
		return fmt.Sprintf("%s: %s passed each time.", out, plural(all, "behaviour", "behaviours"))
	default:
		return fmt.Sprintf("%s: %d of %s passed each time; the worst verdict of a run is %s.", out, s.steady(), plural(all, "behaviour", "behaviours"), s.Verdict)
	}
}

func (s *Series) title() string {
	out := fmt.Sprintf("%d reports of %s on stage %s", len(s.Reports), s.Implementation, s.Stage)
	if s.Fault != "" {
		out += ", with fault " + string(s.Fault)
	}
	return out + ", added up"
}

// WriteSeriesText writes the series for a person at a terminal.
func WriteSeriesText(w io.Writer, s *Series) error {
	return writeText(w, s.title(), s.sections(), s.conclusion())
}

// WriteSeriesMarkdown writes the series for a page.
func WriteSeriesMarkdown(w io.Writer, s *Series) error {
	return writeMarkdown(w, s.title(), s.sections(), s.conclusion())
}

// WriteSeriesYAML writes the series for a program.
func WriteSeriesYAML(w io.Writer, s *Series) error {
	return writeYAML(w, s)
}
