// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/work"
)

// peer is a hand-made HTTP/2 server's end of a connection.
type peer struct {
	*http2.Framer
	c *net.TCPConn
}

// newPeer takes the client's preface and says hello.
func newPeer(c *net.TCPConn) (*peer, error) {
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return nil, err
	}
	p := &peer{http2.NewFramer(c, c), c}
	p.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	return p, p.WriteSettings()
}

// request returns the next stream that was opened, and its request ID.
func (p *peer) request() (stream uint32, id string, err error) {
	for {
		f, err := p.ReadFrame()
		if err != nil {
			return 0, "", err
		}
		h, ok := f.(*http2.MetaHeadersFrame)
		if !ok {
			continue
		}
		for _, f := range h.Fields {
			if f.Name == "x-lastcall-id" {
				id = f.Value
			}
		}
		return h.StreamID, id, nil
	}
}

// fin ends the peer's half and leaves no data unread, which would make an RST
// of the close.
func (p *peer) fin() {
	_ = p.c.CloseWrite()
	p.rest()
}

// rest reads until the connection ends.
func (p *peer) rest() {
	for {
		if _, err := p.ReadFrame(); err != nil {
			return
		}
	}
}

// header writes a reply's header; a negative length is not announced.
func (p *peer) header(stream uint32, status int, length int64, end bool) {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	_ = e.WriteField(hpack.HeaderField{Name: ":status", Value: strconv.Itoa(status)})
	if length >= 0 {
		_ = e.WriteField(hpack.HeaderField{Name: "content-length", Value: strconv.FormatInt(length, 10)})
	}
	_ = p.WriteHeaders(http2.HeadersFrameParam{
		StreamID: stream, BlockFragment: b.Bytes(), EndHeaders: true, EndStream: end,
	})
}

// body writes the first n bytes of the right body.
func (p *peer) body(stream uint32, id string, n int64, end bool) {
	b, _ := io.ReadAll(work.Body(id, n))
	_ = p.WriteData(stream, end, b)
}

const unlimited = 1<<31 - 1

func TestH2COutcomes(t *testing.T) {
	get := load.Profile{Protocol: load.H2C, Op: load.Get}
	up := load.Profile{Protocol: load.H2C, Op: load.Upload, Takes: 500 * time.Millisecond}
	cont := load.Profile{Protocol: load.H2C, Op: load.Continue, Takes: 20 * time.Millisecond}
	for name, c := range map[string]struct {
		p    load.Profile
		want want
		// serve handles one request on stream s; the connection is closed
		// when it returns.
		serve func(p *peer, s uint32, id string)
	}{
		"goaway below the stream": {get, want{timeline.GoAway, timeline.PhaseFirstByte, 0, 0, true},
			func(p *peer, s uint32, _ string) { _ = p.WriteGoAway(0, http2.ErrCodeNo, nil); p.rest() }},
		"goaway with an error below the stream": {get, want{timeline.GoAway, timeline.PhaseFirstByte, 0, 0, true},
			func(p *peer, s uint32, _ string) {
				_ = p.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, []byte("too many"))
				p.fin()
			}},
		"goaway twice, then below the stream": {get, want{timeline.GoAway, timeline.PhaseFirstByte, 0, 0, true},
			func(p *peer, s uint32, _ string) {
				_ = p.WriteGoAway(unlimited, http2.ErrCodeNo, nil)
				_ = p.WriteGoAway(0, http2.ErrCodeNo, nil)
				p.rest()
			}},
		"graceful goaway, then the answer": {get, want{timeline.OK, timeline.PhaseDone, 200, 256, true},
			func(p *peer, s uint32, id string) {
				_ = p.WriteGoAway(unlimited, http2.ErrCodeNo, nil)
				p.header(s, 200, 256, false)
				p.body(s, id, 256, true)
				p.rest()
			}},
		"graceful goaway, then fin": {get, want{timeline.Closed, timeline.PhaseFirstByte, 0, 0, true},
			func(p *peer, s uint32, _ string) { _ = p.WriteGoAway(unlimited, http2.ErrCodeNo, nil); p.fin() }},
		"refused stream": {get, want{timeline.RefusedStream, timeline.PhaseFirstByte, 0, 0, false},
			func(p *peer, s uint32, _ string) { _ = p.WriteRSTStream(s, http2.ErrCodeRefusedStream); p.rest() }},
		"stream reset": {get, want{timeline.StreamReset, timeline.PhaseFirstByte, 0, 0, false},
			func(p *peer, s uint32, _ string) { _ = p.WriteRSTStream(s, http2.ErrCodeInternal); p.rest() }},
		"stream reset in the body": {get, want{timeline.StreamReset, timeline.PhaseBody, 200, 100, false},
			func(p *peer, s uint32, id string) {
				p.header(s, 200, 256, false)
				p.body(s, id, 100, false)
				pause()
				_ = p.WriteRSTStream(s, http2.ErrCodeCancel)
				p.rest()
			}},
		"fin before the header": {get, want{timeline.Closed, timeline.PhaseFirstByte, 0, 0, false},
			func(p *peer, s uint32, _ string) { p.fin() }},
		"rst before the header": {get, want{timeline.Reset, timeline.PhaseFirstByte, 0, 0, false},
			func(p *peer, s uint32, _ string) { pause(); reset(p.c) }},
		"fin in the body": {get, want{timeline.Truncated, timeline.PhaseBody, 200, 100, false},
			func(p *peer, s uint32, id string) {
				p.header(s, 200, 256, false)
				p.body(s, id, 100, false)
				p.fin()
			}},
		"rst in the body": {get, want{timeline.Reset, timeline.PhaseBody, 200, 100, false},
			func(p *peer, s uint32, id string) {
				p.header(s, 200, 256, false)
				p.body(s, id, 100, false)
				pause()
				reset(p.c)
			}},
		"stream ends before its promised length": {get, want{timeline.Truncated, timeline.PhaseBody, 200, 100, false},
			func(p *peer, s uint32, id string) {
				p.header(s, 200, 256, false)
				p.body(s, id, 100, true)
				p.rest()
			}},
		"too short with no promise": {get, want{timeline.Corrupt, timeline.PhaseBody, 200, 100, false},
			func(p *peer, s uint32, id string) {
				p.header(s, 200, -1, false)
				p.body(s, id, 100, true)
				p.rest()
			}},
		"other bytes": {get, want{timeline.Corrupt, timeline.PhaseBody, 200, 256, false},
			func(p *peer, s uint32, id string) {
				p.header(s, 200, 256, false)
				p.body(s, id+"x", 256, true)
				p.rest()
			}},
		"503": {get, want{timeline.Status, timeline.PhaseBody, 503, 0, false},
			func(p *peer, s uint32, _ string) { p.header(s, 503, 0, true); p.rest() }},
		"no HTTP/2": {get, want{timeline.Malformed, timeline.PhaseFirstByte, 0, 0, false},
			func(p *peer, s uint32, _ string) {
				fmt.Fprint(p.c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
				p.rest()
			}},
		"a header without a status": {get, want{timeline.Malformed, timeline.PhaseFirstByte, 0, 0, false},
			func(p *peer, s uint32, _ string) {
				_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: s, EndHeaders: true, BlockFragment: []byte{0x5f, 0x01, 'a'}})
				p.rest()
			}},
		"stalled": {get, want{timeline.Timeout, timeline.PhaseFirstByte, 0, 0, false},
			func(p *peer, s uint32, _ string) { p.rest() }},
		"stalled in the body": {get, want{timeline.Timeout, timeline.PhaseBody, 200, 9, false},
			func(p *peer, s uint32, id string) {
				p.header(s, 200, 256, false)
				p.body(s, id, 9, false)
				p.rest()
			}},
		"upload refused early": {up, want{timeline.Status, timeline.PhaseBody, 503, 0, false},
			func(p *peer, s uint32, _ string) { p.header(s, 503, 0, true); p.rest() }},
		"upload reset": {up, want{timeline.StreamReset, timeline.PhaseWrite, 0, 0, false},
			func(p *peer, s uint32, _ string) { _ = p.WriteRSTStream(s, http2.ErrCodeCancel); p.rest() }},
		"upload cut by rst": {up, want{timeline.Reset, timeline.PhaseWrite, 0, 0, false},
			func(p *peer, s uint32, _ string) { reset(p.c) }},
		"upload never answered": {up, want{timeline.Timeout, timeline.PhaseFirstByte, 0, 0, false},
			func(p *peer, s uint32, _ string) { p.rest() }},
		"expectation failed": {cont, want{timeline.Status, timeline.PhaseBody, 417, 0, false},
			func(p *peer, s uint32, _ string) { p.header(s, 417, 0, true); p.rest() }},
		"no 100": {cont, want{timeline.Timeout, timeline.PhaseWrite, 0, 0, false},
			func(p *peer, s uint32, _ string) { p.rest() }},
		"goaway instead of 100": {cont, want{timeline.GoAway, timeline.PhaseWrite, 0, 0, true},
			func(p *peer, s uint32, _ string) { _ = p.WriteGoAway(0, http2.ErrCodeNo, nil); p.rest() }},
	} {
		for _, carried := range carriers {
			t.Run(name+"/"+carried.name, func(t *testing.T) {
				t.Parallel()
				noRetry(t, c.p, carried, c.want, func(requests *atomic.Int64) string {
					return accept(t, func(_ int, conn *net.TCPConn) {
						p, err := newPeer(conn)
						if err != nil {
							return
						}
						s, id, err := p.request()
						if err != nil {
							return
						}
						requests.Add(1)
						c.serve(p, s, id)
					})
				})
			})
		}
	}
}
