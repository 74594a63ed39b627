// SPDX-License-Identifier: Apache-2.0

package text

import (
	"fmt"
	"strings"

	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// profileNames are the profiles in words.
var profileNames = map[spec.Profile]string{spec.App: "app", spec.ServiceNetwork: "service network", spec.Mesh: "mesh", spec.Gateway: "gateway"}

// ProfileName is a profile in words.
func ProfileName(p spec.Profile) string {
	if name := profileNames[p]; name != "" {
		return name
	}
	return string(p)
}

// Profiles is the result of each profile in one line; "" for a report without.
func Profiles(r *v1alpha1.ConformanceReport) string {
	var out []string
	for _, p := range r.Profiles {
		out = append(out, fmt.Sprintf("%s %s (%d of %d MUSTs passed)", ProfileName(p.Name), p.Result, p.Must.Passed, p.Must.Owed()))
	}
	return strings.Join(out, ", ")
}

// Outlived says what to do about a known deviation whose behaviour passed.
func Outlived(d v1alpha1.Deviation) string {
	return fmt.Sprintf("%s is listed as a known deviation, and it passed: remove it from deviations in the system file", d.Behaviour)
}
