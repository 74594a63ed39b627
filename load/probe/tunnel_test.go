// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/frames"
	"github.com/lastcall-dev/lastcall/fixtures/hbone"
	"github.com/lastcall-dev/lastcall/fixtures/pki"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/load/work"
)

// spiffe are the identities of a mesh with two workloads.
type spiffe struct {
	ca             *pki.Authority
	server, client pki.Pair
}

const serverID = "spiffe://cluster.local/ns/n/sa/app"

func newSpiffe(t testing.TB) spiffe {
	t.Helper()
	ca, err := pki.New("mesh")
	if err != nil {
		t.Fatal(err)
	}
	pair := func(id string) pki.Pair {
		u, err := url.Parse(id)
		if err != nil {
			t.Fatal(err)
		}
		p, err := ca.Workload(u, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	return spiffe{ca, pair(serverID), pair("spiffe://cluster.local/ns/n/sa/probe")}
}

// untunnelled are the protocols of HTTP whose connections are the requests' own.
func untunnelled() []flow.Protocol {
	return slices.DeleteFunc(flow.Get.Protocols(), flow.Protocol.Tunnels)
}

// meshes are those of serve, by their addresses.
var meshes sync.Map

// mesh is an app, and who takes tunnels to it.
type mesh struct {
	spiffe
	addr, app string
	opened    atomic.Int64               // tunnels
	data      atomic.Pointer[dataFrames] // of the last of them

	mu      sync.Mutex
	servers []*hbone.Server
}

func newMesh(t testing.TB, h http.HandlerFunc) *mesh {
	t.Helper()
	m := &mesh{spiffe: newSpiffe(t)}
	m.app, _ = serve(t, flow.HTTP1, h)
	cert, err := tls.X509KeyPair(m.server.Cert, m.server.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(m.ca.PEM())
	conf := &tls.Config{
		Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS13,
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots,
	}
	m.addr = accept(t, func(_ int, tcp *net.TCPConn) {
		conn := tls.Server(tcp, conf)
		if conn.Handshake() != nil {
			return
		}
		m.opened.Add(1)
		data := &dataFrames{Conn: conn, in: frames.Splitter{Skip: len(http2.ClientPreface)}, sizes: map[uint32]int{}}
		m.data.Store(data)
		s := hbone.NewServer(data, hbone.Settings{Settle: time.Millisecond}, connect)
		m.mu.Lock()
		m.servers = append(m.servers, s)
		m.mu.Unlock()
		_ = s.Serve()
	})
	t.Cleanup(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, s := range m.servers {
			s.Close()
		}
	})
	return m
}

// dataFrames is a tunnel's connection that counts the frames of DATA which come, by their sizes.
type dataFrames struct {
	*tls.Conn
	mu    sync.Mutex
	in    frames.Splitter
	sizes map[uint32]int
}

// Read implements net.Conn.
func (d *dataFrames) Read(p []byte) (int, error) {
	n, err := d.Conn.Read(p)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.in.Split(p[:n], func(f frames.Frame) {
		if f.Type == http2.FrameData {
			d.sizes[f.Length]++
		}
	})
	return n, err
}

// connect answers a CONNECT.
func connect(ctx context.Context, r *hbone.Request) {
	c, err := net.Dial("tcp", r.Authority)
	if err != nil {
		_ = r.Deny(http.StatusServiceUnavailable, nil)
		return
	}
	s, err := r.Accept(nil)
	if err != nil {
		_ = c.Close()
		return
	}
	hbone.Splice(ctx, s, c.(*net.TCPConn))
}

// drain begins the end of all tunnels there are.
func (m *mesh) drain() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.servers {
		s.Drain()
	}
}

func (m *mesh) stream(p load.Profile) load.Stream {
	p.Protocol = flow.HBONE
	s := testStream(m.addr, p)
	m.tunnelled(&s)
	return s
}

// tunnelled makes a stream one to the app, through its tunnels.
func (m *mesh) tunnelled(s *load.Stream) {
	s.CA, s.ServerName = string(m.ca.PEM()), serverID
	s.Tunnel = load.Tunnel{To: m.app, Cert: string(m.client.Cert), Key: string(m.client.Key)}
}

// Requests go one after the other through streams of one tunnel, and the tunnel's end is told.
func TestTunnelsAreKept(t *testing.T) {
	for _, conns := range []flow.Conns{flow.Reused, flow.Shared} {
		t.Run(string(conns), func(t *testing.T) {
			t.Parallel()
			m := newMesh(t, backend)
			st, r := idleStream(t, m.stream(load.Profile{Flow: flow.Flow{Conns: conns, Op: flow.Get}}), 1)
			if s, shares := st.keeper.(*shared); shares {
				s.open = sharedConns - 1 // one is enough
			}
			for i := range int64(3) {
				st.attempt(timeline.Monotonic(), i)
			}
			for i, s := range r.all() {
				want{timeline.OK, timeline.PhaseDone, 200, s.Want, false}.check(t, s)
				if s.Conn != 1 || s.StreamID != uint32(2*i+1) || s.Nth != i+1 || s.Server != "pod-1" || s.Addr != m.addr || s.First <= s.Dial || s.Sent < s.Start {
					t.Errorf("%+v", s)
				}
			}
			m.drain()
			last := []string{"goaway code=NO_ERROR last=2147483647", "ping answered", "goaway code=NO_ERROR last=5", "close-notify", "fin"}
			if !eventually(t, func() bool { return len(r.told(1)) >= len(last) }) || !slices.Equal(r.told(1), last) {
				t.Errorf("%q, want %q", r.told(1), last)
			}
			if good, n := r.shown(1); n != 1 || good < 59*time.Minute || good > time.Hour {
				t.Errorf("a certificate was shown %d times, and is good for %s: want one of an hour", n, good)
			}
		})
	}
}

// eventually waits until something is so, and says whether it was.
func eventually(t *testing.T, so func() bool) bool {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(patience); ; {
		select {
		case <-tick.C:
			if so() {
				return true
			}
		case <-late:
			return false
		}
	}
}

// A request that runs at the GOAWAY goes on to its end, and the tunnel's comes behind it.
func TestTunnelsEndWithTheirStreams(t *testing.T) {
	for _, op := range []flow.Op{flow.Slow, flow.Upload} {
		t.Run(string(op), func(t *testing.T) {
			t.Parallel()
			var m *mesh
			begun := sync.OnceFunc(func() { m.drain() })
			m = newMesh(t, func(w http.ResponseWriter, r *http.Request) { begun(); backend(w, r) })
			st, r := idleStream(t, m.stream(load.Profile{Flow: flow.Flow{Conns: flow.Reused, Op: op, Takes: 300 * time.Millisecond}}), 1)
			st.attempt(timeline.Monotonic(), 0)
			s := r.all()[0]
			want{timeline.OK, timeline.PhaseDone, 200, s.Want, true}.check(t, s)
			last := []string{"goaway code=NO_ERROR last=2147483647", "ping answered", "goaway code=NO_ERROR last=1", "close-notify", "fin"}
			if !eventually(t, func() bool { return len(r.told(1)) >= len(last) }) || !slices.Equal(r.told(1)[:len(last)], last) {
				t.Errorf("%q, want %q", r.told(1), last)
			}
		})
	}
}

// Each byte that drips is a frame of its own, and its neighbours are GETs in the same tunnel.
func TestTunnelsDrip(t *testing.T) {
	m := newMesh(t, backend)
	st, r := idleStream(t, m.stream(load.Profile{Flow: flow.Flow{Conns: flow.Shared, Op: flow.Drip, Takes: 500 * time.Millisecond}}), 2)
	st.keeper.(*shared).open = sharedConns - 1 // one is enough
	for i := range int64(2) {
		st.attempt(timeline.Monotonic(), i)
	}
	all := r.all()
	for i, s := range all {
		long := i == 0
		want{timeline.OK, timeline.PhaseDone, 200, map[bool]int64{true: work.DripBytes, false: work.SlowBytes}[long], false}.check(t, s)
		if s.Conn != 1 || s.Brief == long {
			t.Errorf("%+v", s)
		}
	}
	data := m.data.Load()
	data.mu.Lock()
	defer data.mu.Unlock()
	if n := data.sizes[1]; n != work.DripBytes {
		t.Errorf("%d frames of a byte: %v", n, data.sizes)
	}
}

// What goes wrong in a stream costs that stream, and the tunnel carries the next.
func TestTunnelsCarryOn(t *testing.T) {
	hijacked := func(do func(c *net.TCPConn)) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			do(c.(*net.TCPConn))
		}
	}
	for name, c := range map[string]struct {
		op    flow.Op
		serve http.HandlerFunc
		to    string
		want  want
		told  []string
	}{
		"nobody listens":     {flow.Vacant, backend, "", want{timeline.OK, timeline.PhaseDone, 503, 0, false}, []string{"rst-stream code=NO_ERROR id=1", "rst-stream code=NO_ERROR id=3"}},
		"the app is gone":    {flow.Get, backend, "127.0.0.1:1", want{timeline.Status, timeline.PhaseDone, 503, 0, false}, []string{"rst-stream code=NO_ERROR id=1", "rst-stream code=NO_ERROR id=3"}},
		"the app resets":     {flow.Get, hijacked(func(c *net.TCPConn) { reset(c) }), "", want{timeline.StreamReset, timeline.PhaseFirstByte, 0, 0, false}, []string{"rst-stream code=CONNECT_ERROR id=1", "rst-stream code=CONNECT_ERROR id=3"}},
		"the app ends early": {flow.Get, hijacked(func(c *net.TCPConn) { _ = c.Close() }), "", want{timeline.Closed, timeline.PhaseFirstByte, 0, 0, false}, nil},
		"another status":     {flow.Get, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }, "", want{timeline.Status, timeline.PhaseDone, 418, 0, false}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMesh(t, c.serve)
			if c.to != "" {
				m.app = c.to
			}
			st, r := idleStream(t, m.stream(load.Profile{Flow: flow.Flow{Conns: flow.Reused, Op: c.op}}), 1)
			for i := range int64(2) {
				st.attempt(timeline.Monotonic(), i)
			}
			for i, s := range r.all() {
				c.want.check(t, s)
				if s.Conn != 1 || s.StreamID != uint32(2*i+1) {
					t.Errorf("tunnel %d, stream %d", s.Conn, s.StreamID)
				}
				if want := name == "the app ends early"; s.EndStream != want {
					t.Errorf("END_STREAM: %v, want %v", s.EndStream, want)
				}
			}
			if told := r.told(1); !slices.Equal(told, c.told) {
				t.Errorf("%q, want %q", told, c.told)
			}
		})
	}
}

// Who answers 200 where nobody listens is told apart, and so is a server of another identity.
func TestTunnelsThatLie(t *testing.T) {
	m := newMesh(t, backend)
	cert, err := tls.X509KeyPair(m.server.Cert, m.server.Key)
	if err != nil {
		t.Fatal(err)
	}
	m.addr = accept(t, func(_ int, tcp *net.TCPConn) {
		s := hbone.NewServer(tls.Server(tcp, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS13}), hbone.Settings{},
			func(_ context.Context, r *hbone.Request) {
				if s, err := r.Accept(nil); err == nil {
					_ = s.CloseWrite()
				}
			})
		_ = s.Serve()
	})
	vacant := m.stream(load.Profile{Flow: flow.Flow{Conns: flow.New, Op: flow.Vacant}})
	want{timeline.OK, timeline.PhaseDone, 200, 0, false}.check(t, record(t, vacant, 1)[0])
	vacant.ServerName = "spiffe://cluster.local/ns/n/sa/other"
	s := record(t, vacant, 1)[0]
	want{timeline.Malformed, timeline.PhaseTLS, 0, 0, false}.check(t, s)
	if !strings.Contains(s.Err, serverID) {
		t.Error(s.Err)
	}
}

// A CONNECT to nobody that is reset is denied, and the tunnel carries the next; one that is refused was not
// processed.
func TestTunnelsThatReset(t *testing.T) {
	for code, want := range map[http2.ErrCode]timeline.Outcome{
		http2.ErrCodeConnect: timeline.OK, http2.ErrCodeCancel: timeline.OK, http2.ErrCodeRefusedStream: timeline.RefusedStream,
	} {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			m := newMesh(t, backend)
			cert, err := tls.X509KeyPair(m.server.Cert, m.server.Key)
			if err != nil {
				t.Fatal(err)
			}
			m.addr = accept(t, func(_ int, tcp *net.TCPConn) {
				conn := tls.Server(tcp, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS13})
				if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
					return
				}
				fr := http2.NewFramer(conn, conn)
				for err := fr.WriteSettings(); err == nil; {
					var f http2.Frame
					if f, err = fr.ReadFrame(); err != nil {
						return
					}
					switch f := f.(type) {
					case *http2.SettingsFrame:
						if !f.IsAck() {
							err = fr.WriteSettingsAck()
						}
					case *http2.HeadersFrame:
						err = fr.WriteRSTStream(f.StreamID, code)
					}
				}
			})
			st, r := idleStream(t, m.stream(load.Profile{Flow: flow.Flow{Conns: flow.Reused, Op: flow.Vacant}}), 1)
			for i := range int64(2) {
				st.attempt(timeline.Monotonic(), i)
			}
			for i, s := range r.all() {
				if s.Outcome != want || s.Status != 0 {
					t.Errorf("%s, with status %d", s.Outcome, s.Status)
				}
				if id := uint32(2*i + 1); want == timeline.OK && (s.Phase != timeline.PhaseDone || s.Conn != 1 || s.StreamID != id) {
					t.Errorf("phase %s, tunnel %d, stream %d, want stream %d of the first tunnel", s.Phase, s.Conn, s.StreamID, id)
				}
			}
		})
	}
}

// Whoever is silent in a tunnel is given up when the time is up, and has broken no protocol.
func TestTunnelsThatSayNothing(t *testing.T) {
	m := newMesh(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mute := m.stream(load.Profile{Flow: flow.Flow{Conns: flow.New, Op: flow.Get}})
	mute.Timeout = 50 * time.Millisecond
	all := recordUntil(t, mute, func(all []timeline.Sample) bool {
		asked := 0
		for _, s := range all {
			if s.Phase == timeline.PhaseFirstByte {
				asked++
			}
		}
		return asked >= 10 // the others, of a busy machine, came not so far
	})
	for _, s := range all {
		if s.Outcome != timeline.Timeout {
			t.Errorf("%s: %s (%s), want %s", s.ID, s.Outcome, s.Err, timeline.Timeout)
		}
	}
}

// A stream of tunnels says all that it needs, and no other stream says any of it.
func TestCheckTunnels(t *testing.T) {
	s := newMesh(t, backend).stream(load.Profile{Flow: flow.Flow{Conns: flow.New, Op: flow.Get}})
	for _, c := range []struct {
		change func(s *load.Stream)
		want   string
	}{
		{func(*load.Stream) {}, ""},
		{func(s *load.Stream) { s.Tunnel.To = "" }, "want the app's IP and port"},
		{func(s *load.Stream) { s.Tunnel.Key = "" }, "the client's own certificate"},
		{func(s *load.Stream) { s.CA = "" }, "has no certificate"},
		{func(s *load.Stream) { s.ServerName = "" }, "SPIFFE ID"},
		{func(s *load.Stream) { s.Profile.Protocol, s.CA, s.ServerName = flow.HTTP1, "", "" }, "has no tunnels"},
		{func(s *load.Stream) { s.Profile.Op = flow.Unary }, "over protocol"},
	} {
		one := s
		c.change(&one)
		_, err := check(one)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
