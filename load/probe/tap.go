// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"encoding/binary"
	"errors"
	"net"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/http2"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/frames"
)

// tap listens on an h2 connection.
type tap struct {
	net.Conn
	ear *ear

	mu      sync.Mutex
	in, out frames.Splitter
	sight   sight
	next    *passage        // whose HEADERS are written next
	pings   []time.Duration // when the peer's PINGs came that are not answered yet
	open    map[uint32]*passage
}

// sight is what a tap has seen of its connection so far.
type sight struct {
	used   bool // a request was written, or begun to be
	goAway bool
	lastID uint32 // the GOAWAY's last stream ID, the lowest so far
	err    error  // that reading or writing ended with
	left   bool   // the ClientConn would close
}

// passage is what a tap has seen of one stream so far.
type passage struct {
	id    uint32        // 0: not a byte of it was written
	sent  time.Duration // the request was written to its end; 0: it was not
	first time.Duration // the first HEADERS of the answer had arrived; 0: none has
	ended bool          // the peer said END_STREAM
	reset bool          // by the peer
	code  http2.ErrCode // of that
}

// over says that no further stream should be begun.
func (s sight) over() bool { return s.goAway || s.err != nil || s.left }

func newTap(nc net.Conn, e *ear) *tap {
	t := &tap{Conn: nc, ear: e, open: map[uint32]*passage{}}
	t.in.Wants, t.out.Wants = said, said
	t.out.Skip = len(http2.ClientPreface)
	return t
}

// said wants of a GOAWAY the last stream and the code, and of an RST_STREAM the code.
func said(h http2.FrameHeader) int {
	if h.Type == http2.FrameGoAway || h.Type == http2.FrameRSTStream {
		return 8
	}
	return 0
}

func (t *tap) seen() sight {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sight
}

// of is what was seen of a stream, and of its connection.
func (t *tap) of(p *passage) (passage, sight) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return *p, t.sight
}

// begin says whose HEADERS are the next to be written.
func (t *tap) begin(p *passage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next = p
}

// forget ends the interest in a stream.
func (t *tap) forget(p *passage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next == p {
		t.next = nil
	}
	delete(t.open, p.id)
}

func (t *tap) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.in.Split(p[:n], t.received)
	t.ended(err)
	return n, err
}

// Close keeps the connection: a ClientConn closes after a GOAWAY, and the peer's
// part of the end is what is wanted here. Its reader goes on until reading ends.
func (t *tap) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sight.left = true
	t.ear.leave()
	return nil
}

// Write looks first: the answer could otherwise be seen before its request. An error
// is only noted: a ClientConn that hears of one gives all of its streams up, and what
// answers them may have arrived already. The reader comes to the end behind that.
func (t *tap) Write(p []byte) (int, error) {
	t.mu.Lock()
	t.out.Split(p, t.written)
	t.mu.Unlock()
	if _, err := t.Conn.Write(p); err != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.ended(err)
	}
	return len(p), nil
}

// ended notes what ended the connection, unless it was this side.
func (t *tap) ended(err error) {
	if err != nil && t.sight.err == nil && !errors.Is(err, net.ErrClosed) {
		t.sight.err = err
		t.ear.leave()
	}
}

func (t *tap) written(f frames.Frame) {
	switch f.Type {
	case http2.FrameHeaders:
		t.sight.used = true
		if t.next != nil {
			t.next.id = f.StreamID
			t.open[f.StreamID], t.next = t.next, nil
		}
	case http2.FrameData:
	case http2.FramePing:
		if f.Flags.Has(http2.FlagPingAck) && len(t.pings) > 0 {
			// One look at the clock: the frame's time less this is the very instant at
			// which the PING came. Two would put it behind a GOAWAY that followed it closely.
			at := timeline.Monotonic()
			t.ear.tellAt(at, timeline.FramePing, "answered", (at - t.pings[0]).String())
			t.pings = t.pings[1:]
		}
		return
	default:
		return
	}
	// The flag has the same bit in both kinds.
	if p := t.open[f.StreamID]; p != nil && f.Flags.Has(http2.FlagDataEndStream) {
		p.sent = timeline.Monotonic()
	}
}

func (t *tap) received(f frames.Frame) {
	switch f.Type {
	case http2.FrameHeaders, http2.FrameData:
		p := t.open[f.StreamID]
		if p == nil {
			return
		}
		if f.Type == http2.FrameHeaders && p.first == 0 {
			p.first = timeline.Monotonic()
		}
		// The flag has the same bit in both kinds.
		p.ended = p.ended || f.Flags.Has(http2.FlagDataEndStream)
	case http2.FramePing:
		if !f.Flags.Has(http2.FlagPingAck) {
			t.pings = append(t.pings, timeline.Monotonic())
		}
	case http2.FrameGoAway:
		if len(f.Payload()) < 8 {
			return
		}
		last := binary.BigEndian.Uint32(f.Payload()) & frames.MaxStreamID
		if !t.sight.goAway || last < t.sight.lastID {
			t.sight.lastID = last
		}
		t.sight.goAway = true
		code := http2.ErrCode(binary.BigEndian.Uint32(f.Payload()[4:]))
		t.ear.tell(timeline.FrameGoAway, "last", strconv.FormatUint(uint64(last), 10), "code", code.String())
		t.ear.leave()
	case http2.FrameRSTStream:
		if len(f.Payload()) < 4 {
			return
		}
		code := http2.ErrCode(binary.BigEndian.Uint32(f.Payload()))
		if p := t.open[f.StreamID]; p != nil {
			p.reset, p.code = true, code
		}
		t.ear.tell(timeline.FrameReset, "id", strconv.FormatUint(uint64(f.StreamID), 10), "code", code.String())
	}
}
