// SPDX-License-Identifier: Apache-2.0

package node

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
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

// leftBy says whether the wire had the FIN of a tunnel's server by an instant: all that is in front of it had left as well,
// however late it was read. False where nobody watches the wire.
func leftBy(c assertions.Case, k tunnel.Tunnel, by time.Duration) bool {
	first := k.Samples[0]
	for _, e := range c.Timeline.EventsOf(timeline.Wire, "") {
		if e.Attrs["what"] == timeline.WireEnded && e.Attrs["from"] == first.Addr && e.Attrs["to"] == first.Local && e.At >= first.Start && e.At <= by {
			return true
		}
	}
	return false
}
