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
	return through(check, "the clients' pod had a tunnel to the instance",
		func(t assertions.Ending, _, to string) bool { return to == t.IP })
}

// CallsThroughTunnels is ThroughTunnels of what an instance sends out itself, by its own network.
func CallsThroughTunnels(check assertions.Check) assertions.Check {
	return through(check, "the instance had a tunnel to whom it calls",
		func(t assertions.Ending, from, to string) bool { return from == t.UID && to != t.IP })
}

// through is a check that doubts a recording without tunnels of the kind that is meant: by the UID
// of the pod that has one, and the IP that it leads to.
func through(check assertions.Check, what string, meant func(t assertions.Ending, from, to string) bool) assertions.Check {
	stood := assertions.Floor{Per: "termination", Name: fmt.Sprintf("looks at which %s, in [D-%s, D]", what, before), N: 10,
		Reason: "the stage looks four times a second, and one tunnel carries all connections to an instance",
	}
	judge := check.Judge
	check.Floors = append(slices.Clone(check.Floors), stood)
	check.Judge = func(c assertions.Case) spec.Finding {
		out := judge(c)
		var tally assertions.Tally
		looks := c.Timeline.EventsOf(timeline.Sockets, "")
		for t := range tally.Terminations(c) {
			n := 0
			for _, e := range looks {
				to, isTunnel := tunnelTo(e)
				if isTunnel && e.At >= t.Drain.At-before && e.At <= t.Drain.At && meant(t, e.Subject, to) && established(e) {
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

// tunnelTo is the IP whose tunnels a look was at, if it was at some.
func tunnelTo(e timeline.Event) (ip string, is bool) {
	ip, port, err := net.SplitHostPort(e.Attrs["peer"])
	return ip, err == nil && port == strconv.Itoa(redirect.TunnelPort)
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
