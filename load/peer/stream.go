// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"errors"
	"io"
	"net"

	"golang.org/x/net/http2"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
)

// stream is one CONNECT that was taken. All but what is set at its begin is of the tunnel's mu.
type stream struct {
	tunnel *tunnel
	id     uint32
	to     string

	app     *net.TCPConn // nil: it is not connected yet
	window  int64        // of what may be sent
	held    []byte       // for the app
	upEnd   bool         // the other side's half has ended
	downEnd bool         // and the app's
	gone    bool
}

// ok and unavailable are the header blocks of the answers 200 and 503 (RFC 7541: the static table's
// index 8, and a literal value for the name of it).
var (
	ok          = []byte{0x88}
	unavailable = []byte{0x08, 3, '5', '0', '3'}
)

// run connects to the app, answers, and carries what it says.
func (s *stream) run() {
	t := s.tunnel
	d := net.Dialer{Timeout: dialFor}
	c, err := d.DialContext(t.server.ctx, "tcp", s.to)
	t.mu.Lock()
	if s.gone || t.over {
		t.mu.Unlock()
		if err == nil {
			_ = c.Close()
		}
		return
	}
	if err != nil {
		t.write(func(fr *http2.Framer) error {
			return fr.WriteHeaders(http2.HeadersFrameParam{StreamID: s.id, BlockFragment: unavailable, EndHeaders: true, EndStream: true})
		})
		s.drop()
		t.mu.Unlock()
		return
	}
	s.app = c.(*net.TCPConn)
	t.write(func(fr *http2.Framer) error {
		return fr.WriteHeaders(http2.HeadersFrameParam{StreamID: s.id, BlockFragment: ok, EndHeaders: true})
	})
	t.mu.Unlock()
	t.server.work.Go(s.up)
	if cuts := t.server.manner.cuts; cuts != nil {
		t.server.work.Go(s.cutLater)
	}
	s.down()
}

// down carries what the app says.
func (s *stream) down() {
	t := s.tunnel
	buf := make([]byte, frameSize)
	for {
		n, err := s.app.Read(buf)
		for sent := 0; sent < n; {
			part, open := s.send(buf[sent:n])
			if !open {
				return
			}
			sent += part
		}
		if err == nil {
			continue
		}
		t.mu.Lock()
		if !s.gone {
			if errors.Is(err, io.EOF) {
				s.downEnd = true
				t.write(func(fr *http2.Framer) error { return fr.WriteData(s.id, true, nil) })
				s.done()
			} else {
				t.write(func(fr *http2.Framer) error { return fr.WriteRSTStream(s.id, http2.ErrCodeConnect) })
				s.drop()
			}
		}
		t.mu.Unlock()
		return
	}
}

// send sends as much as the windows allow, once they allow any; false: the stream is gone.
func (s *stream) send(p []byte) (n int, open bool) {
	t := s.tunnel
	t.mu.Lock()
	defer t.mu.Unlock()
	for !s.gone && !t.over && (s.window <= 0 || t.window <= 0) {
		t.room.Wait()
	}
	if s.gone || t.over {
		return 0, false
	}
	n = int(min(int64(len(p)), s.window, t.window))
	s.window, t.window = s.window-int64(n), t.window-int64(n)
	t.write(func(fr *http2.Framer) error { return fr.WriteData(s.id, false, p[:n]) })
	return n, true
}

// take holds what came for the app, and gives its window back: what an app of the suite's own does
// not read yet is little. mu is held.
func (s *stream) take(p []byte, n uint32, last bool) {
	s.held = append(s.held, p...)
	if n > 0 && !last {
		s.tunnel.write(func(fr *http2.Framer) error { return fr.WriteWindowUpdate(s.id, n) })
	}
	if last {
		s.tunnel.say(timeline.PeerEndStream, "stream", decimal(s.id))
		s.upEnd = true
	}
	s.tunnel.room.Broadcast()
}

// up hands to the app what came for it.
func (s *stream) up() {
	t := s.tunnel
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		for len(s.held) == 0 && !s.upEnd && !s.gone {
			t.room.Wait()
		}
		if s.gone {
			return
		}
		p := s.held
		s.held = nil
		if len(p) == 0 {
			_ = s.app.CloseWrite()
			s.done()
			return
		}
		t.mu.Unlock()
		_, _ = s.app.Write(p) // who reads from the app hears how it ended
		t.mu.Lock()
	}
}

// cutLater cuts the stream in the middle, as its peer's manner is.
func (s *stream) cutLater() {
	t := s.tunnel
	if !t.server.misbehaves() || !t.server.pause(cutsAfter) {
		return
	}
	t.mu.Lock()
	if s.gone || t.over || t.ending {
		t.mu.Unlock()
		return
	}
	t.server.mu.Lock()
	t.server.streams++
	by := t.server.manner.cuts(t.server.streams)
	t.server.mu.Unlock()
	if by == timeline.PeerByReset {
		t.say(timeline.PeerCut, "stream", decimal(s.id), "by", by)
		t.write(func(fr *http2.Framer) error { return fr.WriteRSTStream(s.id, http2.ErrCodeCancel) })
		s.drop()
		t.mu.Unlock()
		return
	}
	t.mu.Unlock()
	t.cut(by)
}

// done ends the stream where both halves have. mu is held.
func (s *stream) done() {
	if s.upEnd && s.downEnd && len(s.held) == 0 {
		s.drop()
	}
}

// lost cuts the app's side of a stream that is no more. mu is held.
func (s *stream) lost() {
	if s.app != nil {
		_ = s.app.SetLinger(0)
	}
	s.drop()
}

// drop forgets the stream. mu is held.
func (s *stream) drop() {
	if s.gone {
		return
	}
	s.gone = true
	if s.app != nil {
		_ = s.app.Close()
	}
	t := s.tunnel
	delete(t.streams, s.id)
	t.say(timeline.PeerDone, "stream", decimal(s.id))
	t.room.Broadcast()
	t.drained()
}
