// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/meta"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// matrix judges the recordings that were broken on purpose, and holds them
// against what was written down of each fault. It is nil for a run that is
// about the system.
func (j *judgement) matrix(run Run, blind blindness) (*v1alpha1.Matrix, error) {
	if run.Matrix == NoMatrix {
		return nil, nil
	}
	out := &v1alpha1.Matrix{Kind: string(run.Matrix)}
	rows := map[spec.Fault]*v1alpha1.MatrixRow{}
	for _, r := range j.recs {
		if !j.ofMatrix(r) {
			continue
		}
		fault := r.meta.Scenario.Fault
		row := rows[fault]
		if row == nil {
			row = &v1alpha1.MatrixRow{Fault: fault}
			for _, f := range Faults() {
				if f.Name == fault {
					row.Component, row.Does = f.Component, f.Does
				}
			}
			rows[fault] = row
		}
		judged, err := j.judge(r, blind)
		if err != nil {
			return nil, err
		}
		for _, v := range judged {
			cell := v1alpha1.MatrixCell{Behaviour: v.ID, Scenario: v.Scenario, Verdict: v.Verdict, Reason: v.Reason}
			for _, f := range v.Findings {
				if f.Verdict == spec.Fail {
					cell.Culprits += len(f.Culprits) + f.MoreCulprits
				}
			}
			if v.Verdict == spec.Fail {
				cell.Failed = v.Findings.Failed()
			}
			row.Cells = append(row.Cells, cell)
		}
	}
	for _, row := range rows {
		slices.SortFunc(row.Cells, func(a, b v1alpha1.MatrixCell) int { return cmp.Compare(a.Behaviour, b.Behaviour) })
		out.Rows = append(out.Rows, *row)
	}
	slices.SortFunc(out.Rows, func(a, b v1alpha1.MatrixRow) int { return cmp.Compare(a.Fault, b.Fault) })
	meta.Check(out, Breaks)
	problems, doubts, unput, killed := j.holes(out)
	out.Killed, out.Unput = killed, unput
	out.Problems = append(out.Problems, problems...)
	out.Doubts = append(out.Doubts, doubts...)
	for _, id := range slices.Sorted(maps.Keys(run.Skipped)) {
		out.Unput = append(out.Unput, fmt.Sprintf("%s: %s", id, run.Skipped[id].Why))
	}
	out.Unheld = unheld(out)
	return out, nil
}

// put is what became of a behaviour, by the faults that it was put to.
type put struct {
	failed map[spec.Fault]bool
	// unsure are those that nothing is known of, for or against the suite.
	unsure map[spec.Fault]bool
	// checks are those that some fault failed.
	checks map[string]bool
}

// surely says whether a behaviour was put to each of the faults, and no judgement
// of it is in doubt.
func (p *put) surely(faults []spec.Fault) bool {
	for _, f := range faults {
		if _, was := p.failed[f]; !was {
			return false
		}
	}
	return len(p.unsure) == 0
}

// holes are the behaviours that no fault of theirs killed, and, in a whole
// matrix, checks that nothing fails, behind another one that fails, and pairs
// in one scenario that fail under the same faults. What a doubt is about already
// is no hole, and no more than a doubt where it makes one; and a check is unput that only
// faults are said to fail which the stage can't carry. killed are the others.
func (j *judgement) holes(m *v1alpha1.Matrix) (problems, doubts, unput, killed []string) {
	told := map[string]*put{}
	of := func(id string) *put {
		if told[id] == nil {
			told[id] = &put{failed: map[spec.Fault]bool{}, unsure: map[spec.Fault]bool{}, checks: map[string]bool{}}
		}
		return told[id]
	}
	for _, row := range m.Rows {
		for _, c := range row.Cells {
			p := of(c.Behaviour)
			p.failed[row.Fault] = c.Verdict == spec.Fail
			if c.Doubt || c.Verdict == spec.Error {
				p.unsure[row.Fault] = true
			}
			for _, name := range c.Failed {
				p.checks[name] = true
			}
		}
	}
	doubtful := func(id string) bool { return len(of(id).unsure) > 0 }
	var together [][]string
	for _, r := range j.recs {
		ids := r.meta.Scenario.Behaviours
		for _, id := range ids {
			b, ok := Find(id)
			if !ok {
				continue
			}
			b = b.In(j.profile)
			p := of(id)
			own := slices.ContainsFunc(b.BrokenBy, func(f spec.Fault) bool { return p.failed[f] })
			switch {
			case own:
				killed = append(killed, id)
			case !doubtful(id):
				problems = append(problems, fmt.Sprintf("%s: no fault of its own killed it", id))
			}
			// One check alone is what the behaviour's own faults kill.
			if m.Kind != string(Whole) || len(b.Checks) < 2 {
				continue
			}
			carried := j.carried(b)
			for _, k := range b.Checks {
				elsewhere := slices.DeleteFunc(slices.Clone(b.BrokenBy), func(f spec.Fault) bool {
					e, err := meta.Expected(f, Breaks(f))
					return err != nil || slices.Contains(carried, f) || !slices.Contains(e.Of(id).Checks, k.Name)
				})
				switch {
				case p.checks[k.Name]:
				case !p.surely(carried):
					doubts = append(doubts, fmt.Sprintf("%s: no fault failed its check %q, and not every fault was judged", id, k.Name))
				case len(elsewhere) > 0:
					unput = append(unput, fmt.Sprintf("%s, its check %q: %s is to fail it, and this stage can't carry that", id, k.Name, elsewhere[0]))
				default:
					problems = append(problems, fmt.Sprintf("%s: no fault fails its check %q: nobody knows whether it can fail", id, k.Name))
				}
			}
		}
		if !slices.ContainsFunc(together, func(t []string) bool { return slices.Equal(t, ids) }) {
			together = append(together, ids)
		}
	}
	if m.Kind == string(Whole) {
		for _, ids := range together {
			for i, a := range ids {
				for _, b := range ids[i+1:] {
					if !apart(of(a).failed, of(b).failed) && !doubtful(a) && !doubtful(b) {
						problems = append(problems, fmt.Sprintf("%s and %s share a scenario, and no fault fails just one of them", a, b))
					}
				}
			}
		}
	}
	for _, list := range []*[]string{&problems, &doubts, &unput, &killed} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return problems, doubts, unput, killed
}

// carried are the faults of a behaviour that the run was to put it to: those that its
// stage has.
func (j *judgement) carried(b Behaviour) []spec.Fault {
	var out []spec.Fault
	for _, f := range b.BrokenBy {
		if slices.ContainsFunc(j.recs, func(r recording) bool {
			return r.meta.Scenario.Fault == f && slices.Contains(r.meta.Scenario.Behaviours, b.ID)
		}) {
			out = append(out, f)
		}
	}
	return out
}

// unheld are the expectations that no cell of a whole matrix held: what they
// say was reasoned, and never tried here.
func unheld(m *v1alpha1.Matrix) []string {
	if m.Kind != string(Whole) {
		return nil
	}
	var out []string
	for _, row := range m.Rows {
		e, err := meta.Expected(row.Fault, Breaks(row.Fault))
		if err != nil {
			continue // that is a problem already
		}
		var ids []string
		for _, id := range slices.Sorted(maps.Keys(e.Verdicts)) {
			if !slices.ContainsFunc(row.Cells, func(c v1alpha1.MatrixCell) bool { return c.Behaviour == id }) {
				ids = append(ids, id)
			}
		}
		if len(ids) > 0 {
			out = append(out, fmt.Sprintf("%s: %s", row.Fault, strings.Join(ids, ", ")))
		}
	}
	return out
}

// apart says whether a fault that both were put to fails exactly one of them.
func apart(a, b map[spec.Fault]bool) bool {
	for f, failed := range a {
		if other, both := b[f]; both && other != failed {
			return true
		}
	}
	return false
}
