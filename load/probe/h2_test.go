// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/load/work"
)

// peer is a hand-made HTTP/2 server's end of a connection.
type peer struct {
	*http2.Framer
	c lingering
}

// newPeer takes the client's preface and says hello.
func newPeer(c lingering) (*peer, error) {
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

// settled waits until the client has read what was written before, and its own
// answers to that have come: a reset would take away either.
func (p *peer) settled() {
	_ = p.WritePing(false, [8]byte{})
	for {
		f, err := p.ReadFrame()
		if err != nil || f.Header().Type == http2.FramePing && f.Header().Flags.Has(http2.FlagPingAck) {
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

// trailers ends a stream with a grpc-status.
func (p *peer) trailers(stream uint32, status string) {
	var b bytes.Buffer
	_ = hpack.NewEncoder(&b).WriteField(hpack.HeaderField{Name: "grpc-status", Value: status})
	_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: b.Bytes(), EndHeaders: true, EndStream: true})
}

// handle serves requests up to the connection's end. net/http's
// own server gives a client 2 s for its SETTINGS, and has no knob for it: a
// machine that stands still for as long would break its connections.
func (p *peer) handle(h http.HandlerFunc) {
	var (
		wmu      sync.Mutex // of the Framer's writes
		handlers sync.WaitGroup
		open     = map[uint32]*exchange{}
	)
	write := func(f func()) { wmu.Lock(); defer wmu.Unlock(); f() }
	defer handlers.Wait()
	defer func() {
		for _, x := range open {
			x.end()
		}
	}()
	for {
		f, err := p.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				write(func() { _ = p.WriteSettingsAck() })
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				write(func() { _ = p.WritePing(true, f.Data) })
			}
		case *http2.RSTStreamFrame:
			open[f.StreamID].end()
		case *http2.DataFrame:
			x := open[f.StreamID]
			if n := uint32(len(f.Data())); n > 0 {
				x.body <- bytes.Clone(f.Data())
				write(func() { _ = p.WriteWindowUpdate(0, n); _ = p.WriteWindowUpdate(f.StreamID, n) })
			}
			if f.StreamEnded() {
				close(x.body)
			}
		case *http2.MetaHeadersFrame:
			r := &http.Request{Method: f.PseudoValue("method"), Header: http.Header{}}
			if r.URL, err = url.ParseRequestURI(f.PseudoValue("path")); err != nil {
				return
			}
			for _, field := range f.RegularFields() {
				r.Header.Add(field.Name, field.Value)
			}
			ctx, end := context.WithCancel(context.Background())
			// More than any upload has pieces: whoever reads frames never waits.
			x := &exchange{p: p, stream: f.StreamID, write: write, header: http.Header{}, body: make(chan []byte, 1000), ctx: ctx, end: end}
			x.expects = r.Header.Get("Expect") != ""
			if f.StreamEnded() {
				close(x.body)
			}
			r.Body = x
			open[f.StreamID] = x
			handlers.Go(func() { x.answer(h, r.WithContext(ctx)) })
		}
	}
}

// exchange is one request, as its handler's ResponseWriter and Body.
type exchange struct {
	p      *peer
	stream uint32
	write  func(func())
	header http.Header
	begun  bool // the header is written

	ctx     context.Context
	end     func()
	body    chan []byte // what has come and is not read; closed at its end
	rest    []byte      // of the piece that is being read
	expects bool        // 100 Continue, and it is not sent yet
}

func (x *exchange) answer(h http.HandlerFunc, r *http.Request) {
	defer x.end()
	defer func() {
		switch err := recover(); {
		case err != nil && err != http.ErrAbortHandler: //nolint:errorlint // as net/http does
			panic(err)
		case err != nil:
			x.write(func() { _ = x.p.WriteRSTStream(x.stream, http2.ErrCodeInternal) })
		default:
			_, _ = x.Write(nil)
			x.write(func() {
				if status := x.header.Get(http.TrailerPrefix + work.HeaderGRPC); status != "" {
					x.p.trailers(x.stream, status)
				} else {
					_ = x.p.WriteData(x.stream, true, nil)
				}
				if x.header.Get("Connection") == "close" {
					_ = x.p.WriteGoAway(x.stream, http2.ErrCodeNo, nil)
				}
			})
		}
	}()
	h(x, r)
}

func (x *exchange) Header() http.Header { return x.header }
func (x *exchange) Flush()              {} // nothing is kept back
func (x *exchange) Close() error        { return nil }

func (x *exchange) WriteHeader(status int) {
	x.begun = x.begun || status >= 200
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	_ = e.WriteField(hpack.HeaderField{Name: ":status", Value: strconv.Itoa(status)})
	for name, values := range x.header {
		if name != "Connection" && status >= 200 {
			_ = e.WriteField(hpack.HeaderField{Name: strings.ToLower(name), Value: values[0]})
		}
	}
	x.write(func() {
		_ = x.p.WriteHeaders(http2.HeadersFrameParam{StreamID: x.stream, BlockFragment: b.Bytes(), EndHeaders: true})
	})
}

func (x *exchange) Write(b []byte) (n int, err error) {
	if !x.begun {
		x.WriteHeader(http.StatusOK)
	}
	for piece := range slices.Chunk(b, 16<<10) {
		x.write(func() { err = x.p.WriteData(x.stream, false, piece) })
		if err != nil {
			return n, err
		}
		n += len(piece)
	}
	return n, nil
}

func (x *exchange) Read(b []byte) (int, error) {
	if x.expects {
		x.expects = false
		x.WriteHeader(http.StatusContinue)
	}
	if len(x.rest) == 0 {
		select {
		case piece, ok := <-x.body:
			if !ok {
				return 0, io.EOF
			}
			x.rest = piece
		case <-x.ctx.Done():
			return 0, x.ctx.Err()
		}
	}
	n := copy(b, x.rest)
	x.rest = x.rest[n:]
	return n, nil
}

const unlimited = 1<<31 - 1

func TestH2COutcomes(t *testing.T) {
	get := load.Profile{Flow: flow.Flow{Protocol: flow.H2C, Op: flow.Get}}
	up := load.Profile{Flow: flow.Flow{Protocol: flow.H2C, Op: flow.Upload, Takes: 20 * time.Millisecond}}
	// Its end never comes: it is cut before.
	long := load.Profile{Flow: flow.Flow{Protocol: flow.H2C, Op: flow.Upload, Takes: patience}}
	cont := load.Profile{Flow: flow.Flow{Protocol: flow.H2C, Op: flow.Continue, Takes: 20 * time.Millisecond}}
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
				p.settled()
				_ = p.WriteRSTStream(s, http2.ErrCodeCancel)
				p.rest()
			}},
		"fin before the header": {get, want{timeline.Closed, timeline.PhaseFirstByte, 0, 0, false},
			func(p *peer, s uint32, _ string) { p.fin() }},
		"rst before the header": {get, want{timeline.Reset, timeline.PhaseFirstByte, 0, 0, false},
			func(p *peer, s uint32, _ string) { p.settled(); reset(p.c) }},
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
				p.settled()
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
		"503": {get, want{timeline.Status, timeline.PhaseDone, 503, 0, false},
			func(p *peer, s uint32, _ string) { p.header(s, 503, 0, true); p.rest() }},
		"503 with a body": {get, want{timeline.Status, timeline.PhaseDone, 503, 0, false},
			func(p *peer, s uint32, id string) {
				p.header(s, 503, -1, false)
				p.body(s, id, 100, true)
				p.rest()
			}},
		"503 reset in its body": {get, want{timeline.Status, timeline.PhaseBody, 503, 0, false},
			func(p *peer, s uint32, id string) {
				p.header(s, 503, -1, false)
				p.body(s, id, 100, false)
				p.settled()
				_ = p.WriteRSTStream(s, http2.ErrCodeCancel)
				p.rest()
			}},
		"503, and fin in its body": {get, want{timeline.Status, timeline.PhaseBody, 503, 0, false},
			func(p *peer, s uint32, id string) {
				p.header(s, 503, 256, false)
				p.body(s, id, 100, false)
				p.fin()
			}},
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
		"upload refused early": {long, want{timeline.Status, timeline.PhaseDone, 503, 0, false},
			func(p *peer, s uint32, _ string) { p.header(s, 503, 0, true); p.rest() }},
		"upload reset": {long, want{timeline.StreamReset, timeline.PhaseWrite, 0, 0, false},
			func(p *peer, s uint32, _ string) { _ = p.WriteRSTStream(s, http2.ErrCodeCancel); p.rest() }},
		"upload cut by rst": {long, want{timeline.Reset, timeline.PhaseWrite, 0, 0, false},
			func(p *peer, s uint32, _ string) { reset(p.c) }},
		"upload never answered": {up, want{timeline.Timeout, timeline.PhaseFirstByte, 0, 0, false},
			func(p *peer, s uint32, _ string) { p.rest() }},
		"expectation failed": {cont, want{timeline.Status, timeline.PhaseDone, 417, 0, false},
			func(p *peer, s uint32, _ string) { p.header(s, 417, 0, true); p.rest() }},
		"no 100": {cont, want{timeline.Timeout, timeline.PhaseWrite, 0, 0, false},
			func(p *peer, s uint32, _ string) { p.rest() }},
		"goaway instead of 100": {cont, want{timeline.GoAway, timeline.PhaseWrite, 0, 0, true},
			func(p *peer, s uint32, _ string) { _ = p.WriteGoAway(0, http2.ErrCodeNo, nil); p.rest() }},
	} {
		for _, carried := range carriers {
			t.Run(name+"/"+carried.name, func(t *testing.T) {
				noRetry(t, c.p, carried, c.want, framed(c.serve))
			})
		}
	}
}

// framed is a peer that answers one request in HTTP/2 as serve does.
func framed(serve func(p *peer, s uint32, id string)) func(conn lingering, asked func()) {
	return func(conn lingering, asked func()) {
		p, err := newPeer(conn)
		if err != nil {
			return
		}
		s, id, err := p.request()
		if err != nil {
			return
		}
		asked()
		serve(p, s, id)
	}
}
