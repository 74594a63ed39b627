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
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// before is how long before D a tunnel has to have stood.
const before = 5 * time.Second

// ThroughSidecar is a check that doubts a recording in which the clients did not come by way of the
// sidecar: what reaches an app past it shows nothing of it. In the suite's own mesh they come through
// tunnels, and what tunnels there are, the stage looks at many times a second, in the network of the
// clients' pod (timeline.Sockets). Where its vendor put the sidecar there, the app sees another
// connection than the client's own (timeline.Sample.Relayed); and what came through it by then and is served
// past it later is a culprit: it has left, and its redirect with it.
func ThroughSidecar(check assertions.Check) assertions.Check {
	return through(check, "it was reached through its sidecar", flow.Direct,
		func(t assertions.Ending, _, to string) bool { return t.IsAt(to) })
}

// CallsThroughProxy is ThroughSidecar of what an instance sends out itself, by its own network, and
// by what they see whom it calls.
func CallsThroughProxy(check assertions.Check) assertions.Check {
	return through(check, "it called through its proxy", flow.Outbound,
		func(t assertions.Ending, from, to string) bool { return from == t.UID && !t.IsAt(to) })
}

// through is a check that doubts a recording without signs of a kind: requests of a path, or tunnels
// that are meant, by the UID of the pod that has one and the IP that it leads to.
func through(check assertions.Check, what string, path flow.Path, meant func(t assertions.Ending, from, to string) bool) assertions.Check {
	shown := assertions.Floor{Per: "termination", Name: fmt.Sprintf("signs, in [D-%s, D], that %s", before, what), N: 10,
		Reason: "the stage looks four times a second, and one tunnel carries all connections to an instance; of a vendor's sidecar each request is one",
	}
	judge := check.Judge
	check.Floors = append(slices.Clone(check.Floors), shown)
	check.Judge = func(c assertions.Case) spec.Finding {
		out := judge(c)
		var tally assertions.Tally
		for t := range tally.Terminations(c) {
			if c.Beside() != "" {
				tally.Least(shown, t.Name, relayed(c, t, path))
				for _, s := range strayed(c, t, path) {
					tally.Against(s.End, t.Name, s.ID, "%s: %s: served past the proxy, through which it had come before D", t.Clock(s.End), s.Stream.Kind())
				}
				continue
			}
			n := 0
			for _, e := range c.Timeline.EventsOf(timeline.Sockets, "") {
				to, isTunnel := tunnelTo(e)
				if isTunnel && e.At >= t.Drain.At-before && e.At <= t.Drain.At && meant(t, e.Subject, to) && established(e) {
					n++
				}
			}
			tally.Least(shown, t.Name, n)
		}
		came := tally.Conclude("", fmt.Sprintf("%s served past the proxy", assertions.Plural(tally.Culprits(), "request was", "requests were")))
		out.Evidence = append(out.Evidence, came.Evidence...)
		out.Culprits, out.MoreCulprits = append(out.Culprits, came.Culprits...), out.MoreCulprits+came.MoreCulprits
		switch {
		case came.Verdict == spec.Fail && out.Verdict == spec.Fail:
			out.Actual += "; " + came.Actual
		case came.Verdict == spec.Fail, came.Verdict != spec.Pass && out.Verdict == spec.Pass:
			out.Verdict, out.Actual = came.Verdict, came.Actual
		}
		return out
	}
	return check
}

// relayed counts the requests of a path, to an instance or its own, that were answered shortly before
// D on another connection than the one that they were sent on.
func relayed(c assertions.Case, t assertions.Ending, path flow.Path) int {
	n := 0
	for i := range c.Timeline.Samples {
		s := &c.Timeline.Samples[i]
		if s.Stream.Target() == t.UID && s.Stream.Flow().Path == path && s.Relayed && s.End >= t.Drain.At-before && s.End <= t.Drain.At {
			n++
		}
	}
	return n
}

// strayed are the requests of streams that were relayed before D and that are served on their own connection since
// the ending began, to an instance or its own. Whose answer names nobody shows nothing.
func strayed(c assertions.Case, t assertions.Ending, path flow.Path) []timeline.Sample {
	through := map[flow.Stream]bool{}
	var out []timeline.Sample
	for _, s := range c.Timeline.Samples { // in the order of their begin
		switch {
		case s.Stream.Target() != t.UID || s.Stream.Flow().Path != path || s.Failed() || s.Server == "":
		case s.Relayed && s.End <= t.Drain.At:
			through[s.Stream] = true
		case !s.Relayed && s.End >= t.Earliest() && through[s.Stream]:
			out = append(out, s)
		}
	}
	return out
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
