// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"testing"

	"github.com/lastcall-dev/lastcall/load/flow"
)

// Each operation has a client, and no client is of none.
func TestClients(t *testing.T) {
	for _, op := range flow.Ops() {
		c, there := clients[op]
		if !there || c.read == nil && !c.vacant && c.try == nil && c.open == nil && c.alone == nil {
			t.Errorf("%s has no client, or one that takes no answer", op)
		}
	}
	if len(clients) != len(flow.Ops()) {
		t.Errorf("%d clients of %d operations", len(clients), len(flow.Ops()))
	}
}
