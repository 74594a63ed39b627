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
	H2C   Protocol = "h2c"    // HTTP/2 in plaintext, with prior knowledge
	TLS1  Protocol = "https1" // HTTP/1.1 in TLS
	H2    Protocol = "h2"     // HTTP/2 in TLS, agreed on by ALPN
	DNS   Protocol = "dns"    // over UDP
	// TCP is a stream that means nothing to whoever passes it on.
	TCP Protocol = "tcp"
	// BackendTLS is HTTP/1.1 to who passes it on to the backends in TLS.
	BackendTLS Protocol = "http1-backendtls"
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
	// Protocol is H2C or H2.
	Shared Conns = "shared"
)

// Op is what each request does.
type Op string

// The operations. All but Lookup, Check and Mute carry a request ID that the
// backend's ledger repeats, and all but Lookup, Check, Get and Unary take
// Profile.Takes: from first to last body byte where they have a body of pieces.
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
	// Post is a POST with a small body, which the backend answers Profile.Takes
	// after it has read it: all of it was sent, and nobody knows what became of it.
	Post Op = "post"
	// Continue is Upload that waits for 100 Continue before the body.
	Continue Op = "continue"
	// Unary is a gRPC call of one message each way. This and the next two go over
	// HTTP/2 only.
	Unary Op = "grpc-unary"
	// ServerStream is a gRPC call that is answered with a stream of numbered
	// messages.
	ServerStream Op = "grpc-server"
	// Bidi is a gRPC call that sends numbered messages, each of which is
	// answered with the same number.
	Bidi Op = "grpc-bidi"
	// Idle is a short GET on a connection that then says nothing more for
	// Profile.Takes: what becomes of it meanwhile, its frames tell. Conns is New.
	Idle Op = "idle"
	// WebSocket upgrades its connection, has a message echoed every
	// work.MessageEvery for Profile.Takes, and then closes the WebSocket.
	// Protocol is HTTP/1.1's, and Conns is New.
	WebSocket Op = "websocket"
	// HalfHeader is a short GET whose header comes in two halves, Profile.Takes
	// apart. Protocol is HTTP/1.1's, and Conns is New.
	HalfHeader Op = "half-header"
	// Belated is a short GET that is sent Profile.Takes after its connection stood, on
	// which nothing was said before.
	Belated Op = "belated"
	// Ahead is two short GETs at once, each of which the backend answers Profile.Takes
	// after it has read it: the second one waits behind the first, and is a sample of
	// its own. Protocol is HTTP/1.1's, and Conns is New.
	Ahead Op = "ahead"
	// AheadPost is a short GET that the backend answers Profile.Takes after it has read it,
	// and a Post that begins with it, work.AheadBytes in all, and is sent to its end in
	// just that time: more than a server reads while it works on the first. Otherwise as
	// Ahead.
	AheadPost Op = "ahead-post"
	// Talk is a stream in which the server speaks first, the client sends a body
	// in pieces that comes back as it goes, and each side ends its own half:
	// load/work, talk.go. Protocol is TCP, and Conns New.
	Talk Op = "talk"
	// Hear is an opaque stream whose server ends its half at once, and hears what the
	// client has to say for Profile.Takes.
	Hear Op = "hear"
	// Mute is a connection on which the client says nothing at all for
	// Profile.Takes, not even in TLS: what becomes of it, its frames tell. It has
	// no ledger. Conns is New.
	Mute Op = "mute"
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
	// these health ports and forwards to the node ports of healthy nodes; or,
	// before gateways, polls their own health for load balancers.
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
// left, and are right to answer when one dies. What becomes of a connection that
// is held is no sample.
func (p Profile) Sights() bool {
	switch p.Op {
	case Lookup, Check, Idle, Mute:
		return false
	default:
		return true
	}
}

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
	// CA are the certificates that a server's must come from, PEM, and
	// ServerName the name that it must be for: the protocols in TLS only.
	CA         string `json:"ca,omitempty"`
	ServerName string `json:"serverName,omitempty"`
	// From is a range of this machine's addresses that connections are dialled
	// from, in turn, as in 127.9.8.0/28; empty: the kernel's choice. A port is taken for a minute after its
	// connection has ended, and of one address it has 28,000 for a destination:
	// clients on the loopback run out of them.
	From string `json:"from,omitempty"`
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
	Start(ctx context.Context, s Stream, emit func(timeline.Record)) (Handle, error)
}

// Handle holds a running stream.
type Handle interface {
	// Stop ends the pacing. It never cancels what is in flight.
	Stop()
	// Done is closed when the pacing has ended and nothing is in flight.
	Done() <-chan struct{}
}
