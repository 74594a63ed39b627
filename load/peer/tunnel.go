// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/frames"
)

// The initial window and frame size: RFC 9113 sections 6.9.2 and 6.5.2.
const (
	initialWindow = 1<<16 - 1
	frameSize     = 16 << 10
)

// tunnel is one that the other side opened.
type tunnel struct {
	server *Server
	number int
	tcp    *net.TCPConn
	tls    *tls.Conn
	fr     *http2.Framer // the reader reads; mu is of its writes

	mu       sync.Mutex
	room     sync.Cond // of windows, and of what streams hold
	streams  map[uint32]*stream
	connects int
	highest  uint32 // stream that was taken
	window   int64  // of what may be sent
	initial  int64  // that of a stream
	last     uint32 // that a GOAWAY has named
	draining bool
	told     bool // the GOAWAY that names the last stream was said
	ending   bool // this side ends it
	silent   bool
	notified bool // close_notify was said, and no GOAWAY: nothing can be any more
	over     bool
}

func newTunnel(s *Server, c *net.TCPConn, number int) *tunnel {
	t := &tunnel{
		server: s, number: number, tcp: c, tls: tls.Server(c, s.cfg.TLS),
		streams: map[uint32]*stream{}, window: initialWindow, initial: initialWindow, last: frames.MaxStreamID,
	}
	t.room.L = &t.mu
	t.fr = http2.NewFramer(t.tls, t.tls)
	t.fr.ReadMetaHeaders = hpack.NewDecoder(4<<10, nil)
	return t
}

// say tells of the tunnel; attrs are in pairs.
func (t *tunnel) say(what string, attrs ...string) {
	all := map[string]string{"conn": decimal(t.number)}
	for i := 0; i < len(attrs); i += 2 {
		all[attrs[i]] = attrs[i+1]
	}
	t.server.say(what, all)
}

// write writes frames, unless the tunnel says nothing any more. Of a tunnel that breaks under it the
// reader hears. mu is held.
func (t *tunnel) write(frame func(*http2.Framer) error) {
	if t.silent || t.over {
		return
	}
	_ = t.tls.SetWriteDeadline(time.Now().Add(writeFor))
	_ = frame(t.fr)
}

// run serves it to its end. away: it tells the other side to go at once.
func (t *tunnel) run(away bool) {
	preface := make([]byte, len(http2.ClientPreface))
	_ = t.tls.SetReadDeadline(time.Now().Add(handshakeFor))
	if _, err := io.ReadFull(t.tls, preface); err != nil {
		t.ended(err)
		return
	}
	_ = t.tls.SetReadDeadline(time.Time{})
	t.say(timeline.PeerOpened)
	t.server.mu.Lock()
	limit := t.server.limit
	t.server.mu.Unlock()
	t.settings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: limit})
	if away {
		t.goAway(0)
		t.end()
	}
	t.ended(t.read())
}

// read takes frames until there are no more.
func (t *tunnel) read() error {
	for {
		f, err := t.fr.ReadFrame()
		t.mu.Lock()
		silent := t.silent
		if err == nil && !silent {
			err = t.frame(f)
		}
		t.mu.Unlock()
		if silent {
			// What it reads no more is there for the kernel, which acknowledges it.
			return awaitEnd(t.server.ctx, t.tcp)
		}
		if err != nil {
			return err
		}
	}
}

// frame takes one. mu is held.
func (t *tunnel) frame(f http2.Frame) error {
	switch f := f.(type) {
	case *http2.SettingsFrame:
		if f.IsAck() {
			return nil
		}
		if v, said := f.Value(http2.SettingInitialWindowSize); said {
			for _, s := range t.streams {
				s.window += int64(v) - t.initial
			}
			t.initial = int64(v)
			t.room.Broadcast()
		}
		t.write((*http2.Framer).WriteSettingsAck)
	case *http2.MetaHeadersFrame:
		return t.connect(f)
	case *http2.DataFrame:
		n := f.Length
		if n > 0 {
			t.write(func(fr *http2.Framer) error { return fr.WriteWindowUpdate(0, n) })
		}
		if s := t.streams[f.StreamID]; s != nil {
			s.take(f.Data(), n, f.StreamEnded())
		}
	case *http2.WindowUpdateFrame:
		if f.StreamID == 0 {
			t.window += int64(f.Increment)
		} else if s := t.streams[f.StreamID]; s != nil {
			s.window += int64(f.Increment)
		}
		t.room.Broadcast()
	case *http2.RSTStreamFrame:
		t.say(timeline.PeerReset, "stream", decimal(f.StreamID), "code", f.ErrCode.String())
		if s := t.streams[f.StreamID]; s != nil {
			s.lost()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			t.say(timeline.PeerPinged)
			t.write(func(fr *http2.Framer) error { return fr.WritePing(true, f.Data) })
		} else if t.draining && !t.told {
			t.told = true
			t.name(t.highest)
			t.drained()
		}
	case *http2.GoAwayFrame:
		t.say(timeline.PeerToldToGo)
	}
	return nil
}

// connect takes a CONNECT, or refuses it. mu is held.
func (t *tunnel) connect(f *http2.MetaHeadersFrame) error {
	id := f.StreamID
	if t.streams[id] != nil { // trailers, which nobody reads
		return nil
	}
	if f.PseudoValue("method") != "CONNECT" {
		return fmt.Errorf("stream %d asks for %s", id, f.PseudoValue("method"))
	}
	t.connects++
	t.say(timeline.PeerConnect, "stream", decimal(id))
	by := ""
	if refuses := t.server.manner.refuses; refuses != nil && t.server.misbehaves() {
		by = refuses(t.connects)
	}
	switch {
	case t.notified:
		return nil
	case id > t.last:
		// RFC 9113 section 6.8: what is above the last stream ID is ignored.
		t.say(timeline.PeerRefused, "stream", decimal(id), "by", timeline.PeerByGoAway)
		return nil
	case by == timeline.PeerByReset:
		t.say(timeline.PeerRefused, "stream", decimal(id), "by", by)
		t.write(func(fr *http2.Framer) error { return fr.WriteRSTStream(id, http2.ErrCodeRefusedStream) })
		return nil
	case by == timeline.PeerByGoAway:
		t.say(timeline.PeerRefused, "stream", decimal(id), "by", by)
		t.draining, t.told = true, true
		t.name(t.highest)
		t.drained()
		return nil
	}
	t.highest = id
	s := &stream{tunnel: t, id: id, to: f.PseudoValue("authority"), window: t.initial, upEnd: f.StreamEnded()}
	t.streams[id] = s
	t.server.work.Go(s.run)
	return nil
}

// name says a GOAWAY that names the last stream. mu is held.
func (t *tunnel) name(last uint32) {
	if t.over || t.silent {
		return
	}
	t.last = last
	t.say(timeline.PeerGoAway, "last", decimal(last))
	t.write(func(fr *http2.Framer) error { return fr.WriteGoAway(last, http2.ErrCodeNo, nil) })
}

// goAway tells the other side to go, of streams up to the last.
func (t *tunnel) goAway(last uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.draining, t.told = true, true
	t.name(last)
}

// drain is the end in good order: RFC 9113 section 6.8. A second call does nothing.
func (t *tunnel) drain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.draining {
		return
	}
	t.draining = true
	t.name(frames.MaxStreamID)
	t.write(func(fr *http2.Framer) error { return fr.WritePing(false, frames.PingData) })
}

// drained ends a tunnel that was told to go, and has nothing left. mu is held.
func (t *tunnel) drained() {
	if t.draining && t.told && len(t.streams) == 0 && !t.ending {
		t.ending = true
		t.server.work.Go(t.end)
	}
}

// end ends this side: close_notify and FIN. The other side has lastWords for its own.
func (t *tunnel) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ending = true
	_ = t.tls.SetWriteDeadline(time.Now().Add(writeFor))
	_ = t.tls.CloseWrite()
	_ = t.tcp.CloseWrite()
	_ = t.tcp.SetReadDeadline(time.Now().Add(lastWords))
}

// notify ends this side in TLS, of a tunnel that was used and has nothing in it, and below it later. Nobody is told in HTTP/2.
func (t *tunnel) notify() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over || t.ending || t.notified || t.connects == 0 || len(t.streams) > 0 {
		return
	}
	t.notified = true
	t.say(timeline.PeerNotified)
	_ = t.tls.SetWriteDeadline(time.Now().Add(writeFor))
	_ = t.tls.CloseWrite()
	t.server.work.Go(func() {
		if t.server.pause(finAfter) {
			t.end()
		}
	})
}

// cut ends the tunnel at once, in a way in which nobody should.
func (t *tunnel) cut(by string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over || t.ending {
		return
	}
	t.ending = true
	t.say(timeline.PeerCut, "by", by)
	switch by {
	case timeline.PeerByRST:
		_ = t.tcp.SetLinger(0)
		_ = t.tcp.Close()
	case timeline.PeerByCloseNotify:
		_ = t.tls.SetWriteDeadline(time.Now().Add(writeFor))
		_ = t.tls.CloseWrite()
		fallthrough
	default:
		_ = t.tcp.CloseWrite()
		_ = t.tcp.SetReadDeadline(time.Now().Add(lastWords))
	}
}

// settings says some.
func (t *tunnel) settings(all ...http2.Setting) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, one := range all {
		if one.ID == http2.SettingMaxConcurrentStreams {
			t.say(timeline.PeerSettings, "streams", decimal(one.Val))
		}
	}
	t.write(func(fr *http2.Framer) error { return fr.WriteSettings(all...) })
}

// silence has it say nothing more, and read nothing more.
func (t *tunnel) silence() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return
	}
	t.silent = true
	t.say(timeline.PeerSilent)
	_ = t.tcp.SetReadDeadline(time.Unix(1, 0)) // its reader is to look up
}

// ended tells of the tunnel's end, and ends its streams.
func (t *tunnel) ended(err error) {
	t.mu.Lock()
	t.over = true
	open := len(t.streams)
	for _, s := range t.streams {
		s.lost()
	}
	ending := t.ending
	t.room.Broadcast()
	t.mu.Unlock()
	_ = t.tcp.Close()
	t.say(timeline.PeerEnded, "by", howEnded(err, ending), "open", decimal(open))
}

// howEnded says how the other side ended a connection; ending: this side was first.
func howEnded(err error, ending bool) string {
	switch {
	case ending:
		return timeline.PeerItself
	case errors.Is(err, io.EOF):
		return timeline.PeerByCloseNotify
	case errors.Is(err, io.ErrUnexpectedEOF):
		return timeline.PeerByFIN
	case errors.Is(err, syscall.ECONNRESET):
		return timeline.PeerByRST
	case err == nil:
		return timeline.PeerItself
	}
	return err.Error()
}
