// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"slices"

	"github.com/lastcall-dev/lastcall/suites/spec"
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
	// HBONE is HTTP/1.1 in a stream of a tunnel, which the client opens itself: CONNECT in HTTP/2, in
	// mutual TLS.
	HBONE Protocol = "hbone"
	// XDS is gRPC in TLS, as a mesh's proxies speak it to their controller: its discovery and its CA.
	XDS Protocol = "xds"
)

// protocolRow is all that is known of a protocol.
type protocolRow struct {
	protocol Protocol
	features []spec.Feature // that a system claims which is asked in it, that of its port first
	http     int            // the version of HTTP; 0: it is none
	secure   bool           // the client speaks it in TLS
	tunnels  bool           // each of its streams is a CONNECT, in which HTTP/1.1 is spoken
	means    string         // in words
	port     string         // the name of a system's port that it is spoken at; "": that of its first feature
}

// protocolRows are all protocols, those first that are spoken to a system.
var protocolRows = []protocolRow{
	{HTTP1, []spec.Feature{spec.HTTP1}, 1, false, false, "HTTP/1.1", ""},
	{H2C, []spec.Feature{spec.H2C}, 2, false, false, "HTTP/2 in plaintext", ""},
	{TLS1, []spec.Feature{spec.TLS}, 1, true, false, "HTTP/1.1 in TLS", ""},
	{H2, []spec.Feature{spec.TLS, spec.HTTP2}, 2, true, false, "HTTP/2 in TLS", ""},
	{BackendTLS, []spec.Feature{spec.BackendTLS}, 1, false, false, "HTTP/1.1 that is passed on to the backends in TLS", ""},
	{HBONE, []spec.Feature{spec.HBONE}, 2, true, true, "HTTP/1.1 in tunnels of the client's own", ""},
	{XDS, []spec.Feature{spec.TLS}, 2, true, false, "gRPC in TLS, as a mesh's proxies speak it to their controller", "grpc"},
	{TCP, []spec.Feature{spec.TCP}, 0, false, false, "an opaque stream", ""},
	{DNS, nil, 0, false, false, "DNS over UDP", ""},
}

// Protocols are all protocols.
func Protocols() []Protocol { return protocolsWhere(func(protocolRow) bool { return true }) }

// protocolsWhere are those of a kind.
func protocolsWhere(is func(protocolRow) bool) []Protocol {
	var out []Protocol
	for _, r := range protocolRows {
		if is(r) {
			out = append(out, r.protocol)
		}
	}
	return out
}

// row is what is known of it: nothing of one that is none.
func (p Protocol) row() protocolRow {
	i := slices.IndexFunc(protocolRows, func(r protocolRow) bool { return r.protocol == p })
	if i < 0 {
		return protocolRow{}
	}
	return protocolRows[i]
}

// Features are those that a system claims which is asked in it, that of its port first; none
// where no system is.
func (p Protocol) Features() []spec.Feature { return slices.Clone(p.row().features) }

// HTTP is the version of HTTP that it is, 1 or 2, and 0 where it is none.
func (p Protocol) HTTP() int { return p.row().http }

// Secure says whether the client speaks it in TLS.
func (p Protocol) Secure() bool { return p.row().secure }

// Tunnels says whether it is spoken in tunnels: a connection is one, and each request has a CONNECT,
// and a connection to the app, of its own in it.
func (p Protocol) Tunnels() bool { return p.row().tunnels }

// Port is the name of a system's port that it is spoken at, where that is none of a feature's.
func (p Protocol) Port() string { return p.row().port }

// Means says it in words.
func (p Protocol) Means() string { return p.row().means }
