// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/meta"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// matrix judges the recordings that were broken on purpose, and holds them
// against what was written down of each fault. It is nil for a run that is
// about the system.
func (j *judgement) matrix(kind Matrix, blind func(string) string) (*v1alpha1.Matrix, error) {
	if kind == NoMatrix {
		return nil, nil
	}
	out := &v1alpha1.Matrix{Kind: string(kind)}
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
			row.Cells = append(row.Cells, cell)
		}
	}
	for _, row := range rows {
		slices.SortFunc(row.Cells, func(a, b v1alpha1.MatrixCell) int { return cmp.Compare(a.Behaviour, b.Behaviour) })
		out.Rows = append(out.Rows, *row)
	}
	slices.SortFunc(out.Rows, func(a, b v1alpha1.MatrixRow) int { return cmp.Compare(a.Fault, b.Fault) })
	kills := map[spec.Fault][]string{}
	for _, f := range Faults() {
		kills[f.Name] = f.Breaks
	}
	meta.Check(out, kills)
	out.Problems = append(out.Problems, j.holes(out)...)
	return out, nil
}

// holes are the behaviours that no fault of theirs killed, and, in a whole
// matrix, pairs in one scenario that fail under the same faults. What a doubt
// is about already is no hole.
func (j *judgement) holes(m *v1alpha1.Matrix) []string {
	failed := map[string]map[spec.Fault]bool{}
	doubtful := map[string]bool{}
	for _, row := range m.Rows {
		for _, c := range row.Cells {
			doubtful[c.Behaviour] = doubtful[c.Behaviour] || c.Verdict == spec.Inconclusive && c.Expected != spec.Inconclusive
			if failed[c.Behaviour] == nil {
				failed[c.Behaviour] = map[spec.Fault]bool{}
			}
			failed[c.Behaviour][row.Fault] = c.Verdict == spec.Fail
		}
	}
	var out []string
	var together [][]string
	for _, r := range j.recs {
		ids := r.meta.Scenario.Behaviours
		for _, id := range ids {
			b, ok := Find(id)
			if !ok {
				continue
			}
			own := slices.ContainsFunc(b.BrokenBy, func(f spec.Fault) bool { return failed[id][f] })
			if !own && !doubtful[id] {
				out = append(out, fmt.Sprintf("%s: no fault of its own killed it", id))
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
					if !apart(failed[a], failed[b]) && !doubtful[a] && !doubtful[b] {
						out = append(out, fmt.Sprintf("%s and %s share a scenario, and no fault fails just one of them", a, b))
					}
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
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
