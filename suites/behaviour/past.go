// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"fmt"
	"maps"
	"slices"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// past says that what reached an app before anything was disturbed came past the sidecar that its
// vendor put beside it, or that nothing shows that it came through; "" otherwise, and where there is
// no such sidecar. Who passes a connection on has another one to the app (timeline.Sample.Relayed).
// Clients outside of the cluster show nothing: a node changes their address on the way. It leaves
// that of a pod's to a Service alone.
func past(c assertions.Case) string {
	sidecar := c.Beside()
	if sidecar == "" {
		return ""
	}
	through := 0
	straight := map[flow.Path]int{}
	for i := range c.Timeline.Samples {
		s := &c.Timeline.Samples[i]
		path := s.Stream.Flow().Path
		switch {
		case path.Outside(), s.Server == "", c.Disturbed != 0 && s.Start >= c.Disturbed:
		case s.Relayed:
			through++
		default:
			straight[path]++
		}
	}
	for _, path := range slices.Sorted(maps.Keys(straight)) {
		return fmt.Sprintf("%d requests (%s) before anything was disturbed came past the sidecar %s, on the client's own connection, and %d in all through it", straight[path], path, sidecar, through)
	}
	if through == 0 {
		return fmt.Sprintf("no request shows that it came through the sidecar %s: none was answered before anything was disturbed whose two ends are known", sidecar)
	}
	return ""
}
