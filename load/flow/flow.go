// SPDX-License-Identifier: Apache-2.0

// Package flow says what one flow of traffic is: its path, its protocol, its connections and
// its operation. It is a leaf, so that a recorded sample can say of which flow it is.
package flow

import (
	"strings"
	"time"
	"unique"
)

// Conns says where a request's connection comes from.
type Conns string

// New, reused and shared connections are separate streams: they fail differently.
const (
	// New opens a connection for each request and closes it afterwards.
	New Conns = "new"
	// Reused keeps a pool of connections and uses them in turn.
	Reused Conns = "reused"
	// Shared keeps a few connections, each of which carries many requests at once.
	// Protocol is H2C, H2 or HBONE.
	Shared Conns = "shared"
)

// Path is the way that the traffic takes.
type Path string

// The paths.
const (
	// Service dials the Service's address: nobody can choose the target.
	Service Path = "service"
	// Direct dials each target's own address.
	Direct Path = "direct"
	// ServiceLocal dials the address of a Service with internalTrafficPolicy
	// Local: only pods on the client's own node are eligible.
	ServiceLocal Path = "service-local"
	// Unmeshed dials the address of the Service of pods that are in a mesh, from a pod that is not.
	Unmeshed Path = "unmeshed"
	// Sticky dials the address of a Service with ClientIP affinity.
	Sticky Path = "sticky"
	// Publishing dials the address of a Service that publishes not-ready
	// addresses.
	Publishing Path = "publishing"
	// NodePort dials the node port of a Service with externalTrafficPolicy
	// Cluster, at one node, from outside the cluster.
	NodePort Path = "nodeport"
	// NodePortLocal dials, from outside, the node port of a Service of type
	// LoadBalancer with externalTrafficPolicy Local, at each target's node.
	NodePortLocal Path = "nodeport-local"
	// HealthPort asks the health check node port of that Service, at each
	// target's node, from outside. Op is Check.
	HealthPort Path = "health"
	// Balanced dials, from outside, a balancer of the suite's own that polls
	// these health ports and forwards to the node ports of healthy nodes; or,
	// before gateways, polls their own health for load balancers.
	Balanced Path = "balanced"
	// Headless asks the cluster's DNS for the name of a headless Service, and
	// HeadlessPublishing for that of one that publishes not-ready addresses.
	Headless           Path = "headless"
	HeadlessPublishing Path = "headless-publishing"
	// Outbound is what each instance dials itself while it lives: an app that stays, at the
	// address of its Service. Who asks is the instance, and so is whose stream it is.
	Outbound Path = "outbound"
	// What each instance dials at a peer of the suite's own, one for each of these paths, which is in
	// the mesh and does what is asked of meshes' peers, or what the worst of them do, from the
	// disruption's begin on (load/peer).
	PeerRefuses   Path = "peer-refuses"    // refuses CONNECTs as not processed
	PeerLimits    Path = "peer-limits"     // takes few streams in a tunnel
	PeerTurnsAway Path = "peer-turns-away" // takes no tunnels for a while
	PeerSilent    Path = "peer-silent"     // says nothing more in the tunnels that it has
	PeerCuts      Path = "peer-cuts"       // cuts streams and tunnels in the middle
	PeerMoves     Path = "peer-moves"      // tells its tunnels to go, and takes new ones
	PeerNotifies  Path = "peer-notifies"   // ends its tunnels by close_notify alone
	PeerHears     Path = "peer-hears"      // does nothing of this: it hears how streams end
	// Scout is the suite's own look at the way there, before the load: behind it in the
	// stream's name stands that of what is looked at.
	Scout Path = "scout"
)

// Outside says whether the path is that of a client outside the cluster.
func (p Path) Outside() bool {
	return p == NodePort || p == NodePortLocal || p == HealthPort || p == Balanced
}

// PerNode says whether the path has a stream for each node that holds a
// target: their names end with "@" and the node's name.
func (p Path) PerNode() bool { return p == NodePortLocal || p == HealthPort }

// PerPod says whether each instance that is ended has a stream of its own, whose target is its
// UID.
func (p Path) PerPod() bool { return p == Direct || p.Dialled() }

// ToPeer says whether it leads to a peer of the suite's own.
func (p Path) ToPeer() bool { return strings.HasPrefix(string(p), "peer-") }

// Dialled says whether the instances dial it themselves: who asks is the instance, and so is whose
// stream it is.
func (p Path) Dialled() bool { return p == Outbound || p.ToPeer() }

// Flow is traffic of one kind. It is comparable: equal flows are one.
type Flow struct {
	Path     Path     `json:"path"`
	Protocol Protocol `json:"protocol"`
	Conns    Conns    `json:"conns"`
	Op       Op       `json:"op"`
	// Takes is how long a slow operation lasts; 0 for the quick ones.
	Takes time.Duration `json:"takes,omitempty"`
	// Delay is one-way delay between client and system, to either side: real
	// paths have it, and loopback hides the races that it makes. DNS has none.
	Delay time.Duration `json:"delay,omitempty"`
}

// delayed stands before the delay in a flow's name.
const delayed = "/delay="

// String names the flow: "service/http1/new/get", with "/2s" for an operation
// that takes time and "/delay=20ms" for a delayed path behind it.
func (f Flow) String() string {
	k := strings.Join([]string{string(f.Path), string(f.Protocol), string(f.Conns), string(f.Op)}, "/")
	if f.Takes > 0 {
		k += "/" + f.Takes.String()
	}
	if f.Delay > 0 {
		k += delayed + f.Delay.String()
	}
	return k
}

// Compare orders flows by their names.
func Compare(a, b Flow) int { return strings.Compare(a.String(), b.String()) }

// Parse reads what String wrote. A word that nothing here is called stays as it is: a recording
// of another version may have it.
func Parse(name string) Flow {
	var f Flow
	name, delay, _ := strings.Cut(name, delayed)
	if path, _, _ := strings.Cut(name, "/"); Path(path) == Scout {
		return Flow{Path: Scout}
	}
	words := append(strings.Split(name, "/"), "", "", "", "")
	f.Path, f.Protocol, f.Conns, f.Op = Path(words[0]), Protocol(words[1]), Conns(words[2]), Op(words[3])
	f.Takes, f.Delay = span(words[4]), span(delay)
	return f
}

// span is a duration; 0 for what is none.
func span(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0
	}
	return d
}

// Sights says whether the flow can see a pod's death as a failure. A name
// server and a health check port answer for others: they say how many are
// left, and are right to answer when one dies; and so is who says that nobody listens. What
// becomes of a connection that is held is no sample. And what an app sends out itself ends with it: that its clients can see
// a loss, only a fault of what carries it shows.
func (f Flow) Sights() bool {
	return f.Op != Lookup && f.Op != Check && f.Op != Vacant && !f.Op.Holds() && !f.Path.Dialled()
}

// Stream is a flow to one address: in files its name is the flow's, and "@" and the target
// behind it where each target has a stream of its own. It is comparable, and as small as a
// pointer: a million samples have one each.
type Stream struct{ of unique.Handle[parts] }

type parts struct {
	flow   Flow
	target string
	name   string
}

// To is the stream of a flow to a target: the UID of the pod for a path that is per pod, a
// node's name for one that is per node; "" where nobody chooses one.
func To(f Flow, target string) Stream {
	name := f.String()
	if target != "" {
		name += "@" + target
	}
	return Stream{unique.Make(parts{f, target, name})}
}

// Named is the stream of a name; of none it is the zero Stream.
func Named(name string) Stream {
	if name == "" {
		return Stream{}
	}
	key, target, _ := strings.Cut(name, "@")
	return Stream{unique.Make(parts{Parse(key), target, name})}
}

func (s Stream) parts() parts {
	if s == (Stream{}) {
		return parts{}
	}
	return s.of.Value()
}

// Scouting is the name of the suite's own look at where the stream goes.
func (s Stream) Scouting() Stream { return Named(string(Scout) + "/" + s.String()) }

// Flow is what it is a stream of.
func (s Stream) Flow() Flow { return s.parts().flow }

// Target is whom it goes to, "" where nobody chooses.
func (s Stream) Target() string { return s.parts().target }

// Kind is the stream's name without its target.
func (s Stream) Kind() string {
	kind, _, _ := strings.Cut(s.String(), "@")
	return kind
}

// String is the stream's name.
func (s Stream) String() string { return s.parts().name }

// MarshalText writes the name.
func (s Stream) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a name; it takes any.
func (s *Stream) UnmarshalText(text []byte) error {
	*s = Named(string(text))
	return nil
}

// Equal says whether two streams are one, to what compares by methods (go-cmp).
func (s Stream) Equal(other Stream) bool { return s == other }
