// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/system"
)

// The times of node proxies that have little time for their ends.
const (
	// leastGrace is the kubelet's minimum: it gives a container so long between SIGTERM and SIGKILL, however short the
	// grace period is.
	leastGrace = 2 * time.Second
	// refillsFor is how long a proxy serves before it is told to go: it carries something by then that does not end.
	refillsFor = 5 * time.Second
)

// graceOf is the grace period that the nth proxy of a node is told of; nil: of none.
func (m *meshed) graceOf(nth int) *system.Duration {
	all := disrupt.ProxyGraces()
	if m.scenario.Disrupt.Kind != disrupt.HurryProxies || nth >= len(all) {
		return nil
	}
	return new(system.Duration(all[nth]))
}

// hurryProxies replaces the proxies of each node, one after the other, as often as there are grace periods.
func (m *meshed) hurryProxies(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	for _, n := range m.nodes {
		all.Go(func() error {
			for _, grace := range disrupt.ProxyGraces() {
				if err := m.hurry(ctx, n, grace); err != nil {
					return fmt.Errorf("replacing the proxy of %s: %w", n.name, err)
				}
			}
			return nil
		})
	}
	return all.Wait()
}

// hurry replaces a node's proxy, and kills it at the end of its grace period, as a kubelet does.
func (m *meshed) hurry(ctx context.Context, n *nodeSide, grace time.Duration) error {
	if err := disrupt.Pause(ctx, refillsFor); err != nil {
		return err
	}
	old, kill := n.last(), max(grace, leastGrace)
	if err := m.startProxy(ctx, n); err != nil {
		return err
	}
	if err := m.endProxy(n, old, map[string]string{"grace": grace.String(), "kill": kill.String()}); err != nil {
		return err
	}
	end := time.NewTimer(kill)
	defer end.Stop()
	select {
	case <-old.running.Done():
	case <-end.C:
		m.proxy(n, old, timeline.NodeProxyKilled)
		old.running.Kill()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
