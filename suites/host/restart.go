// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/bench/chain"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/host"
	"github.com/lastcall-dev/lastcall/fixtures/system"
)

// The times of a node that restarts without a drain.
const (
	// downFor is how long nothing runs on it.
	downFor = time.Second
	// upFor is how long it is left alone when its pods are ready again.
	upFor = 5 * time.Second
)

// comings are when a node's agent and its proxy are started after its pods: when the first ADD of each pod has been given
// up, and the second one waits, so that it finds what is there by then.
var comings = []struct{ agent, proxy time.Duration }{
	{firstAddWithin + addAgain + 500*time.Millisecond, firstAddWithin + addAgain + 1500*time.Millisecond},
	{firstAddWithin + addAgain + 500*time.Millisecond, time.Second},
}

// restarts says whether a node restarts without a drain.
func (m *meshed) restarts() bool { return m.scenario.Disrupt.Kind == disrupt.RestartNode }

// losesNode says whether a node loses its proxy or its agent, or all that it has.
func (m *meshed) losesNode() bool { return m.crashes() || m.restarts() }

// calling is the reference app that sends out from its own start on, where its node restarts.
func (m *meshed) calling(app *system.System) *system.System {
	if !m.restarts() {
		return app
	}
	out, started := *app, *app.Host
	started.Command = append(slices.Clone(started.Command), "--calls-at-once")
	out.Host = &started
	return &out
}

// restartNode has a node restart without a drain, once in each order in which its agent and its proxy come back.
func (m *meshed) restartNode(ctx context.Context) error {
	m.crashing.Store(true)
	n := m.nodes[crashed]
	for nth, when := range comings {
		if err := m.restart(ctx, n, when.agent, when.proxy); err != nil {
			return fmt.Errorf("restart %d of %s: %w", nth+1, n.name, err)
		}
	}
	return nil
}

// restart takes all that a node has away, and brings it back: first its pods, and its agent and its proxy so long after
// these.
func (m *meshed) restart(ctx context.Context, n *nodeSide, agent, proxy time.Duration) error {
	here := slices.DeleteFunc(m.fleet.Instances(), func(i *host.Instance) bool { return i.Node() != n.name })
	var old []chain.Sandbox
	for _, i := range here {
		m.mu.Lock()
		pod := m.pods[i.UID()]
		m.mu.Unlock()
		s, err := n.sandbox(pod)
		if err != nil {
			return err
		}
		old = append(old, s)
	}
	if err := m.down(n, here); err != nil {
		return err
	}
	if err := disrupt.Pause(ctx, downFor); err != nil {
		return err
	}
	m.node(n, timeline.NodeUp)
	all, within := errgroup.WithContext(ctx)
	for nth, i := range here {
		all.Go(func() error {
			// Its runtime ends what it had, of which nothing but its own notes is left.
			if err := n.runtime.Of(old[nth]).DelAgain(within); err != nil {
				return fmt.Errorf("DEL of what %s was before: %w", i.Name(), err)
			}
			return i.Up(within)
		})
	}
	all.Go(func() error {
		if err := disrupt.Pause(within, agent); err != nil {
			return err
		}
		return m.startAgent(n)
	})
	all.Go(func() error {
		if err := disrupt.Pause(within, proxy); err != nil {
			return err
		}
		return m.startProxy(within, n)
	})
	if err := all.Wait(); err != nil {
		return err
	}
	return disrupt.Pause(ctx, upFor)
}

// down kills all that runs on a node at once: nobody is told to go, and no plugin is called. Its runtime's own notes and
// the API server's word are what is left.
func (m *meshed) down(n *nodeSide, here []*host.Instance) error {
	m.node(n, timeline.NodeDown)
	last, agent := n.last(), n.running
	close(last.told)
	close(n.ends)
	m.proxy(n, last, timeline.NodeProxyKilled)
	m.agent(n, timeline.NodeAgentKilled)
	var all errgroup.Group
	all.Go(func() error { last.running.Kill(); return last.pod.Close() })
	all.Go(func() error { agent.Kill(); return nil })
	for _, i := range here {
		all.Go(i.Down)
	}
	err := all.Wait()
	n.starts++
	// What is in its memory alone (/run): what the plugin noted, and sockets.
	for _, name := range []string{n.in("noted"), n.in(agents), n.zds()} {
		err = errors.Join(err, os.RemoveAll(name))
	}
	return err
}

// node tells what becomes of a node.
func (m *meshed) node(n *nodeSide, is string) {
	m.sink.Event(timeline.Event{Source: "runner", Kind: timeline.NodeRestart, Subject: n.name, Name: n.name, Node: n.name, Attrs: map[string]string{"is": is}})
}
