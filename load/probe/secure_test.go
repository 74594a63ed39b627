// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
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

	"github.com/onsi/gomega"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/pki"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/load/work"
)

const serverName = "gateway.test"

// proof is what a server shows, and the CA that it comes from.
type proof struct {
	ca   []byte
	cert tls.Certificate
}

var identity = sync.OnceValue(func() proof {
	a, err := pki.New("gateways")
	if err != nil {
		panic(err)
	}
	p, err := a.Sign(serverName, x509.ExtKeyUsageServerAuth, serverName)
	if err != nil {
		panic(err)
	}
	cert, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		panic(err)
	}
	return proof{a.PEM(), cert}
})

// server is how a server of a protocol speaks TLS.
func (p proof) server(proto flow.Protocol) *tls.Config {
	alpn := "http/1.1"
	if proto.HTTP() == 2 {
		alpn = "h2"
	}
	return &tls.Config{Certificates: []tls.Certificate{p.cert}, NextProtos: []string{alpn}, MinVersion: tls.VersionTLS12}
}

// farEnd is a server's end of a connection, in TLS or not. Each of its ways to
// end is a part of Close.
type farEnd struct {
	net.Conn
	tcp *net.TCPConn
}

func newFarEnd(tcp *net.TCPConn, proto flow.Protocol) farEnd {
	if proto.Secure() {
		return farEnd{tls.Server(tcp, identity().server(proto)), tcp}
	}
	return farEnd{tcp, tcp}
}

func (e farEnd) SetLinger(sec int) error { return e.tcp.SetLinger(sec) }

// CloseWrite is the whole of it, as a server does it.
func (e farEnd) CloseWrite() error { e.notify(); return e.tcp.CloseWrite() }

// notify sends a close_notify, if there is TLS.
func (e farEnd) notify() {
	if c, ok := e.Conn.(*tls.Conn); ok {
		_ = c.CloseWrite()
	}
}

// request reads one request of HTTP/1.1, and returns its ID.
func (e farEnd) request() (id string, err error) {
	req, err := http.ReadRequest(bufio.NewReader(e))
	if err != nil {
		return "", err
	}
	return req.Header.Get(work.HeaderID), nil
}

// What breaks between the TCP connection and the request is of phase tls.
func TestHandshakes(t *testing.T) {
	other, err := pki.New("other")
	if err != nil {
		t.Fatal(err)
	}
	both := []flow.Protocol{flow.TLS1, flow.H2}
	shake := func(c *net.TCPConn, conf *tls.Config) {
		s := tls.Server(c, conf)
		_ = s.Handshake()
		_, _ = io.Copy(io.Discard, s)
	}
	failed := func(o timeline.Outcome) want { return want{outcome: o, phase: timeline.PhaseTLS} }
	for name, c := range map[string]struct {
		protos []flow.Protocol
		want   want
		change func(s *load.Stream)
		serve  func(c *net.TCPConn, proto flow.Protocol)
		told   []string
		err    string
	}{
		"another name": {both, failed(timeline.Malformed), func(s *load.Stream) { s.ServerName = "other.test" },
			func(c *net.TCPConn, p flow.Protocol) { shake(c, identity().server(p)) }, nil, "other.test"},
		"another CA": {both, failed(timeline.Malformed), func(s *load.Stream) { s.CA = string(other.PEM()) },
			func(c *net.TCPConn, p flow.Protocol) { shake(c, identity().server(p)) }, nil, "unknown authority"},
		"no ALPN": {[]flow.Protocol{flow.H2}, failed(timeline.Malformed), nil,
			func(c *net.TCPConn, p flow.Protocol) {
				conf := identity().server(p)
				conf.NextProtos = nil
				shake(c, conf)
			}, nil, `ALPN agreed on "", want "h2"`},
		"another ALPN": {both, failed(timeline.Malformed), nil,
			func(c *net.TCPConn, p flow.Protocol) {
				conf := identity().server(p)
				conf.NextProtos = []string{"other"}
				shake(c, conf)
			}, []string{"alert alert=no application protocol", "fin"}, "no application protocol"},
		"rst": {both, failed(timeline.Reset), nil,
			func(c *net.TCPConn, _ flow.Protocol) { _, _ = c.Read(make([]byte, 1)); reset(c) }, []string{"rst"}, "reset"},
		"fin": {both, failed(timeline.Closed), nil,
			func(c *net.TCPConn, _ flow.Protocol) { _ = c.CloseWrite(); _, _ = io.Copy(io.Discard, c) }, []string{"fin"}, "EOF"},
		"no TLS": {both, failed(timeline.Malformed), nil,
			func(c *net.TCPConn, _ flow.Protocol) {
				fmt.Fprint(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
				_, _ = io.Copy(io.Discard, c)
			}, nil, "does not look like a TLS handshake"},
		// In TLS 1.3 the client is done before the server has said no.
		"refused behind the handshake": {both, want{outcome: timeline.Malformed, phase: timeline.PhaseFirstByte}, nil,
			func(c *net.TCPConn, p flow.Protocol) {
				conf := identity().server(p)
				conf.ClientAuth = tls.RequireAnyClientCert
				shake(c, conf)
			}, []string{"alert alert=certificate required", "fin"}, "certificate required"},
	} {
		for _, proto := range c.protos {
			for _, carried := range carriers {
				t.Run(name+"/"+string(proto)+"/"+carried.name, func(t *testing.T) {
					addr := accept(t, func(_ int, conn *net.TCPConn) {
						c.serve(conn, proto)
						// What is unread would make an RST of the end.
						_ = conn.CloseWrite()
						_, _ = io.Copy(io.Discard, conn)
					})
					s := testStream(addr, load.Profile{Flow: flow.Flow{Protocol: proto, Conns: carried.conns, Op: flow.Get, Delay: carried.delay}})
					if c.change != nil {
						c.change(&s)
					}
					st, r := idleStream(t, s, 1)
					st.attempt(timeline.Monotonic(), 0)
					x := r.all()[0]
					if c.err == "certificate required" && x.Phase == timeline.PhaseWrite {
						x.Phase = timeline.PhaseFirstByte // it may come before the request was written
					}
					c.want.check(t, x)
					if x.Conn != 1 || x.Nth != 1 || x.Dial == 0 || x.Local == "" || !strings.Contains(x.Err, c.err) {
						t.Errorf("want %q in the error, and a connection: %s", c.err, text(x))
					}
					want := c.told
					if carried.conns == flow.Reused {
						want = append(slices.Clone(want), "close why=broken")
					}
					gomega.NewWithT(t).Eventually(func() []string { return r.told(1) }).WithTimeout(patience).
						WithPolling(time.Millisecond).Should(gomega.Equal(want))
				})
			}
		}
	}
}

// A handshake that is not answered takes the attempt's whole budget.
func TestStalledHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, server := inMemory(t, 0)
		go func() { _, _ = io.Copy(io.Discard, server) }()
		s, _ := unpaced(t, testStream("127.0.0.1:80", load.Profile{Flow: flow.Flow{Protocol: flow.H2, Conns: flow.New, Op: flow.Get}}))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begun, a := time.Now(), &attempt{stream: s}
		err := s.speak(ctx, a, s.newLink(f))
		if outcome(err) != timeline.Timeout || a.Phase != timeline.PhaseTLS || time.Since(begun) != 3*time.Second {
			t.Errorf("in phase %s after %v: %v", a.Phase, time.Since(begun), err)
		}
	})
}

// What ends in the middle of an answer is the same in TLS, and its end is told.
func TestCutInTLS(t *testing.T) {
	t.Parallel()
	half := func(id string) string { return answer(id, 100, "200 OK", "Content-Length: 256") }
	truncated := want{timeline.Truncated, timeline.PhaseBody, 200, 100, false}
	for name, c := range map[string]struct {
		want  want
		serve func(e farEnd, id string)
		told  []string
	}{
		"close_notify and fin in the body": {truncated,
			func(e farEnd, id string) { fmt.Fprint(e, half(id)); _ = e.CloseWrite() }, []string{"close-notify", "fin"}},
		"fin in the body": {truncated,
			func(e farEnd, id string) { fmt.Fprint(e, half(id)); _ = e.tcp.CloseWrite() }, []string{"fin"}},
		"rst in the body": {want{timeline.Reset, timeline.PhaseBody, 200, 100, false},
			func(e farEnd, id string) { fmt.Fprint(e, half(id)); arrived(t, e.tcp); reset(e.tcp) }, []string{"rst"}},
		"close_notify and fin before the first byte": {want{timeline.Closed, timeline.PhaseFirstByte, 0, 0, false},
			func(e farEnd, _ string) { _ = e.CloseWrite() }, []string{"close-notify", "fin"}},
		"fin before the first byte": {want{timeline.Closed, timeline.PhaseFirstByte, 0, 0, false},
			func(e farEnd, _ string) { _ = e.tcp.CloseWrite() }, []string{"fin"}},
		"a body that ends with the connection": {want{timeline.OK, timeline.PhaseDone, 200, 256, true},
			func(e farEnd, id string) { fmt.Fprint(e, answer(id, 256, "200 OK")); _ = e.CloseWrite() }, []string{"close-notify", "fin"}},
	} {
		for _, carried := range carriers {
			t.Run(name+"/"+carried.name, func(t *testing.T) {
				addr := accept(t, func(_ int, tcp *net.TCPConn) {
					e := newFarEnd(tcp, flow.TLS1)
					if id, err := e.request(); err == nil {
						c.serve(e, id)
						_, _ = io.Copy(io.Discard, tcp)
					}
				})
				st, r := idleStream(t, testStream(addr, load.Profile{Flow: flow.Flow{Protocol: flow.TLS1, Conns: carried.conns, Op: flow.Get, Delay: carried.delay}}), 1)
				st.attempt(timeline.Monotonic(), 0)
				c.want.check(t, r.all()[0])
				// The client's own close is told behind it, and not for each.
				told := func() []string {
					return slices.DeleteFunc(r.told(1), func(s string) bool { return strings.HasPrefix(s, string(timeline.FrameClose)+" ") })
				}
				gomega.NewWithT(t).Eventually(told).WithTimeout(patience).WithPolling(time.Millisecond).Should(gomega.Equal(c.told))
			})
		}
	}
}
