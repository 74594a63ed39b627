// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/redirect"
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
const (
	knocksEvery   = time.Millisecond
	knockPatience = 3 * time.Second
)

// knock has a workload of the node be knocked at until its result is called: at its port for tunnels, from a pod
// outside of the mesh, and from within at the one that takes what its app sends out. (What is not redirected
// there gets a reset, but gets it from who listens.)
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
	own := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if ip.Is6() {
		own = netip.IPv6Loopback()
	}
	knocks := knock.Begin(ctx, knock.Config{
		Every: knocksEvery, Patience: knockPatience,
		Ports: []knock.Port{
			{At: netip.AddrPortFrom(ip, redirect.TunnelPort), Within: outside.Within, Says: hello},
			{At: netip.AddrPortFrom(own, redirect.OutboundPort), Within: of.Within},
		},
		Emit:  m.sink.Event,
		Event: timeline.Event{Source: "runner", Subject: of.UID(), Name: of.Name(), Node: n.name},
	})
	return func() error { return errors.Join(knocks.Stop(), outside.Close()) }, nil
}
