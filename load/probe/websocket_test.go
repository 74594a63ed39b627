// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/onsi/gomega"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/load/work"
)

// webSocketFor is a flow of WebSockets.
func webSocketFor(proto flow.Protocol, takes time.Duration) load.Profile {
	return load.Profile{Flow: flow.Flow{Protocol: proto, Conns: flow.New, Op: flow.WebSocket, Takes: takes}}
}

// serveWebSocket runs a server of WebSockets until the test ends. script gets
// each of them, and the connection below it.
func serveWebSocket(t testing.TB, proto flow.Protocol, script func(ctx context.Context, ws *websocket.Conn, below net.Conn)) string {
	t.Helper()
	var below sync.Map
	var open sync.WaitGroup
	t.Cleanup(open.Wait)
	addr, _ := serve(t, proto, func(w http.ResponseWriter, r *http.Request) {
		open.Add(1)
		defer open.Done()
		if r.URL.Path != work.WebSocketPath || r.Header.Get(work.HeaderID) == "" {
			t.Errorf("%s %s, ID %q", r.Method, r.URL, r.Header.Get(work.HeaderID))
		}
		w.Header().Set(work.HeaderPod, "pod-1")
		h := &hijacked{ResponseWriter: w}
		ws, err := websocket.Accept(h, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer ws.CloseNow()
		below.Store(h.conn, nil)
		defer below.Delete(h.conn)
		script(context.WithoutCancel(r.Context()), ws, h.conn)
	})
	// Before serve's own cleanup: a server knows nothing of these.
	t.Cleanup(func() { below.Range(func(c, _ any) bool { _ = c.(net.Conn).Close(); return true }) })
	return addr
}

// hijacked keeps the connection that is taken from a server.
type hijacked struct {
	http.ResponseWriter
	conn net.Conn
}

// Hijack implements http.Hijacker.
func (h *hijacked) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	h.conn = c
	return c, rw, err
}

// echo sends messages back until n have come or reading ends.
func echo(ctx context.Context, ws *websocket.Conn, n int) error {
	for range n {
		kind, b, err := ws.Read(ctx)
		if err == nil {
			err = ws.Write(ctx, kind, b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const always = 1 << 20

// A WebSocket whose messages all come back, and which is closed as it should be,
// is ok, and the server's end is heard.
func TestWebSocket(t *testing.T) {
	noLeaks(t)
	for _, proto := range flow.WebSocket.Protocols() {
		for _, delay := range []time.Duration{0, 10 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s/%s", proto, delay), func(t *testing.T) {
				t.Parallel()
				ends := make(chan error, 3)
				addr := serveWebSocket(t, proto, func(ctx context.Context, ws *websocket.Conn, _ net.Conn) { ends <- echo(ctx, ws, always) })
				p := webSocketFor(proto, 2*work.MessageEvery)
				p.Delay = delay
				st, r := idleStream(t, testStream(addr, p), 3)
				for i := range 3 {
					st.attempts.Go(func() { st.attempt(timeline.Monotonic(), int64(i)) })
				}
				st.attempts.Wait()
				for _, s := range r.all() {
					bytes := int64(len(s.ID)+2) * 3
					want{timeline.OK, timeline.PhaseDone, 101, bytes, false}.check(t, s)
					if s.Want != bytes || s.Server != "pod-1" || s.Nth != 1 || s.Err != "" || s.End-s.Start < p.Takes || s.First < s.Sent || s.Sent < s.Dial {
						t.Error(text(s))
					}
					if end := <-ends; websocket.CloseStatus(end) != websocket.StatusNormalClosure {
						t.Errorf("the server's last word: %v", end)
					}
					told := []string{"ws.close code=1000", "fin"}
					if proto.Secure() {
						told = []string{"ws.close code=1000", "close-notify", "fin"}
					}
					gomega.NewWithT(t).Eventually(func() []string { return r.told(s.Conn) }).WithTimeout(patience).
						Should(gomega.HaveExactElements(append(told, "close why=answered-close")))
				}
			})
		}
	}
}

// How a WebSocket ends before its time is told apart.
func TestWebSocketOutcomes(t *testing.T) {
	noLeaks(t)
	long := 10 * patience // it is ended before
	status := func(code websocket.StatusCode) func(context.Context, *websocket.Conn, net.Conn) {
		return func(ctx context.Context, ws *websocket.Conn, _ net.Conn) {
			_ = echo(ctx, ws, 1)
			_ = ws.Close(code, "so")
		}
	}
	for name, c := range map[string]struct {
		takes   time.Duration
		outcome timeline.Outcome
		frames  []string // at least, and first
		script  func(ctx context.Context, ws *websocket.Conn, below net.Conn)
	}{
		"closed with 1001":      {long, timeline.CloseFrame, []string{"ws.close code=1001"}, status(websocket.StatusGoingAway)},
		"closed with 1012":      {long, timeline.CloseFrame, []string{"ws.close code=1012"}, status(websocket.StatusServiceRestart)},
		"closed with 1000":      {long, timeline.CloseFrame, []string{"ws.close code=1000"}, status(websocket.StatusNormalClosure)},
		"closed without a code": {long, timeline.CloseFrame, []string{"ws.close code=1005"}, status(websocket.StatusNoStatusRcvd)},
		"fin": {long, timeline.Truncated, []string{"fin"}, func(ctx context.Context, ws *websocket.Conn, below net.Conn) {
			_ = echo(ctx, ws, 1)
			_ = below.(*net.TCPConn).CloseWrite()
			_ = echo(ctx, ws, always)
		}},
		"fin in a frame": {long, timeline.Truncated, []string{"fin"}, func(ctx context.Context, ws *websocket.Conn, below net.Conn) {
			_ = echo(ctx, ws, 1)
			_, _ = below.Write([]byte{0x81})
			_ = below.(*net.TCPConn).CloseWrite()
			_ = echo(ctx, ws, always)
		}},
		"rst": {long, timeline.Reset, []string{"rst"}, func(ctx context.Context, ws *websocket.Conn, below net.Conn) {
			_ = echo(ctx, ws, 1)
			reset(below.(*net.TCPConn))
		}},
		"another echo": {long, timeline.Corrupt, nil, func(ctx context.Context, ws *websocket.Conn, _ net.Conn) {
			if kind, _, err := ws.Read(ctx); err == nil {
				_ = ws.Write(ctx, kind, []byte("oh"))
			}
			_ = echo(ctx, ws, always)
		}},
		"no frame of the protocol": {long, timeline.Malformed, nil, func(ctx context.Context, ws *websocket.Conn, below net.Conn) {
			_, _ = below.Write([]byte{0xff, 0, 0, 0})
			_ = echo(ctx, ws, always)
		}},
		"no answer to the close": {work.MessageEvery, timeline.Truncated, []string{"fin"}, func(ctx context.Context, ws *websocket.Conn, below net.Conn) {
			_ = echo(ctx, ws, 2)
			_ = below.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, below)
		}},
		"a close of its own that crosses": {work.MessageEvery, timeline.OK, []string{"ws.close code=1001"}, func(ctx context.Context, ws *websocket.Conn, below net.Conn) {
			_ = echo(ctx, ws, 2)
			// The client has begun to close when its frame is here.
			_, _ = io.ReadFull(below, make([]byte, 1))
			_, _ = below.Write([]byte{0x88, 2, 1001 >> 8, 1001 & 0xff})
			_ = below.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, below)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, r := idleStream(t, testStream(serveWebSocket(t, flow.HTTP1, c.script), webSocketFor(flow.HTTP1, c.takes)), 1)
			st.attempt(timeline.Monotonic(), 0)
			s := r.all()[0]
			phase := timeline.PhaseBody
			if c.outcome == timeline.OK {
				phase = timeline.PhaseDone
			}
			if s.Outcome != c.outcome || s.Phase != phase || s.Status != 101 || s.Server != "pod-1" {
				t.Error(text(s))
			}
			if told := r.told(s.Conn); len(told) < len(c.frames) || !slices.Equal(told[:len(c.frames)], c.frames) {
				t.Errorf("told %q, want %q", told, c.frames)
			}
		})
	}
}

// A peer that answers nothing more is a timeout, and one that the stream's own
// end cuts off is no evidence.
func TestWebSocketSilence(t *testing.T) {
	noLeaks(t)
	for name, c := range map[string]struct {
		outcome timeline.Outcome
		stop    bool
	}{"timeout": {timeline.Timeout, false}, "stopped": {timeline.Cancelled, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun := make(chan struct{})
			addr := serveWebSocket(t, flow.HTTP1, func(ctx context.Context, ws *websocket.Conn, below net.Conn) {
				_ = echo(ctx, ws, 1)
				close(begun)
				_, _ = io.Copy(io.Discard, below)
			})
			s := testStream(addr, webSocketFor(flow.HTTP1, 4*work.MessageEvery))
			if !c.stop {
				s.Timeout = time.Second
			}
			ctx, kill := context.WithCancel(t.Context())
			defer kill()
			var r recording
			to, err := check(s)
			if err != nil {
				t.Fatal(err)
			}
			st, err := newStream(ctx, s, to, r.emit)
			if err != nil {
				t.Fatal(err)
			}
			st.attempts.Go(func() { st.attempt(timeline.Monotonic(), 0) })
			if c.stop {
				<-begun
				kill()
			}
			st.attempts.Wait()
			st.stop()
			st.finish()
			if got := r.all()[0]; got.Outcome != c.outcome {
				t.Error(text(got))
			}
		})
	}
}

// An upgrade that is not agreed to is a reply like any other.
func TestWebSocketRefused(t *testing.T) {
	noLeaks(t)
	for name, c := range map[string]struct {
		want  want
		reply string
	}{
		"503":       {want{timeline.Status, timeline.PhaseBody, 503, 0, true}, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"},
		"elsewhere": {want{timeline.Status, timeline.PhaseBody, 302, 0, false}, "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"},
		"200":       {want{timeline.Status, timeline.PhaseBody, 200, 0, false}, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno"},
		"another's": {want{timeline.Malformed, timeline.PhaseFirstByte, 101, 0, false}, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"},
		"a 101 that says close": {want{timeline.Malformed, timeline.PhaseFirstByte, 101, 0, false},
			"HTTP/1.1 101 Switching Protocols\r\nConnection: close\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"},
		"closed":         {want{timeline.Closed, timeline.PhaseFirstByte, 0, 0, false}, ""},
		"half an answer": {want{timeline.Truncated, timeline.PhaseFirstByte, 0, 0, false}, "HTTP/1.1 101 Swi"},
		"no HTTP":        {want{timeline.Malformed, timeline.PhaseFirstByte, 0, 0, false}, "SSH-2.0-OpenSSH_9.2\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests sync.Map
			addr := accept(t, func(n int, conn *net.TCPConn) {
				if _, err := (farEnd{conn, conn}).request(); err == nil {
					requests.Store(n, nil)
					_, _ = io.WriteString(conn, c.reply)
				}
			})
			st, r := idleStream(t, testStream(addr, webSocketFor(flow.HTTP1, patience)), 1)
			st.attempt(timeline.Monotonic(), 0)
			c.want.check(t, r.all()[0])
			n := 0
			requests.Range(func(any, any) bool { n++; return true })
			if n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// half reads what comes first of a header.
func half(c io.Reader) (string, error) {
	b := make([]byte, 1<<10)
	n, err := c.Read(b)
	return string(b[:n]), err
}

// The two halves of a header are so far apart as the profile says, by a bubble's
// clock: to who reads a socket late they are one.
func TestHalvesApart(t *testing.T) {
	const apart = 300 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		f, server := inMemory(t, 0)
		s, _ := unpaced(t, testStream("127.0.0.1:80", load.Profile{Flow: flow.Flow{Protocol: flow.HTTP1, Conns: flow.New, Op: flow.HalfHeader, Takes: apart}}))
		l := linked(t, s, f)
		var serving sync.WaitGroup
		serving.Go(func() {
			first, err := half(server)
			begun := time.Now()
			rest, restErr := half(server)
			took := time.Since(begun)
			if err = errors.Join(err, restErr); err != nil || took != apart || first == "" || strings.Contains(first, "\r\n\r\n") || !strings.HasSuffix(rest, "\r\n\r\n") {
				t.Errorf("%q, and %s later %q: %v", first, took, rest, err)
			}
			answered(t, server, first+rest)
		})
		if a, _ := tried(t.Context(), s, l); a.Outcome != timeline.OK {
			t.Error(text(a.Sample))
		}
		l.close()
		serving.Wait()
	})
}

// A belated request comes whole, so long after its connection as the profile says.
func TestBelated(t *testing.T) {
	const after = 300 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		f, server := inMemory(t, 0)
		s, _ := unpaced(t, testStream("127.0.0.1:80", load.Profile{Flow: flow.Flow{Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Belated, Takes: after}}))
		begun := time.Now()
		l := linked(t, s, f)
		var serving sync.WaitGroup
		serving.Go(func() {
			all, err := half(server)
			if took := time.Since(begun); err != nil || took != after || !strings.HasSuffix(all, "\r\n\r\n") {
				t.Errorf("%q after %s: %v", all, took, err)
			}
			answered(t, server, all)
		})
		if a, _ := tried(t.Context(), s, l); a.Outcome != timeline.OK {
			t.Error(text(a.Sample))
		}
		l.close()
		serving.Wait()
	})
}

// answered answers the request of a header.
func answered(t *testing.T, c io.Writer, header string) {
	t.Helper()
	req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(header)))
	if err != nil {
		t.Errorf("%q: %v", header, err)
		return
	}
	_, _ = io.WriteString(c, answer(req.Header.Get(work.HeaderID), 256, "200 OK", "Content-Length: 256"))
}

// What comes between the halves of a header is heard, and what comes behind them.
func TestHalfHeader(t *testing.T) {
	noLeaks(t)
	const apart = 300 * time.Millisecond
	// whole reads a header, in as many parts as it comes.
	whole := func(c net.Conn) string {
		all := ""
		for !strings.HasSuffix(all, "\r\n\r\n") {
			part, err := half(c)
			if all += part; err != nil {
				t.Errorf("%q: %v", all, err)
				return all
			}
		}
		return all
	}
	for name, c := range map[string]struct {
		takes time.Duration
		proto flow.Protocol
		want  want
		sent  bool
		serve func(c net.Conn, tcp *net.TCPConn)
	}{
		"answered":        {apart, flow.HTTP1, want{timeline.OK, timeline.PhaseDone, 200, 256, false}, true, func(c net.Conn, _ *net.TCPConn) { answered(t, c, whole(c)) }},
		"answered in TLS": {apart, flow.TLS1, want{timeline.OK, timeline.PhaseDone, 200, 256, false}, true, func(c net.Conn, _ *net.TCPConn) { answered(t, c, whole(c)) }},
		"closed": {patience, flow.HTTP1, want{timeline.Closed, timeline.PhaseWrite, 0, 0, false}, false, func(c net.Conn, tcp *net.TCPConn) {
			_, _ = half(c)
			_ = tcp.CloseWrite()
		}},
		"reset": {patience, flow.HTTP1, want{timeline.Reset, timeline.PhaseWrite, 0, 0, false}, false, func(c net.Conn, tcp *net.TCPConn) {
			_, _ = half(c)
			reset(tcp)
		}},
		"answered early": {patience, flow.HTTP1, want{timeline.Status, timeline.PhaseDone, 408, 0, true}, false, func(c net.Conn, _ *net.TCPConn) {
			_, _ = half(c)
			_, _ = io.WriteString(c, "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		}},
		"closed behind the rest": {apart, flow.HTTP1, want{timeline.Closed, timeline.PhaseFirstByte, 0, 0, false}, true, func(c net.Conn, tcp *net.TCPConn) {
			whole(c)
			_ = tcp.CloseWrite()
		}},
		"half an answer": {apart, flow.HTTP1, want{timeline.Truncated, timeline.PhaseBody, 200, 9, false}, true, func(c net.Conn, _ *net.TCPConn) {
			_, id, _ := strings.Cut(whole(c), work.HeaderID+": ")
			id, _, _ = strings.Cut(id, "\r")
			_, _ = io.WriteString(c, answer(id, 9, "200 OK", "Content-Length: 256"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := accept(t, func(_ int, tcp *net.TCPConn) {
				e := newFarEnd(tcp, c.proto)
				c.serve(e, tcp)
				_ = e.CloseWrite()
				_, _ = io.Copy(io.Discard, tcp)
			})
			st, r := idleStream(t, testStream(addr, load.Profile{Flow: flow.Flow{Protocol: c.proto, Conns: flow.New, Op: flow.HalfHeader, Takes: c.takes}}), 1)
			st.attempt(timeline.Monotonic(), 0)
			s := r.all()[0]
			c.want.check(t, s)
			if (s.Sent > 0) != c.sent || c.sent && s.Sent-s.Dial < c.takes {
				t.Error(text(s))
			}
		})
	}
}
