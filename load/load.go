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

// The operations. All of them carry a request ID that the backend's ledger
// repeats, and all but Get take Profile.Takes from first to last body byte.
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
)

// Path is the way that the traffic takes.
type Path string

// The paths.
const (
	// Service dials the Service's address: nobody can choose the target.
	Service Path = "service"
	// Direct dials each target's own address.
	Direct Path = "direct"
)

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
	// Takes is how long a slow operation lasts; 0 for Get.
	Takes time.Duration `json:"takes,omitempty"`
}

// Key names the flow: "service/http1/new/get".
func (p Profile) Key() string {
	k := fmt.Sprintf("%s/%s/%s/%s", p.Path, p.Protocol, p.Conns, p.Op)
	if p.Takes > 0 {
		k += "/" + p.Takes.String()
	}
	return k
}

// Stream is a flow as one generator runs it, against one address.
type Stream struct {
	// Name is unique in the run: the profile's key, and for a direct flow
	// "@" and the target's pod UID behind it.
	Name    string  `json:"name"`
	Profile Profile `json:"profile"`
	// Addr is host:port, an IP and a port: no name is looked up.
	Addr string `json:"addr"`
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
