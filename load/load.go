// SPDX-License-Identifier: Apache-2.0

// Package load describes traffic: what a behaviour asks for (Profile), what an
// agent runs (Stream), and how a generator is held (Generator, Handle).
package load

import (
	"context"
	"fmt"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
)

// Protocol is what is spoken on the wire.
type Protocol string

// The protocols.
const (
	HTTP1 Protocol = "http1"
	H2C   Protocol = "h2c" // HTTP/2 in plaintext, with prior knowledge
	DNS   Protocol = "dns" // over UDP
)

// Conns says where a request's connection comes from.
type Conns string

// New and reused connections are separate streams: they fail differently.
const (
	// New opens a connection for each request and closes it afterwards.
	New Conns = "new"
	// Reused keeps a pool of connections and uses them in turn.
	Reused Conns = "reused"
)

// Op is what each request does.
type Op string

// The operations. All but Lookup and Check carry a request ID that the
// backend's ledger repeats, and all but these and Get take Profile.Takes from
// first to last body byte.
const (
	// Get is a short GET with a small body.
	Get Op = "get"
	// Slow is a GET whose body of known length comes in pieces.
	Slow Op = "slow"
	// Chunked is Slow with chunked transfer coding (in h2: no content-length).
	Chunked Op = "chunked"
	// Upload is a POST whose body goes up in pieces; the backend answers with
	// its length and SHA-256.
	Upload Op = "upload"
	// Continue is Upload that waits for 100 Continue before the body.
	Continue Op = "continue"
	// Lookup asks a name server for the addresses of Stream.Query, of one
	// family. It has no request ID and no ledger. Protocol is DNS.
	Lookup Op = "lookup"
	// Check is a GET of a health check port: ok is 200, anything else is the
	// outcome status. It has no ledger.
	Check Op = "check"
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
	// these health ports and forwards to the node ports of healthy nodes.
	Balanced Path = "balanced"
	// Headless asks the cluster's DNS for the name of a headless Service, and
	// HeadlessPublishing for that of one that publishes not-ready addresses.
	Headless           Path = "headless"
	HeadlessPublishing Path = "headless-publishing"
)

// Outside says whether the path is that of a client outside the cluster.
func (p Path) Outside() bool {
	return p == NodePort || p == NodePortLocal || p == HealthPort || p == Balanced
}

// PerNode says whether the path has a stream for each node that holds a
// target: their names end with "@" and the node's name.
func (p Path) PerNode() bool { return p == NodePortLocal || p == HealthPort }

// Profile is one flow of traffic, as a behaviour asks for it. Profiles that
// differ only in Rate are one flow at the larger rate.
type Profile struct {
	Path     Path     `json:"path"`
	Protocol Protocol `json:"protocol"`
	Conns    Conns    `json:"conns"`
	Op       Op       `json:"op"`
	// Rate is requests per second: of the whole flow for Service, for each
	// target with Direct.
	Rate float64 `json:"rate"`
	// Takes is how long a slow operation lasts; 0 for the quick ones.
	Takes time.Duration `json:"takes,omitempty"`
	// Delay is one-way delay between client and system, to either side: real
	// paths have it, and loopback hides the races that it makes. DNS has none.
	Delay time.Duration `json:"delay,omitempty"`
}

// Sights says whether the flow can see a pod's death as a failure. A name
// server and a health check port answer for others: they say how many are
// left, and are right to answer when one dies.
func (p Profile) Sights() bool { return p.Op != Lookup && p.Op != Check }

// Key names the flow: "service/http1/new/get", with "/2s" for an operation
// that takes time and "/delay=20ms" for a delayed path behind it.
func (p Profile) Key() string {
	k := fmt.Sprintf("%s/%s/%s/%s", p.Path, p.Protocol, p.Conns, p.Op)
	if p.Takes > 0 {
		k += "/" + p.Takes.String()
	}
	if p.Delay > 0 {
		k += "/delay=" + p.Delay.String()
	}
	return k
}

// Stream is a flow as one generator runs it, against one address.
type Stream struct {
	// Name is unique in the run: the profile's key, and for a direct flow
	// "@" and the target's pod UID behind it; for one per node the node's name.
	Name    string  `json:"name"`
	Profile Profile `json:"profile"`
	// Addr is host:port, an IP and a port: no name is looked up.
	Addr string `json:"addr"`
	// Query is the name that a Lookup asks for, with its final dot, and IPv6
	// says that it wants AAAA records instead of A.
	Query string `json:"query,omitempty"`
	IPv6  bool   `json:"ipv6,omitempty"`
	// Tolerance is by how much the generator may miss its schedule before a
	// sample counts as saturated: a third of the behaviour's resolution.
	Tolerance time.Duration `json:"tolerance"`
	// Timeout bounds an attempt from its start, beyond Profile.Takes.
	Timeout time.Duration `json:"timeout"`
	// Seed makes the client's phase random and yet repeatable.
	Seed uint64 `json:"seed"`
}

// Generator runs a stream. Samples go to emit in the order in which they
// ended, in the clock of timeline.Monotonic, from several goroutines at once.
type Generator interface {
	// Start begins pacing and returns at once. Only the pacing ends with
	// Handle.Stop; cancelling ctx kills everything, and what was in flight
	// then is recorded as Cancelled.
	Start(ctx context.Context, s Stream, emit func(timeline.Sample)) (Handle, error)
}

// Handle holds a running stream.
type Handle interface {
	// Stop ends the pacing. It never cancels what is in flight.
	Stop()
	// Done is closed when the pacing has ended and nothing is in flight.
	Done() <-chan struct{}
}
