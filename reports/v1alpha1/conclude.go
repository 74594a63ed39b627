// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"slices"

	"github.com/lastcall-dev/lastcall/suites/spec"
)

// The exit codes of a run.
const (
	ExitPass         = 0
	ExitFail         = 1
	ExitUsage        = 2 // bad input, or an environment that can't run the suite
	ExitInconclusive = 3
)

// Conclude computes the warnings, the profiles, the summary, the verdict and the exit code
// from the behaviours, controls and errors. A run and its rejudgement both end
// here, so that they can't differ.
//
// What decides is MUST, and SHOULD too in a strict run; a MAY never does. A
// control that failed is the suite's own blindness, so it counts as an Error
// and never as the system's failure. A run in which nothing was shown to pass
// is Inconclusive.
//
// What the system claims and never served fails the run at any level: it is the
// system's own word, and no advice.
//
// A known deviation fails as any other, and so does the run. It is left out of
// the exit code alone, so that a vendor's CI hears of what is new.
func (r *ConformanceReport) Conclude() {
	r.Summary = Summary{}
	verdict, shown, known := spec.Skipped, false, false
	for i := range r.Behaviours {
		b := &r.Behaviours[i]
		decides := b.Level == spec.Must || b.Level == spec.Control || (b.Level == spec.Should && r.Settings.Strict) || b.NeverServed()
		b.Warning = b.Verdict == spec.Fail && b.Level == spec.Should && !decides
		b.Known = r.known(b)
		r.Summary.add(b)
		// A control shows something about the suite, and nothing of the system.
		shown = shown || b.Level != spec.Control && (b.Verdict == spec.Pass || b.Verdict == spec.Fail)
		switch {
		case !decides:
		case b.Level == spec.Control && b.Verdict == spec.Fail:
			verdict = spec.Worse(verdict, spec.Error)
		case b.Known != nil:
			known = true
		default:
			verdict = spec.Worse(verdict, b.Verdict)
		}
	}
	for _, c := range r.Controls {
		switch c.Verdict {
		case spec.Pass, spec.Skipped:
		case spec.Inconclusive:
			verdict = spec.Worse(verdict, spec.Inconclusive)
		default:
			verdict = spec.Worse(verdict, spec.Error)
		}
	}
	if len(r.Errors) > 0 {
		verdict = spec.Worse(verdict, spec.Error)
	}
	if r.Matrix != nil && len(r.Matrix.Rows) > 0 {
		// It shows something about the suite: each cell is as it was written
		// down, or the suite can't be believed.
		verdict, shown = spec.Worse(verdict, spec.Pass), true
		if len(r.Matrix.Doubts) > 0 {
			verdict = spec.Worse(verdict, spec.Inconclusive)
		}
		if len(r.Matrix.Problems) > 0 {
			verdict = spec.Worse(verdict, spec.Fail)
		}
	}
	switch {
	case verdict == spec.Skipped && shown: // only levels that don't decide were judged
		verdict = spec.Pass
	case !shown:
		verdict = spec.Worse(verdict, spec.Inconclusive)
	}
	r.Profiles = r.profiles()
	r.Verdict = verdict
	if known {
		r.Verdict = spec.Worse(verdict, spec.Fail)
	}
	switch verdict {
	case spec.Pass:
		r.ExitCode = ExitPass
	case spec.Fail:
		r.ExitCode = ExitFail
	default:
		r.ExitCode = ExitInconclusive
	}
}

func (s *Summary) add(b *Behaviour) {
	switch b.Verdict {
	case spec.Pass:
		s.Passed++
	case spec.Fail:
		s.Failed++
	case spec.Error:
		s.Errors++
	case spec.Skipped:
		s.Skipped++
	default:
		s.Inconclusive++
	}
	if b.Warning {
		s.Warnings++
	}
	if b.Known != nil {
		s.Known++
	}
}

// WorseExit says whether an exit code is worse than another: a failure is the worst, and what showed
// nothing is worse than what passed.
func WorseExit(code, than int) bool {
	order := []int{ExitPass, ExitInconclusive, ExitUsage, ExitFail}
	return slices.Index(order, code) > slices.Index(order, than)
}
