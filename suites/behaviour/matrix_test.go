// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"slices"
	"strings"
	"testing"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// known puts behaviours into the registry for a test, before those of the catalogue, which
// other tests link.
func known(t *testing.T, bs ...Behaviour) {
	t.Helper()
	was := registry
	registry = append(slices.Clone(bs), registry...)
	t.Cleanup(func() { registry = was })
}

// One check that fails must not hide another that never does.
func TestHolesOfChecks(t *testing.T) {
	// Of g it is written that it fails the second check (suites/meta/expected).
	const id = "pod.grace-exhausted"
	const f, g spec.Fault = "cut-bodies", "slices-keep-gone"
	const first, second = "work and exit when the grace period does not suffice", "the endpoint of the killed pod"
	two, one := sample(id), sample("a.one")
	two.Checks = []assertions.Check{{Name: first}, {Name: second}}
	two.BrokenBy, one.BrokenBy = []spec.Fault{f, g}, []spec.Fault{"h"}
	known(t, two, one)
	killed := func(checks ...string) v1alpha1.MatrixCell {
		return v1alpha1.MatrixCell{Behaviour: id, Verdict: spec.Fail, Expected: spec.Fail, Failed: checks}
	}
	doubtful := v1alpha1.MatrixCell{Behaviour: id, Verdict: spec.Inconclusive, Expected: spec.Fail, Doubt: true}
	broken := v1alpha1.MatrixCell{Behaviour: id, Verdict: spec.Error, Expected: spec.Fail}
	row := func(f spec.Fault, cells ...v1alpha1.MatrixCell) v1alpha1.MatrixRow {
		return v1alpha1.MatrixRow{Fault: f, Cells: cells}
	}
	alone := row("h", v1alpha1.MatrixCell{Behaviour: "a.one", Verdict: spec.Fail, Expected: spec.Fail, Failed: []string{"any"}})
	for _, tc := range []struct {
		name                  string
		kind                  Matrix
		lacks                 bool // the stage does not have the second fault
		rows                  []v1alpha1.MatrixRow
		problem, doubt, unput string
	}{
		{"each check has a fault", Whole, false, []v1alpha1.MatrixRow{row(f, killed(first)), row(g, killed(second))}, "", "", ""},
		{"another's fault will do", Whole, false, []v1alpha1.MatrixRow{row(f, killed(first)), row(g, killed(first)), row("h", killed(second))}, "", "", ""},
		{"one hides the other", Whole, false, []v1alpha1.MatrixRow{row(f, killed(first)), row(g, killed(first))}, id + `: no fault fails its check "the endpoint of the killed pod"`, "", ""},
		{"the diagonal knows too little", Diagonal, false, []v1alpha1.MatrixRow{row(f, killed(first))}, "", "", ""},
		{"a diagonal that was not judged", Diagonal, false, []v1alpha1.MatrixRow{row(f, doubtful)}, "", "", ""},
		{"an own fault that was passed", Diagonal, false, []v1alpha1.MatrixRow{row(f)}, id + ": no fault of its own killed it", "", ""},
		{"a fault that was not recorded", Whole, false, []v1alpha1.MatrixRow{row(f, killed(first))}, "", id + `: no fault failed its check "the endpoint of the killed pod"`, ""},
		{"a fault that was not judged", Whole, false, []v1alpha1.MatrixRow{row(f, killed(first)), row(g, doubtful)}, "", id + `: no fault failed its check "the endpoint of the killed pod"`, ""},
		{"a recording that broke", Whole, false, []v1alpha1.MatrixRow{row(f, killed(first)), row(g, broken)}, "", id + `: no fault failed its check "the endpoint of the killed pod"`, ""},
		{"a fault that the stage does not have", Whole, true, []v1alpha1.MatrixRow{row(f, killed(first))}, "", "", id + `, its check "the endpoint of the killed pod": slices-keep-gone is to fail it`},
		{"a check that the stage's own fault is to fail", Whole, true, []v1alpha1.MatrixRow{row(f, killed(second))}, id + `: no fault fails its check "work and exit`, "", ""},
		{"of the faults that the stage has one was not judged", Whole, false, []v1alpha1.MatrixRow{row(f, doubtful)}, "", id + `: no fault failed its check "the endpoint of the killed pod"`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			j := &judgement{}
			plan := func(id string, faults ...spec.Fault) {
				for _, f := range faults {
					j.recs = append(j.recs, recording{meta: Meta{Scenario: Scenario{Fault: f, Behaviours: []string{id}}}})
				}
			}
			plan(id, f)
			if !tc.lacks {
				plan(id, g)
			}
			plan("a.one", "h")
			problems, doubts, unput, killed := j.holes(&v1alpha1.Matrix{Kind: string(tc.kind), Rows: append(tc.rows, alone)})
			for _, list := range []struct {
				what, want string
				got        []string
			}{{"problems", tc.problem, problems}, {"doubts", tc.doubt, doubts}, {"unput", tc.unput, unput}} {
				if text := strings.Join(list.got, "; "); (text != "") != (list.want != "") || !strings.Contains(text, list.want) {
					t.Errorf("%s %q, want %q", list.what, text, list.want)
				}
			}
			want := []string{"a.one", id}
			if !slices.ContainsFunc(tc.rows, func(r v1alpha1.MatrixRow) bool {
				return slices.ContainsFunc(r.Cells, func(c v1alpha1.MatrixCell) bool { return c.Verdict == spec.Fail })
			}) {
				want = want[:1]
			}
			if !slices.Equal(killed, want) {
				t.Errorf("killed %q, want %q", killed, want)
			}
		})
	}
}

func TestMatrixTellsWhatItDidNotTry(t *testing.T) {
	// A fault whose scenario none of its behaviours shares.
	j := &judgement{recs: []recording{{meta: Meta{Scenario: Scenario{Name: "delete-1", Fault: "exit-on-sigterm"}}}}}
	blind := func(system.Role, flow.Flow) string { return "" }
	run := Run{Matrix: Whole, Skipped: map[string]Skip{"pod.node-shutdown": Because(spec.Uncarried, "its nodes have no logind")}}
	m, err := j.matrix(run, blind)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Rows) != 1 || m.Rows[0].Component != "echo" || !strings.HasPrefix(m.Rows[0].Does, "leaves at SIGTERM") {
		t.Errorf("rows %+v", m.Rows)
	}
	if want := []string{"pod.node-shutdown: its nodes have no logind"}; !slices.Equal(m.Unput, want) {
		t.Errorf("not put to a fault: %q, want %q", m.Unput, want)
	}
	if len(m.Unheld) != 1 || !strings.HasPrefix(m.Unheld[0], "exit-on-sigterm: endpoints.") || len(m.Problems) != 0 {
		t.Errorf("notes %q, problems %q", m.Unheld, m.Problems)
	}
	run.Matrix = Diagonal
	if m, err = j.matrix(run, blind); err != nil || len(m.Unheld) != 0 {
		t.Errorf("of a diagonal: %q, %v", m.Unheld, err)
	}
}
