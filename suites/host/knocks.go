// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/redirect"
	"github.com/lastcall-dev/lastcall/fixtures/serve"
	"github.com/lastcall-dev/lastcall/load/knock"
)

// A node's ports are knocked at from before its next proxy begins until behind the end of the last one: so long
// before that is told to go at least, and so long behind that.
const (
	knocksBefore = 1250 * time.Millisecond
	knocksAfter  = 1750 * time.Millisecond
)

// knocksEvery is how often each port is knocked at, and knockPatience how long an answer may take: longer than
// TCP's first retransmission of a SYN that nobody answered.
// What comes without a tunnel comes less often: there is no more time for it on two cores.
const (
	knocksEvery   = time.Millisecond
	plainEvery    = 4 * time.Millisecond
	knockPatience = 3 * time.Second
)

// knock has a workload of the node be knocked at until its result is called. At its port for tunnels, and at the one that takes
// what comes without one, it is done from a pod outside of the mesh: of the latter a server within the workload is dialled. At the one that
// takes what its app sends out, from within: there a server in that other pod is dialled. Each of these servers says a byte, so that
// the redirect leads to the proxy, and the proxy on in plain text.
func (m *meshed) knock(ctx context.Context, n *nodeSide) (stop func() error, err error) {
	of, err := m.firstOn(n)
	if err != nil {
		return nil, err
	}
	ip, err := netip.ParseAddr(of.Backend().Address)
	if err != nil {
		return nil, err
	}
	hello, err := knock.Hello()
	if err != nil {
		return nil, err
	}
	outside, err := m.bench.network.PodOn(n.nth)
	if err != nil {
		return nil, err
	}
	there, err := greeter(ctx, outside.Within, outside.Addr())
	if err != nil {
		return nil, errors.Join(err, outside.Close())
	}
	here, err := greeter(ctx, of.Within, ip)
	if err != nil {
		return nil, errors.Join(err, there.Close(), outside.Close())
	}
	at := func(l net.Listener) netip.AddrPort { return l.Addr().(*net.TCPAddr).AddrPort() }
	knocks := knock.Begin(ctx, knock.Config{
		Every: knocksEvery, Patience: knockPatience,
		Ports: []knock.Port{
			{At: netip.AddrPortFrom(ip, redirect.TunnelPort), Within: outside.Within, Says: hello},
			{At: at(there), Within: of.Within, Says: []byte("?"), Number: redirect.OutboundPort},
			{At: at(here), Within: outside.Within, Says: []byte("?"), Number: redirect.InboundPort, Every: plainEvery},
		},
		Emit:  m.sink.Event,
		Event: timeline.Event{Source: "runner", Subject: of.UID(), Name: of.Name(), Node: n.name},
	})
	return func() error { return errors.Join(knocks.Stop(), there.Close(), here.Close(), outside.Close()) }, nil
}

// greeter listens at an address within a pod, and answers each connection, until it is closed.
func greeter(ctx context.Context, within func(func() error) error, at netip.Addr) (l net.Listener, err error) {
	err = within(func() (err error) {
		l, err = new(net.ListenConfig).Listen(ctx, "tcp", netip.AddrPortFrom(at, 0).String())
		return err
	})
	if err == nil {
		go func() { _ = serve.Accept(ctx, l.Accept, func(c net.Conn) { go greet(c) }) }()
	}
	return l, err
}

// greet answers a connection by a byte, and holds it until the client has gone.
func greet(c net.Conn) {
	defer c.Close()
	if _, err := c.Write([]byte("!")); err == nil {
		_, _ = io.Copy(io.Discard, c)
	}
}
