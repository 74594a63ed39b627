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
)

// tap listens on an h2 connection.
type tap struct {
	net.Conn
	ear *ear

	mu      sync.Mutex
	in, out frames
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
	reset bool          // by the peer
	code  http2.ErrCode // of that
}

// over says that no further stream should be begun.
func (s sight) over() bool { return s.goAway || s.err != nil || s.left }

func newTap(nc net.Conn, e *ear) *tap {
	t := &tap{Conn: nc, ear: e, open: map[uint32]*passage{}}
	t.out.skip = len(http2.ClientPreface)
	return t
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
	t.in.feed(p[:n], t.received)
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
	t.out.feed(p, t.written)
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

func (t *tap) written(f frame) {
	switch f.kind {
	case http2.FrameHeaders:
		t.sight.used = true
		if t.next != nil {
			t.next.id = f.stream
			t.open[f.stream], t.next = t.next, nil
		}
	case http2.FrameData:
	case http2.FramePing:
		if f.flags.Has(http2.FlagPingAck) && len(t.pings) > 0 {
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
	if p := t.open[f.stream]; p != nil && f.flags.Has(http2.FlagDataEndStream) {
		p.sent = timeline.Monotonic()
	}
}

func (t *tap) received(f frame) {
	switch f.kind {
	case http2.FrameHeaders:
		if p := t.open[f.stream]; p != nil && p.first == 0 {
			p.first = timeline.Monotonic()
		}
	case http2.FramePing:
		if !f.flags.Has(http2.FlagPingAck) {
			t.pings = append(t.pings, timeline.Monotonic())
		}
	case http2.FrameGoAway:
		if len(f.payload) < 8 {
			return
		}
		last := binary.BigEndian.Uint32(f.payload) & (1<<31 - 1)
		if !t.sight.goAway || last < t.sight.lastID {
			t.sight.lastID = last
		}
		t.sight.goAway = true
		code := http2.ErrCode(binary.BigEndian.Uint32(f.payload[4:]))
		t.ear.tell(timeline.FrameGoAway, "last", strconv.FormatUint(uint64(last), 10), "code", code.String())
		t.ear.leave()
	case http2.FrameRSTStream:
		if len(f.payload) < 4 {
			return
		}
		code := http2.ErrCode(binary.BigEndian.Uint32(f.payload))
		if p := t.open[f.stream]; p != nil {
			p.reset, p.code = true, code
		}
		t.ear.tell(timeline.FrameReset, "id", strconv.FormatUint(uint64(f.stream), 10), "code", code.String())
	}
}

// frameHeader is the length of a frame's header, RFC 9113 section 4.1.
const frameHeader = 9

// frame is a frame's header, and the first 8 bytes of its payload if it is a
// GOAWAY or an RST_STREAM.
type frame struct {
	kind    http2.FrameType
	flags   http2.Flags
	stream  uint32
	payload []byte
}

// frames finds the frames in one direction of a connection.
type frames struct {
	skip int // bytes of no interest
	have int // of buf
	buf  [frameHeader + 8]byte
}

// feed goes through the next bytes, whatever pieces they come in.
func (d *frames) feed(p []byte, see func(frame)) {
	for len(p) > 0 {
		if d.skip > 0 {
			n := min(d.skip, len(p))
			d.skip -= n
			p = p[n:]
			continue
		}
		n := copy(d.buf[d.have:d.need()], p)
		d.have += n
		p = p[n:]
		if d.have < d.need() {
			continue
		}
		see(frame{
			kind:    http2.FrameType(d.buf[3]),
			flags:   http2.Flags(d.buf[4]),
			stream:  binary.BigEndian.Uint32(d.buf[5:]) & (1<<31 - 1),
			payload: d.buf[frameHeader:d.have],
		})
		d.skip = d.length() - (d.have - frameHeader)
		d.have = 0
	}
}

// length is that of the payload, once the header is there.
func (d *frames) length() int {
	return int(d.buf[0])<<16 | int(d.buf[1])<<8 | int(d.buf[2])
}

// need is how many bytes of the frame are wanted, as far as is known.
func (d *frames) need() int {
	if d.have < frameHeader {
		return frameHeader
	}
	switch http2.FrameType(d.buf[3]) {
	case http2.FrameGoAway, http2.FrameRSTStream:
		return frameHeader + min(8, d.length())
	default:
		return frameHeader
	}
}
