// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	corev1 "k8s.io/api/core/v1"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/appsockets"
	"github.com/lastcall-dev/lastcall/fixtures/bench"
	"github.com/lastcall-dev/lastcall/fixtures/bench/chain"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/host"
	"github.com/lastcall-dev/lastcall/fixtures/redirect"
	"github.com/lastcall-dev/lastcall/fixtures/zds"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

// crashed is the node whose proxy and agent are killed: the clients are on another. A pod that replaces one that
// is deleted meanwhile stands there too.
const crashed = 0

// The times of a node whose proxy, or agent, is away.
const (
	// deletedAfter is how long it is away when a pod is deleted, and backAfter how long that is gone
	// when it comes back.
	deletedAfter = 500 * time.Millisecond
	backAfter    = time.Second
	// goneWithin is how long the pod's end is waited for: one that hangs on who is away ends when that is back.
	goneWithin = 25 * time.Second
	// heldAfter is how long it is back, and the new pod ready, when the node is looked at.
	heldAfter = 2 * time.Second
)

// The first ADD of a pod while who serves it is away is given up by the plugin within that time, as it is in a cluster
// where that lasts for longer than the plugin's own bound. The runtime calls ADD again, which waits then until
// all are back.
const (
	firstAddWithin = 2 * time.Second
	addAgain       = time.Second
	addTries       = 3
)

// namedWithin is how long an agent may take to name all that it holds.
const namedWithin = 5 * time.Second

// crashes says whether a node's proxy and its agent are killed.
func (m *meshed) crashes() bool { return m.scenario.Disrupt.Kind == disrupt.CrashNode }

// crashNode kills a node's proxy, and then its agent, each of which comes back when a pod of the node has been
// deleted and is gone. Another pod begins there meanwhile. At the end it has the agent be replaced by another one.
func (m *meshed) crashNode(ctx context.Context) error {
	m.crashing.Store(true)
	n := m.nodes[crashed]
	if err := m.whileAway(ctx, n, func() {
		last := n.last()
		close(last.told)
		m.proxy(n, last, timeline.NodeProxyKilled)
		last.running.Kill()
	}, func() error { return m.startProxy(ctx, n) }); err != nil {
		return fmt.Errorf("the proxy of %s: %w", n.name, err)
	}
	// Until then peers may wait that were turned away: what they feel is the proxy's, and one of whom they dial ends next.
	if err := disrupt.Pause(ctx, dialledAgain); err != nil {
		return err
	}
	if err := m.whileAway(ctx, n, func() {
		close(n.ends)
		m.agent(n, timeline.NodeAgentKilled)
		n.running.Kill()
	}, func() error { return m.startAgent(n) }); err != nil {
		return fmt.Errorf("the agent of %s: %w", n.name, err)
	}
	return m.rollAgent(ctx, n)
}

// rollAgent tells the agent of a node to go, and starts the next one when it is gone.
func (m *meshed) rollAgent(ctx context.Context, n *nodeSide) error {
	old := n.running
	close(n.ends)
	m.agent(n, timeline.NodeAgentTold)
	if err := old.Terminate(); err != nil {
		return err
	}
	if err := old.Await(ctx); err != nil {
		return err
	}
	return m.startAgent(n)
}

// whileAway deletes a pod of a node between kill and start, which is replaced there, and looks at what the node has
// of it later.
func (m *meshed) whileAway(ctx context.Context, n *nodeSide, kill func(), start func() error) error {
	of, err := m.firstOn(n)
	if err != nil {
		return err
	}
	space, err := os.Open(of.Network().Namespace()) // which is not to be another's before it was looked at
	if err != nil {
		return err
	}
	defer space.Close()

	kill()
	if err := disrupt.Pause(ctx, deletedAfter); err != nil {
		return err
	}
	all, within := errgroup.WithContext(ctx)
	all.Go(func() error {
		x := host.Disrupter{Fleet: m.fleet, Of: func(i *host.Instance) bool { return i == of }}
		return x.Run(within, disrupt.DeleteEach(1))
	})
	all.Go(func() error {
		late := time.NewTimer(goneWithin)
		defer late.Stop()
		select {
		case <-of.Gone():
		case <-late.C:
		case <-within.Done():
			return context.Cause(within)
		}
		return errors.Join(disrupt.Pause(within, backAfter), start())
	})
	if err := all.Wait(); err != nil {
		return err
	}
	if err := disrupt.Pause(ctx, heldAfter); err != nil {
		return err
	}
	if err := m.holds(ctx, n, of, space); err != nil {
		return fmt.Errorf("what is left of %s: %w", of.Name(), err)
	}
	return m.afterwards(ctx, n, of.Name())
}

// holds tells what a node has of a pod that is gone.
func (m *meshed) holds(ctx context.Context, n *nodeSide, of *host.Instance, space *os.File) error {
	attrs, err := n.has(space)
	if err != nil {
		return err
	}
	named, err := n.named(ctx)
	if err != nil {
		return err
	}
	attrs["named"] = strconv.FormatBool(slices.Contains(named, of.UID()))
	m.sink.Event(timeline.Event{Source: node, Kind: timeline.NodeHolds, Subject: of.UID(), Name: of.Name(), Node: n.name, Attrs: attrs})
	return nil
}

// has says what is left of a pod that is gone, by its network: the sockets that somebody holds there, and who of the node's has it open.
func (n *nodeSide) has(space *os.File) (map[string]string, error) {
	var held []appsockets.Socket
	err := redirect.Within(space, func() (err error) {
		held, err = appsockets.Held()
		return err
	})
	if err != nil {
		return nil, err
	}
	keeps, err := n.keeps(space)
	if err != nil {
		return nil, err
	}
	return map[string]string{"held": appsockets.Words(held), "keeps": strings.Join(keeps, " ")}, nil
}

// keeps are who of the node's agent and its proxies has a network namespace open, or a thread in it.
func (n *nodeSide) keeps(space *os.File) ([]string, error) {
	var is unix.Stat_t
	if err := unix.Fstat(int(space.Fd()), &is); err != nil {
		return nil, fmt.Errorf("%s: %w", space.Name(), err)
	}
	link := fmt.Sprintf("net:[%d]", is.Ino)
	var out []string
	look := func(name string, c *host.Container) error {
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", c.PID()))
		threads, err2 := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/ns/net", c.PID()))
		err = errors.Join(err, err2)
		for _, f := range slices.Concat(files, threads) {
			to, err := os.Readlink(f)
			if errors.Is(err, fs.ErrNotExist) {
				continue // it has just closed it, or ended it
			}
			if err != nil {
				return err
			}
			if to == link {
				out = append(out, name)
				break
			}
		}
		return err
	}
	err := look(agentName, n.running)
	for _, p := range n.proxies {
		err = errors.Join(err, look(p.name, p.running))
	}
	return out, err
}

// named are the UIDs of the pods that the node's agent names to a proxy that asks for all: one of the stage's own
// asks, which is there for no longer than that.
func (n *nodeSide) named(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, namedWithin, fmt.Errorf("not within %s", namedWithin))
	defer cancel()
	all, said := &asking{}, &strings.Builder{}
	all.synced = func() { all.whole = true; cancel() }
	zds.NewClient(zds.ClientConfig{Address: n.zds(), Proxy: all, Log: log.New(said, "", 0)}).Run(ctx)
	if !all.whole {
		return nil, fmt.Errorf("the agent of %s names no pods: %w; %s", n.name, context.Cause(ctx), said)
	}
	return all.uids, nil
}

// asking is a proxy that serves nobody. It implements zds.Proxy and zds.Served.
type asking struct {
	uids   []string
	whole  bool
	synced func()
}

// Begin implements zds.Proxy.
func (a *asking) Begin(_ context.Context, w zds.Workload, _ *os.File) (zds.Served, error) {
	a.uids = append(a.uids, w.UID)
	return a, nil
}

// Synced implements zds.Proxy.
func (a *asking) Synced() { a.synced() }

// End implements zds.Served.
func (a *asking) End(context.Context) error { return nil }

// afterwards has a pod begin and end on a node on which all are up: who waits for a word that can't come takes
// part in neither.
func (m *meshed) afterwards(ctx context.Context, n *nodeSide, of string) error {
	r := &runtimeCalls{meshed: m, node: n, agent: timeline.CNIUp, proxy: timeline.CNIUp}
	pods, err := r.open(n.runtime, "after-"+of, 1)
	if err != nil {
		return err
	}
	r.addAll(ctx, pods)
	r.delAll(ctx, pods)
	return r.close(pods...)
}

// callOut has an instance that came while a node's proxy or its agent was away begin what it sends out, as soon
// as it is ready.
func (m *meshed) callOut(e timeline.Event) {
	if e.Kind != timeline.PodReady || e.Attrs["ready"] != "true" || !m.crashes() || !m.crashing.Load() || m.ctx.Err() != nil {
		return
	}
	m.tasks.Go(func() {
		all := m.fleet.Instances()
		at := slices.IndexFunc(all, func(i *host.Instance) bool { return i.UID() == e.Subject })
		if at < 0 {
			return // it ends already
		}
		if err := all[at].Signal(behaviour.CallsBegin); err != nil {
			m.lost("what "+e.Name+" sends out", err)
		}
	})
}

// furnishTold is furnish, and has the recording told of the pod's begin.
func (m *meshed) furnishTold(n *nodeSide, pod *corev1.Pod) (host.Beside, error) {
	s, err := n.sandbox(pod)
	a := toldAdd{attachment: n.attachment(s), of: m, pod: pod}
	if a.first = a.attachment; m.crashing.Load() {
		hasty := m.chain(n)
		hasty.AddWithin = firstAddWithin
		a.first = chain.New(hasty).Of(s)
	}
	return host.Beside{Attachment: a}, err
}

// toldAdd is the network of a pod, of whose begin is told, and which the runtime begins again when that has failed.
type toldAdd struct {
	attachment
	first host.Attachment // of which ADD is called first
	of    *meshed
	pod   *corev1.Pod
}

// Add implements host.Attachment.
func (a toldAdd) Add(ctx context.Context, p *bench.Pod) error {
	by := a.first
	for try := 1; ; try++ {
		begun := timeline.Monotonic()
		err := by.Add(ctx, p)
		a.tell(p, begun, err)
		if err == nil || try == addTries || ctx.Err() != nil {
			return err
		}
		if err := errors.Join(a.Del(ctx, p), disrupt.Pause(ctx, addAgain)); err != nil {
			return err
		}
		by = a.Attachment
	}
}

// tell tells of an ADD, and what stands in the pod's network when it is over.
func (a toldAdd) tell(p *bench.Pod, begun time.Duration, failed error) {
	e := timeline.Event{
		At: timeline.Monotonic(), Kind: timeline.CNIAdd, Source: node,
		Subject: string(a.pod.UID), Name: a.pod.Name, Node: a.pod.Spec.NodeName, Attrs: map[string]string{},
	}
	e.Attrs["took"] = (e.At - begun).String()
	var ips []string
	for _, ip := range p.Addrs() {
		ips = append(ips, ip.String())
	}
	e.Attrs["ips"] = strings.Join(ips, " ")
	if failed != nil {
		e.Attrs["error"] = failed.Error()
	}
	held, err := meshHeld(p)
	if err == nil {
		e.Attrs["held"] = appsockets.Words(held)
	}
	var rules redirect.State
	space, unseen := os.Open(p.Namespace())
	if unseen == nil {
		rules, unseen = redirect.Show(space)
		unseen = errors.Join(unseen, space.Close())
	}
	if unseen == nil {
		e.Attrs["redirects"] = strconv.FormatBool(rules.Redirects())
	}
	if err := errors.Join(err, unseen); err != nil {
		a.of.lost("the network of "+a.pod.Name, err)
	}
	if a.of.ctx.Err() == nil {
		a.of.sink.Emit(timeline.Record{Event: &e}, 0)
	}
}
