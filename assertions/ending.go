// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"slices"
	"time"
)

// Instant is a moment with its source and its uncertainty to either side.
type Instant struct {
	At     time.Duration
	Err    time.Duration
	Source string
}

// Known says whether anybody saw it.
func (i Instant) Known() bool { return i.Source != "" }

// Role says what it is on a request's path that ends: a system file's word for it
// (fixtures/system). "": the recording does not tell.
type Role string

// The roles that checks know. App and gateway are those of recordings where no mark names another
// (MarkFront, MarkSubject).
const (
	RoleApp     Role = "app"     // it answers requests by itself
	RoleGateway Role = "gateway" // it stands before those that answer
	RoleSidecar Role = "sidecar" // it stands beside an app, and its clients have one too

	RoleNodeProxy Role = "node-proxy" // it serves an app from its node, and the app's clients too

	// RoleProxies is that of the node proxies themselves (MarkProxies), where what is judged are the workloads
	// that they serve.
	RoleProxies Role = "proxies"
)

// Meshed says whether what reaches an app comes through a mesh, and its clients are in that too.
func (r Role) Meshed() bool { return r == RoleSidecar || r == RoleNodeProxy }

// Cause is why an instance ended.
type Cause string

// The causes.
const (
	// CauseDeletion: its pod was deleted (timeline.PodDeletion).
	CauseDeletion Cause = "deletion"
	// CauseShutdown: its node shut down, and the kubelet ended it without a deletion. D is
	// known, and Del, Grace and Kill are not: the kubelet keeps that time to itself.
	CauseShutdown Cause = "shutdown"
	// CauseProcessEnd: its process ended and its pod stood. It crashed, somebody killed it or
	// its container (a probe, the kernel, the suite), or it left by itself, called to drain or
	// not. It may come back in its pod.
	CauseProcessEnd Cause = "process-end"
	// CauseLeaving: the workload left a mesh, and its process lives on (timeline.MeshLeaving).
	CauseLeaving Cause = "leaving"
)

// Ending is the clock of one end of an instance, as the design page names its instants. Of
// the three times that each has, begin is Drain (see Begin), deadline is Kill and exit is
// Exit. All are offsets from the recording's T0. An instant that nobody saw is not Known.
//
// An instance that is restarted has an ending for each time. What no ending of it can claim
// (the exit of a container beside it) makes none.
type Ending struct {
	Role  Role  // by MarkFront, and the owner that timeline.PodSeen names
	Cause Cause // by which of the events below there are

	// UID is the events' Subject; Name and Node are what they say of it. IP is its own
	// address, by the first event that has one, and IPs are all that they tell of: one of each
	// family. Who is dialled by a name is reached at any of them (IsAt).
	UID, Name, Node, IP string
	IPs                 []string
	// Address is where who stands before it dials it (timeline.PodAddress); "": at its own IP.
	Address string

	// Called is when the suite called it to drain and deleted nothing
	// (timeline.Disruption, "drain-call").
	Called Instant
	// Del is when the watch first shows a deletionTimestamp (timeline.PodDeletion), which on a
	// busy machine is late, later than D: Err goes back to the instant at which the suite asked for
	// the deletion, where it did, so that nothing before Del.At - Del.Err is of the deletion.
	// Where the cause is no deletion: of its pod, before that was ready again.
	Del Instant
	// Hook is when the preStop hook reached it (timeline.DrainHook).
	Hook Instant
	// Drain is D: SIGTERM, preStop or a drain call arrived (timeline.DrainStart). Of one that
	// says nothing of it: by the kubelet's event Killing, the deletion, the shutdown of its node
	// or the call. Of a process that ended without any of these it is not known. Who leaves a
	// mesh does so from timeline.MeshLeaving on.
	Drain    Instant
	Endpoint Instant // the EndpointSlice of MainService says terminating (timeline.Endpoint, EndpointGone)
	LastNew  Instant // last new connection that reached it through the Service (samples)
	// Exit is when the process was gone: the best known of timeline.ProcExit,
	// timeline.PodContainer and, where its pod was deleted, timeline.PodGone. Who leaves a mesh
	// is gone from it at timeline.MeshLeft.
	Exit Instant
	Net  Instant // the interface is gone (timeline.NetGone)
	Gone Instant // the API server has forgotten the pod (timeline.PodGone)

	// Running and Ready are, where only the process ended, when its container runs again
	// (timeline.PodContainer) and its pod is ready again (timeline.PodReady).
	Running, Ready Instant

	// Grace is the grace period of the deletion. Kill is K, the deadline, an instant:
	// Del + Grace; 0 where there is no deletion.
	Grace, Kill time.Duration
	// ExitCode of the container (timeline.PodContainer), -1 where nobody saw it.
	ExitCode int
}

// IsAt says whether an address is one of the instance's own.
func (e Ending) IsAt(ip string) bool { return slices.Contains(e.IPs, ip) }

// Begin is when the ending began: D, or the exit of a process of which nobody knows more.
func (e Ending) Begin() Instant {
	if e.Drain.Known() {
		return e.Drain
	}
	return e.Exit
}

// Earliest is the first instant at which anything can be the ending's doing: D, or the deletion, where
// that was earlier. Who watches the API for its pod's deletion, or has a hook, may act before its app is told
// to go.
func (e Ending) Earliest() time.Duration {
	from := e.Drain.At - e.Drain.Err
	if e.Del.Known() {
		from = min(from, e.Del.At-e.Del.Err)
	}
	return from
}

// terminates says whether the instance itself was ended, for good: by a deletion, or with its
// node. What such an ending is held to begins at D.
func (e Ending) terminates() bool { return e.Cause == CauseDeletion || e.Cause == CauseShutdown }

// exitOr is T_exit, or other where nobody saw it.
func (e Ending) exitOr(other time.Duration) time.Duration {
	if e.Exit.Known() {
		return e.Exit.At
	}
	return other
}

// The exit codes of a process that SIGKILL ended, and of one that SIGTERM did:
// of a JVM too, when it has done all that its shutdown hooks are for.
const (
	killedCode = 137
	termCode   = 143
)

// Killed says whether SIGKILL ended it, where its exit code was seen.
func (e Ending) Killed() bool { return e.ExitCode == killedCode }
