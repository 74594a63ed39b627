// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/onsi/gomega/gleak"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/work"
)

// slack is by how much this machine may be late where a test has an upper
// bound.
const slack = 150 * time.Millisecond

// dialFar opens a far connection to a script that runs on the server's end.
func dialFar(t *testing.T, delay time.Duration, script func(c *net.TCPConn)) *far {
	t.Helper()
	addr := accept(t, func(_ int, c *net.TCPConn) { script(c) })
	s := &stream{ctx: t.Context(), Stream: testStream(addr, load.Profile{Protocol: load.HTTP1, Conns: load.New, Op: load.Get, Delay: delay})}
	s.addr, _ = check(s.Stream)
	w, err := s.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Before accept's own cleanup, which waits for the script.
	t.Cleanup(func() { _ = w.Close(); s.pumps.Wait() })
	return w.(*far)
}

// about fails the test if d is not at least want, or far above.
func about(t *testing.T, what string, d, want time.Duration) {
	t.Helper()
	if d < want || d > want+slack {
		t.Errorf("%s took %v, want %v and little more", what, d, want)
	}
}

// Every operation takes as many trips as it has.
func TestDelay(t *testing.T) {
	const delay = 20 * time.Millisecond
	noLeaks(t)
	for _, proto := range []load.Protocol{load.HTTP1, load.H2C} {
		for _, conns := range []load.Conns{load.New, load.Reused} {
			for _, op := range []load.Op{load.Get, load.Slow, load.Upload, load.Continue} {
				p := load.Profile{Protocol: proto, Conns: conns, Op: op, Delay: delay}
				if op != load.Get {
					p.Takes = 120 * time.Millisecond
				}
				t.Run(string(proto)+"/"+string(conns)+"/"+string(op), func(t *testing.T) {
					t.Parallel()
					addr, _ := serve(t, backend)
					reused := 0
					for _, s := range record(t, testStream(addr, p), 40) {
						if s.Outcome != timeline.OK || s.Saturated {
							t.Fatalf("not ok: %s", text(s))
						}
						if s.Nth > 1 {
							reused++
						} else if d := s.Dial - s.Start; d < 2*delay {
							t.Errorf("connected after %v: %s", d, text(s))
						}
						if d := s.First - s.Sent; d < 2*delay {
							t.Errorf("answered after %v: %s", d, text(s))
						}
						trips := 2
						if op == load.Continue {
							trips = 4
						}
						if d := s.End - max(s.Start, s.Dial); d < time.Duration(trips)*delay+p.Takes {
							t.Errorf("over after %v: %s", d, text(s))
						}
					}
					if conns == load.Reused && reused == 0 {
						t.Error("no connection was used again")
					}
				})
			}
		}
	}
}

// The stream is done when its far connections are: nothing is left behind.
func TestDelayLeavesNothing(t *testing.T) {
	for _, proto := range []load.Protocol{load.HTTP1, load.H2C} {
		noLeaks(t)
		addr := accept(t, func(_ int, c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) })
		s := testStream(addr, load.Profile{Protocol: proto, Conns: load.New, Op: load.Get, Delay: 50 * time.Millisecond})
		s.Timeout = 300 * time.Millisecond
		ctx, cancel := context.WithCancel(t.Context())
		h, err := Generator{}.Start(ctx, s, func(timeline.Sample) {})
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(250 * time.Millisecond)
		cancel()
		<-h.Done()
		for _, g := range gleak.Goroutines() {
			if strings.Contains(g.Backtrace, "(*far)") {
				t.Errorf("left behind: %s", g.Backtrace)
			}
		}
	}
}

// A refusal is known two trips later.
func TestDelayedRefusal(t *testing.T) {
	const delay = 30 * time.Millisecond
	noLeaks(t)
	l := listen(t)
	addr := l.Addr().String()
	_ = l.Close()
	for _, x := range record(t, testStream(addr, load.Profile{Protocol: load.HTTP1, Conns: load.New, Op: load.Get, Delay: delay}), 5) {
		want{outcome: timeline.Refused, phase: timeline.PhaseDial}.check(t, x)
		about(t, "the refusal", x.End-x.Start, 2*delay)
	}
}

// An answer that is on its way when the budget ends has not come.
func TestDelayedAnswerIsTooLate(t *testing.T) {
	noLeaks(t)
	addr := accept(t, func(_ int, c *net.TCPConn) {
		br := bufio.NewReader(c)
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		// Connected after 200 ms, asked after 300; the answer would come
		// after 430, and the budget is 400.
		<-time.After(30 * time.Millisecond)
		fmt.Fprint(c, answer(req.Header.Get(work.HeaderID), 256, "200 OK", "Content-Length: 256"))
		_, _ = br.ReadByte()
	})
	s := testStream(addr, load.Profile{Protocol: load.HTTP1, Conns: load.New, Op: load.Get, Delay: 100 * time.Millisecond})
	s.Timeout = 400 * time.Millisecond
	for _, x := range record(t, s, 5) {
		want{outcome: timeline.Timeout, phase: timeline.PhaseFirstByte}.check(t, x)
	}
}

// idler answers each request and closes the connection when it has been idle
// for a while, however that meets the next request.
func idler(t *testing.T, proto load.Protocol, idle func() time.Duration, closed func(c *net.TCPConn)) string {
	t.Helper()
	return accept(t, func(_ int, c *net.TCPConn) {
		var next func() error
		if proto == load.H2C {
			p, err := newPeer(c)
			if err != nil {
				return
			}
			next = func() error {
				s, id, err := p.request()
				if err == nil {
					p.header(s, 200, 256, false)
					p.body(s, id, 256, true)
				}
				return err
			}
		} else {
			br := bufio.NewReader(c)
			next = func() error {
				req, err := http.ReadRequest(br)
				if err == nil {
					fmt.Fprint(c, answer(req.Header.Get(work.HeaderID), 256, "200 OK", "Content-Length: 256"))
				}
				return err
			}
		}
		for {
			if err := next(); err != nil {
				closed(c)
				return
			}
			_ = c.SetReadDeadline(time.Now().Add(idle()))
		}
	})
}

// The race that loopback hides: a server closes an idle connection under a
// request on its way, and the client can't know.
func TestRequestMeetsFIN(t *testing.T) {
	for _, proto := range []load.Protocol{load.HTTP1, load.H2C} {
		t.Run(string(proto), func(t *testing.T) {
			noLeaks(t)
			// The pool uses a connection again after 16 slots of 10 ms.
			idle := func() time.Duration { return 100*time.Millisecond + rand.N(100*time.Millisecond) }
			addr := idler(t, proto, idle, func(*net.TCPConn) {})
			p := reused(proto)
			p.Delay = 20 * time.Millisecond
			races := 0
			for _, s := range record(t, testStream(addr, p), 400) {
				if s.Outcome == timeline.OK {
					continue
				}
				// Over loopback the FIN is seen before each use; and a
				// connection of its own is never idle.
				if s.Nth < 2 || s.Phase != timeline.PhaseFirstByte || s.Outcome != timeline.Closed && s.Outcome != timeline.Reset {
					t.Fatalf("no race: %s", text(s))
				}
				races++
			}
			if races < 10 {
				t.Errorf("%d requests met a FIN, want 10 at least of 400", races)
			}
			t.Logf("%d requests met a FIN", races)
		})
	}
}

// One such race, step by step: the FIN leaves before the request does, and is
// seen after it.
func TestRequestMeetsFINOnce(t *testing.T) {
	const delay = 200 * time.Millisecond
	noLeaks(t)
	for _, proto := range []load.Protocol{load.HTTP1, load.H2C} {
		t.Run(string(proto), func(t *testing.T) {
			t.Parallel()
			fin := make(chan time.Duration, 1)
			addr := idler(t, proto, func() time.Duration { return delay / 2 }, func(c *net.TCPConn) {
				fin <- timeline.Monotonic()
				_ = c.CloseWrite()
				_ = c.SetReadDeadline(time.Time{})
				_, _ = io.Copy(io.Discard, c)
			})
			p := reused(proto)
			p.Delay = delay
			s := &stream{Stream: testStream(addr, p), ctx: t.Context(), dest: addr}
			s.addr, _ = check(s.Stream)
			s.form = newForm(s.Stream, addr)
			l, err := s.dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer s.pumps.Wait()
			defer l.close()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			a := []*attempt{{stream: s}, {stream: s}}
			for i, a := range a {
				a.ID, a.Start = fmt.Sprint("race-", i), timeline.Monotonic()
				a.Phase = timeline.PhaseWrite
				if fate := l.try(ctx, a, i+1); (fate == keep) != (i == 0) {
					t.Fatalf("attempt %d: %s", i, text(a.Sample))
				}
				if i > 0 {
					break
				}
				if st := l.state(); st != fresh {
					t.Fatalf("state %v, with the FIN on its way", st)
				}
			}
			want{timeline.OK, timeline.PhaseDone, 200, 256, false}.check(t, a[0].Sample)
			want{outcome: timeline.Closed, phase: timeline.PhaseFirstByte}.check(t, a[1].Sample)
			at := <-fin
			if a[1].Sent < at {
				t.Errorf("sent %v before the FIN: no race", at-a[1].Sent)
			}
			about(t, "the FIN", a[1].End-at, delay)
		})
	}
}

// An idle connection is over when the FIN has come, not when it has left.
func TestStateIsDelayed(t *testing.T) {
	const delay = 300 * time.Millisecond
	noLeaks(t)
	for name, c := range map[string]struct {
		script func(c *net.TCPConn)
		want   state
	}{
		"fin":  {func(c *net.TCPConn) { _ = c.CloseWrite() }, stale},
		"rst":  {reset, stale},
		"data": {func(c *net.TCPConn) { fmt.Fprint(c, "x") }, unread},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			left := make(chan time.Time, 1)
			over := make(chan struct{})
			f := dialFar(t, delay, func(conn *net.TCPConn) {
				left <- time.Now()
				c.script(conn)
				<-over
			})
			defer close(over)
			// The kernel's handshake ends a trip before the client's.
			at := <-left
			for f.peek() == fresh {
				<-time.After(time.Millisecond)
			}
			// By less than this, the script's own stamp is early.
			if d := time.Since(at); d < delay {
				t.Errorf("seen after %v", d)
			}
			if got := f.peek(); got != c.want {
				t.Errorf("state %v, want %v", got, c.want)
			}
		})
	}
}

// What is written arrives whole and in order, and goes back so.
func TestDelayKeepsBytes(t *testing.T) {
	const size = 3 << 20
	noLeaks(t)
	sent := make([]byte, size)
	for i := range sent {
		sent[i] = byte(rand.Uint32())
	}
	f := dialFar(t, 5*time.Millisecond, func(c *net.TCPConn) { _, _ = io.Copy(c, io.LimitReader(c, size)) })
	var wg sync.WaitGroup
	wg.Go(func() {
		for p := sent; len(p) > 0; {
			n := min(1+rand.IntN(100<<10), len(p))
			if _, err := f.Write(p[:n]); err != nil {
				t.Error(err)
				return
			}
			p = p[n:]
		}
	})
	got, err := io.ReadAll(f)
	wg.Wait()
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes of %d, %v", len(got), size, err)
	}
}

// What nobody reads, or can't be sent, stays where it is.
func TestDelayIsBounded(t *testing.T) {
	noLeaks(t)
	f := dialFar(t, 10*time.Millisecond, func(c *net.TCPConn) {
		b := make([]byte, 64<<10)
		for {
			if _, err := c.Write(b); err != nil {
				return
			}
		}
	})
	_ = f.SetWriteDeadline(time.Now().Add(700 * time.Millisecond))
	written := 0
	for {
		n, err := f.Write(make([]byte, 100<<10))
		written += n
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil || written > 100<<20 {
			t.Fatalf("%d bytes written to a peer that reads none: %v", written, err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.out.bytes > window || f.in.bytes < window || f.in.bytes > window+4096 {
		t.Errorf("%d bytes on their way out and %d in, the window is %d", f.out.bytes, f.in.bytes, window)
	}
}

// A close comes behind what was written, and is an RST if something was left
// unread.
func TestDelayedClose(t *testing.T) {
	const delay = 100 * time.Millisecond
	noLeaks(t)
	for name, unread := range map[string]bool{"fin": false, "rst": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			type end struct {
				got string
				err error
				at  time.Time
			}
			ended := make(chan end, 1)
			f := dialFar(t, delay, func(c *net.TCPConn) {
				if unread {
					fmt.Fprint(c, "hello")
				}
				var e end
				b, err := io.ReadAll(c)
				e.got, e.err, e.at = string(b), err, time.Now()
				ended <- e
			})
			for unread && f.peek() == fresh {
				<-time.After(time.Millisecond)
			}
			if _, err := f.Write([]byte("bye")); err != nil {
				t.Fatal(err)
			}
			at := time.Now()
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			if d := time.Since(at); d > delay/2 {
				t.Errorf("Close took %v", d)
			}
			if _, err := f.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
				t.Errorf("a write after Close: %v", err)
			}
			if _, err := f.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
				t.Errorf("a read after Close: %v", err)
			}
			if f.peek() != stale {
				t.Error("a closed connection is not stale")
			}
			e := <-ended
			about(t, "the close", e.at.Sub(at), delay)
			if unread != errors.Is(e.err, syscall.ECONNRESET) || !unread && e.got != "bye" {
				t.Errorf("the server got %q, %v", e.got, e.err)
			}
		})
	}
}

// A blocked read ends at the deadline, which may be set while it waits, and
// at Close.
func TestDelayedDeadline(t *testing.T) {
	noLeaks(t)
	f := dialFar(t, time.Millisecond, func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) })
	for _, c := range []struct {
		end  func()
		want error
	}{
		{func() { _ = f.SetDeadline(time.Now()) }, os.ErrDeadlineExceeded},
		{func() { _ = f.Close() }, net.ErrClosed},
	} {
		_ = f.SetDeadline(time.Time{})
		done := make(chan error, 1)
		go func() { _, err := f.Read(make([]byte, 1)); done <- err }()
		pause()
		c.end()
		if err := <-done; !errors.Is(err, c.want) {
			t.Errorf("%v, want %v", err, c.want)
		}
	}
}

// The kernel has one error for a reset, and whoever comes first takes it.
func TestWriteTookTheReset(t *testing.T) {
	rst := &net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.ECONNRESET)}
	pipe := &net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.EPIPE)}
	for name, c := range map[string]struct {
		tell func(f *far)
		want error
	}{
		"the write first":    {func(f *far) { f.sendFailed(rst); f.received(nil, io.EOF) }, syscall.ECONNRESET},
		"the read first":     {func(f *far) { f.received(nil, io.EOF); f.sendFailed(rst) }, syscall.ECONNRESET},
		"an RST after a FIN": {func(f *far) { f.received(nil, io.EOF); f.sendFailed(pipe) }, io.EOF},
		"the read takes it":  {func(f *far) { f.received(nil, rst); f.sendFailed(pipe) }, syscall.ECONNRESET},
	} {
		f := &far{changed: make(chan struct{})}
		c.tell(f)
		if _, err := f.Read(make([]byte, 1)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if _, err := f.Write([]byte("x")); outcome(err) != timeline.Reset {
			t.Errorf("%s: a write ends with %v", name, err)
		}
	}
}
