// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Lacks says what keeps a cluster from carrying a behaviour, as far as that is known
// before there is one; zero for nothing. sys is what is tested, nil the reference of the
// behaviour's role.
// ours: the suite makes the cluster; reachable: its nodes can be dialled from here.
func Lacks(b behaviour.Behaviour, sys *system.System, ours, reachable bool) behaviour.Skip {
	if why := lackOfRole(b, sys, ours); why != "" {
		return behaviour.Because(spec.Uncarried, why)
	}
	// What is of another role claims nothing of this one, and that says nothing for it.
	if sys != nil {
		if skip := behaviour.OfAnotherRole(b, sys); skip.Why != "" {
			return skip
		}
	}
	if why := unclaimed(b, sys); why != "" {
		return behaviour.Because(spec.Unclaimed, why)
	}
	if b.Disrupt.NodeWide() && !ours {
		return behaviour.Because(spec.Uncarried, "it touches nodes or the control plane, which the suite does on clusters that it made only: use --stage kind")
	}
	if calls := slices.ContainsFunc(b.Traffic, func(p load.Profile) bool { return p.Path == flow.Outbound }); calls && !ours {
		return behaviour.Because(spec.Uncarried, "its app writes down what becomes of what it sends out, where only a node of the suite's own keeps it: elsewhere that would go out by the way that is judged: use --stage kind")
	}
	if b.Disrupt.Kind == disrupt.Peers {
		return behaviour.Because(spec.Uncarried, "its pods have to do with peers of the suite's own that misbehave, which stand on a host only: use --stage host")
	}
	for _, need := range b.Needs {
		if why := hostOnly[need]; why != "" {
			return behaviour.Because(spec.Uncarried, why)
		}
	}
	if slices.Contains(b.Needs, spec.Wire) && !(ours && reachable) {
		return behaviour.Because(spec.Uncarried, "it looks at what passes between the nodes' pods, which takes nodes whose networks are this machine's: use --stage kind, on Linux, or --stage host")
	}
	outside := slices.Contains(b.Needs, spec.LBHealth) || slices.ContainsFunc(b.Traffic, func(p load.Profile) bool { return p.Path.Outside() })
	if outside && !reachable {
		return behaviour.Because(spec.Uncarried, "its clients are outside the cluster, and no node's address can be reached from here: use --stage kind, on Linux")
	}
	return behaviour.Skip{}
}

// hostOnly is what no cluster has, and why.
var hostOnly = map[spec.Feature]string{
	spec.Bench:  "it looks into the networks of pods, or its clients are outside of the mesh and dial pods themselves, which this version does on the host only: use --stage host",
	spec.Knocks: "its connections come a millisecond apart, some of them from within a pod's network, which this version does on the host only: use --stage host",
}

// lackOfRole says why what is under test can't be put to a behaviour in a cluster.
func lackOfRole(b behaviour.Behaviour, sys *system.System, ours bool) string {
	t := b.Topology
	switch {
	case b.Disrupt.Cluster() != "":
		return b.Disrupt.Cluster()
	case stands(sys, t.Role).Role == system.NodeProxy && !ours:
		return "it is about a node proxy, whose CNI plugin the suite installs on clusters that it made only: use --stage kind, or --stage host"
	case sys == nil && t.Role == "":
		return ""
	case sys == nil && !ours:
		return fmt.Sprintf("it is about a %s, of which the control kills a process: that takes a cluster that the suite made: use --stage kind, or --stage host", stands(sys, t.Role).Name)
	case sys != nil && sys.Cluster != nil && len(sys.Cluster.Scoped) > 0 && !ours:
		return fmt.Sprintf("%s has objects outside of namespaces (cluster.scoped), which the suite makes on clusters that it made only: use --stage kind", sys.Metadata.Name)
	case sys != nil && b.GatewaysToo && stands(sys, t.Role).Before && sys.Claims(spec.HBONE):
		return "it is about tunnels, whose two ends show identities of the suite's CA, and a cluster's pods get none of it outside of the mesh: use --stage host"
	case t.Apart && sys != nil && sys.Local():
		return ""
	case strings.HasPrefix(b.ID, "endpoints.") && t.Apart:
		return "it is about externalTrafficPolicy Local, with one pod on each node: write cluster.externalTrafficPolicy: Local to have that judged of the system, or run it without --system"
	case strings.HasPrefix(b.ID, "endpoints.") && sys != nil && sys.Meshed() && resolves(b.ID):
		return ""
	case strings.HasPrefix(b.ID, "endpoints."):
		return "it is about the cluster's own Services and not about what stands behind them, which is the suite's reference app: run it without --system"
	case b.Disrupt.Midway == disrupt.SigtermAgain:
		return "it sends SIGTERM again while a drain goes on, and nobody sees whether a preStop hook of the manifest began that, before any SIGTERM: use --stage host"
	case b.Disrupt.Midway == disrupt.ControlPlaneOutage && (sys == nil || !sys.AppIsOurs()):
		return "it is held to the times of the suite's reference app: run it without --system"
	case b.Disrupt.Kind == disrupt.NodeShutdown && stands(sys, t.Role).Before:
		return "it shuts a node down, which would end the backends there too: run it without --system"
	case b.Disrupt.Kind == disrupt.NodeShutdown:
		return "it shuts a node down, which this version does with the suite's reference app only: run it without --system"
	case b.Disrupt.Kind == disrupt.DrainCall && (sys == nil || !sys.AppIsOurs()):
		return "it needs a liveness probe that looks each second, as the suite's reference app has one, and the manifest has its own: run it without --system"
	case t.Budget > 0:
		return "it is about evictions under a PodDisruptionBudget, which this version does with the suite's reference app only: run it without --system"
	}
	return ""
}

// resolved are the behaviours of Services that are a mesh's own matter: its data path chooses among
// a Service's endpoints.
var resolved = []string{"endpoints.falls-back-to-terminating", "endpoints.prefers-ready"}

func resolves(id string) bool { return slices.Contains(resolved, id) }

// stands is as what is tested is put up; nil is the reference of a role.
func stands(sys *system.System, r system.Role) system.RoleRow {
	if sys != nil {
		return sys.Stands()
	}
	row, _ := r.Row()
	return row
}

// ofDeployments are the behaviours that are judged by what a Deployment says of itself.
var ofDeployments = []string{"rollout.never-below", "rollout.ready-before-available"}

// lackOfKind says why the pods of a workload can't be put to a behaviour that those of a
// Deployment can; "": they can.
func lackOfKind(b behaviour.Behaviour, w disrupt.Workload) string {
	switch {
	case w.Kind == disrupt.Deployment:
		return ""
	case slices.Contains(ofDeployments, b.ID), b.Disrupt.Kind == disrupt.Push:
		return fmt.Sprintf("it is about what a Deployment promises and makes of its pods, and %s is a %s: run it with a Deployment of the same pods", w.Name, w.Kind)
	case b.Disrupt.Kind == disrupt.ScaleDown && !w.Kind.Sizes():
		return fmt.Sprintf("it scales down, and the %s %s has a pod on each of its nodes: run it with a Deployment of the same pods", w.Kind, w.Name)
	}
	return ""
}

// unclaimed says which feature a behaviour takes that what is tested does not claim. The
// reference claims everything.
func unclaimed(b behaviour.Behaviour, sys *system.System) string {
	if sys == nil {
		return ""
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
