// SPDX-License-Identifier: Apache-2.0

// Package timeline is the record of a run: samples, events, frames and ledger
// entries, all of them offsets from one monotonic T0. It is a leaf.
package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/load/flow"
)

// Outcome is what became of one attempt, classified at the socket.
type Outcome string

// The outcomes. Where an attempt broke is its Phase, not part of the outcome.
const (
	OK            Outcome = "ok"
	Refused       Outcome = "refused"        // ECONNREFUSED
	NoRoute       Outcome = "no-route"       // EHOSTUNREACH, ENETUNREACH
	Timeout       Outcome = "timeout"        // the attempt's own budget ended
	Reset         Outcome = "reset"          // RST
	Closed        Outcome = "closed"         // FIN before the first byte of a reply
	Truncated     Outcome = "truncated"      // the body ended before its promised length
	Corrupt       Outcome = "corrupt"        // length or hash differ from what was promised
	Status        Outcome = "status"         // a reply with an unexpected status
	GoAway        Outcome = "goaway"         // h2: above the last stream ID, known not to be processed
	RefusedStream Outcome = "refused-stream" // h2: REFUSED_STREAM, known not to be processed
	StreamReset   Outcome = "stream-reset"   // h2: any other RST_STREAM
	BehindClose   Outcome = "behind-close"   // http1: sent behind a request whose answer said close, and none came
	CloseFrame    Outcome = "close-frame"    // WebSocket: the peer's close frame, before the client was done
	Malformed     Outcome = "malformed"      // the peer broke the protocol
	Cancelled     Outcome = "cancelled"      // the generator itself was killed, or had no room: never evidence
)

// SafeToRetry says whether the client was told that nothing was processed. RFC
// 9112 section 9.6, of a server that has said close: "The server MUST NOT process any
// further requests received on that connection."
func (o Outcome) SafeToRetry() bool {
	return o == GoAway || o == RefusedStream || o == BehindClose
}

// Phase is how far an attempt came.
type Phase string

// The phases of an attempt.
const (
	// PhaseDue: it was never begun, because too much was in flight. Its outcome is
	// Cancelled, and it is saturated.
	PhaseDue       Phase = "due"
	PhaseDial      Phase = "dial"
	PhaseTLS       Phase = "tls"
	PhaseWrite     Phase = "write"
	PhaseFirstByte Phase = "first-byte"
	PhaseBody      Phase = "body"
	PhaseDone      Phase = "done"
)

// Sample is one attempt of a client. Times are offsets from T0 in the
// recorded history, and the agent's raw CLOCK_MONOTONIC before that. A zero
// time means that the attempt never came so far.
type Sample struct {
	// Stream is what the attempt belongs to.
	Stream flow.Stream `json:"stream"`
	// ID is the request ID, the same in the ledger.
	ID string `json:"id"`
	// Conn counts the connections of the stream from 1; 0: none was opened.
	Conn uint64 `json:"conn,omitempty"`
	// Nth counts the requests of the connection from 1: 1 is the request
	// that a connection was opened for, above 1 a reused connection.
	Nth int `json:"nth,omitempty"`
	// StreamID is the request's stream in HTTP/2; 0: it never had one.
	StreamID uint32 `json:"streamID,omitempty"`
	// Addr is the address that was dialled; Local is the client's own.
	Addr  string `json:"addr"`
	Local string `json:"local,omitempty"`

	Due   time.Duration `json:"due"`             // when the schedule wanted it
	Start time.Duration `json:"start"`           // when it was really begun
	Dial  time.Duration `json:"dial,omitempty"`  // connection established (new ones only)
	Sent  time.Duration `json:"sent,omitempty"`  // request written
	First time.Duration `json:"first,omitempty"` // first byte of the reply
	End   time.Duration `json:"end"`             // the outcome was known

	Outcome Outcome `json:"outcome"`
	Phase   Phase   `json:"phase"`
	// Err is the error's text, for people: a culprit's line has it. No verdict reads it.
	Err    string `json:"err,omitempty"`
	Status int    `json:"status,omitempty"`
	// GRPC is the grpc-status that a gRPC call ended with, as it was sent: "0" is
	// OK. Empty: none came, or it was no such call. Where the stream of a call
	// came to its end, its Phase is done and its outcome Truncated if it had no
	// status, Corrupt if its messages were not those that were asked for, all of
	// them in their sequence, and Status if it is any other than OK.
	GRPC string `json:"grpc,omitempty"`
	// Got and Want are body bytes, of a gRPC call messages: received (or, for an
	// upload, acknowledged by the backend) and promised.
	Got  int64 `json:"got,omitempty"`
	Want int64 `json:"want,omitempty"`
	// Server is the UID of the pod that answered, as it says itself.
	Server string `json:"server,omitempty"`
	// Reached is the UID of the instance that was reached of what is ended, which may stand
	// before Server; "" where nobody knows. It is found when a case is made, and is in no file.
	Reached string `json:"-"`
	// Via is the IP that this pod saw the request come from, where it is not the
	// client's own: that of who passed it on.
	Via string `json:"via,omitempty"`
	// Relayed: this pod saw the request come on another connection than the client's own, by
	// its IP or its port, where it tells them: somebody stood between.
	Relayed bool `json:"relayed,omitempty"`
	// Answers are the addresses that a lookup was answered with, sorted.
	Answers []string `json:"answers,omitempty"`
	// LastOnConn: the reply said that the connection ends (Connection: close,
	// or a GOAWAY had arrived).
	LastOnConn bool `json:"lastOnConn,omitempty"`
	// EndStream: it failed in a tunnel, whose server had ended its stream by END_STREAM: what came was all.
	EndStream bool `json:"endStream,omitempty"`
	// Brief: it is one of the short ones of a flow that has long ones too (flow.Mixed).
	Brief bool `json:"brief,omitempty"`
	// Saturated: the generator missed its own schedule, or never began the attempt.
	// Such a sample leaves the evidence count, but its failure still counts.
	Saturated bool `json:"saturated,omitempty"`
}

// Failed says whether the attempt did not end as it should have.
func (s *Sample) Failed() bool { return s.Outcome != OK }

// Unsent says whether the attempt was due and never begun.
func (s *Sample) Unsent() bool { return s.Phase == PhaseDue }

// Contradiction says what two things the sample says that can't both be; "" for none.
func (s *Sample) Contradiction() string {
	switch {
	case s.Failed():
		return ""
	case s.Status >= 300 && s.Stream.Flow().Op != flow.Vacant: // which is to be denied
		return fmt.Sprintf("%s, with status %d", s.Outcome, s.Status)
	case s.GRPC != "" && s.GRPC != "0":
		return fmt.Sprintf("%s, with grpc-status %s", s.Outcome, s.GRPC)
	case s.Got < s.Want:
		return fmt.Sprintf("%s, with %d of %d", s.Outcome, s.Got, s.Want)
	default:
		return ""
	}
}

// New says whether the attempt opened its own connection, or tried to.
func (s *Sample) New() bool { return s.Nth <= 1 }

// Shift moves all times by d: from an agent's clock to offsets from T0.
func (s *Sample) Shift(d time.Duration) {
	for _, t := range []*time.Duration{&s.Due, &s.Start, &s.Dial, &s.Sent, &s.First, &s.End} {
		if *t != 0 {
			*t += d
		}
	}
}

// EventKind names what happened.
type EventKind string

// The kinds of events, with the attributes that each carries.
const (
	// PodSeen: the pod watch first shows a pod. Attrs: ip (its first address), ips (all of them), node,
	// owner, labels are not kept.
	PodSeen EventKind = "pod.seen"
	// PodAddress: who stands before a pod dials it at another address than its own. Attrs:
	// address (an IP).
	PodAddress EventKind = "pod.address"
	// PodReady: the Ready condition changed. Attrs: ready, ip, ips: a pod may have none yet when it is first seen.
	PodReady EventKind = "pod.ready"
	// PodDeletion: the watch first shows a deletionTimestamp (T_del). Attrs: grace (seconds).
	PodDeletion EventKind = "pod.deletion"
	// PodContainer: a container's state changed. Attrs: container, state, exitCode, reason.
	// Where the reason is ReasonOOMKilled: limit (of its memory; "": it has none), and
	// finished (when, in RFC 3339), or on a host kills (see there).
	PodContainer EventKind = "pod.container"
	// ContainerReady: what the kubelet says of a container's readiness changed: of one with a readiness probe, what that says. Attrs:
	// container, ready.
	ContainerReady EventKind = "container.ready"
	// PodGone: the watch shows the pod deleted.
	PodGone EventKind = "pod.gone"
	// Endpoint: an endpoint's conditions, merged over slices, changed or were
	// first seen. Attrs: service, ready, serving, terminating, ip.
	Endpoint EventKind = "endpoint"
	// EndpointGone: no slice of the service holds it any more. Attrs: service.
	EndpointGone EventKind = "endpoint.gone"
	// Deployment: what a Deployment wants and has, whenever any of it changed.
	// Subject is its UID. Attrs: replicas, maxUnavailable, maxSurge (pods),
	// minReadySeconds, updated, ready, available.
	Deployment EventKind = "deployment"
	// Job: one that the suite made, or had made, has ended, or was waited for as long as it may take.
	// Subject is its UID. Attrs: wants (JobComplete, JobFailed), state (one of these; "": it goes on),
	// owner (as its pods' PodSeen name it), container (of its app), and by, where it was not the
	// suite's own doing (ByCronJob).
	Job EventKind = "job"
	// NodeReady: a node's Ready condition changed. Subject is the node. Attrs: ready.
	NodeReady EventKind = "node.ready"
	// NodeStarved: processes of a node did not get their turn of the CPU. Err is how long that stretch is, about a second. Attrs: of
	// (how often the node's witness wanted to wake in it: each 20 ms) and late (how often it came as much later). A stretch in which
	// less than a tenth was late is not told of.
	NodeStarved EventKind = "node.starved"
	// PodTried: the suite had the API server make a pod, up to the point where it would have been
	// stored. Err is how long that took. Attrs: result (TriedInjected, TriedBare: it came without what
	// has it be in the mesh, TriedRefused), why where it was refused, and dataplane: who is to serve it ("sidecar", "node"; in older
	// recordings it is not said, and is a sidecar).
	PodTried EventKind = "pod.tried"
	// LeaseHeld: who holds a lease changed. Name is the lease's. Attrs: holder (a pod's name; "":
	// nobody), lasts (seconds that it is held without being renewed).
	LeaseHeld EventKind = "lease.held"
	// ClusterEvent: a core/v1 or events/v1 Event. Attrs: reason, message, type.
	ClusterEvent EventKind = "cluster.event"
	// WatchGap: transitions may have been lost. Subject is the resource. Attrs: why.
	WatchGap EventKind = "watch.gap"

	// DrainHook: the preStop hook reached the instance. Attrs: takes, fails.
	DrainHook EventKind = "drain.hook"
	// DrainAgain: a second trigger reached the instance. Attrs: trigger.
	DrainAgain EventKind = "drain.again"
	// DrainStart: SIGTERM, preStop or a drain call reached the instance (D),
	// as it says itself. Attrs: trigger.
	DrainStart EventKind = "drain.start"
	// DrainUnready: the instance answers its readiness probe with failure from now on.
	DrainUnready EventKind = "drain.unready"
	// DrainListenerClosed: the instance stops accepting.
	DrainListenerClosed EventKind = "drain.listener-closed"
	// DrainEnd: the instance leaves by itself, all work done or cut. Attrs: cut.
	DrainEnd EventKind = "drain.end"

	// Health: what an instance answers to a probe changed, or was first asked.
	// Attrs: probe (ready, live, lb), good (true, false), and silent (true) where
	// there was no answer in the probe's time: on a busy machine that says nothing
	// of the instance. Err is the time since the look before.
	Health EventKind = "health"
	// Looked: an instance was probed, and answered or did not; told where it matters how often that was. Attrs: probe.
	Looked EventKind = "health.looked"

	// Timers: what the manifest of the instances says of their end. Attrs, Go
	// durations but for threshold: probe (a readiness probe's period), threshold
	// (so many bad answers in a row), minDrain, timeout, grace, and ready where a
	// hook waits for the drain with a bound of its own.
	Timers EventKind = "timers"
	// Control: the suite tried what begins an instance's drain, or ends it. Attrs:
	// from (ControlOwn, ControlElsewhere: the address that was dialled), to
	// (host:port), port (its name), and for a request method, path and, where it
	// was answered, status; error where nothing answered.
	Control EventKind = "control"

	// Sockets: what sockets a process has to one address, whenever it was looked
	// at. Subject is the UID of its instance. Attrs: peer (host:port), sockets (one
	// word for each: its inode, its state and its own address, with / between).
	Sockets EventKind = "sockets"

	// Gauge: a number that an instance tells about itself, whenever it was read.
	// Attrs: gauge, and value, or error where it could not be read.
	Gauge EventKind = "gauge"

	// ConnTold: the instance told the other side of a connection that it ends: by
	// GOAWAY, or, where it was the first to close, by its FIN, or by its close_notify
	// with the FIN held back. Attrs: conn (its number at the instance), by (ToldByGoAway,
	// ToldByFIN, ToldByCloseNotify), protocol (http1, h2), peer, and said (SaidClose), where the last
	// answer on it had said so before, in HTTP/1.1.
	ConnTold EventKind = "conn.told"
	// ConnHeard: the other side has read that: it answered the PING behind the
	// GOAWAY, or closed too. Attrs: conn, by.
	ConnHeard EventKind = "conn.heard"
	// ConnAsked: a new request came on a connection that was told. Attrs: conn, by,
	// id (the request's, in HTTP/1.1), stream (in HTTP/2).
	ConnAsked EventKind = "conn.asked"

	// PeerSaw: what a peer of the suite's own, which instances dial, did or saw. Subject is its
	// path (flow.PeerRefuses). Attrs: what (one of the Peer... below), conn (the tunnel, counted
	// by the peer from 1), stream, and what the row there says besides.
	PeerSaw EventKind = "peer.saw"

	// Wire: what the node's wire had of a connection of TCP between two pods that discovery has in the
	// mesh, or from one of them to a Service's own address. Attrs: what (WireDialled: its first segment; WireSaid: the first with a byte in it, told
	// only of what is no tunnel; WireEnded, WireReset: the FIN and the RST of a side, told only of tunnels), from, to (host:port of the segment).
	Wire EventKind = "wire"

	// ProcExit: the witness saw the process go (T_exit). Attrs: pid, container.
	ProcExit EventKind = "proc.exit"
	// CNIDel: the pod's runtime has called the plugins of its network for its end (DEL): all of its
	// processes have gone, and its interface still stands. Attrs: took (a Go duration), error where they
	// say that they failed, and held: the sockets in the pod's network that some process holds behind that, one
	// word each (listening@HOST:PORT, HOST:PORT>HOST:PORT, udp@HOST:PORT); there is none where nobody looked. untold is why the pod's peers
	// may not have been told, by the mesh's plugin, whose DEL succeeds all the same. On a cluster it
	// is the mesh's plugin that tells of its own call, and looks, once it has done its part.
	CNIDel EventKind = "cni.del"
	// CNIAdd: the pod's runtime has called the plugins of its network for its begin (ADD): nothing runs in it
	// before that has succeeded. Attrs: ips (its addresses), took (a Go duration), error where they say that they failed, redirects
	// (true, false: the pod's connections go to its node's proxy), and held: who waits for them then, as CNIDel has it.
	CNIAdd EventKind = "cni.add"
	// CNICall: the stage, as a container runtime, has called a plugin by libcni, for a pod that it made for
	// that (Name; none where the call has no pod). Attrs: command (ADD...), others (true: the pod is in no mesh), version (the list's), took (a Go
	// duration), error (as a runtime sees it); agent and proxy: how those were meanwhile (CNIUp...). Of a DEL:
	// again (true) where it came with neither namespace nor result, noted (before and behind it: what the pod
	// had, CNINoted), held (behind it: the sockets in the pod's network, as CNIDel has it; none where nobody looked), old (CNIStopped: of two proxies the one that was told to go hung then, and was killed). Of an ADD:
	// result (its version), and lacks: what of the result before it that lacks (interfaces, ips). Of a CHECK: bare (true), where what redirects the
	// pod's connections had been taken away before. Of VERSION: versions. Of GC: pods, and noted and served behind it, names of pods.
	// Of STATUS: writable (false), where the plugin can't write its folder. sandbox (CNINextSandbox): an ADD of the second one of a pod;
	// (CNIOldSandbox): a DEL of its first one, with before and behind: what the second one was then (noted, served).
	CNICall EventKind = "cni.call"
	// PodAsked: from within a pod that the stage made for CNICall (Name) an instance was asked something, on a connection of its
	// own. Attrs: proxy, as CNICall has it, took (until it had an answer, a Go duration), error where it had none,
	// held: the sockets of its node's proxies in its network, as CNIDel has them; none where nobody looked.
	PodAsked EventKind = "pod.asked"
	// NetGone: the witness saw the pod's interface go (T_net).
	NetGone EventKind = "net.gone"

	// NodeProxy: what becomes of a node's proxy, the Subject. Attrs: is (NodeProxyStarts: its process;
	// NodeProxyServes: all that its agent holds, and its ports are open from a moment before on; NodeProxyTold: to go; NodeProxyKilled: by SIGKILL; NodeProxyGone: its process is; NodeProxyStopped: by SIGSTOP; NodeProxyContinues: by SIGCONT).
	// Of NodeProxyTold, where it has a grace period of its own: grace, and kill: how long after it SIGKILL comes, which is
	// the kubelet's minimum where that is longer (Go durations).
	NodeProxy EventKind = "node.proxy"
	// NodeAgent: what becomes of a node's agent, the Subject. Attrs: is (NodeAgentKilled: by SIGKILL; NodeAgentTold: to go;
	// NodeAgentStarts: the process of another one).
	NodeAgent EventKind = "node.agent"
	// NodeRestart: a node, the Subject, restarts without a drain. Attrs: is (NodeDown: all that runs on it is killed at
	// once, and its pods' networks are gone; NodeUp: its kubelet begins its pods again).
	NodeRestart EventKind = "node.restart"
	// NodeHolds: what a node has of a pod, the Subject, whose network was taken away. Attrs: held (sockets in
	// that, as CNIDel has it), keeps (names of the node's agent and proxies that have it open), and named (true,
	// false: the agent names the pod to a proxy that asks for all).
	NodeHolds EventKind = "node.holds"
	// Knocks: so many connections to a port of a workload's, the Subject, were answered since the last of these, and
	// KnockFailed: one was not. Attrs: port, n, longest (the longest that one of them took, a Go duration); why, took.
	Knocks      EventKind = "node.knocks"
	KnockFailed EventKind = "node.knock-failed"

	// MeshLeaving: a workload is taken out of its mesh while its app lives: from now on no
	// new connection of its pod, the Subject, goes through the proxy. Attrs: within (a Go duration: what passes is given
	// up then, at the latest), lacks (why that was not seen, in words).
	MeshLeaving EventKind = "mesh.leaving"
	// MeshLeft: nothing in the pod is the mesh's any more: the last connection through the
	// proxy is over, and its listeners are closed. Attrs: held, what is left of these all the same, as CNIDel
	// has it.
	MeshLeft EventKind = "mesh.left"
	// MeshJoined: a workload that had left its mesh is in it again: its connections go through the proxy, and
	// discovery says so. MeshJoining: it is to be, from now on.
	MeshJoined  EventKind = "mesh.joined"
	MeshJoining EventKind = "mesh.joining"

	// AddressReused: a pod of another workload, the Subject, is ready at the address of one that is gone, of which discovery has
	// not heard yet. Attrs: address (an IP), of (the UID of the one that is gone).
	AddressReused EventKind = "address.reused"
	// AddressListed: discovery has been told that it is the Subject's, and that the other one is gone.
	AddressListed EventKind = "address.listed"

	// CertificateEnds: a certificate has run out with which a client of the suite's own, the Subject (a SPIFFE ID), has opened
	// tunnels. Attrs: flow (of the connections in these).
	CertificateEnds EventKind = "certificate.ends"

	// Listed: what a mesh's discovery is to know has changed. Name is a pod's. Attrs: is
	// (ListedThere, ListedGone). A pod is told to be gone before it is taken away.
	Listed EventKind = "mesh.listed"
	// Subscribed: what the suite's own client of discovery, the Subject, was told. Attrs: is, which is
	// SubscribedOpen (a stream has begun; at: its server, known: how many resources the client has),
	// SubscribedTold (pods and gone: the names of pods, with spaces between) or SubscribedEnd (why);
	// and stream, its number.
	Subscribed EventKind = "mesh.subscribed"

	// Disruption: the suite did something to the system. Attrs: what, and its arguments.
	Disruption EventKind = "disruption"
	// Marker: the suite's own progress: steady, settled, tail. Attrs: what. On a host also
	// a step of an instance's end (step), and a process that its first one left behind and
	// that was ended (left): process, pid.
	Marker EventKind = "marker"
	// LedgerTail: the witness has a pod's ledger whole. Attrs: why, lines, partial.
	LedgerTail EventKind = "ledger.tail"
	// AgentLost: the control channel to an agent broke for good, or another process of
	// the suite's own ended. Attrs: agent, why, and memory (true) where it was killed for
	// its memory.
	AgentLost EventKind = "agent.lost"
	// Outage: a part of the control plane was seen to be away, or back.
	// Subject is its name (kube-apiserver). Attrs: up (true, false).
	Outage EventKind = "outage"
	// Balancer: the suite's own balancer took a backend in or out. Subject is
	// the backend's name. Attrs: in (true, false); out only: why, and silent (true)
	// where a look that it was taken out for got no answer in its time.
	Balancer EventKind = "balancer"
	// Chosen: who stands before the system gave a client's connection to one of its
	// instances, the Subject. Attrs: client (its own address, host:port), by (ByService,
	// ByBalancer).
	Chosen EventKind = "chosen"
	// CPU: what one of our processes used. Attrs: cpu (a Go duration, since its
	// start).
	CPU EventKind = "cpu"
	// Pressure: the summary of closed-loop load. Attrs, counts: requests, warmups (not
	// among them), ok, errors, socketErrors (of these: no answer at all), status.NNN
	// (answers of each status but 200), sockets (connections opened), conns; qps (wanted
	// of all together), seconds; p50ms, p90ms, p99ms, maxms; histogram (one word for
	// each bucket: its upper end in ms and its count, with : between); stopped, where
	// it was to end early: why; cpu, where the process made nothing else. error alone:
	// there is no summary, and why.
	Pressure EventKind = "pressure"
	// PressureServed: how many requests of closed-loop load a backend has begun to
	// serve since its start. Attrs: served, and final (true) where it says so at its
	// end: what is not final is "at least".
	PressureServed EventKind = "pressure.served"
)

// What a peer of the suite's own did or saw: see PeerSaw.
const (
	PeerBegan     = "began"      // from now on it does what its path says
	PeerPhase     = "phase"      // of that. Attrs: phase
	PeerDialled   = "dialled"    // a connection of TCP came. Attrs: from (host:port)
	PeerOpened    = "opened"     // a tunnel stands: the handshake, and the other side's preface
	PeerSettings  = "settings"   // it said its limit. Attrs: streams
	PeerConnect   = "connect"    // a CONNECT came
	PeerRefused   = "refused"    // it refused one as not processed. Attrs: by (PeerByReset, PeerByGoAway)
	PeerCut       = "cut"        // it cut a stream, or with no stream the tunnel. Attrs: by
	PeerEndStream = "end-stream" // the other side ended its half of a stream
	PeerReset     = "reset"      // the other side reset a stream. Attrs: code
	PeerDone      = "done"       // a stream is over, whoever ended it
	PeerGoAway    = "goaway"     // it told the other side to go. Attrs: last
	PeerNotified  = "notified"   // it said close_notify, and no GOAWAY
	PeerToldToGo  = "told-to-go" // the other side said GOAWAY
	PeerPinged    = "pinged"     // the other side asked for a sign of life
	PeerSilent    = "silent"     // it says nothing more in the tunnel
	PeerEnded     = "ended"      // the tunnel is over. Attrs: by (how the other side ended it; PeerItself: it did), open (streams in it by then)
)

// What the node's wire had of a connection: see Wire.
const (
	WireDialled = "dialled"
	WireSaid    = "said"
	WireEnded   = "ended"
	WireReset   = "reset"
)

// How a peer cut or refused (PeerCut, PeerRefused), or how the other side ended a tunnel (PeerEnded, FrameClose).
const (
	PeerByReset       = "rst-stream"
	PeerByGoAway      = "goaway"
	PeerByRST         = "rst"
	PeerByFIN         = "fin"
	PeerByCloseNotify = "close-notify"
	PeerItself        = "itself"
)

// What came of a pod that was tried: see PodTried.
const (
	TriedInjected = "injected"
	TriedBare     = "bare"
	TriedRefused  = "refused"
)

// What a Job comes to: see Job.
const (
	JobComplete = "complete"
	JobFailed   = "failed"
)

// ByCronJob says that the controller of a CronJob made a Job: see Job.
const ByCronJob = "CronJob"

// Who gives connections to instances: see Chosen.
const (
	ByService  = "service"
	ByBalancer = "balancer"
)

// The ways in which an instance tells the other side of a connection that it ends
// (ConnTold).
const (
	ToldByGoAway      = "goaway"
	ToldByFIN         = "fin"
	ToldByCloseNotify = "close-notify"
)

// SaidClose is what an answer in HTTP/1.1 says of its connection's end, before that comes.
const SaidClose = "close"

// ReasonOOMKilled is the reason of a container's end (PodContainer) that the kernel
// killed for memory, as the kubelet tells it. On a host it is told of a process that a
// SIGKILL ended that is none of the suite's, while the kernel counted kills for memory
// (the attribute kills: how many of its control group, or of the machine).
const ReasonOOMKilled = "OOMKilled"

// How an agent, or a node's proxy, is while the plugin is called (CNICall).
const (
	CNIUp      = "up"
	CNIStopped = "stopped" // by SIGSTOP
	CNIDead    = "dead"
	// CNIReplaced is a proxy from its successor's start on until it is gone.
	CNIReplaced = "replaced"
)

// Which sandbox a plugin is called for, of a pod that gets another one (CNICall).
const (
	CNIOldSandbox  = "old"
	CNINextSandbox = "next"
)

// What became of a node's proxy (NodeProxy).
const (
	NodeProxyStarts    = "starts"
	NodeProxyServes    = "serves"
	NodeProxyTold      = "told"
	NodeProxyKilled    = "killed"
	NodeProxyGone      = "gone"
	NodeProxyStopped   = "stopped"
	NodeProxyContinues = "continues"
)

// What became of a node's agent (NodeAgent).
const (
	NodeAgentKilled = "killed"
	NodeAgentTold   = "told"
	NodeAgentStarts = "starts"
)

// What became of a node (NodeRestart).
const (
	NodeDown = "down"
	NodeUp   = "up"
)

// What became of a pod (Listed), and of a stream (Subscribed).
const (
	ListedThere = "there"
	ListedGone  = "gone"

	SubscribedOpen = "open"
	SubscribedTold = "told"
	SubscribedEnd  = "end"
)

// From where an instance's controls were tried (Control).
const (
	// ControlOwn is the instance's own address: where it is told to end.
	ControlOwn = "own"
	// ControlElsewhere is an address that is none of its: what answers there
	// answers other pods too.
	ControlElsewhere = "elsewhere"
)

// Event is something that happened, seen by one source.
type Event struct {
	At time.Duration `json:"at"`
	// Err is the uncertainty of At, to either side.
	Err time.Duration `json:"err,omitempty"`
	// Source is who saw it: observe, echo, witness, runner, agent, balancer.
	Source string    `json:"source"`
	Kind   EventKind `json:"kind"`
	// Subject is the UID of the pod, or the name of what has no UID.
	Subject string `json:"subject,omitempty"`
	// Name is the subject's name, for people.
	Name string `json:"name,omitempty"`
	Node string `json:"node,omitempty"`
	// Attrs are the kind's own attributes.
	Attrs map[string]string `json:"attrs,omitempty"`
}

// IPs are all addresses that an event tells of a pod. There may be one that it calls the first and
// no list, as in recordings from before there was one.
func (e Event) IPs() []string {
	if all := strings.Fields(e.Attrs["ips"]); len(all) > 0 {
		return all
	}
	return strings.Fields(e.Attrs["ip"])
}

// Frame is one frame or alert that a wire-level client saw.
type Frame struct {
	At     time.Duration     `json:"at"`
	Stream flow.Stream       `json:"stream"`
	Conn   uint64            `json:"conn"`
	Kind   FrameKind         `json:"kind"`
	Attrs  map[string]string `json:"attrs,omitempty"`
}

// Connection names a connection of a client: a stream counts its own from 1, and 0 is none.
type Connection struct {
	Stream flow.Stream
	Number uint64
}

// On is the connection that a request went on.
func (s Sample) On() Connection { return Connection{s.Stream, s.Conn} }

// On is the connection that a frame came on.
func (f Frame) On() Connection { return Connection{f.Stream, f.Conn} }

// Step is a ledger entry's half: a request began, or it ended.
type Step string

// The steps.
const (
	Begin Step = "begin"
	Done  Step = "done"
)

// Entry is one line of the ledger: what a backend says it did with a request.
type Entry struct {
	At   time.Duration `json:"at"`
	ID   string        `json:"id"`
	Step Step          `json:"step"`
	// Pod is the UID of the backend's pod.
	Pod string `json:"pod"`
	// Method and Bytes as the backend saw them; Bytes is the body sent, or
	// the upload received.
	Method string `json:"method,omitempty"`
	Bytes  int64  `json:"bytes,omitempty"`
	// Whole: at Done, the backend wrote or read everything without an error.
	Whole bool `json:"whole,omitempty"`
	// Ended: at Done, how the backend's connection ended under an upload or a talk that was not whole by then
	// (EndedByRST, EndedByFIN); "": it did not, or the backend ended it itself.
	Ended string `json:"ended,omitempty"`
}

// How a backend's connection ended: see Entry.Ended.
const (
	EndedByRST = "rst"
	EndedByFIN = "fin"
)

// Record is one line of a history: exactly one of its fields is set.
type Record struct {
	Sample *Sample `json:"sample,omitempty"`
	Event  *Event  `json:"event,omitempty"`
	Frame  *Frame  `json:"frame,omitempty"`
	Entry  *Entry  `json:"entry,omitempty"`
}

// Shift moves the record's times by d.
func (r *Record) Shift(d time.Duration) {
	switch {
	case r.Sample != nil:
		r.Sample.Shift(d)
	case r.Event != nil:
		r.Event.At += d
	case r.Frame != nil:
		r.Frame.At += d
	case r.Entry != nil:
		r.Entry.At += d
	}
}

// Timeline is a frozen recording, each kind sorted by time. Checks read it
// and never change it.
type Timeline struct {
	Samples []Sample
	Events  []Event
	Frames  []Frame
	Ledger  []Entry
	// Notes say what could not be read: a history cut in the middle of a
	// line is read up to there.
	Notes []string
}

// Add appends a record.
func (t *Timeline) Add(r Record) {
	switch {
	case r.Sample != nil:
		t.Samples = append(t.Samples, *r.Sample)
	case r.Event != nil:
		t.Events = append(t.Events, *r.Event)
	case r.Frame != nil:
		t.Frames = append(t.Frames, *r.Frame)
	case r.Entry != nil:
		t.Ledger = append(t.Ledger, *r.Entry)
	}
}

// Lines are how many records there are of each file of the history.
func (t *Timeline) Lines() map[string]int {
	return map[string]int{
		SamplesFile: len(t.Samples), EventsFile: len(t.Events), FramesFile: len(t.Frames), LedgerFile: len(t.Ledger),
	}
}

// Sort orders everything by time: samples by their start.
func (t *Timeline) Sort() {
	slices.SortStableFunc(t.Samples, func(a, b Sample) int { return cmp.Compare(a.Start, b.Start) })
	slices.SortStableFunc(t.Events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	slices.SortStableFunc(t.Frames, func(a, b Frame) int { return cmp.Compare(a.At, b.At) })
	slices.SortStableFunc(t.Ledger, func(a, b Entry) int { return cmp.Compare(a.At, b.At) })
}

// EventsOf returns the events of a kind, about a subject; an empty subject
// means all.
func (t *Timeline) EventsOf(kind EventKind, subject string) []Event {
	var out []Event
	for _, e := range t.Events {
		if e.Kind == kind && (subject == "" || e.Subject == subject) {
			out = append(out, e)
		}
	}
	return out
}

// EntriesOf returns what backends say of a step of requests, by their IDs: the last word, where one is told of again.
func (t *Timeline) EntriesOf(step Step) map[string]Entry {
	out := map[string]Entry{}
	for _, e := range t.Ledger {
		if e.Step == step {
			out[e.ID] = e
		}
	}
	return out
}
