// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/redirect"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// before is how long before D a tunnel has to have stood.
const before = 5 * time.Second

// ThroughTunnels doubts a recording in which the clients did not come by way of a sidecar: what
// reaches an app past it shows nothing of it. What tunnels there are, the stage looks at many times
// a second, in the network of the clients' pod (timeline.Sockets).
func ThroughTunnels() assertions.Check {
	stood := assertions.Floor{Per: "termination", Name: fmt.Sprintf("looks at which the clients' pod had a tunnel to the instance, in [D-%s, D]", before), N: 10,
		Reason: "the stage looks four times a second, and one tunnel carries all connections to an instance",
	}
	return assertions.Check{
		Name:     "the clients come through tunnels",
		Expected: "before each termination the clients' pod has a tunnel to the instance",
		Floors:   []assertions.Floor{stood},
		Judge: func(c assertions.Case) spec.Finding {
			var tally assertions.Tally
			looks := c.Timeline.EventsOf(timeline.Sockets, "")
			least, all := 0, 0
			for t := range tally.Terminations(c) {
				tally.Span(t.Drain.At-before, t.Drain.At)
				n := 0
				for _, e := range looks {
					if e.At >= t.Drain.At-before && e.At <= t.Drain.At && e.Attrs["peer"] == net.JoinHostPort(t.IP, strconv.Itoa(redirect.TunnelPort)) && established(e) {
						n++
					}
				}
				if all == 0 || n < least {
					least = n
				}
				all++
				tally.Least(stood, t.Name, n)
			}
			return tally.Conclude(fmt.Sprintf("each of %s had a tunnel from the clients' pod, seen %s at least", assertions.Plural(all, "instance", "instances"), assertions.Plural(least, "time", "times")), "")
		},
	}
}

// established says whether one of the sockets that a look saw carries data.
func established(e timeline.Event) bool {
	for _, s := range e.Held() {
		if s.State == "established" {
			return true
		}
	}
	return false
}
