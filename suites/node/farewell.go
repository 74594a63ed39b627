// SPDX-License-Identifier: Apache-2.0

package node

import (
	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/suites/tunnel"
)

// toldEarly says whether a tunnel stood when the end of a workload began, and had been told all before its app had exited: who
// tells peers as soon as discovery says that it ends has none left to tell then.
func toldEarly(k tunnel.Tunnel, t assertions.Ending) bool {
	lacks, is := endedEarly(k, t)
	return is && lacks == ""
}

// endedEarly says whether a tunnel stood when the end of a workload began, and ended before its app had exited; and what it had
// not been told by then ("" for nothing).
func endedEarly(k tunnel.Tunnel, t assertions.Ending) (lacks string, is bool) {
	begun := t.Earliest()
	if k.StoodAt(t.Exit.At) || !k.StoodAt(begun) || k.ToldBefore(begun) || k.Deserted(t.Exit.At) {
		return "", false
	}
	lacks, _ = k.Farewell(begun, t.Exit.At)
	return lacks, true
}
