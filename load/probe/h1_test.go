// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/load/work"
)

// want is what a sample must say.
type want struct {
	outcome timeline.Outcome
	phase   timeline.Phase
	status  int
	got     int64
	last    bool
}

func (w want) check(t *testing.T, s timeline.Sample) {
	t.Helper()
	if s.Outcome != w.outcome || s.Phase != w.phase || s.Status != w.status || s.Got != w.got || s.LastOnConn != w.last {
		t.Errorf("want %+v, sample %s", w, text(s))
	}
	if s.Outcome != timeline.OK && s.Err == "" {
		t.Errorf("no error text: %s", text(s))
	}
	if s.End == 0 || s.End < s.Start || s.ID == "" {
		t.Errorf("incomplete: %s", text(s))
	}
}

// reset closes a connection with an RST.
func reset(c lingering) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// arrived waits until the other end's kernel has what was written: an RST would
// take it away.
func arrived(t *testing.T, c lingering) {
	queued(t, c, unix.TIOCOUTQ, func(n int) bool { return n == 0 })
}

// ignored waits until something is there that nobody has read: a close above it is an RST.
func ignored(t *testing.T, c lingering) {
	queued(t, c, unix.TIOCINQ, func(n int) bool { return n > 0 })
}

// queued waits until one of a socket's queues is so long.
func queued(t *testing.T, c lingering, which uint, long func(int) bool) {
	rc, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Error(err)
		return
	}
	for so := false; !so && err == nil; <-time.After(time.Millisecond) {
		cerr := rc.Control(func(fd uintptr) {
			var n int
			n, err = unix.IoctlGetInt(int(fd), which)
			so = long(n)
		})
		if cerr != nil {
			return
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// answer is a reply with the given header lines and the first n bytes of the
// right body.
func answer(id string, n int64, lines ...string) string {
	b, _ := io.ReadAll(work.Body(id, n))
	return "HTTP/1.1 " + strings.Join(lines, "\r\n") + "\r\n\r\n" + string(b)
}

func TestHTTP1Outcomes(t *testing.T) {
	get := load.Profile{Flow: flow.Flow{Protocol: flow.HTTP1, Op: flow.Get}}
	chunked := load.Profile{Flow: flow.Flow{Protocol: flow.HTTP1, Op: flow.Chunked, Takes: 10 * time.Millisecond}}
	up := load.Profile{Flow: flow.Flow{Protocol: flow.HTTP1, Op: flow.Upload, Takes: 20 * time.Millisecond}}
	// Its end never comes: it is cut before.
	long := load.Profile{Flow: flow.Flow{Protocol: flow.HTTP1, Op: flow.Upload, Takes: patience}}
	cont := load.Profile{Flow: flow.Flow{Protocol: flow.HTTP1, Op: flow.Continue, Takes: 20 * time.Millisecond}}
	ok := "200 OK"
	for name, c := range map[string]struct {
		p    load.Profile
		want want
		// serve handles one request whose header was read; the connection is
		// closed when it returns.
		serve func(c lingering, br *bufio.Reader, id string)
	}{
		"rst before the first byte": {get, want{timeline.Reset, timeline.PhaseFirstByte, 0, 0, false},
			func(c lingering, _ *bufio.Reader, _ string) { reset(c) }},
		"fin before the first byte": {get, want{timeline.Closed, timeline.PhaseFirstByte, 0, 0, false},
			func(lingering, *bufio.Reader, string) {}},
		"fin in the header": {get, want{timeline.Truncated, timeline.PhaseFirstByte, 0, 0, false},
			func(c lingering, _ *bufio.Reader, _ string) { fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Le") }},
		"fin in the body": {get, want{timeline.Truncated, timeline.PhaseBody, 200, 100, false},
			func(c lingering, _ *bufio.Reader, id string) {
				fmt.Fprint(c, answer(id, 100, ok, "Content-Length: 256"))
			}},
		"fin in a body that ends with the connection": {get, want{timeline.Truncated, timeline.PhaseBody, 200, 100, true},
			func(c lingering, _ *bufio.Reader, id string) { fmt.Fprint(c, answer(id, 100, ok)) }},
		"a body that ends with the connection": {get, want{timeline.OK, timeline.PhaseDone, 200, 256, true},
			func(c lingering, _ *bufio.Reader, id string) { fmt.Fprint(c, answer(id, 256, ok)) }},
		"fin in a chunk": {chunked, want{timeline.Truncated, timeline.PhaseBody, 200, 100, false},
			func(c lingering, _ *bufio.Reader, id string) {
				b, _ := io.ReadAll(work.Body(id, 100))
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4000\r\n%s", b)
			}},
		"no last chunk": {chunked, want{timeline.Truncated, timeline.PhaseBody, 200, work.SlowBytes, false},
			func(c lingering, _ *bufio.Reader, id string) {
				b, _ := io.ReadAll(work.Body(id, work.SlowBytes))
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4000\r\n%s\r\n", b)
			}},
		"broken chunk": {chunked, want{timeline.Malformed, timeline.PhaseBody, 200, 0, false},
			func(c lingering, _ *bufio.Reader, _ string) {
				fmt.Fprint(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n")
			}},
		"rst in the body": {get, want{timeline.Reset, timeline.PhaseBody, 200, 100, false},
			func(c lingering, _ *bufio.Reader, id string) {
				fmt.Fprint(c, answer(id, 100, ok, "Content-Length: 256"))
				arrived(t, c)
				reset(c)
			}},
		"other bytes": {get, want{timeline.Corrupt, timeline.PhaseBody, 200, 256, false},
			func(c lingering, _ *bufio.Reader, id string) {
				fmt.Fprint(c, answer(id+"x", 256, ok, "Content-Length: 256"))
			}},
		"other bytes, and then an rst": {get, want{timeline.Corrupt, timeline.PhaseBody, 200, 100, false},
			func(c lingering, _ *bufio.Reader, id string) {
				fmt.Fprint(c, answer(id+"x", 100, ok, "Content-Length: 256"))
				arrived(t, c)
				reset(c)
			}},
		"promised too short": {get, want{timeline.Corrupt, timeline.PhaseBody, 200, 100, false},
			func(c lingering, _ *bufio.Reader, id string) {
				fmt.Fprint(c, answer(id, 100, ok, "Content-Length: 100"))
			}},
		"promised too long": {get, want{timeline.Corrupt, timeline.PhaseBody, 200, 300, false},
			func(c lingering, _ *bufio.Reader, id string) {
				fmt.Fprint(c, answer(id, 300, ok, "Content-Length: 300"))
			}},
		"503": {get, want{timeline.Status, timeline.PhaseDone, 503, 0, true},
			func(c lingering, _ *bufio.Reader, id string) {
				fmt.Fprint(c, answer(id, 10, "503 Service Unavailable", "Connection: close", "Content-Length: 10"))
			}},
		"503 cut short": {get, want{timeline.Status, timeline.PhaseBody, 503, 0, false},
			func(c lingering, _ *bufio.Reader, id string) {
				fmt.Fprint(c, answer(id, 10, "503 Service Unavailable", "Content-Length: 20"))
			}},
		"no HTTP": {get, want{timeline.Malformed, timeline.PhaseFirstByte, 0, 0, false},
			func(c lingering, _ *bufio.Reader, _ string) { fmt.Fprint(c, "SSH-2.0-OpenSSH_9.2\r\n") }},
		"an early hint comes first": {get, want{timeline.OK, timeline.PhaseDone, 200, 256, false},
			func(c lingering, _ *bufio.Reader, id string) {
				fmt.Fprint(c, "HTTP/1.1 103 Early Hints\r\n\r\n"+answer(id, 256, ok, "Content-Length: 256"))
			}},
		"stalled": {get, want{timeline.Timeout, timeline.PhaseFirstByte, 0, 0, false},
			func(c lingering, br *bufio.Reader, _ string) { _, _ = br.ReadByte() }},
		"stalled in the body": {get, want{timeline.Timeout, timeline.PhaseBody, 200, 9, false},
			func(c lingering, br *bufio.Reader, id string) {
				fmt.Fprint(c, answer(id, 9, ok, "Content-Length: 256"))
				_, _ = br.ReadByte()
			}},
		"upload refused early": {long, want{timeline.Status, timeline.PhaseDone, 503, 0, true},
			func(c lingering, br *bufio.Reader, id string) {
				_, _ = br.ReadByte()
				fmt.Fprint(c, answer(id, 0, "503 Service Unavailable", "Connection: close", "Content-Length: 0"))
			}},
		"upload cut by rst": {long, want{timeline.Reset, timeline.PhaseWrite, 0, 0, false},
			func(c lingering, br *bufio.Reader, _ string) { _, _ = br.ReadByte(); reset(c) }},
		"upload cut by fin": {long, want{timeline.Closed, timeline.PhaseWrite, 0, 0, false},
			func(c lingering, br *bufio.Reader, _ string) {
				_ = c.CloseWrite()
				_, _ = io.Copy(io.Discard, br)
			}},
		"upload never answered": {up, want{timeline.Timeout, timeline.PhaseFirstByte, 0, 0, false},
			func(c lingering, br *bufio.Reader, _ string) { _, _ = io.Copy(io.Discard, br) }},
		"upload with a wrong sum": {up, want{timeline.Corrupt, timeline.PhaseBody, 200, work.SlowBytes, true},
			func(c lingering, br *bufio.Reader, _ string) {
				_, _ = io.CopyN(io.Discard, br, work.SlowBytes)
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\n\r\n{\"bytes\":%d,\"sha256\":\"00\"}", work.SlowBytes)
			}},
		"upload that arrived in part": {up, want{timeline.Corrupt, timeline.PhaseBody, 200, 7, true},
			func(c lingering, br *bufio.Reader, _ string) {
				_, _ = io.CopyN(io.Discard, br, work.SlowBytes)
				fmt.Fprint(c, "HTTP/1.1 200 OK\r\n\r\n{\"bytes\":7,\"sha256\":\"00\"}")
			}},
		"upload with no JSON": {up, want{timeline.Corrupt, timeline.PhaseBody, 200, 0, true},
			func(c lingering, br *bufio.Reader, _ string) {
				_, _ = io.CopyN(io.Discard, br, work.SlowBytes)
				fmt.Fprint(c, "HTTP/1.1 200 OK\r\n\r\nthanks")
			}},
		"expectation failed": {cont, want{timeline.Status, timeline.PhaseDone, 417, 0, false},
			func(c lingering, br *bufio.Reader, _ string) {
				fmt.Fprint(c, "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n")
				if _, err := br.ReadByte(); err != io.EOF {
					t.Errorf("body after 417: %v", err)
				}
			}},
		"no 100": {cont, want{timeline.Timeout, timeline.PhaseWrite, 0, 0, false},
			func(c lingering, br *bufio.Reader, _ string) { _, _ = br.ReadByte() }},
		"rst instead of 100": {cont, want{timeline.Reset, timeline.PhaseWrite, 0, 0, false},
			func(c lingering, _ *bufio.Reader, _ string) { reset(c) }},
	} {
		for _, carried := range carriers {
			t.Run(name+"/"+carried.name, func(t *testing.T) {
				noRetry(t, c.p, carried, c.want, func(conn lingering, asked func()) {
					br := bufio.NewReader(conn)
					req, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					asked()
					c.serve(conn, br, req.Header.Get(work.HeaderID))
				})
			})
		}
	}
}

// carrier is how the requests of a test go.
type carrier struct {
	name  string
	conns flow.Conns
	delay time.Duration
}

// carriers are all of them: what a sample says is the same over each.
var carriers = []carrier{
	{"new", flow.New, 0},
	{"reused", flow.Reused, 0},
	{"far", flow.Reused, 10 * time.Millisecond},
}

// noRetry records a few attempts against a server that answers one request on
// each connection, and says when it has come: all have the same outcome, and each
// was made once.
func noRetry(t *testing.T, p load.Profile, c carrier, w want, serve func(c lingering, asked func())) []timeline.Sample {
	t.Helper()
	p.Conns, p.Delay = c.conns, c.delay
	var requests atomic.Int64
	asked := func() { requests.Add(1) }
	if w.outcome == timeline.Timeout {
		x := timedOut(t, p, func(c lingering) { serve(c, asked) })
		w.check(t, x)
		if n := requests.Load(); n != 1 {
			t.Errorf("the server saw %d requests", n)
		}
		return []timeline.Sample{x}
	}
	samples := atOnce(t, testStream(accept(t, func(_ int, c *net.TCPConn) { serve(c, asked) }), p), 3)
	for _, s := range samples {
		w.check(t, s)
		if s.Conn == 0 || s.Nth != 1 || s.Dial == 0 {
			t.Errorf("connection: %s", text(s))
		}
	}
	if n := int(requests.Load()); n != len(samples) {
		t.Errorf("%d samples, the server saw %d requests", len(samples), n)
	}
	return samples
}

// timedOut makes an attempt whose server lets the time pass, by a bubble's clock.
func timedOut(t *testing.T, p load.Profile, serve func(c lingering)) (x timeline.Sample) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f, server := inMemory(t, p.Delay)
		s, r := unpaced(t, testStream("127.0.0.1:80", p))
		l := linked(t, s, f)
		var serving sync.WaitGroup
		serving.Go(func() { serve(server) })
		ctx, cancel := context.WithTimeout(t.Context(), s.budget())
		defer cancel()
		begun := time.Now()
		a, fate := tried(ctx, s, l)
		if took := time.Since(begun); took != s.budget() || fate != drop {
			t.Errorf("given up after %v, fate %v", took, fate)
		}
		if told := r.told(1); len(told) > 0 {
			t.Errorf("the connection told %q", told)
		}
		l.close()
		serving.Wait()
		x = a.Sample
	})
	return x
}
