// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Lacks says what keeps a cluster from carrying a behaviour, as far as that is known
// before there is one; "" for nothing. sys is what is tested, nil the reference app.
// ours: the suite makes the cluster; reachable: its nodes can be dialled from here.
func Lacks(b behaviour.Behaviour, sys *system.System, ours, reachable bool) string {
	if why := lackOfRole(b, sys); why != "" {
		return why
	}
	if b.Disrupt.NodeWide() && !ours {
		return "it touches nodes or the control plane, which the suite does on clusters that it made only"
	}
	if slices.ContainsFunc(b.Traffic, func(p load.Profile) bool { return p.Path.Outside() }) && !reachable {
		return "its clients are outside the cluster, and no node's address can be reached from here"
	}
	return ""
}

// lackOfRole says why what is under test can't be put to a behaviour in a cluster.
func lackOfRole(b behaviour.Behaviour, sys *system.System) string {
	t := b.Topology
	switch {
	case sys == nil && t.Role != "":
		return fmt.Sprintf("it is about a %s: put one up with --system (systems/reference-gateway.yaml is the reference's), or use stage host", t.Role)
	case sys == nil:
		return ""
	case t.Behind:
		return "it ends the backends, each of which has to come back at its old address: pods don't, and this version puts no other network before them. Stage host does"
	case strings.HasPrefix(b.ID, "endpoints."):
		return "it is about the cluster's service network, which is put to it with the reference app: leave --system out"
	case b.Disrupt.Midway == disrupt.SigtermAgain:
		return "it sends a second signal, and where a hook begins the drain that is the first one"
	case b.Disrupt.Midway == disrupt.ControlPlaneOutage, b.Disrupt.Kind == disrupt.NodeShutdown:
		return "it is held to the reference app's own times, or ends the backends with their node: leave --system out"
	case b.Disrupt.Kind == disrupt.DrainCall:
		return "it looks at a liveness probe of a second, and a manifest has its own"
	case t.Budget > 0:
		return "it is about evictions and their budget, which this version puts the reference app to only"
	case t.Apart:
		return "it places the pods apart, which this version does with the reference app only"
	case b.Disrupt.Kind == disrupt.Intrude, slices.Contains(b.Needs, spec.LBHealth):
		return "it asks the instances themselves for their health, or tries their admin listeners, which this version does on stage host only"
	}
	for _, need := range b.Needs {
		if slices.Contains(system.Features(), need) {
			if why := sys.Lacks(need); why != "" {
				return why
			}
		}
	}
	return ""
}
