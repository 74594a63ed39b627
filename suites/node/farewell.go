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
	begun := t.Earliest()
	if k.StoodAt(t.Exit.At) || !k.StoodAt(begun) || k.Deserted(t.Exit.At) {
		return false
	}
	lacks, _ := farewell(k, begun, t.Exit.At)
	return lacks == ""
}

// farewell is how a tunnel's peer took leave, from an instant on and by another: what it had not said ("" for
// nothing), and when it had said all. Whose client ended the tunnel itself, as it may once it was told, has had
// all that it waits for: at no instant.
func farewell(k tunnel.Tunnel, since, by time.Duration) (lacks string, said time.Duration) {
	told, ok := k.GoAway()
	end, over := k.Ended()
	switch {
	case !ok || told < since:
		return "had got no GOAWAY", 0
	case k.Left() < by && (!over || end.At > k.Left()):
		return "", 0
	case !over || end.Kind != timeline.FrameCloseNotify:
		return "had got a GOAWAY, and no close_notify,", 0
	}
	return "", max(told, end.At)
}
