// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/redirect"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// before is how long before D a tunnel has to have stood.
const before = 5 * time.Second

// ThroughTunnels is a check that doubts a recording in which the clients did not come by way of a
// sidecar: what reaches an app past it shows nothing of it. What tunnels there are, the stage looks at
// many times a second, in the network of the clients' pod (timeline.Sockets).
func ThroughTunnels(check assertions.Check) assertions.Check {
	stood := assertions.Floor{Per: "termination", Name: fmt.Sprintf("looks at which the clients' pod had a tunnel to the instance, in [D-%s, D]", before), N: 10,
		Reason: "the stage looks four times a second, and one tunnel carries all connections to an instance",
	}
	judge := check.Judge
	check.Floors = append(slices.Clone(check.Floors), stood)
	check.Judge = func(c assertions.Case) spec.Finding {
		out := judge(c)
		var tally assertions.Tally
		looks := c.Timeline.EventsOf(timeline.Sockets, "")
		for t := range tally.Terminations(c) {
			at, n := net.JoinHostPort(t.IP, strconv.Itoa(redirect.TunnelPort)), 0
			for _, e := range looks {
				if e.At >= t.Drain.At-before && e.At <= t.Drain.At && e.Attrs["peer"] == at && established(e) {
					n++
				}
			}
			tally.Least(stood, t.Name, n)
		}
		came := tally.Conclude("", "")
		out.Evidence = append(out.Evidence, came.Evidence...)
		if out.Verdict == spec.Pass && came.Verdict != spec.Pass {
			out.Verdict, out.Actual = came.Verdict, came.Actual
		}
		return out
	}
	return check
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
