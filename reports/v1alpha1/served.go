// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "github.com/lastcall-dev/lastcall/suites/spec"

// NeverServed says whether what failed is what the system's file claims, and no more: it was
// not there, so that the rule itself could not be asked.
func (b *Behaviour) NeverServed() bool {
	for i := range b.Findings {
		if f := &b.Findings[i]; f.Check == spec.Claimed && f.Verdict == spec.Fail && b.Verdict == spec.Fail {
			return true
		}
	}
	return false
}
