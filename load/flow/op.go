// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"slices"

	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Op is what each request does.
type Op string

// The operations. All but Lookup, Check, Vacant, Discover, Certify and Mute carry a request ID that the
// backend's ledger repeats, and all but Lookup, Check, Vacant, Discover, Certify, Get and Unary take
// Flow.Takes: from first to last body byte where they have a body of pieces.
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
	// Post is a POST with a small body, which the backend answers Flow.Takes
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
	// Flow.Takes: what becomes of it meanwhile, its frames tell. Conns is New.
	Idle Op = "idle"
	// WebSocket upgrades its connection, has a message echoed every
	// work.MessageEvery for Flow.Takes, and then closes the WebSocket.
	// Protocol is HTTP/1.1's, and Conns is New.
	WebSocket Op = "websocket"
	// HalfHeader is a short GET whose header comes in two halves, Flow.Takes
	// apart. Protocol is HTTP/1.1's, and Conns is New.
	HalfHeader Op = "half-header"
	// Belated is a short GET that is sent Flow.Takes after its connection stood, on
	// which nothing was said before.
	Belated Op = "belated"
	// Deferred is a short GET that is begun Flow.Takes behind its turn: whoever makes it has work in hand until then, and no
	// connection. Conns is New.
	Deferred Op = "deferred"
	// Ahead is two short GETs at once, each of which the backend answers Flow.Takes
	// after it has read it: the second one waits behind the first, and is a sample of
	// its own. Protocol is HTTP/1.1's, and Conns is New.
	Ahead Op = "ahead"
	// AheadPost is a short GET that the backend answers Flow.Takes after it has read it,
	// and a Post that begins with it, work.AheadBytes in all, and is sent to its end in
	// just that time: more than a server reads while it works on the first. Otherwise as
	// Ahead.
	AheadPost Op = "ahead-post"
	// Mixed is Slow for one request in LongEvery, and Get for the others, which are brief
	// (timeline.Sample.Brief): each connection carries long and short ones at once, each of which
	// is a sample of its own. Protocol is HTTP/2's, and Conns is Shared.
	Mixed Op = "mixed"
	// Drip is a POST of work.DripBytes for one request in DripEvery, each byte of which is a write of its own,
	// and Slow of a second for the others, its neighbours, which are brief (timeline.Sample.Brief): many of
	// these are over while one drips beside them. Protocol is HBONE, and Conns is Shared.
	Drip Op = "drip"
	// Abandoned is a POST whose body goes up in pieces as an Upload's, and whose client cuts the
	// connection by an RST after Flow.Takes, in the middle of it: that is ok. Its backend never has it
	// whole. Protocol is HTTP/1.1's, and Conns is New; or it is HBONE, where the client cuts the stream
	// by RST_STREAM if Conns is Shared, and all of the tunnel, by an RST, a FIN or close_notify in turn
	// (timeline.FrameClose), if it is New.
	Abandoned Op = "abandoned"
	// Talk is a stream in which the server speaks first, the client sends a body
	// in pieces that comes back as it goes, and each side ends its own half:
	// load/work, talk.go. Protocol is TCP, and Conns New.
	Talk Op = "talk"
	// Hear is an opaque stream whose server ends its half at once, and hears what the
	// client has to say for Flow.Takes.
	Hear Op = "hear"
	// Mute is a connection on which the client says nothing at all for
	// Flow.Takes, not even in TLS: what becomes of it, its frames tell. It has
	// no ledger. Conns is New.
	Mute Op = "mute"
	// Lookup asks a name server for the addresses of Stream.Query, of one
	// family. It has no request ID and no ledger. Protocol is DNS.
	Lookup Op = "lookup"
	// Check is a GET of a health check port: ok is 200, anything else is the
	// outcome status. It has no ledger.
	Check Op = "check"
	// Vacant asks for a connection to a port where nothing listens. Any answer is ok, RST_STREAM too,
	// which has no status: what that should be is for who judges. It has no ledger. Protocol is HBONE.
	Vacant Op = "vacant"
	// Discover is a call of Envoy's delta discovery in which nothing is asked for. Any answer is ok, whatever
	// grpc-status it ends with, but UNAVAILABLE: whoever says that the client may not ask, or that there is no such
	// service, serves. It has no ledger. Protocol is XDS.
	Discover Op = "discover"
	// Certify asks a mesh's CA for a certificate, by Istio's protocol, with nothing to show for it: ok is as of Discover. It
	// has no ledger. Protocol is XDS.
	Certify Op = "certify"
)

// LongEvery is how many requests of Mixed there are for one that is long. It is odd: a probe takes
// its two connections in turn, and each is to have some.
const LongEvery = 5

// DripEvery is how many requests of Drip there are for one that drips: at 10 a second one in 15 s. It is odd, as LongEvery is.
const DripEvery = 151

// row is all that is known of an operation, beside how it is spoken (load/probe) and answered.
type row struct {
	op        Op
	protocols []Protocol // that carry it
	conns     []Conns
	operation
	means string // in words, behind a path, a protocol and connections
}

// operation is what there is to know of an operation that is yes or no.
type operation struct {
	takes bool // it takes Flow.Takes
	long  bool // in the control a shorter one of its kind stands in for it
	soon  bool // where a drain finds it begun it is over soon, by design
	page  bool // it is a GET that any app can be asked for, or asks for nothing
	holds bool // its connection is held, and says nothing more, for Flow.Takes

	feature spec.Feature // that a system claims which takes it, beside those of the protocol; empty: none
}

var (
	overHTTP = protocolsWhere(func(r protocolRow) bool { return r.http > 0 && r.port == "" })
	overH1   = protocolsWhere(func(r protocolRow) bool { return r.http == 1 })
	overH2   = protocolsWhere(func(r protocolRow) bool { return r.http == 2 && !r.tunnels && r.port == "" })
	// many carry many requests at once.
	many     = protocolsWhere(func(r protocolRow) bool { return r.http == 2 && r.port == "" })
	anyConns = []Conns{New, Reused, Shared}
	newConns = []Conns{New}
	onShared = []Conns{Shared}
)

// rows are all operations.
var rows = []row{
	{Get, overHTTP, anyConns, operation{page: true}, "short replies"},
	{Slow, overHTTP, anyConns, operation{takes: true, long: true, soon: true, page: true}, "replies of known length that take as long as the name says"},
	{Chunked, overHTTP, anyConns, operation{takes: true, long: true, soon: true}, "replies in chunks that take as long as the name says"},
	{Upload, overHTTP, anyConns, operation{takes: true, long: true, soon: true}, "uploads that take as long as the name says"},
	{Post, overHTTP, anyConns, operation{takes: true, long: true}, "short POSTs that the backend thinks about for as long as the name says"},
	{Continue, overHTTP, anyConns, operation{takes: true, long: true, soon: true}, "uploads that wait for 100 Continue, and take as long as the name says"},
	{Unary, overH2, anyConns, operation{feature: spec.GRPC}, "gRPC calls of one message each way"},
	{ServerStream, overH2, anyConns, operation{takes: true, long: true, feature: spec.GRPC}, "gRPC calls that are answered with numbered messages for as long as the name says"},
	{Bidi, overH2, anyConns, operation{takes: true, long: true, feature: spec.GRPC}, "gRPC calls that send numbered messages for as long as the name says, and have each answered"},
	{Idle, overHTTP, newConns, operation{takes: true, page: true, holds: true}, "a short reply on a connection that then says nothing for as long as the name says"},
	{WebSocket, overH1, newConns, operation{takes: true, long: true, soon: true, feature: spec.WebSocket}, "WebSockets that are open for as long as the name says"},
	{HalfHeader, overH1, newConns, operation{takes: true, long: true, soon: true, page: true}, "short replies to a header that comes in two halves, so far apart as the name says"},
	{Belated, overH1, newConns, operation{takes: true, long: true, soon: true, page: true}, "short replies on connections on which nothing is said before, for as long as the name says"},
	{Deferred, overH1, newConns, operation{takes: true, long: true, page: true}, "short replies to requests that are begun so long behind their turns as the name says, with no connection before"},
	{Ahead, overH1, newConns, operation{takes: true, long: true, page: true}, "two short replies on a connection, each of which the backend thinks about for as long as the name says: the second request is sent with the first"},
	{AheadPost, overH1, newConns, operation{takes: true}, "a short reply that the backend thinks about for as long as the name says, and an upload behind it that is sent meanwhile"},
	{Abandoned, []Protocol{HTTP1, BackendTLS, HBONE}, []Conns{New, Shared}, operation{takes: true, long: true}, "uploads that the client cuts in the middle, after as long as the name says"},
	{Mixed, many, onShared, operation{takes: true}, "short replies, and among them some that take as long as the name says"},
	{Drip, []Protocol{HBONE}, onShared, operation{takes: true}, "replies of a second, and among them an upload that takes as long as the name says, each byte of which is a write of its own"},
	{Talk, []Protocol{TCP}, newConns, operation{takes: true, long: true}, "a stream in which the server speaks first, gives back what the client sends for as long as the name says, and each side ends its own half"},
	{Hear, []Protocol{TCP}, newConns, operation{takes: true, long: true}, "a stream whose server ends its half at once, and hears what the client sends for as long as the name says"},
	{Mute, append(slices.Clone(overH1), HBONE), newConns, operation{takes: true, page: true, holds: true}, "connections on which the client says nothing for as long as the name says, not even in TLS"},
	{Lookup, []Protocol{DNS}, newConns, operation{}, "one address is asked for"},
	{Check, []Protocol{HTTP1}, newConns, operation{}, "the port's 200 or 503"},
	{Vacant, []Protocol{HBONE}, []Conns{New, Reused}, operation{}, "a connection is asked for to a port where nothing listens"},
	{Discover, []Protocol{XDS}, newConns, operation{}, "a call of discovery in which nothing is asked for: any answer is one"},
	{Certify, []Protocol{XDS}, newConns, operation{}, "a certificate is asked for by who has no right to one: any answer is one"},
}

// Ops are all operations.
func Ops() []Op {
	out := make([]Op, len(rows))
	for i, r := range rows {
		out[i] = r.op
	}
	return out
}

// Known says whether there is such an operation.
func (o Op) Known() bool { return slices.Contains(Ops(), o) }

// row is what is known of it. Of one that is none nothing is, but that some protocol carries it.
func (o Op) row() row {
	i := slices.IndexFunc(rows, func(r row) bool { return r.op == o })
	if i < 0 {
		return row{protocols: Protocols(), conns: anyConns}
	}
	return rows[i]
}

// Protocols are those that carry it.
func (o Op) Protocols() []Protocol { return slices.Clone(o.row().protocols) }

// Conns are the connections that it may go over, where its protocol has such.
func (o Op) Conns() []Conns { return slices.Clone(o.row().conns) }

// Takes says whether it takes a time of its own (Flow.Takes).
func (o Op) Takes() bool { return o.row().takes }

// Long says whether it may take so long that in the control a shorter one of its kind stands in
// for it.
func (o Op) Long() bool { return o.row().long }

// Soon says whether it is over soon, by design, where a drain finds it begun.
func (o Op) Soon() bool { return o.row().soon }

// Paged says whether any app can be asked for it: a GET, or a connection on which nothing is said.
func (o Op) Paged() bool { return o.row().page }

// Means says it in words, as they stand behind a path, a protocol and connections.
func (o Op) Means() string { return o.row().means }

// Holds says whether its connection is held, and says nothing more, for Flow.Takes.
func (o Op) Holds() bool { return o.row().holds }

// Feature is what a system claims which takes it, beside those of the protocol; "" for nothing.
func (o Op) Feature() spec.Feature { return o.row().feature }

// Calls says whether the operation is a gRPC call.
func (o Op) Calls() bool { return o.Feature() == spec.GRPC }
