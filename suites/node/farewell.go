// SPDX-License-Identifier: Apache-2.0

package node

import (
	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/suites/tunnel"
)

// toldEarly says whether a tunnel stood when the end of a workload began, and had been told all before its app had exited: who
// tells peers as soon as discovery says that it ends has none left to tell then.
func toldEarly(k tunnel.Tunnel, t assertions.Ending) bool {
	if !endedEarly(k, t) {
		return false
	}
	lacks, _ := k.Farewell(t.Earliest(), t.Exit.At)
	return lacks == ""
}

// endedEarly says whether a tunnel stood when the end of a workload began, and ended before its app had exited.
func endedEarly(k tunnel.Tunnel, t assertions.Ending) bool {
	return !k.StoodAt(t.Exit.At) && k.StoodAt(t.Earliest()) && !k.Deserted(t.Exit.At)
}
