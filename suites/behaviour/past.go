// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"fmt"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// past says that what reached an app before anything was disturbed came past the sidecar that its
// vendor put beside it, or that nothing shows that it came through; "" otherwise, and where there is
// no such sidecar. Who passes a connection on has another to the app (timeline.Sample.Relayed). What
// passes other hops than the sidecar shows nothing, and is not looked at: clients' own connections to
// a pod are counted, and the app's to a Service, in which no address of the client's is changed.
func past(c assertions.Case) string {
	sidecar := c.Beside()
	if sidecar == "" {
		return ""
	}
	of := map[flow.Path]*struct{ through, past int }{flow.Direct: {}, flow.Outbound: {}}
	for i := range c.Timeline.Samples {
		s := &c.Timeline.Samples[i]
		n := of[s.Stream.Flow().Path]
		switch {
		case n == nil, s.Server == "", c.Disturbed != 0 && s.Start >= c.Disturbed:
		case s.Relayed:
			n.through++
		default:
			n.past++
		}
	}
	for _, path := range []flow.Path{flow.Direct, flow.Outbound} {
		if n := of[path]; n.past > 0 {
			return fmt.Sprintf("%d of %d requests (%s) before anything was disturbed came past the sidecar %s: on the client's own connection", n.past, n.past+n.through, path, sidecar)
		}
	}
	if of[flow.Direct].through+of[flow.Outbound].through == 0 {
		return fmt.Sprintf("no request shows that it came through the sidecar %s: none was answered before anything was disturbed whose two ends are known", sidecar)
	}
	return ""
}
