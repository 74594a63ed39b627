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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onsi/gomega"
	"github.com/onsi/gomega/gleak"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/load/work"
)

// dialFar opens a far connection to a script that runs on the server's end.
func dialFar(t *testing.T, delay time.Duration, script func(c *net.TCPConn)) *far {
	t.Helper()
	addr := accept(t, func(_ int, c *net.TCPConn) { script(c) })
	s := &stream{ctx: t.Context(), Stream: testStream(addr, load.Profile{Flow: flow.Flow{Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get, Delay: delay}})}
	s.addr, _ = check(s.Stream)
	s.dest = addr
	w, err := s.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Before accept's own cleanup, which waits for the script.
	t.Cleanup(func() { _ = w.Close(); s.pumps.Wait() })
	return w.(*far)
}

// memory is one end of a connection that no kernel carries, so that it fits into
// a bubble, where time is exact. What is written waits until it is read.
type memory struct {
	net.Conn // none: this is all that is asked of it
	r        *io.PipeReader
	w        *io.PipeWriter
	rst      atomic.Bool // the close is an RST
}

func memoryPair() (client, server *memory) {
	c, s := &memory{}, &memory{}
	c.r, s.w = io.Pipe()
	s.r, c.w = io.Pipe()
	return c, s
}

func (m *memory) Read(p []byte) (int, error)       { return m.r.Read(p) }
func (m *memory) Write(p []byte) (int, error)      { return m.w.Write(p) }
func (m *memory) CloseWrite() error                { return m.w.Close() }
func (m *memory) SetWriteDeadline(time.Time) error { return nil }
func (m *memory) SetLinger(int) error              { m.rst.Store(true); return nil }

func (m *memory) LocalAddr() net.Addr { return &net.TCPAddr{} }

func (m *memory) Close() error {
	if m.rst.Load() {
		_ = m.w.CloseWithError(syscall.ECONNRESET)
	}
	_ = m.w.Close()
	return m.r.CloseWithError(syscall.EPIPE)
}

// inMemory makes a far connection in memory. Both ends are closed with the test.
func inMemory(t *testing.T, delay time.Duration) (f *far, server *memory) {
	t.Helper()
	client, server := memoryPair()
	var pumps sync.WaitGroup
	f = newFar(client, delay, &pumps)
	t.Cleanup(func() {
		_ = f.Close()
		_ = server.Close()
		pumps.Wait()
	})
	return f, server
}

// carried is what an attempt of a protocol goes over, and its stream.
func carried(t *testing.T, proto flow.Protocol, f *far) (*stream, *link) {
	t.Helper()
	s, _ := unpaced(t, testStream("127.0.0.1:80", reused(proto)))
	l := linked(t, s, f)
	t.Cleanup(l.close)
	return s, l
}

// linked speaks the stream's protocol over a wire.
func linked(t testing.TB, s *stream, w wire) *link {
	t.Helper()
	l := s.newLink(w)
	if err := s.speak(t.Context(), &attempt{stream: s}, l); err != nil {
		t.Fatal(err)
	}
	return l
}

// tried makes an attempt over a link.
func tried(ctx context.Context, s *stream, l *link) (*attempt, fate) {
	a := &attempt{stream: s}
	a.take(l)
	a.ID, a.Start, a.Phase = fmt.Sprint("tried-", a.Nth), timeline.Monotonic(), timeline.PhaseWrite
	return a, l.try(ctx, a)
}

// Every operation takes as many trips as it has.
func TestDelay(t *testing.T) {
	const delay = 20 * time.Millisecond
	noLeaks(t)
	for _, proto := range []flow.Protocol{flow.HTTP1, flow.H2C} {
		for _, conns := range []flow.Conns{flow.New, flow.Reused} {
			for _, op := range []flow.Op{flow.Get, flow.Slow, flow.Upload, flow.Continue} {
				p := load.Profile{Flow: flow.Flow{Protocol: proto, Conns: conns, Op: op, Delay: delay}}
				if op != flow.Get {
					p.Takes = 120 * time.Millisecond
				}
				t.Run(string(proto)+"/"+string(conns)+"/"+string(op), func(t *testing.T) {
					t.Parallel()
					addr, _ := serve(t, proto, backend)
					reused := 0
					// The first 20 may all be in flight at once.
					for _, s := range recordUntil(t, testStream(addr, p), func(all []timeline.Sample) bool {
						return len(all) >= 20 && (conns == flow.New || slices.ContainsFunc(all, func(s timeline.Sample) bool { return s.Nth > 1 }))
					}) {
						if s.Outcome != timeline.OK || s.Saturated {
							t.Fatalf("not ok: %s", text(s))
						}
						if s.Nth > 1 {
							reused++
						} else if d := s.Dial - s.Start; d < 2*delay {
							t.Errorf("connected after %v: %s", d, text(s))
						}
						trips := 2
						if op == flow.Continue {
							trips = 4
						}
						// Not from Sent: it is taken behind a write, and may be late.
						if d := s.First - max(s.Start, s.Dial); d < time.Duration(trips)*delay {
							t.Errorf("answered after %v: %s", d, text(s))
						}
						if d := s.End - max(s.Start, s.Dial); d < time.Duration(trips)*delay+p.Takes {
							t.Errorf("over after %v: %s", d, text(s))
						}
					}
					if conns == flow.Reused && reused == 0 {
						t.Error("no connection was used again")
					}
				})
			}
		}
	}
}

// The stream is done when its far connections are: no pump is left behind.
func TestDelayLeavesNothing(t *testing.T) {
	for _, proto := range []flow.Protocol{flow.HTTP1, flow.H2C} {
		g := noLeaks(t)
		addr := accept(t, func(_ int, c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) })
		s := testStream(addr, load.Profile{Flow: flow.Flow{Protocol: proto, Conns: flow.New, Op: flow.Get, Delay: 50 * time.Millisecond}})
		s.Timeout = 300 * time.Millisecond
		var r recording
		ctx, cancel := context.WithCancel(t.Context())
		h, err := Generator{}.Start(ctx, s, r.emit)
		if err != nil {
			t.Fatal(err)
		}
		// Some have ended by themselves, and the rest is cut.
		g.Eventually(func() int { return len(r.all()) }).WithTimeout(patience).Should(gomega.BeNumerically(">=", 5))
		cancel()
		ended(t, h)
		for _, g := range gleak.Goroutines() {
			if strings.Contains(g.Backtrace, "(*far).send(") || strings.Contains(g.Backtrace, "(*far).receive(") {
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
	for _, x := range record(t, testStream(addr, load.Profile{Flow: flow.Flow{Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get, Delay: delay}}), 5) {
		want{outcome: timeline.Refused, phase: timeline.PhaseDial}.check(t, x)
		if d := x.End - x.Start; d < 2*delay {
			t.Errorf("refused after %v", d)
		}
	}
}

// An answer that is on its way when the budget ends has not come.
func TestDelayedAnswerIsTooLate(t *testing.T) {
	const delay, takes = 100 * time.Millisecond, 30 * time.Millisecond
	for _, proto := range []flow.Protocol{flow.HTTP1, flow.H2C} {
		for budget, want := range map[time.Duration]want{
			2*delay + takes - 1: {outcome: timeline.Timeout, phase: timeline.PhaseFirstByte},
			2*delay + takes + 1: {timeline.OK, timeline.PhaseDone, 200, 256, false},
		} {
			synctest.Test(t, func(t *testing.T) {
				f, server := inMemory(t, delay)
				go idler(server, proto, takes, time.Hour)
				s, l := carried(t, proto, f)
				// What comes before the first request is over.
				<-time.After(time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), budget)
				defer cancel()
				a, _ := tried(ctx, s, l)
				want.check(t, a.Sample)
			})
		}
	}
}

// idler answers each request after a while, and ends the connection when it has
// been idle, however that meets the next request.
func idler(c *memory, proto flow.Protocol, takes, idle time.Duration) {
	var answered func() error // reads a request, and answers it
	if proto == flow.H2C {
		p, err := newPeer(c)
		if err != nil {
			return
		}
		answered = func() error {
			s, id, err := p.request()
			if err == nil {
				<-time.After(takes)
				p.header(s, 200, 256, false)
				p.body(s, id, 256, true)
			}
			return err
		}
	} else {
		br := bufio.NewReader(c)
		answered = func() error {
			req, err := http.ReadRequest(br)
			if err == nil {
				<-time.After(takes)
				fmt.Fprint(c, answer(req.Header.Get(work.HeaderID), 256, "200 OK", "Content-Length: 256"))
			}
			return err
		}
	}
	if answered() != nil {
		return
	}
	next := make(chan error, 1)
	go func() { next <- answered() }()
	select {
	case <-next:
	case <-time.After(idle):
	}
	_ = c.CloseWrite()
	_, _ = io.Copy(io.Discard, c)
}

// The race that loopback hides: a server closes an idle connection under a
// request on its way, and the client can't know.
func TestRequestMeetsFIN(t *testing.T) {
	const delay = 20 * time.Millisecond
	for _, proto := range []flow.Protocol{flow.HTTP1, flow.H2C} {
		t.Run(string(proto), func(t *testing.T) {
			seen := map[string]int{}
			for range 200 {
				// The server's idle time is odd and the client's even, in
				// milliseconds: neither comes in the same instant.
				idle := time.Duration(2*rand.IntN(75)+1) * time.Millisecond
				gap := time.Duration(2*rand.IntN(50)+2) * time.Millisecond
				what := fmt.Sprintf("closed when idle for %v, used again after %v", idle, gap)
				synctest.Test(t, func(t *testing.T) {
					f, server := inMemory(t, delay)
					go idler(server, proto, 0, idle)
					s, l := carried(t, proto, f)
					first, fate := tried(t.Context(), s, l)
					want{timeline.OK, timeline.PhaseDone, 200, 256, false}.check(t, first.Sample)
					if fate != keep {
						t.Fatalf("%s: fate %v", what, fate)
					}
					answered := time.Now()
					<-time.After(gap)
					synctest.Wait()
					// The answer left a trip ago, and the FIN needs one too.
					if gap > idle {
						seen["before"]++
						if st := l.state(); st != stale {
							t.Errorf("%s: state %v, and the FIN has come", what, st)
						}
						return
					}
					if st := l.state(); st != fresh {
						t.Fatalf("%s: state %v, and no FIN has come", what, st)
					}
					second, fate := tried(t.Context(), s, l)
					if gap+2*delay < idle {
						seen["after"]++
						want{timeline.OK, timeline.PhaseDone, 200, 256, false}.check(t, second.Sample)
						return
					}
					seen["meanwhile"]++
					want{outcome: timeline.Closed, phase: timeline.PhaseFirstByte}.check(t, second.Sample)
					if took := time.Since(answered); took != idle || fate != drop {
						t.Errorf("%s: ended %v after the answer, fate %v", what, took, fate)
					}
				})
			}
			if seen["before"] == 0 || seen["meanwhile"] == 0 || seen["after"] == 0 {
				t.Errorf("the FIN came: %v", seen)
			}
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
		"rst":  {func(c *net.TCPConn) { reset(c) }, stale},
		"data": {func(c *net.TCPConn) { fmt.Fprint(c, "x") }, unread},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			left := make(chan time.Time, 1)
			// An RST that comes at once can be there before connect has returned.
			opened, over := make(chan struct{}), make(chan struct{})
			open := sync.OnceFunc(func() { close(opened) })
			defer close(over)
			defer open()
			f := dialFar(t, delay, func(conn *net.TCPConn) {
				<-opened
				left <- time.Now()
				c.script(conn)
				<-over
			})
			open()
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
	synctest.Test(t, func(t *testing.T) {
		f, server := inMemory(t, 10*time.Millisecond)
		go func() {
			b := make([]byte, 64<<10)
			for {
				if _, err := server.Write(b); err != nil {
					return
				}
			}
		}()
		begun := time.Now()
		_ = f.SetWriteDeadline(begun.Add(time.Second))
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
		if took := time.Since(begun); took != time.Second {
			t.Errorf("the deadline came after %v", took)
		}
		synctest.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.out.bytes > window || f.in.bytes < window || f.in.bytes > window+4096 {
			t.Errorf("%d bytes on their way out and %d in, the window is %d", f.out.bytes, f.in.bytes, window)
		}
	})
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
			if d := e.at.Sub(at); d < delay {
				t.Errorf("the close came after %v", d)
			}
			if unread != errors.Is(e.err, syscall.ECONNRESET) || !unread && e.got != "bye" {
				t.Errorf("the server got %q, %v", e.got, e.err)
			}
		})
	}
}

// Each way takes the delay to the nanosecond, and nobody waits for it who need
// not.
func TestDelayIsExact(t *testing.T) {
	const delay = 100 * time.Millisecond
	// at runs a test with what has to be seen just after a trip, and not before.
	at := func(name string, f func(t *testing.T, far *far, server *memory, over func(seen func() bool))) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				far, server := inMemory(t, delay)
				begun := time.Now()
				f(t, far, server, func(seen func() bool) {
					t.Helper()
					if d := time.Since(begun); d != 0 {
						t.Errorf("it had to wait for %v", d)
					}
					<-time.After(delay - 1)
					synctest.Wait()
					if seen() {
						t.Error("it came before its time")
					}
					<-time.After(1)
					synctest.Wait()
					if !seen() {
						t.Error("it did not come in time")
					}
				})
			})
		})
	}
	for name, c := range map[string]struct {
		act  func(server *memory)
		want state
	}{
		"fin":  {func(server *memory) { _ = server.CloseWrite() }, stale},
		"rst":  {func(server *memory) { _ = server.SetLinger(0); _ = server.Close() }, stale},
		"data": {func(server *memory) { fmt.Fprint(server, "x") }, unread},
	} {
		at(name+" to the client", func(t *testing.T, f *far, server *memory, over func(func() bool)) {
			c.act(server)
			synctest.Wait()
			over(func() bool { return f.peek() == c.want })
		})
	}
	for name, c := range map[string]struct {
		act  func(f *far)
		want string
	}{
		"data":            {func(f *far) { fmt.Fprint(f, "x") }, "x <nil>"},
		"fin":             {func(f *far) { _ = f.Close() }, " EOF"},
		"fin after data":  {func(f *far) { fmt.Fprint(f, "x"); _ = f.Close() }, "x EOF"},
		"half":            {func(f *far) { _ = f.CloseWrite() }, " EOF"},
		"half after data": {func(f *far) { fmt.Fprint(f, "x"); _ = f.CloseWrite() }, "x EOF"},
		"half, then fin":  {func(f *far) { fmt.Fprint(f, "x"); _ = f.CloseWrite(); _ = f.Close() }, "x EOF"},
	} {
		at(name+" to the server", func(t *testing.T, f *far, server *memory, over func(func() bool)) {
			var mu sync.Mutex
			var got string
			var end error
			go func() {
				for b := make([]byte, 10); ; {
					n, err := server.Read(b)
					mu.Lock()
					got, end = got+string(b[:n]), err
					mu.Unlock()
					if err != nil {
						return
					}
				}
			}()
			c.act(f)
			over(func() bool { mu.Lock(); defer mu.Unlock(); return fmt.Sprintf("%s %v", got, end) == c.want })
		})
	}
}

// Whoever has ended its half reads on, and writes no more.
func TestDelayedHalfClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay = 100 * time.Millisecond
		f, server := inMemory(t, delay)
		begun := time.Now()
		for range 2 {
			if err := f.CloseWrite(); err != nil {
				t.Error(err)
			}
		}
		if _, err := f.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("a write behind the half's end: %v", err)
		}
		go func() {
			b, _ := io.ReadAll(server)
			fmt.Fprintf(server, "%d bytes", len(b))
			_ = server.CloseWrite()
		}()
		got, err := io.ReadAll(f)
		if took := time.Since(begun); string(got) != "0 bytes" || err != nil || took != 2*delay {
			t.Errorf("%q, %v, after %v", got, err, took)
		}
		if st := f.peek(); st != stale {
			t.Errorf("state %v where both halves have ended", st)
		}
		_ = f.Close()
		if err := f.CloseWrite(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("behind the close: %v", err)
		}
	})
}

// A blocked read ends at the deadline, which may be set while it waits, and
// at Close.
func TestDelayedDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := inMemory(t, time.Millisecond)
		for _, c := range []struct {
			end   func()
			after time.Duration
			want  error
		}{
			{func() { _ = f.SetDeadline(time.Now()) }, 0, os.ErrDeadlineExceeded},
			{func() { _ = f.SetDeadline(time.Now().Add(time.Second)) }, time.Second, os.ErrDeadlineExceeded},
			{func() { _ = f.Close() }, 0, net.ErrClosed},
		} {
			_ = f.SetDeadline(time.Time{})
			done := make(chan error, 1)
			go func() { _, err := f.Read(make([]byte, 1)); done <- err }()
			synctest.Wait() // it is blocked
			at := time.Now()
			c.end()
			if err := <-done; !errors.Is(err, c.want) || time.Since(at) != c.after {
				t.Errorf("%v after %v, want %v after %v", err, time.Since(at), c.want, c.after)
			}
		}
	})
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
