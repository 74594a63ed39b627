// SPDX-License-Identifier: Apache-2.0

package text

import (
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// The forms in which reports write numbers, for their other forms too.

// Percent writes a share as an upper bound, rounded up.
func Percent(share float64) string { return percent(share) }

// Thousands writes 33412 as 33,412.
func Thousands(n int) string { return thousands(n) }

// Latency writes a duration with three significant digits, or a dash for none.
func Latency(d v1alpha1.Duration) string { return ms(d) }

// Counted writes how much evidence there is, and of what.
func Counted(c spec.Count) string { return counted(c) }

// Count writes "1 node", "3 nodes".
func Count(n int, noun string) string { return count(n, noun) }
