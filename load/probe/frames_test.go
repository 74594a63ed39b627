// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onsi/gomega"
	"golang.org/x/net/http2"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// idleFor is a flow of connections that are held.
func idleFor(proto flow.Protocol, takes time.Duration) load.Profile {
	return load.Profile{Flow: flow.Flow{Protocol: proto, Conns: flow.New, Op: flow.Idle, Takes: takes}}
}

// answeredEnd is a server's end of a connection whose first request was
// answered.
type answeredEnd struct {
	farEnd
	*peer             // nil: HTTP/1.1
	told  func(n int) // waits until the client has told so many frames
}

// answers takes the first request of a connection, and answers it with more
// header lines (in HTTP/1.1).
func answers(tcp *net.TCPConn, proto flow.Protocol, lines ...string) (answeredEnd, error) {
	e := answeredEnd{farEnd: newFarEnd(tcp, proto)}
	if proto.HTTP() == 2 {
		p, err := newPeer(e.farEnd)
		if err != nil {
			return e, err
		}
		e.peer = p
		s, id, err := p.request()
		if err != nil {
			return e, err
		}
		p.header(s, 200, 256, false)
		p.body(s, id, 256, true)
		return e, nil
	}
	id, err := e.farEnd.request()
	if err != nil {
		return e, err
	}
	fmt.Fprint(e.Conn, answer(id, 256, append([]string{"200 OK", "Content-Length: 256"}, lines...)...))
	return e, nil
}

// over reads until the client ends the connection.
func (e answeredEnd) over() { _, _ = io.Copy(io.Discard, e.tcp) }

func (e answeredEnd) goAway(last uint32) { _ = e.WriteGoAway(last, http2.ErrCodeNo, nil) }

// How the peer ends an idle connection is told, in its order, and then that the
// client closes it. Nobody uses the connection meanwhile.
func TestEndings(t *testing.T) {
	noLeaks(t)
	overTLS := []flow.Protocol{flow.TLS1, flow.H2}
	overH2 := []flow.Protocol{flow.H2C, flow.H2}
	overH1 := []flow.Protocol{flow.HTTP1, flow.TLS1}
	const (
		first  = "goaway code=NO_ERROR last=2147483647"
		final  = "goaway code=NO_ERROR last=1"
		ping   = "ping answered"
		broken = "close why=broken"
		away   = "close why=goaway"
	)
	for name, c := range map[string]struct {
		protos []flow.Protocol
		lines  []string // of the answer
		end    func(e answeredEnd)
		told   []string // in TLS with close-notify before fin
	}{
		"fin":          {untunnelled(), nil, func(e answeredEnd) { _ = e.tcp.CloseWrite() }, []string{"fin", broken}},
		"rst":          {untunnelled(), nil, func(e answeredEnd) { reset(e.tcp) }, []string{"rst", broken}},
		"close_notify": {overTLS, nil, func(e answeredEnd) { _ = e.farEnd.CloseWrite() }, []string{"close-notify", "fin", broken}},
		"close_notify, then rst": {overTLS, nil, func(e answeredEnd) {
			e.notify()
			arrived(t, e.tcp)
			e.told(1) // an RST takes away what is unread
			reset(e.tcp)
		}, []string{"close-notify", "rst", broken}},
		"408": {overH1, nil, func(e answeredEnd) {
			fmt.Fprint(e.Conn, "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
			_ = e.tcp.CloseWrite()
		}, []string{"fin", broken}},
		"connection: close": {overH1, []string{"Connection: close"}, func(e answeredEnd) { _ = e.tcp.CloseWrite() }, []string{"fin", "close why=answered-close"}},
		"a ping is answered": {overH2, nil, func(e answeredEnd) {
			e.settled()
			_ = e.tcp.CloseWrite()
		}, []string{ping, "fin", broken}},
		"goaway":           {overH2, nil, func(e answeredEnd) { e.goAway(1); _ = e.tcp.CloseWrite() }, []string{final, "fin", away}},
		"goaway, then rst": {overH2, nil, func(e answeredEnd) { e.goAway(unlimited); e.settled(); reset(e.tcp) }, []string{first, ping, "rst", away}},
		"goaway twice": {overH2, nil, func(e answeredEnd) {
			e.goAway(unlimited)
			e.settled() // the client still reads, and answers
			e.goAway(1)
			_ = e.tcp.CloseWrite()
		}, []string{first, ping, final, "fin", away}},
		"goaway with an error": {overH2, nil, func(e answeredEnd) {
			_ = e.WriteGoAway(1, http2.ErrCodeEnhanceYourCalm, []byte("too many"))
			_ = e.tcp.CloseWrite()
		}, []string{"goaway code=ENHANCE_YOUR_CALM last=1", "fin", away}},
		"goaway, close_notify": {[]flow.Protocol{flow.H2}, nil, func(e answeredEnd) { e.goAway(1); _ = e.farEnd.CloseWrite() },
			[]string{final, "close-notify", "fin", away}},
		"rst_stream": {overH2, nil, func(e answeredEnd) {
			_ = e.WriteRSTStream(1, http2.ErrCodeCancel)
			_ = e.tcp.CloseWrite()
		}, []string{"rst-stream code=CANCEL id=1", "fin", broken}},
	} {
		for _, proto := range c.protos {
			for delay, kind := range map[time.Duration]string{0: "near", 10 * time.Millisecond: "far"} {
				t.Run(name+"/"+string(proto)+"/"+kind, func(t *testing.T) {
					var r *recording
					begin := make(chan struct{})
					g := gomega.NewWithT(t)
					told := func() []string { return r.told(1) }
					addr := accept(t, func(_ int, tcp *net.TCPConn) {
						e, err := answers(tcp, proto, c.lines...)
						if err != nil {
							t.Error(err)
							return
						}
						e.told = func(n int) {
							for len(told()) < n {
								<-time.After(time.Millisecond)
							}
						}
						<-begin
						c.end(e)
						e.over()
					})
					p := idleFor(proto, patience)
					p.Delay = delay
					var st *stream
					st, r = idleStream(t, testStream(addr, p), 0)
					st.attempt(timeline.Monotonic(), 0)
					want{timeline.OK, timeline.PhaseDone, 200, 256, c.lines != nil}.check(t, r.all()[0])
					close(begin)
					g.Eventually(told).WithTimeout(patience).WithPolling(time.Millisecond).Should(gomega.Equal(c.told))
				})
			}
		}
	}
}

// In a pool it is the same: the end is told when it comes, and the close when
// the pool looks.
func TestEndingsInAPool(t *testing.T) {
	for _, proto := range untunnelled() {
		t.Run(string(proto), func(t *testing.T) {
			g := noLeaks(t)
			begin := make(chan struct{})
			addr := accept(t, func(n int, tcp *net.TCPConn) {
				e, err := answers(tcp, proto)
				if err != nil {
					return
				}
				if n == 1 {
					<-begin
					_ = e.farEnd.CloseWrite()
				}
				e.over()
			})
			st, r := unpaced(t, testStream(addr, reused(proto)))
			st.keeper = &pool{stock: stock{leave: st.leave, end: st.end}, least: 1}
			st.attempt(timeline.Monotonic(), 0)
			close(begin)
			want := []string{"fin"}
			if proto.Secure() {
				want = []string{"close-notify", "fin"}
			}
			g.Eventually(func() []string { return r.told(1) }).WithTimeout(patience).WithPolling(time.Millisecond).Should(gomega.Equal(want))
			st.attempt(timeline.Monotonic(), 1)
			if x := r.all()[1]; x.Outcome != timeline.OK || x.Conn != 2 || x.Nth != 1 {
				t.Errorf("want a new connection: %s", text(x))
			}
			st.stop()
			st.finish()
			if got := r.told(1); !slices.Equal(got, append(want, "close why=broken")) {
				t.Errorf("the first connection told %q", got)
			}
			if got := r.told(2); !slices.Equal(got, []string{"close why=stop"}) {
				t.Errorf("the second connection told %q", got)
			}
		})
	}
}

// A request that the peer resets, or puts behind its last stream, is told beside
// its sample. A new connection is closed after its reply: that is not told.
func TestFramesOfAnAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		conns  flow.Conns
		script func(p *peer, s uint32, id string)
		want   timeline.Outcome
		told   []string
	}{
		"reset": {flow.New, func(p *peer, s uint32, _ string) {
			_ = p.WriteRSTStream(s, http2.ErrCodeRefusedStream)
		}, timeline.RefusedStream, []string{"rst-stream code=REFUSED_STREAM id=1"}},
		"goaway, then the answer": {flow.New, func(p *peer, s uint32, id string) {
			_ = p.WriteGoAway(unlimited, http2.ErrCodeNo, nil)
			p.header(s, 200, 256, false)
			p.body(s, id, 256, true)
		}, timeline.OK, []string{"goaway code=NO_ERROR last=2147483647"}},
		"goaway, then the answer, and the connection is kept": {flow.Reused, func(p *peer, s uint32, id string) {
			_ = p.WriteGoAway(unlimited, http2.ErrCodeNo, nil)
			p.header(s, 200, 256, false)
			p.body(s, id, 256, true)
			p.settled()
			_ = p.WriteGoAway(s, http2.ErrCodeNo, nil)
			_ = p.c.CloseWrite()
		}, timeline.OK, []string{"goaway code=NO_ERROR last=2147483647", "ping answered", "goaway code=NO_ERROR last=1", "fin", "close why=goaway"}},
		"no stream is served": {flow.Reused, func(p *peer, s uint32, _ string) {
			_ = p.WriteGoAway(0, http2.ErrCodeNo, nil)
			_ = p.c.CloseWrite()
		}, timeline.GoAway, []string{"goaway code=NO_ERROR last=0", "fin", "close why=goaway"}},
	} {
		t.Run(name, func(t *testing.T) {
			addr := accept(t, func(_ int, tcp *net.TCPConn) {
				p, err := newPeer(tcp)
				if err != nil {
					return
				}
				if s, id, err := p.request(); err == nil {
					c.script(p, s, id)
					p.rest()
				}
			})
			st, r := idleStream(t, testStream(addr, load.Profile{Flow: flow.Flow{Protocol: flow.H2C, Conns: c.conns, Op: flow.Get}}), 1)
			st.attempt(timeline.Monotonic(), 0)
			if x := r.all()[0]; x.Outcome != c.want {
				t.Errorf("want %s: %s", c.want, text(x))
			}
			gomega.NewWithT(t).Eventually(func() []string { return r.told(1) }).WithTimeout(patience).
				WithPolling(time.Millisecond).Should(gomega.Equal(c.told))
		})
	}
}

// A sample says which stream it was: so it is found in the frames.
func TestStreamIDs(t *testing.T) {
	for _, proto := range []flow.Protocol{flow.H2C, flow.H2} {
		addr := accept(t, func(_ int, tcp *net.TCPConn) {
			p, err := newPeer(newFarEnd(tcp, proto))
			for n := 1; err == nil; n++ {
				s, id, rerr := p.request()
				switch err = rerr; {
				case err != nil:
				case n == 3:
					_ = p.WriteRSTStream(s, http2.ErrCodeInternal)
				default:
					p.header(s, 200, 256, false)
					p.body(s, id, 256, true)
				}
			}
		})
		st, r := idleStream(t, testStream(addr, reused(proto)), 1)
		for i := range 3 {
			st.attempt(timeline.Monotonic(), int64(i))
			awaitIdle(t, st.keeper.(*pool), fresh)
		}
		x := r.all()[2]
		if want := fmt.Sprint("rst-stream code=INTERNAL_ERROR id=", x.StreamID); x.StreamID != 5 || x.Nth != 3 || x.Conn != 1 || !slices.Contains(r.told(1), want) {
			t.Errorf("%s, and frames %q, want %q", text(x), r.told(1), want)
		}
	}
}

// The stream's end does not wait for what is held: it closes it.
func TestStopClosesHeld(t *testing.T) {
	for _, proto := range untunnelled() {
		t.Run(string(proto), func(t *testing.T) {
			g := noLeaks(t)
			addr := accept(t, func(n int, tcp *net.TCPConn) {
				e, err := answers(tcp, proto)
				if err == nil && n == 1 && proto.HTTP() == 2 {
					e.goAway(unlimited) // and never closes
				}
				e.over()
			})
			var r recording
			h, err := Generator{}.Start(t.Context(), testStream(addr, idleFor(proto, time.Hour)), r.emit)
			if err != nil {
				t.Fatal(err)
			}
			const goAway = "goaway code=NO_ERROR last=2147483647"
			g.Eventually(func() bool {
				all := r.all()
				return len(all) >= 5 && (proto.HTTP() != 2 || slices.ContainsFunc(all, func(x timeline.Sample) bool { return slices.Contains(r.told(x.Conn), goAway) }))
			}).WithTimeout(patience).Should(gomega.BeTrue())
			h.Stop()
			ended(t, h)
			// Which of them the server took first, the client can't know.
			leaving := 0
			for _, x := range r.all() {
				if x.Outcome != timeline.OK || x.Nth != 1 {
					t.Errorf("not ok: %s", text(x))
				}
				got := r.told(x.Conn)
				if len(got) > 1 && got[0] == goAway {
					leaving, got = leaving+1, got[1:]
				}
				if !slices.Equal(got, []string{"close why=stop"}) {
					t.Errorf("connection %d told %q", x.Conn, r.told(x.Conn))
				}
			}
			if (proto.HTTP() == 2) != (leaving == 1) {
				t.Errorf("%d connections were told to go", leaving)
			}
		})
	}
}

// By a bubble's clock: how long a connection is kept whose peer says nothing, and
// how long a peer has that said that it ends it.
func TestPatience(t *testing.T) {
	held := func(proto flow.Protocol) load.Profile { return idleFor(proto, 7*time.Second) }
	once := load.Profile{Flow: flow.Flow{Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}}
	for name, c := range map[string]struct {
		p     load.Profile
		line  string
		then  func(c *memory)
		told  string
		after time.Duration
	}{
		"held to its time":        {held(flow.HTTP1), "", nil, "[close why=idle]", 7 * time.Second},
		"held to its time in h2":  {held(flow.H2C), "", nil, "[close why=idle]", 7 * time.Second},
		"said close, and did not": {held(flow.HTTP1), "Connection: close", nil, "[close why=answered-close]", lastWords},
		"said it to a new one":    {once, "Connection: close", nil, "[close why=answered-close]", lastWords},
		"a new one":               {once, "", nil, "[]", 0},
		"goaway, and no end": {held(flow.H2C), "", func(c *memory) {
			_ = http2.NewFramer(c, nil).WriteGoAway(1, http2.ErrCodeNo, nil)
		}, "[goaway code=NO_ERROR last=1 close why=goaway]", afterGoAway},
		"408, and no end": {held(flow.HTTP1), "", func(c *memory) {
			fmt.Fprint(c, "HTTP/1.1 408 Request Timeout\r\n\r\n")
		}, "[close why=broken]", lastWords},
		"no HTTP/2 any more": {held(flow.H2C), "", func(c *memory) {
			_ = http2.NewFramer(c, nil).WriteRawFrame(http2.FrameData, 0, 0, nil)
		}, "[close why=broken]", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, server := inMemory(t, 0)
				s, r := unpaced(t, testStream("127.0.0.1:80", c.p))
				l := linked(t, s, f)
				var wg sync.WaitGroup
				wg.Go(func() { memoryPeer(server, c.p.Protocol, c.line, c.then) })
				a, fate := tried(t.Context(), s, l)
				if a.Outcome != timeline.OK {
					t.Fatal(text(a.Sample))
				}
				begun := time.Now()
				s.settle(l, fate)
				s.held.Wait()
				s.parting.Wait()
				if got, took := fmt.Sprint(r.told(1)), time.Since(begun); got != c.told || took != c.after {
					t.Errorf("told %s after %v, want %s after %v", got, took, c.told, c.after)
				}
				wg.Wait()
			})
		})
	}
}

// memoryPeer answers one request, does something, and reads to the end.
func memoryPeer(c *memory, proto flow.Protocol, line string, then func(c *memory)) {
	if proto == flow.H2C {
		p, err := newPeer(c)
		if err != nil {
			return
		}
		s, id, err := p.request()
		if err != nil {
			return
		}
		p.header(s, 200, 256, false)
		p.body(s, id, 256, true)
	} else {
		id, err := farEnd{Conn: c}.request()
		if err != nil {
			return
		}
		lines := []string{"200 OK", "Content-Length: 256"}
		if line != "" {
			lines = append(lines, line)
		}
		fmt.Fprint(c, answer(id, 256, lines...))
	}
	if then != nil {
		go then(c)
	}
	_, _ = io.Copy(io.Discard, c)
}

// A look and a write take the socket's one error: the read says all the same that
// it was an RST, and no FIN.
func TestRSTIsNoFIN(t *testing.T) {
	for name, take := range map[string]func(w *near) error{
		"a look":  func(w *near) error { w.peek(); return nil },
		"a write": func(w *near) error { _, err := w.Write([]byte("x")); return err },
		"nobody":  func(*near) error { return nil },
	} {
		begin := make(chan struct{})
		addr := accept(t, func(_ int, c *net.TCPConn) { <-begin; reset(c) })
		s, _ := unpaced(t, testStream(addr, reused(flow.HTTP1)))
		w, err := s.connect(t.Context())
		if err != nil {
			close(begin)
			t.Fatal(err)
		}
		close(begin)
		n := w.(*near)
		for !n.hungUp() {
			<-time.After(time.Millisecond)
		}
		if err := take(n); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := n.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s took the reset: the read says %v", name, err)
		}
		_ = n.Close()
	}
}

// The connections of a TLS stream are used in turn as all others are.
func TestPoolInTLS(t *testing.T) {
	for _, proto := range []flow.Protocol{flow.TLS1, flow.H2} {
		noLeaks(t)
		addr, opened := serve(t, proto, backend)
		for i, x := range inTurn(t, testStream(addr, reused(proto)), 2, 20, func(p *pool) { awaitIdle(t, p, fresh) }) {
			if x.Outcome != timeline.OK || x.Conn != uint64(i%2+1) || x.Nth != i/2+1 {
				t.Errorf("attempt %d: %s", i, text(x))
			}
		}
		if n := opened.Load(); n != 2 {
			t.Errorf("%d connections", n)
		}
	}
}

// A kill ends what is held as well, and what waits for the peer.
func TestKillClosesHeld(t *testing.T) {
	for _, proto := range []flow.Protocol{flow.HTTP1, flow.H2} {
		g := noLeaks(t)
		addr := accept(t, func(_ int, tcp *net.TCPConn) {
			if e, err := answers(tcp, proto); err == nil {
				e.over()
			}
		})
		var r recording
		ctx, cancel := context.WithCancel(t.Context())
		h, err := Generator{}.Start(ctx, testStream(addr, idleFor(proto, time.Hour)), r.emit)
		if err != nil {
			t.Fatal(err)
		}
		g.Eventually(func() int { return len(r.all()) }).WithTimeout(patience).Should(gomega.BeNumerically(">=", 3))
		cancel()
		ended(t, h)
	}
}
