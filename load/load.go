// SPDX-License-Identifier: Apache-2.0

// Package load describes traffic: what a behaviour asks for (Profile), what an
// agent runs (Stream), and how a generator is held (Generator, Handle).
package load

import (
	"context"
	"errors"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// Profile is one flow of traffic, as a behaviour asks for it. Profiles that
// differ only in Rate are one flow at the larger rate.
type Profile struct {
	flow.Flow
	// Rate is requests per second: of the whole flow for Service, for each
	// target with Direct.
	Rate float64 `json:"rate"`
}

// Stream is a flow as one generator runs it, against one address.
type Stream struct {
	// Name is unique in the run.
	Name    flow.Stream `json:"name"`
	Profile Profile     `json:"profile"`
	// Addr is host:port, an IP and a port: no name is looked up.
	Addr string `json:"addr"`
	// Query is the name that a Lookup asks for, with its final dot, and IPv6
	// says that it wants AAAA records instead of A.
	Query string `json:"query,omitempty"`
	IPv6  bool   `json:"ipv6,omitempty"`
	// Pages are asked for in turn, where who answers does not speak the words of load/work; nil:
	// it does.
	Pages []Page `json:"pages,omitempty"`
	// CA are the certificates that a server's must come from, PEM, and
	// ServerName the name that it must be for: the protocols in TLS only.
	CA         string `json:"ca,omitempty"`
	ServerName string `json:"serverName,omitempty"`
	// Tunnel is how the tunnels that Addr takes are used: Profile.Protocol tunnels only.
	Tunnel Tunnel `json:"tunnel,omitzero"`
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

// Tunnel is what a client of tunnels has to have beside the address. The ServerName of its stream is
// the server's SPIFFE ID.
type Tunnel struct {
	// To is the app's own host:port: what each CONNECT asks for.
	To string `json:"to"`
	// Cert and Key are the client's own, PEM. They are nobody else's to see: no history and no
	// report has a stream's.
	Cert string `json:"cert"`
	Key  string `json:"key"`
}

// String leaves out what is nobody else's to see.
func (t Tunnel) String() string { return "to " + t.To }

// Page is what is asked for by GET, and the status of a good answer.
type Page struct {
	// Path begins with a slash, and may have a query.
	Path   string `json:"path"`
	Status int    `json:"status"`
}

// ErrGivenUp is the cause with which what runs is killed by who can wait no longer for its answers.
var ErrGivenUp = errors.New("given up: who asks has to end, and was not answered by then")

// Generator runs a stream. Samples go to emit in the order in which they
// ended, in the clock of timeline.Monotonic, from several goroutines at once.
type Generator interface {
	// Start begins pacing and returns at once. Only the pacing ends with
	// Handle.Stop; cancelling ctx kills everything, and what was in flight
	// then is recorded as Cancelled; with the cause ErrGivenUp as a Timeout, where it was under way for
	// longer than an answer takes, and not at all where it was not.
	Start(ctx context.Context, s Stream, emit func(timeline.Record)) (Handle, error)
}

// Handle holds a running stream.
type Handle interface {
	// Stop ends the pacing. It never cancels what is in flight.
	Stop()
	// Done is closed when the pacing has ended and nothing is in flight.
	Done() <-chan struct{}
}
