// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"cmp"
	"time"

	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// alone is the topology for what has its instances to itself.
func (t Topology) alone(with string) Topology {
	t.Alone = with
	return t
}

// Together is the topology of the suite's own systems, which wait for all that they have in hand: a run with --isolate
// says the same of them.
func (t Topology) Together() Topology { return t.alone("") }

// InForm is the topology with its sidecar in the form that a system has by its file; where that names none, in the topology's own, or else
// native. A native one gets its own SIGTERM when its app has gone: of what is about SIGTERM that proves nothing, and a drain
// from its preStop hook does. So it has one wherever the topology is not about native ones.
func (t Topology) InForm(sys *system.System) Topology {
	own := t.Role == system.Sidecar && sys.Meshed()
	var file system.Cluster
	if sys.Cluster != nil {
		file = *sys.Cluster
	}
	switch {
	case own:
		form := cmp.Or(file.Form, t.Form, system.Native)
		t.PreStop = t.PreStop || form == system.Native && t.Form != system.Native
		t.Form = form
	case file.Form != "":
		t.Form = file.Form
	}
	if own && t.Form == system.Plain {
		t.Learns = cmp.Or(file.Learns, system.BySockets)
	}
	return t
}

// The topologies that behaviours share. Behaviours with equal topologies and
// disruptions are recorded once, so a new one has its price.
var (
	// SlowDrain goes on accepting until T_endpoint + P + 5 s at the default
	// P of 3 s, because of a pod that is dead nothing can be shown.
	SlowDrain = Topology{
		Replicas: 3, MinDrain: 9 * time.Second, Unready: 3 * time.Second,
		Deadline: 25 * time.Second, Grace: 40 * time.Second,
	}
	// Rolling is paced by minReadySeconds so that 500 requests/s make 30,000
	// attempts between the first D and the last exit + P, also where pods start
	// within a second.
	Rolling = Topology{
		Replicas: 8, MinDrain: 5 * time.Second, Unready: 2 * time.Second,
		Deadline: 20 * time.Second, Grace: 30 * time.Second, MinReady: 7 * time.Second,
	}
	// RollingLong takes 300 s at least for its eight pods.
	RollingLong = Topology{
		Replicas: 8, MinDrain: 5 * time.Second, Unready: 2 * time.Second,
		Deadline: 20 * time.Second, Grace: 30 * time.Second, MinReady: 38 * time.Second,
	}
	// Fallback leaves 8 s in which a set that terminates as a whole serves,
	// and 12 s in which it accepts and says that it does not.
	Fallback = Topology{
		Replicas: 3, MinDrain: 8 * time.Second, Unready: 12 * time.Second,
		Deadline: 30 * time.Second, Grace: 45 * time.Second,
	}
	// FallbackLong serves long enough for kube-proxy to be replaced in the
	// middle: 2 s until then, about 4 s of it, P, and 6 s to look at what the
	// new one wrote. Then it accepts for 8 s and says that it does not serve.
	FallbackLong = Topology{
		Replicas: 3, MinDrain: 15 * time.Second, Unready: 8 * time.Second,
		Deadline: 35 * time.Second, Grace: 50 * time.Second,
	}
	// Hooked has a preStop hook that takes time and fails: its SIGTERM comes
	// with 4 s of the grace period spent.
	Hooked = Topology{
		Replicas: 3, MinDrain: 4 * time.Second, Unready: 2 * time.Second,
		Deadline: 12 * time.Second, Grace: 20 * time.Second, Hook: 4 * time.Second, HookFails: true,
	}
	// Exhausted never leaves before K while work is in flight.
	Exhausted = Topology{
		Replicas: 3, MinDrain: 4 * time.Second, Unready: 2 * time.Second,
		Deadline: 60 * time.Second, Grace: 12 * time.Second,
	}
	// Restarting is looked at by its liveness probe every second.
	Restarting = Topology{
		Replicas: 3, MinDrain: 5 * time.Second, Unready: 2 * time.Second,
		Deadline: 20 * time.Second, Grace: 30 * time.Second, Liveness: time.Second,
	}
	// Budgeted may lose one pod at a time to evictions.
	Budgeted = Topology{
		Replicas: 3, MinDrain: 4 * time.Second, Unready: 2 * time.Second,
		Deadline: 12 * time.Second, Grace: 20 * time.Second, Budget: 2,
	}
	// Gated is a gateway of two instances before two backends. What it lets
	// its clients do after D lasts as long as in the topologies of the app.
	Gated = Topology{
		Role: system.Gateway, Replicas: 2, MinDrain: 6 * time.Second, Unready: 2 * time.Second,
		Deadline: 20 * time.Second, Grace: 30 * time.Second,
	}
	// Talking, Upgraded, Calling and Mute are Gated with one kind of what an instance may have in hand: who counts requests alone
	// does not wait for these, and would live as long as theirs beside requests.
	Talking  = Gated.alone("opaque streams")
	Upgraded = Gated.alone("WebSockets")
	Calling  = Gated.alone("gRPC calls")
	Mute     = Gated.alone("silent connections")
	// GatedIdle has nobody who stays: between two requests there is no
	// connection.
	GatedIdle = Topology{
		Role: system.Gateway, Replicas: 2, MinDrain: 7 * time.Second, Unready: 2 * time.Second,
		Deadline: 20 * time.Second, Grace: 30 * time.Second, Idle: true,
	}
	// GatedShort cuts what is still in flight 10 s after D. Its times are in the
	// order that gateway.timer-order wants, at the default P of 3 s.
	GatedShort = Topology{
		Role: system.Gateway, Replicas: 2, MinDrain: 5 * time.Second, Unready: time.Second,
		Deadline: 10 * time.Second, Grace: 16 * time.Second, Cut: true,
	}
	// Pooled is two backends of a gateway, of which one after the other is away
	// for a moment. What is in flight there for longer than 9 s is cut, and the
	// pause between the two is longer than a gateway takes to use a backend again
	// that had failed its health checks.
	Pooled = Topology{
		Role: system.Gateway, Behind: true, Replicas: 2, MinDrain: 5 * time.Second, Unready: time.Second,
		Deadline: 9 * time.Second, Grace: 15 * time.Second, MinReady: 6 * time.Second, Unavailable: 1, Cut: true,
	}
	// Beside is an app with a sidecar that gets SIGTERM together with it, in the times of SlowDrain.
	Beside = Topology{
		Role: system.Sidecar, Form: system.Plain, Replicas: 3, MinDrain: 9 * time.Second, Unready: 3 * time.Second,
		Deadline: 25 * time.Second, Grace: 40 * time.Second,
	}
	// BesideTwo is Beside with two instances, in the times of Gated.
	BesideTwo = Topology{
		Role: system.Sidecar, Form: system.Plain, Replicas: 2, MinDrain: 6 * time.Second, Unready: 2 * time.Second,
		Deadline: 20 * time.Second, Grace: 30 * time.Second,
	}
	// BesideExhausted is an app that accepts until it is killed, with a sidecar that gets SIGTERM together with it.
	BesideExhausted = Topology{
		Role: system.Sidecar, Form: system.Plain, Replicas: 2, MinDrain: 30 * time.Second, Unready: 2 * time.Second,
		Deadline: 60 * time.Second, Grace: 12 * time.Second,
	}
	// Controlling is a mesh's controller, of as many replicas as such have.
	Controlling = Topology{
		Role: system.Controller, Replicas: 2, MinDrain: 6 * time.Second, Unready: 2 * time.Second,
		Deadline: 20 * time.Second, Grace: 30 * time.Second,
	}
	// BesideLate is an app with a sidecar that starts with it, and listens 3 s later.
	BesideLate = Topology{
		Role: system.Sidecar, Form: system.Plain, Late: 3 * time.Second, Replicas: 2, MinDrain: 6 * time.Second, Unready: 2 * time.Second,
		Deadline: 20 * time.Second, Grace: 30 * time.Second,
	}
	// BesideNative is Beside with a native sidecar, of an app that is ready for 6 s when its sidecar has been killed (BereaveEach).
	BesideNative = Topology{
		Role: system.Sidecar, Form: system.Native, Replicas: 3, MinDrain: 9 * time.Second, Unready: 3 * time.Second,
		Deadline: 25 * time.Second, Grace: 40 * time.Second,
	}
	// BesideLong is an app that ends some 20 s after D, in a pod that might take an hour for it: seed
	// 2's RabbitMQ.
	BesideLong = Topology{
		Role: system.Sidecar, Form: system.Plain, Replicas: 3, MinDrain: 12 * time.Second, Unready: 6 * time.Second,
		Deadline: 30 * time.Second, Grace: time.Hour,
	}
	// BesideRenewing is an app with a sidecar whose certificates run out, and are renewed, several times while it drains. What
	// begins last, before the app has heard its clients out, ends before its deadline, however long it takes.
	BesideRenewing = Topology{
		Role: system.Sidecar, Form: system.Plain, Replicas: 3, MinDrain: 10 * time.Second, Unready: 4 * time.Second,
		Deadline: 40 * time.Second, Grace: 55 * time.Second, Validity: 8 * time.Second,
	}
	// BesideLongNative is BesideLong with a native sidecar.
	BesideLongNative = Topology{
		Role: system.Sidecar, Form: system.Native, Replicas: 3, MinDrain: 12 * time.Second, Unready: 6 * time.Second,
		Deadline: 30 * time.Second, Grace: time.Hour,
	}
	// Tunnelled is an app whose sidecar goes 2 s after the app accepts no more, by a fixed wait. One
	// that goes with its app has nothing left to carry when it tells its peers; here tunnels are told
	// while the app still works on what it has in hand.
	Tunnelled = Topology{
		Role: system.Sidecar, Form: system.Plain, Waits: 10 * time.Second, Replicas: 2, MinDrain: 6 * time.Second, Unready: 2 * time.Second,
		Deadline: 25 * time.Second, Grace: 40 * time.Second,
	}
	// OnNodes is an app whose pods their nodes' proxies serve: what ends there is told by who stays.
	OnNodes = Topology{
		Role: system.NodeProxy, Replicas: 2, MinDrain: 6 * time.Second, Unready: 2 * time.Second,
		Deadline: 20 * time.Second, Grace: 30 * time.Second,
	}
	// Staying is an app whose pods their nodes' proxies serve, and of which nothing ends. These may take so long
	// for their own end as it may.
	Staying = Topology{
		Role: system.NodeProxy, Replicas: 4, MinDrain: 2 * time.Second, Unready: time.Second,
		Deadline: 12 * time.Second, Grace: 20 * time.Second,
	}
	// StayingFew is Staying apart from node.handoff: in a recording that is timed to a millisecond all is late, and of what is
	// late nobody says that it was stranded.
	StayingFew = Topology{
		Role: system.NodeProxy, Replicas: 2, MinDrain: 2 * time.Second, Unready: time.Second,
		Deadline: 12 * time.Second, Grace: 20 * time.Second,
	}
	// Restreaming is Staying of an app that takes part in long streams: only the times of its proxies count.
	Restreaming = Topology{
		Role: system.NodeProxy, Replicas: 4, MinDrain: 2 * time.Second, Unready: 2 * time.Second,
		Deadline: 12 * time.Second, Grace: 20 * time.Second,
	}
	// Leaving is an app whose pods their nodes' proxies serve, and some of which leave the mesh while they live.
	Leaving = Topology{
		Role: system.NodeProxy, Leaves: true, Replicas: 4, MinDrain: 2 * time.Second, Unready: time.Second,
		Deadline: 12 * time.Second, Grace: 20 * time.Second,
	}
	// CallingOnNodes is an app whose pods their nodes' proxies serve, in the times of Beside: it has something to send out
	// for a while when it is told to go.
	CallingOnNodes = Topology{
		Role: system.NodeProxy, Replicas: 2, MinDrain: 9 * time.Second, Unready: 3 * time.Second,
		Deadline: 25 * time.Second, Grace: 40 * time.Second,
	}
	// Plain is an app whose pods their nodes' proxies serve, with clients that know nothing of a mesh. It is killed at the
	// end of its grace period with connections open that it has not ended.
	Plain = Topology{
		Role: system.NodeProxy, Strangers: true, Replicas: 2, MinDrain: 2 * time.Second, Unready: time.Second,
		Deadline: 60 * time.Second, Grace: 7 * time.Second,
	}
	// BesideRolling is Rolling of an app with a sidecar, in the form that the system has.
	BesideRolling = Topology{
		Role: system.Sidecar, Replicas: 8, MinDrain: 5 * time.Second, Unready: 2 * time.Second,
		Deadline: 20 * time.Second, Grace: 30 * time.Second, MinReady: 7 * time.Second,
	}
	// BesideStreaming is BesideRolling of an app that has 15 s more for what it has in hand when it
	// accepts no more, and 8 s in reserve: so much longer do its ends take, and fewer of them make as many attempts.
	BesideStreaming = Topology{
		Role: system.Sidecar, Replicas: 6, MinDrain: 5 * time.Second, Unready: 2 * time.Second,
		Deadline: 30 * time.Second, Grace: 45 * time.Second, MinReady: 8 * time.Second,
	}
	// Sourcing is an app with a sidecar, of which nothing ends: whom they dial misbehaves.
	Sourcing = Topology{
		Role: system.Sidecar, Replicas: 1, MinDrain: 2 * time.Second, Unready: time.Second,
		Deadline: 5 * time.Second, Grace: 10 * time.Second,
	}
	// BesideWaiting is an app with a sidecar that accepts for a moment once it is told to go: that
	// it was told is seen at once.
	BesideWaiting = Topology{
		Role: system.Sidecar, Waits: 500 * time.Millisecond, Replicas: 2, MinDrain: 6 * time.Second, Unready: 2 * time.Second,
		Deadline: 20 * time.Second, Grace: 30 * time.Second,
	}
	// BesideAtZero is an app with a sidecar that leaves at zero connections, a native one from its preStop hook on. Each
	// of its four instances has another reason to leave, or to stay.
	BesideAtZero = Topology{
		Role: system.Sidecar, AtZero: true, Replicas: 4, MinDrain: 6 * time.Second, Unready: 2 * time.Second,
		Deadline: 20 * time.Second, Grace: 30 * time.Second,
	}
	// Resuming is an app with a sidecar that is told by controllers which come and go. It accepts for
	// longer than there is none.
	Resuming = Topology{
		Role: system.Sidecar, Replicas: 2, MinDrain: 10 * time.Second, Unready: 3 * time.Second,
		Deadline: 25 * time.Second, Grace: 40 * time.Second,
	}
	// ResumingOnNodes is Resuming of an app whose pods their nodes' proxies serve.
	ResumingOnNodes = Topology{
		Role: system.NodeProxy, Replicas: 2, MinDrain: 10 * time.Second, Unready: 3 * time.Second,
		Deadline: 25 * time.Second, Grace: 40 * time.Second,
	}
	// PerNode has one pod on each of two nodes, and takes it away before it
	// brings the next: what reaches that node meanwhile needs the fallback
	// to terminating endpoints.
	PerNode = Topology{
		Replicas: 2, MinDrain: 10 * time.Second, Unready: 3 * time.Second,
		Deadline: 25 * time.Second, Grace: 40 * time.Second, MinReady: 3 * time.Second, Unavailable: 1, Apart: true,
	}
)

// The disruptions that behaviours share.
var (
	// DeleteEach deletes the pods of SlowDrain one after the other: there is
	// one on each side of every path, so each path is seen to end.
	DeleteEach = disrupt.DeleteEach(SlowDrain.Replicas)
	// RollingUpdate replaces all pods of the Deployment.
	RollingUpdate = disrupt.RollingUpdate()
	// KillEach is the control: it kills one pod after the other, because a
	// client that sticks to a pod, or to a node, sees the death of that one only.
	KillEach = disrupt.KillEach(SlowDrain.Replicas)
	// ScaleToZero ends all pods of Fallback at once, with none to come.
	ScaleToZero = disrupt.Disruption{Kind: disrupt.ScaleDown, Targets: Fallback.Replicas}
	// RestartProxies is ScaleToZero with kube-proxy replaced 2 s into it.
	RestartProxies = disrupt.Disruption{Kind: disrupt.ScaleDown, Targets: Fallback.Replicas, Midway: disrupt.RestartProxy, After: 2 * time.Second}
	// DeleteTwice is DeleteEach with a second SIGTERM 2 s after the deletion, but for the
	// last pod: what that one does, one SIGTERM does.
	DeleteTwice = disrupt.Disruption{Kind: disrupt.Delete, Targets: SlowDrain.Replicas, Serial: true, Midway: disrupt.SigtermAgain, After: 2 * time.Second}
	// EndBoth ends both instances of a gateway, or of an app, one after the other.
	EndBoth = disrupt.DeleteEach(Gated.Replicas)
	// DeleteBoth deletes the pods of Controlling one after the other: one of them leads.
	DeleteBoth = disrupt.DeleteEach(Controlling.Replicas)
	// IntrudeOnOne tries the admin listener of one instance, and then ends it.
	IntrudeOnOne = disrupt.Disruption{Kind: disrupt.Intrude, Targets: 1}
	// DeleteUncounted deletes the pods of BesideAtZero one after the other, the last with its count hidden.
	DeleteUncounted = disrupt.Disruption{Kind: disrupt.DeleteUncounted, Targets: BesideAtZero.Replicas, Serial: true}
	// HandOver ends the controllers of the mesh.
	HandOver = disrupt.Disruption{Kind: disrupt.HandOver}
	// ReplaceProxies replaces the node proxies.
	ReplaceProxies = disrupt.Disruption{Kind: disrupt.ReplaceProxies}
	// RuntimeCalls calls the mesh's CNI plugin.
	RuntimeCalls = disrupt.Disruption{Kind: disrupt.RuntimeCalls}
	// Unenrol takes pods out of the mesh whose apps live on.
	Unenrol = disrupt.Disruption{Kind: disrupt.Unenrol}
	// ReuseAddress gives the address of a pod that is gone to another workload's.
	ReuseAddress = disrupt.Disruption{Kind: disrupt.ReuseAddress}
	// CrashNode kills a node's proxy, and then its agent.
	CrashNode = disrupt.Disruption{Kind: disrupt.CrashNode}
	// RestartNode has a node restart without a drain.
	RestartNode = disrupt.Disruption{Kind: disrupt.RestartNode}
	// HurryProxies replaces the node proxies with little time for their ends.
	HurryProxies = disrupt.Disruption{Kind: disrupt.HurryProxies}
	// RestartInPlace ends a node's proxy with nobody beside it, and then starts another one.
	RestartInPlace = disrupt.Disruption{Kind: disrupt.RestartInPlace}
	// MuteNode takes a node's proxy and its agent away in turn, and deletes a pod of the node each time.
	MuteNode = disrupt.Disruption{Kind: disrupt.MuteNode}
	// DeleteLate deletes the pods of BesideLate one after the other.
	DeleteLate = disrupt.DeleteEach(BesideLate.Replicas)
	// DeleteOne deletes one pod.
	DeleteOne = disrupt.DeleteEach(1)
	// DeleteAtLength deletes two pods whose app ends within 30 s, and looks at them for a minute more:
	// what stands then won't end for its app's sake.
	DeleteAtLength = disrupt.Disruption{Kind: disrupt.Delete, Targets: 2, Within: 90 * time.Second}
	// DeletePair deletes two pods at once.
	DeletePair = disrupt.Disruption{Kind: disrupt.Delete, Targets: 2}
	// BereaveEach deletes two pods one after the other, and kills the sidecar of each on its way out.
	BereaveEach = disrupt.Disruption{Kind: disrupt.Delete, Targets: 2, Serial: true, Midway: disrupt.KillSidecar, After: 3 * time.Second}
	// RunJobs runs Jobs that succeed, one of them a CronJob's, and one that fails.
	RunJobs = disrupt.Disruption{Kind: disrupt.Jobs}
	// DeleteInOutage deletes one pod, and takes the control plane away when
	// every node has heard of it: P after the deletion and a little more.
	DeleteInOutage = disrupt.Disruption{Kind: disrupt.Delete, Targets: 1, Serial: true, Midway: disrupt.ControlPlaneOutage, After: 5 * time.Second}
	// DrainCalls has one pod after the other drain and be restarted in place.
	DrainCalls = disrupt.Disruption{Kind: disrupt.DrainCall, Targets: Restarting.Replicas, Serial: true}
	// EveryWay ends a pod by each way there is.
	EveryWay = disrupt.Disruption{Kind: disrupt.EveryWay}
	// PushNothing pushes configuration that changes nothing, thrice.
	PushNothing = disrupt.Disruption{Kind: disrupt.Push, Times: 3}
	// PeersMisbehave has peers of the suite's own misbehave for as long as the slowest of these takes
	// to be seen through: one that falls silent (hbone.keepalive).
	PeersMisbehave = disrupt.Disruption{Kind: disrupt.Peers, For: 36 * time.Second}
	// ShutNode shuts a pod's node down.
	ShutNode = disrupt.Disruption{Kind: disrupt.NodeShutdown, Targets: 1}
)

// PooledPosts are requests that a gateway may not repeat, over its pool of
// connections: each keeps one for half a second, so that some are always in use.
var PooledPosts = load.Profile{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Post, Takes: 500 * time.Millisecond}, Rate: 25}

// PooledInTLS are such requests over connections in TLS, which have a pool of their own, far apart. Two backends
// that take turns are each asked every second slot of 1/Rate, at any instant of it (load/probe): the next request
// comes 0.6 to 1.9 s after a close_notify, and four times in five more than a second after it, when nothing that was on its way is.
// In the 6 s for which an instance accepts after D, four come at least.
var PooledInTLS = load.Profile{Flow: flow.Flow{Path: flow.Service, Protocol: flow.BackendTLS, Conns: flow.Reused, Op: flow.Post, Takes: 100 * time.Millisecond}, Rate: 1.5}

// NodeTraffic are tunnels of our own client's in each state in which a workload's end can find them, and
// what goes through the mesh's own: there the proxies of two nodes tunnel to each other.
var NodeTraffic = []load.Profile{
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.New, Op: flow.Get}, Rate: 20},
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.Reused, Op: flow.Get}, Rate: 20},
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.Reused, Op: flow.Slow, Takes: 4 * time.Second}, Rate: 3},
	// Nothing is said on these for longer than from D to the end.
	{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.New, Op: flow.Idle, Takes: 20 * time.Second}, Rate: 2},
	{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 20},
}

// FiveHundred are 500 requests a second through a Service: HTTP/1.1, h2 and gRPC, on new connections and on kept ones.
var FiveHundred = []load.Profile{
	{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 150},
	{Flow: flow.Flow{Path: flow.Service, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Get}, Rate: 130},
	{Flow: flow.Flow{Path: flow.Service, Protocol: flow.H2C, Conns: flow.New, Op: flow.Get}, Rate: 30},
	{Flow: flow.Flow{Path: flow.Service, Protocol: flow.H2C, Conns: flow.Reused, Op: flow.Get}, Rate: 120},
	{Flow: flow.Flow{Path: flow.Service, Protocol: flow.H2C, Conns: flow.New, Op: flow.Unary}, Rate: 20},
	{Flow: flow.Flow{Path: flow.Service, Protocol: flow.H2C, Conns: flow.Shared, Op: flow.Unary}, Rate: 50},
}

// RaceDelay is the one-way delay of the paths on which races are looked for
// besides: loopback hides them.
const RaceDelay = 20 * time.Millisecond

// How the balancer that stages put behind the path Balanced looks at each node's
// health check port: every period, and a node is out after so many failures in a
// row. As eager as the defaults of clouds allow, so that a drain of some seconds
// can outlast it.
const (
	BalancerPeriod    = time.Second
	BalancerThreshold = 2
)

// What stages look at where backends are ended behind a gateway that stays.
const (
	// WatchFor is how long an instance that is ended reads from what it has closed:
	// longer than who stands before it can be late, and still be called late, with the longest
	// pause of PooledInTLS, also where a backend's turn was another's.
	WatchFor = 3 * time.Second
	// CensusEvery is how often the sockets of what stays are counted.
	CensusEvery = 250 * time.Millisecond
)
