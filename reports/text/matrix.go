// SPDX-License-Identifier: Apache-2.0

package text

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// letters are what a cell of the kill matrix says in one letter.
var letters = map[spec.Verdict]string{
	spec.Fail: "F", spec.Pass: ".", spec.Inconclusive: "i", spec.Error: "E", spec.Skipped: "s",
}

// matrix prints the kill matrix: behaviours down, faults across.
func (p *page) matrix() {
	m := p.r.Matrix
	if m == nil {
		return
	}
	p.f("%s\n", p.paint(bold, "The kill matrix ("+m.Kind+"): which behaviours notice which fault"))
	var ids []string
	for _, row := range m.Rows {
		for _, c := range row.Cells {
			if !slices.Contains(ids, c.Behaviour) {
				ids = append(ids, c.Behaviour)
			}
		}
	}
	slices.Sort(ids)
	t := tabwriter.NewWriter(&p.b, 0, 8, 1, ' ', 0)
	head := "  behaviour"
	for i := range m.Rows {
		head += fmt.Sprintf("\t%d", i+1)
	}
	fmt.Fprintln(t, head)
	for _, id := range ids {
		line := "  " + id
		for _, row := range m.Rows {
			line += "\t" + cell(row, id)
		}
		fmt.Fprintln(t, line)
	}
	t.Flush()
	p.f("  F failed, as it must; . passed; i inconclusive; E error; a blank was not recorded\n")
	p.f("  ! is not what was written down before (suites/meta/expected)\n\n")
	for i, row := range m.Rows {
		p.wrap(fmt.Sprintf("  %2d  ", i+1), fmt.Sprintf("%s: %s %s", row.Fault, row.Component, row.Does))
		for _, c := range row.Cells {
			if c.Why != "" {
				p.wrap("        ", fmt.Sprintf("%s is %s: %s", c.Behaviour, c.Verdict, c.Why))
			}
		}
	}
	p.f("\n")
	p.f("Killed by a fault of their own: %d of %d.\n\n", len(m.Killed), len(ids))
	if len(m.Problems)+len(m.Doubts) == 0 {
		p.f("No hole, and every cell is as it was written down before.\n\n")
	}
	list := func(colour, title string, all []string) {
		if len(all) == 0 {
			return
		}
		p.f("%s\n", p.paint(colour, title))
		for _, what := range all {
			p.wrap("  - ", what)
		}
		p.f("\n")
	}
	list(red, "What is wrong with it", m.Problems)
	list(yellow, "What proves nothing, for or against the suite", m.Doubts)
	list(bold, "Not put to a fault: this stage can't carry them, and another one's matrix is to prove them", m.Unput)
	list(bold, "Written down too, and not recorded here: no scenario of a behaviour that names the fault has it", m.Unheld)
}

func cell(row v1alpha1.MatrixRow, id string) string {
	for _, c := range row.Cells {
		if c.Behaviour == id {
			if c.Verdict != c.Expected || c.Doubt {
				return letters[c.Verdict] + "!"
			}
			return letters[c.Verdict]
		}
	}
	return ""
}

// timing says what the recordings took, and what they can't take less than.
func (p *page) timing() {
	t := p.r.Timing
	if t == nil || t.Wall == 0 {
		return
	}
	second := func(d v1alpha1.Duration) time.Duration { return d.D().Round(time.Second) }
	var apart []string
	for _, s := range p.r.Scenarios {
		if s.Timing.Alone {
			apart = append(apart, s.Name)
		}
	}
	line := fmt.Sprintf("The recordings took %s. By their own accounts they need %s (the bound): ", second(t.Wall), second(t.Bound))
	if len(apart) > 0 {
		line += strings.Join(apart, ", ") + " must run alone, one after the other, each until its last pod is gone; "
	}
	line += fmt.Sprintf("the others run side by side, for as long as the longest of them takes, or as their work takes on the "+
		"%.1f cores that they may use", t.Cores)
	if t.Bound > 0 {
		line += fmt.Sprintf(". This run took %.2f times the bound", float64(t.Wall)/float64(t.Bound))
	}
	p.wrap("", line+".")
	p.f("\n")
}
