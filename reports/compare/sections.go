// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/reports/text"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// columns is how many reports stand side by side in 100 columns; more stand
// below each other.
const columns = 6

// section is a part of the page: a table and what is to be known about it.
// The text and the Markdown form write the same sections.
type section struct {
	title string
	table table
	notes []string
}

// table has a head and rows of cells; a cell may have several lines.
type table struct {
	head []string
	rows [][]string
	// numbers is the first column that holds numbers.
	numbers int
	// code is a column of commands; 0: there is none.
	code int
}

func (c *Comparison) sections() []section {
	return filled(c.runs(), c.sources(), c.around(), c.verdicts(), c.changes(), c.lossTable(), c.streamTable())
}

// filled are the sections that say something.
func filled(all ...section) []section {
	return slices.DeleteFunc(all, func(s section) bool { return len(s.table.rows) == 0 && len(s.notes) == 0 })
}

// runs has a row for each report, however many there are.
func (c *Comparison) runs() section {
	s := section{
		title: "Runs",
		table: table{
			head:    []string{"#", "report", "verdict", "passed", "lost/judged", "failed/sent", "median", "worst", "n", "took", "stolen"},
			numbers: 3,
		},
		notes: []string{
			"passed: of the behaviours that were not skipped; lost/judged: requests that the rules count as lost, of those that they judge; failed/sent: attempts through Services " +
				"that had all of their pods to choose from, outside of the control; median, worst: T_lastnew - T_endpoint " +
				"(propagation) of n terminations; stolen: the share of the machine's CPU that its host took for others.",
		},
	}
	for n := range c.Reports {
		r := &c.Reports[n]
		row := []string{
			strconv.Itoa(n + 1), r.Name, r.Verdict.String(), fmt.Sprintf("%d/%d", r.Summary.Passed, tried(r.Summary)),
			text.Thousands(r.Lost) + "/" + text.Thousands(r.Judged), text.Thousands(r.Failed) + "/" + text.Thousands(r.Attempts),
			"-", "-", "-", r.Took.D().Round(time.Second).String(), fmt.Sprintf("%.0f%%", 100*r.Stolen),
		}
		if p := r.Propagation; p != nil {
			row[6], row[7], row[8] = text.Latency(p.Median), text.Latency(p.Worst), strconv.Itoa(p.N)
		}
		s.table.rows = append(s.table.rows, row)
	}
	return s
}

// sources is the legend: which report was read where.
func (c *Comparison) sources() section {
	s := section{title: "Where they were read", table: table{head: []string{"#", "path"}, numbers: 2}}
	for n := range c.Reports {
		if from := c.Reports[n].From; from != "" {
			s.table.rows = append(s.table.rows, []string{strconv.Itoa(n + 1), from})
		}
	}
	return s
}

// tried counts what was recorded to be judged: a run is not to blame for what its stage
// does not carry.
func tried(s v1alpha1.Summary) int { return s.Passed + s.Failed + s.Inconclusive + s.Errors }

// around lists what differs around the runs.
func (c *Comparison) around() section {
	s := section{title: "What differs around them", table: table{head: []string{"what", "value (reports)"}, numbers: 2}}
	if len(c.Differences) == 0 {
		s.notes = []string{"Nothing that the reports tell of."}
	}
	for _, d := range c.Differences {
		s.table.rows = append(s.table.rows, []string{d.Name, grouped(d.Values, "\n")})
	}
	return s
}

// grouped writes each value once, with the reports that have it:
// "iptables (1, 3-5)".
func grouped(values []string, between string) string {
	var order []string
	who := map[string][]int{}
	for i, v := range values {
		if len(who[v]) == 0 {
			order = append(order, v)
		}
		who[v] = append(who[v], i+1)
	}
	if len(order) == 1 {
		return order[0] + " (all)"
	}
	for i, v := range order {
		order[i] = v + " (" + ranges(who[v]) + ")"
	}
	return strings.Join(order, between)
}

// ranges writes 1, 2, 3, 5 as "1-3, 5".
func ranges(sorted []int) string {
	var out []string
	for i := 0; i < len(sorted); {
		j := i
		for j+1 < len(sorted) && sorted[j+1] == sorted[j]+1 {
			j++
		}
		switch j - i {
		case 0:
			out = append(out, strconv.Itoa(sorted[i]))
		case 1:
			out = append(out, strconv.Itoa(sorted[i]), strconv.Itoa(sorted[j]))
		default:
			out = append(out, fmt.Sprintf("%d-%d", sorted[i], sorted[j]))
		}
		i = j + 1
	}
	return strings.Join(out, ", ")
}

// heads are the reports' names as column heads, a line for each part.
func (c *Comparison) heads() []string {
	out := make([]string, len(c.Reports))
	for i := range c.Reports {
		out[i] = strings.Join(append([]string{strconv.Itoa(i + 1)}, c.Reports[i].parts...), "\n")
	}
	return out
}

// words are the verdicts as they fit into a column.
var words = map[spec.Verdict]string{
	spec.Pass: "Pass", spec.Fail: "FAIL", spec.Inconclusive: "Inconcl.", spec.Error: "Error", spec.Skipped: "Skipped",
}

// marks stand before the behaviours whose verdicts differ.
const (
	markWorse   = "!"
	markChanged = "~"
)

func (b *Behaviour) mark() string {
	switch {
	case b.Worse:
		return markWorse
	case b.Changed:
		return markChanged
	}
	return ""
}

func (b *Behaviour) words() []string {
	out := make([]string, len(b.Judged))
	for i, j := range b.Judged {
		switch {
		case j != nil:
			out[i] = words[j.Verdict]
		case b.Absent[i] == Missing:
			out[i] = Missing
		default:
			out[i] = "-"
		}
	}
	return out
}

// all says whether every report has the behaviour, with this verdict.
func (b *Behaviour) all(v spec.Verdict) bool {
	return !slices.ContainsFunc(b.Judged, func(j *Judged) bool { return j == nil || j.Verdict != v })
}

func (c *Comparison) verdicts() section {
	s := section{title: "Verdicts"}
	var notes []string
	alike, skipped := 0, 0 // cells of matrices are many, and so is what a stage does not carry
	if c.Changed() > 0 {
		notes = append(notes, markWorse+": worse than in report 1", markChanged+": not the same in all")
	}
	if c.absent(Missing) > 0 {
		notes = append(notes, Missing+": that run was to judge it, and its report does not have it")
	}
	if c.absent(NotSelected) > 0 {
		notes = append(notes, "-: "+NotSelected+" in that run, which is no difference")
	}
	s.table.head = []string{"", "level", "behaviour", "verdict (reports)"}
	wide := len(c.Reports) <= columns
	if wide {
		s.table.head = append(s.table.head[:3], c.heads()...)
	}
	s.table.numbers = len(s.table.head)
	for i := range c.Behaviours {
		b := &c.Behaviours[i]
		if b.Level == LevelCell && !b.Changed {
			alike++
			continue
		}
		if b.all(spec.Skipped) {
			skipped++
			continue
		}
		row := []string{b.mark(), string(b.Level), b.Name}
		if wide {
			row = append(row, b.words()...)
		} else {
			row = append(row, grouped(b.words(), ", "))
		}
		s.table.rows = append(s.table.rows, row)
	}
	if skipped > 0 {
		notes = append(notes, plural(skipped, "behaviour was skipped in every run, and is not shown", "behaviours were skipped in every run, and are not shown"))
	}
	if alike > 0 {
		notes = append(notes, plural(alike, "cell of the kill matrices is no different, and not shown", "cells of the kill matrices are no different, and not shown"))
	}
	if len(notes) > 0 {
		s.notes = []string{strings.Join(notes, "; ") + "."}
	}
	return s
}

// absent counts the behaviours that some report lacks, for this reason.
func (c *Comparison) absent(why string) int {
	n := 0
	for _, b := range c.Behaviours {
		if slices.Contains(b.Absent, why) {
			n++
		}
	}
	return n
}

// changes tells, where verdicts differ, what the first report saw and what the
// others saw that judged otherwise.
func (c *Comparison) changes() section {
	s := section{title: "Where verdicts differ", table: table{head: []string{"behaviour", "#", "verdict", "seen, and the evidence"}, numbers: 4}}
	for i := range c.Behaviours {
		b := &c.Behaviours[i]
		if !b.Changed {
			continue
		}
		name := b.Name
		for n, j := range b.Judged {
			if n > 0 && agree(j, b.Judged[0]) || j == nil && b.Absent[n] == NotSelected {
				continue
			}
			row := []string{name, strconv.Itoa(n + 1), Missing, "this run was to judge it, and its report does not have it"}
			if j != nil {
				row[2], row[3] = words[j.Verdict], j.Seen
				for _, e := range j.Evidence {
					line := text.Counted(e)
					if !e.Met() {
						line += " (too few: " + text.Thousands(e.Floor) + " needed)"
					}
					row[3] += "\n" + line
				}
			}
			s.table.rows = append(s.table.rows, row)
			name = ""
		}
	}
	return s
}

// agree says whether two reports say the same of a behaviour.
func agree(a, b *Judged) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Verdict == b.Verdict && a.off == b.off
}

func (c *Comparison) lossTable() section {
	s := section{title: "Losses, and how sure they are"}
	wide := len(c.Reports) <= columns
	if wide {
		s.table.head, s.table.numbers = append([]string{"behaviour"}, c.heads()...), 1
		s.notes = []string{"Requests lost of those judged, and the 95% bound per request within these terminations; terminations " +
			"that lost something of all, and the 95% bound per termination."}
	} else {
		s.table.head = []string{"behaviour", "lost", "of, at least", "per request", "terminations hit", "per termination"}
		s.table.numbers = 1
		s.notes = []string{"Lost and hit: over all reports, with the reports where any was; per request, per termination: the widest 95% bound of one report."}
	}
	for i := range c.Losses {
		l := &c.Losses[i]
		if !wide {
			s.table.rows = append(s.table.rows, l.folded())
			continue
		}
		row := []string{l.Behaviour + "\n  " + cut(l.Check, 36)}
		for _, b := range l.Bounds {
			cell := "-"
			if b != nil {
				cell = strings.Join([]string{
					text.Thousands(b.Lost) + "/" + text.Thousands(b.Requests), "≤" + text.Percent(b.PerRequest),
					fmt.Sprintf("%d/%d", b.Affected, b.Terminations), "≤" + text.Percent(b.PerTermination),
				}, "\n")
			}
			row = append(row, cell)
		}
		s.table.rows = append(s.table.rows, row)
	}
	return s
}

// folded is a loss over many reports in one row.
func (l *Loss) folded() []string {
	var lost, requests, hit, all int
	var perRequest, perTermination float64
	var where []int
	first := true
	for i, b := range l.Bounds {
		if b == nil {
			continue
		}
		if b.Lost > 0 {
			where = append(where, i+1)
		}
		if first || b.Requests < requests {
			requests, first = b.Requests, false
		}
		lost, hit, all = lost+b.Lost, hit+b.Affected, all+b.Terminations
		perRequest, perTermination = max(perRequest, b.PerRequest), max(perTermination, b.PerTermination)
	}
	n := text.Thousands(lost)
	if lost > 0 {
		n += " (in " + ranges(where) + ")"
	}
	return []string{
		l.Behaviour, n, text.Thousands(requests), "≤" + text.Percent(perRequest),
		fmt.Sprintf("%d/%d", hit, all), "≤" + text.Percent(perTermination),
	}
}

// cut shortens a text that has to fit.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return strings.TrimRight(string(r[:n-3]), " ,;:") + "..."
	}
	return s
}

// streamTable has the streams in which clients saw a failure. Those that dial
// an instance or a node by itself go on after its exit, so that their failures
// say nothing in sum: what they lost is among the losses.
func (c *Comparison) streamTable() section {
	s := section{title: "Streams that saw failures", table: table{numbers: 2}}
	wide := len(c.Reports) <= columns
	s.table.head = []string{"recording", "stream"}
	if wide {
		s.table.head = append(s.table.head, c.heads()...)
	} else {
		s.table.head = append(s.table.head, "failed of attempts (reports)")
	}
	for i := range c.Streams {
		x := &c.Streams[i]
		if x.Control || !v1alpha1.ThroughService(x.Name) || !slices.ContainsFunc(x.Tallies, func(t *Tally) bool { return t != nil && t.Failed > 0 }) {
			continue
		}
		row := []string{x.Scenario, x.Name}
		var cells []string
		for n, t := range x.Tallies {
			switch {
			case t == nil && wide:
				cells = append(cells, "-")
			case t == nil, t.Failed == 0 && !wide:
			case wide:
				cells = append(cells, text.Thousands(t.Failed)+"/"+text.Thousands(t.Attempts))
			default:
				cells = append(cells, fmt.Sprintf("%s/%s (%d)", text.Thousands(t.Failed), text.Thousands(t.Attempts), n+1))
			}
		}
		if !wide {
			cells = []string{strings.Join(cells, ", ")}
		}
		s.table.rows = append(s.table.rows, append(row, cells...))
	}
	if len(s.table.rows) > 0 {
		s.notes = []string{"Failed of attempts, over the whole recording. A rule judges only what its window and its streams cover, " +
			"and some recordings leave a Service without any pod on purpose."}
	}
	return s
}

// conclusion is the last line.
func (c *Comparison) conclusion() string {
	all, changed := len(c.Behaviours), c.Changed()
	judged := slices.ContainsFunc(c.Behaviours, func(b Behaviour) bool { return b.Level != LevelRun })
	switch {
	case !judged && changed == 0:
		return "No report judged any behaviour."
	case changed == 0 && c.absent(NotSelected) > 0:
		return fmt.Sprintf("SAME: no verdict differs; %s of %d not selected in every run.",
			plural(c.absent(NotSelected), "verdict", "verdicts"), all)
	case changed == 0:
		return fmt.Sprintf("SAME: %s in all %d reports.", plural(all, "verdict is the same", "verdicts are the same"), len(c.Reports))
	case len(c.Worse) == 0:
		return fmt.Sprintf("CHANGED: %s of %d; nothing that fails a run is worse than in report 1.", plural(changed, "verdict differs", "verdicts differ"), all)
	}
	return fmt.Sprintf("WORSE: %s of %d; worse than in report 1 at a level that fails a run: %s.",
		plural(changed, "verdict differs", "verdicts differ"), all, strings.Join(c.WorseInWords(), ", "))
}

// WorseInWords are the behaviours that are worse, with a word for those that
// have vanished.
func (c *Comparison) WorseInWords() []string {
	out := slices.Clone(c.Worse)
	for i := range out {
		at := slices.IndexFunc(c.Behaviours, func(b Behaviour) bool { return b.Name == c.Worse[i] })
		var where []int
		for n, why := range c.Behaviours[at].Absent {
			if why == Missing {
				where = append(where, n+1)
			}
		}
		if len(where) > 0 {
			out[i] += " (" + Missing + " in " + ranges(where) + ")"
		}
	}
	return out
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return text.Thousands(n) + " " + many
}
