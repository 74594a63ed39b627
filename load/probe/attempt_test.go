// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"testing"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
)

// Who answers says on which connection it was asked: the client's own, or another's.
func TestAnsweredBy(t *testing.T) {
	for name, c := range map[string]struct {
		local, peer, via string
		relayed          bool
	}{
		"the client's own":            {"10.1.2.3:4001", "10.1.2.3:4001", "", false},
		"another port of the same IP": {"10.1.2.3:4001", "10.1.2.3:4002", "", true},
		"another IP":                  {"10.1.2.3:4001", "127.0.0.1:4001", "127.0.0.1", true},
		"of IPv6":                     {"[fd00::1]:4001", "[fd00::1]:4001", "", false},
		"of IPv6, another":            {"[fd00::1]:4001", "[::1]:4001", "::1", true},
		"no port, and its own":        {"10.1.2.3:4001", "10.1.2.3", "", false},
		"no port, and another":        {"10.1.2.3:4001", "10.9.9.9", "10.9.9.9", true},
		"no port of IPv6":             {"[fd00::1]:4001", "fd00::1", "", false},
	} {
		a := attempt{Sample: timeline.Sample{Local: c.local}}
		if a.answeredBy("pod", c.peer); a.Server != "pod" || a.Via != c.via || a.Relayed != c.relayed {
			t.Errorf("%s: via %q, relayed %t", name, a.Via, a.Relayed)
		}
	}
}
