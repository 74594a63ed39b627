// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/system"
)

// The times of node proxies that have little time for their ends, or nobody beside them.
const (
	// leastGrace is the kubelet's minimum: it gives a container so long between SIGTERM and SIGKILL, however short the
	// grace period is.
	leastGrace = 2 * time.Second
	// refillsFor is how long a proxy serves before it is told to go: it carries something by then that does not end.
	refillsFor = 5 * time.Second
	// stillFor is how long a proxy stands still: for less than an agent waits for an acknowledgement, or anybody for an answer. calms
	// is how long behind that it is as ever: who began within three seconds has ended.
	stillFor = 2 * time.Second
	calms    = 6 * time.Second
	// nextComes is how long after a proxy's end its node has the next one, where that does not stand beside it: what
	// a controller, a scheduler and a kubelet take.
	nextComes = 2 * time.Second
	// dialledAgain is how long behind that who was turned away has dialled again, and what comes of it is seen: with the
	// recording's tail 3 s more than a pool may wait.
	dialledAgain = 9 * time.Second
)

// graceOf is the grace period that the nth proxy of a node is told of; nil: of none.
func (m *meshed) graceOf(nth int) *system.Duration {
	all := disrupt.ProxyGraces()
	if m.scenario.Disrupt.Kind != disrupt.HurryProxies || nth >= len(all) {
		return nil
	}
	return new(system.Duration(all[nth]))
}

// restartsInPlace says whether a node is without a proxy for a while, because nobody stood beside the one that went.
func (m *meshed) restartsInPlace() bool {
	return m.scenario.Disrupt.Kind == disrupt.RestartInPlace
}

// restartInPlace stops the proxy of a node for a moment. Then it tells it to go, and starts the next one when it is gone, as the
// roll-out of a DaemonSet without a surge does. It returns when those have been turned away meanwhile who may wait the longest have dialled again.
func (m *meshed) restartInPlace(ctx context.Context) error {
	n := m.nodes[crashed]
	old := n.last()
	if err := m.stall(ctx, n, old); err != nil {
		return err
	}
	if err := m.endProxy(n, old, nil); err != nil {
		return err
	}
	if err := old.running.Await(ctx); err != nil {
		return err
	}
	if err := disrupt.Pause(ctx, nextComes); err != nil {
		return err
	}
	if err := m.startProxy(ctx, n); err != nil {
		return err
	}
	return disrupt.Pause(ctx, dialledAgain)
}

// stall stops a proxy, and has it go on.
func (m *meshed) stall(ctx context.Context, n *nodeSide, p *nodeProxy) error {
	if err := p.running.Stop(); err != nil {
		return err
	}
	m.proxy(n, p, timeline.NodeProxyStopped)
	paused := disrupt.Pause(ctx, stillFor)
	m.proxy(n, p, timeline.NodeProxyContinues)
	return errors.Join(p.running.Continue(), paused, disrupt.Pause(ctx, calms))
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
	return m.awaitEnd(ctx, n, old, kill)
}

// awaitEnd waits for the end of a proxy that was told to go, and kills it so much later, as a kubelet does at the end of its grace period.
func (m *meshed) awaitEnd(ctx context.Context, n *nodeSide, p *nodeProxy, kill time.Duration) error {
	end := time.NewTimer(kill)
	defer end.Stop()
	select {
	case <-p.running.Done():
	case <-end.C:
		m.proxy(n, p, timeline.NodeProxyKilled)
		p.running.Kill()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
