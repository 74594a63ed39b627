// SPDX-License-Identifier: Apache-2.0

package node

import (
	"maps"
	"slices"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/suites/spec"
	"github.com/lastcall-dev/lastcall/suites/tunnel"
)

// OfReplaced puts a check of instances that end to instances whose node's proxy is replaced: to who has tunnels to one
// it is that proxy which ends. D is when the proxy was told to go, the exit is its own, and so is the deadline.
func OfReplaced(check assertions.Check) assertions.Check {
	judge := check.Judge
	check.Name += ", where D is when a node's proxy is told to go"
	check.Floors = append(slices.Clone(check.Floors), replacedFloor)
	check.Likely = nil // which knows the ends of instances
	check.Judge = func(c assertions.Case) spec.Finding {
		var tally assertions.Tally
		all := replacedIn(c)
		tally.Count(replacedFloor, seenGone(all))
		went := tally.Conclude("", "")
		c.Terminations = endsOf(c, all)
		// The deadline counts from SIGTERM, and the GOAWAY says when that was, where the word is that of a deletion.
		if c.Deadline = c.ProxyDeadline(); c.Deadline > 0 {
			c.Deadline += turningsIn(c, all).behindWord()
		}
		out := judge(c)
		out.Evidence = append(out.Evidence, went.Evidence...)
		if out.Verdict == spec.Pass && went.Verdict != spec.Pass {
			out.Verdict, out.Actual = went.Verdict, went.Actual
		}
		return out
	}
	return check
}

// endsOf are the ends of proxies, each as that of the instances on its node that our own client has tunnels to.
func endsOf(c assertions.Case, all []replaced) []assertions.Ending {
	dialled := map[string]bool{}
	for _, k := range tunnel.Of(c, func(string) bool { return true }) {
		dialled[k.Stream.Target()] = true
	}
	nodes := nodesOf(c)
	var out []assertions.Ending
	for _, r := range all {
		half := min(r.told-r.since, starvedBy) / 2 // it was in between, and the watch is not later than that
		for _, uid := range slices.Sorted(maps.Keys(dialled)) {
			if nodes[uid] != r.node {
				continue
			}
			e := assertions.Ending{
				UID: uid, Name: r.proxy, Node: r.node, ExitCode: -1, Role: assertions.RoleProxies, // the app accepts as before
				Drain: assertions.Instant{At: r.told - half, Err: half, Source: "the proxy was told to go"},
			}
			if r.gone > 0 {
				e.Exit = assertions.Instant{At: r.gone, Source: "the proxy was gone"}
			}
			out = append(out, e)
		}
	}
	return out
}
