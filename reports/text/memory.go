// SPDX-License-Identifier: Apache-2.0

package text

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
)

// Killed is a line about what was killed for memory in any recording; "" where nothing
// was. It decides no verdict by itself.
func Killed(r *v1alpha1.ConformanceReport) string {
	var lines []string
	n := 0
	for i := range r.Scenarios {
		for _, k := range r.Scenarios[i].KilledForMemory {
			n += k.Times
			if line := who(k); !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	if n == 0 {
		return ""
	}
	if more := len(lines) - named; more > 0 {
		lines = append(lines[:named], fmt.Sprintf("%d more, which the recordings below name", more))
	}
	return fmt.Sprintf("WARNING: killed for memory, %s: %s: what failed around then may have failed for that", count(n, "time"), strings.Join(lines, "; "))
}

// who is what was killed for memory, and at which limit.
func who(k v1alpha1.MemoryKill) string {
	if k.Likely {
		return fmt.Sprintf("%s, as it seems (a SIGKILL that is none of the suite's, while the kernel counted kills for memory)", k.Instance)
	}
	at := ", which has no limit"
	if k.Limit != "" {
		at = " at its limit of " + k.Limit
	}
	return fmt.Sprintf("container %s of %s%s", k.Container, k.Instance, at)
}
