// SPDX-License-Identifier: Apache-2.0

package text

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
)

// Suspects is a line about the steps that failed, whatever became of the behaviours; "" where
// there are none. A wrong path in a system's file looks like a proxy that drops its clients, or like
// one that ends well without the step, and nobody would look for it below.
func Suspects(r *v1alpha1.ConformanceReport) string {
	var all []v1alpha1.FailedStep
	for i := range r.Scenarios {
		all = merged(all, r.Scenarios[i].FailedSteps)
	}
	if len(all) == 0 {
		return ""
	}
	lines := make([]string, len(all))
	for i, f := range all {
		lines[i] = failedStep(f)
	}
	what, which := "terminate steps", "this"
	if r.Stage != "host" {
		what = "preStop hooks"
	}
	if len(all) > 1 {
		which = "these"
	}
	return fmt.Sprintf("%d of the system's own %s failed: %s: look at %s first", len(all), what, strings.Join(lines, "; "), which)
}

// merged adds the steps of one recording to those of others.
func merged(all, more []v1alpha1.FailedStep) []v1alpha1.FailedStep {
	for _, f := range more {
		i := slices.IndexFunc(all, func(other v1alpha1.FailedStep) bool { return other.Step == f.Step })
		if i < 0 {
			f.Instances = slices.Clone(f.Instances) // the report keeps its own
			all = append(all, f)
			continue
		}
		all[i].Times += f.Times
		for _, name := range f.Instances {
			if !slices.Contains(all[i].Instances, name) {
				all[i].Instances = append(all[i].Instances, name)
			}
		}
	}
	return all
}

// named is how many instances a line names.
const named = 3

// failedStep is a step that failed in one line, whomever it failed for.
func failedStep(f v1alpha1.FailedStep) string {
	who := strings.Join(f.Instances[:min(named, len(f.Instances))], ", ")
	if n := len(f.Instances) - named; n > 0 {
		who += fmt.Sprintf(" and %d more", n)
	}
	if f.Times > len(f.Instances) {
		who += ", " + count(f.Times, "time")
	}
	return fmt.Sprintf("%s: %s (%s)", clip(f.Step), clip(f.Error), who)
}

// clipped is how much of a text is kept at its begin and at its end, in runes.
const clipped = 70

// clip is a text on one line, without its middle where it is long: at the end stand a
// program's last words, which mostly say what it is.
func clip(s string) string {
	runes := []rune(strings.Join(strings.Fields(s), " "))
	if len(runes) <= 2*clipped+5 {
		return string(runes)
	}
	return strings.TrimSpace(string(runes[:clipped])) + " ... " + strings.TrimSpace(string(runes[len(runes)-clipped:]))
}
