// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lastcall-dev/lastcall/reports/text"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
)

// Recording is one recording of a run, with all that its report judges it by: the doubts
// about it, and what the run's controls say of its clients. Nothing changes it.
type Recording struct {
	own   recording
	blind blindness
	dir   string
	// report is the run's, with this recording alone and no verdict.
	report v1alpha1.ConformanceReport
}

// Open reads one recording of a run's directory, the one that was made for a behaviour, and
// the run's controls. It judges nothing, and writes nothing. What was planned and not
// recorded is no error: whatever is judged on it is Inconclusive. A directory that holds no
// run, a run that was not to record the behaviour, and a history that can't be read are.
func Open(dir, id string) (*Recording, error) {
	run, err := readRun(dir)
	if err != nil {
		return nil, err
	}
	var plan []Scenario
	var has []string
	own := -1
	for _, s := range run.Plan {
		switch {
		case s.Fault != run.Report.Settings.Fault: // a row of the kill matrix
		case s.Control:
			plan = append(plan, s)
		default:
			has = append(has, s.Behaviours...)
			if slices.Contains(s.Behaviours, id) {
				own = len(plan)
				plan = append(plan, s)
			}
		}
	}
	if own < 0 {
		if why := run.Skipped[id].Why; why != "" {
			return nil, fmt.Errorf("%s: the run skipped %s: %s", filepath.Join(dir, runFile), id, why)
		}
		slices.Sort(has)
		return nil, fmt.Errorf("%s: the run made no recording for %q; it made them for %s", filepath.Join(dir, runFile), id, strings.Join(has, ", "))
	}
	j, err := readPlan(dir, run, plan)
	if err != nil {
		return nil, err
	}
	r := &Recording{own: j.recs[own], blind: j.blind(), dir: dir, report: run.Report}
	sc := r.own.describe()
	sc.Timing = r.own.timing(j.fault)
	r.report.Scenarios = []v1alpha1.Scenario{sc}
	return r, nil
}

// Judge puts a behaviour's checks to the recording, as the run's report does. told is what
// report.txt says of it: the rule, what was seen and when, and each culprit. A behaviour that
// the recording was not made for is judged by all of its traffic, because nobody has said
// which streams such a verdict rests on: one that is blind leaves it Inconclusive.
func (r *Recording) Judge(b Behaviour) (judged v1alpha1.Behaviour, told string) {
	s := r.own.meta.Scenario
	if slices.Contains(s.Behaviours, b.ID) {
		b.Traffic = s.recorded(b, r.report.Settings.Profile).Traffic
	} else {
		b.Traffic = s.Traffic
	}
	judged = r.own.judge(b, r.blind)
	report := r.report
	report.Behaviours = []v1alpha1.Behaviour{judged}
	var out strings.Builder
	// A Builder never fails to be written to.
	_ = text.Behaviours(&out, &report, text.Options{Dir: r.dir})
	return judged, out.String()
}
