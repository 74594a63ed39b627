// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/redirect"
	"github.com/lastcall-dev/lastcall/fixtures/wire"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// elsewhere are the interfaces of a node at which nothing comes in from its pods: its own processes speak at the first, and other
// nodes at the second, which is the one that an engine gives a container.
var elsewhere = []string{"lo", "eth0"}

// addresses are those of a recording's pods, or of its Services.
type addresses struct {
	mu  sync.Mutex
	all map[netip.Addr]bool
}

func (a *addresses) add(ips ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[netip.Addr]bool{}
	}
	for _, ip := range ips {
		if at, err := netip.ParseAddr(ip); err == nil {
			a.all[at] = true
		}
	}
}

func (a *addresses) has(at netip.Addr) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all[at]
}

// locate takes what the watch shows of a pod. All are in the recording's mesh but one of our clients, and who serves the others: a
// node proxy speaks to its controllers from its own pod, and an agent's addresses are its node's.
func (g *ground) locate(e timeline.Event) {
	all := &g.meshedAt
	if e.Name == scoutName || g.byNodes() && (strings.HasPrefix(e.Name, g.proxies().Name+"-") || strings.HasPrefix(e.Name, nodeAgents+"-")) {
		all = &g.strangerAt
	}
	all.add(strings.Fields(e.Attrs["ips"])...)
}

// wired says whether somebody looks at what the recording's pods say, at their nodes: where a behaviour needs that, where an app
// begins before its sidecar serves, and where pods end whose node's proxy outlives them. alone: at tunnels alone.
func (g *ground) wired() (is, alone bool) {
	s := g.scenario
	switch {
	case !g.meshed() || g.stage.cfg.Networks == nil:
		return false, false
	case s.Needs(spec.Wire), s.Topology.Late > 0:
		return true, false
	}
	alone = g.byNodes() && s.Disrupt.Kind == disrupt.Delete && s.TunnelsAlone()
	return alone, alone
}

// watchWire has the recording told of what its pods say to each other, or of their tunnels alone, where it is wired.
func (g *ground) watchWire(ctx context.Context) error {
	is, alone := g.wired()
	if !is {
		return nil
	}
	spaces, err := g.stage.cfg.Networks(ctx)
	if err != nil {
		return err
	}
	var places []wire.Place
	for _, space := range spaces {
		p := wire.Place{Space: space, Tunnels: alone}
		err = errors.Join(err, redirect.Within(space, func() error {
			for _, name := range elsewhere {
				link, err := net.InterfaceByName(name)
				if err != nil {
					return fmt.Errorf("interface %s of a node: %w", name, err)
				}
				p.But = append(p.But, link.Index)
			}
			return nil
		}))
		places = append(places, p)
	}
	tell := func(e timeline.Event) {
		e.Source = "nodes"
		g.sink.Event(e)
	}
	// Of a pod that begins the watch does not have the address yet, and nobody but the recording's own dials these.
	w := behaviour.NewWire(tell, func(a netip.Addr) bool { return !g.strangerAt.has(a) },
		func(a netip.Addr) bool { return g.meshedAt.has(a) || g.calledAt.has(a) })
	var wait func() error
	if err == nil {
		wait, err = wire.Watch(g.ctx, places, w.See)
	}
	for _, space := range spaces {
		err = errors.Join(err, space.Close())
	}
	if err != nil {
		return err
	}
	w.Watched()
	g.tasks.Go(func() { w.Over(wait()) })
	return nil
}
