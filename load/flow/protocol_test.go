// SPDX-License-Identifier: Apache-2.0

package flow_test

import (
	"testing"

	"github.com/lastcall-dev/lastcall/load/flow"
)

// Each protocol stands in the table once, and each operation's do.
func TestProtocols(t *testing.T) {
	seen := map[flow.Protocol]bool{}
	for _, p := range flow.Protocols() {
		if seen[p] {
			t.Errorf("%s stands there twice", p)
		}
		seen[p] = true
		if p.Means() == "" {
			t.Errorf("of %s nothing is said", p)
		}
		if p.Secure() && p.HTTP() == 0 {
			t.Errorf("%s is no HTTP in TLS: the probe speaks none such yet", p)
		}
	}
	for _, op := range flow.Ops() {
		for _, p := range op.Protocols() {
			if !seen[p] {
				t.Errorf("%s is carried by %s, of which nothing is said", op, p)
			}
		}
	}
	if nothing := flow.Protocol("nothing"); nothing.Means() != "" || nothing.HTTP() != 0 || nothing.Secure() || len(nothing.Features()) > 0 {
		t.Error("what is no protocol is known")
	}
}
