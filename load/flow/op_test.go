// SPDX-License-Identifier: Apache-2.0

package flow_test

import (
	"slices"
	"testing"

	"github.com/lastcall-dev/lastcall/load/flow"
)

// Each operation stands in the table once, and what is said of it goes together.
func TestOps(t *testing.T) {
	seen := map[flow.Op]bool{}
	for _, op := range flow.Ops() {
		if seen[op] || !op.Known() {
			t.Errorf("%s stands there twice, or is not known", op)
		}
		seen[op] = true
		if op.Means() == "" || len(op.Protocols()) == 0 || len(op.Conns()) == 0 {
			t.Errorf("of %s something is not said", op)
		}
		if (op.Long() || op.Soon()) && !op.Takes() {
			t.Errorf("%s takes no time, and is long or over soon", op)
		}
		if op.Calls() && slices.Contains(op.Protocols(), flow.HTTP1) {
			t.Errorf("%s is gRPC over HTTP/1.1", op)
		}
	}
	if nothing := flow.Op("nothing"); nothing.Known() || nothing.Takes() || nothing.Means() != "" {
		t.Error("what is no operation is known")
	}
	if got := flow.Mute.Protocols(); slices.Contains(got, flow.H2) {
		t.Errorf("mute goes over %s", got)
	}
}
