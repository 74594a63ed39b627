// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/bench"
	"github.com/lastcall-dev/lastcall/fixtures/bench/chain"
	"github.com/lastcall-dev/lastcall/fixtures/cni"
	"github.com/lastcall-dev/lastcall/fixtures/controller"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/enrolment"
	"github.com/lastcall-dev/lastcall/fixtures/health"
	"github.com/lastcall-dev/lastcall/fixtures/host"
	"github.com/lastcall-dev/lastcall/fixtures/injector"
	"github.com/lastcall-dev/lastcall/fixtures/issuer"
	"github.com/lastcall-dev/lastcall/fixtures/membership"
	"github.com/lastcall-dev/lastcall/fixtures/nodeagent"
	"github.com/lastcall-dev/lastcall/fixtures/nodeagent/folder"
	"github.com/lastcall-dev/lastcall/fixtures/nodeproxy"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// What runs once on each node, in a pod of its own.
const (
	agentName = "node-agent"
	proxyName = "node-proxy"
)

// nodeBudget is how long a node's agent and its proxy may take to serve.
const nodeBudget = time.Minute

// nodeSide is one of the bench's nodes in a recording whose pods their nodes' proxies serve: it has an agent
// and a proxy of the recording's own, and a container runtime that calls the CNI plugin.
type nodeSide struct {
	name    string
	nth     int
	dir     string
	pods    folder.Source // what the agent knows of the node's pods
	runtime *chain.Chain
	agent   *host.Pod
	running *host.Container // the agent
	ends    chan struct{}   // closed when the agent is ended
	proxies []*nodeProxy    // the last of them serves
	starts  int             // how often it has restarted
}

// nodeProxy is one of a node's proxies, in a pod of its own.
type nodeProxy struct {
	name    string
	pod     *host.Pod
	running *host.Container
	// told is closed when it was told to go.
	told chan struct{}
}

// gone says whether its process has ended.
func (p *nodeProxy) gone() bool {
	select {
	case <-p.running.Done():
		return true
	default:
		return false
	}
}

// agents is the folder of the socket at which a plugin asks its agent. Behind it the recording's name stands a second time in that
// socket's path, of which there may be 107 bytes.
const agents = "a"

func (n *nodeSide) in(name string) string { return filepath.Join(n.dir, name) }

// zds is the socket of its agent for proxies.
func (n *nodeSide) zds() string { return n.in("zds.sock") }

// last is its proxy that serves.
func (n *nodeSide) last() *nodeProxy { return n.proxies[len(n.proxies)-1] }

// byNodes says whether the recording's pods are served by their nodes' proxies.
func (m *meshed) byNodes() bool { return m.subject.Stands().Role == system.NodeProxy }

// spread has instances alternate between the nodes, where there is more than one that counts.
func (m *meshed) spread() func(nth int) int {
	if !m.byNodes() {
		return nil
	}
	return func(nth int) int {
		if m.crashes() && nth >= m.scenario.Topology.Replicas {
			return crashed
		}
		return nth % bench.Nodes
	}
}

// clientNode is the node of the clients: the last one, so that some of whom they call are on another.
func (m *meshed) clientNode() int {
	if m.byNodes() {
		return bench.Nodes - 1
	}
	return 0
}

// openNodes puts agents and proxies up, where pods are served by them.
func (m *meshed) openNodes(ctx context.Context, dir, logs string) error {
	if !m.byNodes() {
		return nil
	}
	m.logs = logs
	for nth := range bench.Nodes {
		if _, err := m.openNode(ctx, nth, host.Node(nth), filepath.Join(dir, host.Node(nth))); err != nil {
			return err
		}
	}
	m.dir = dir
	return nil
}

// openNode puts an agent and a proxy up: those of the nth node of the network, under a name of its own. A socket's
// path is 107 bytes at most, of which dir may take no more than the folders of a view of the stage and of a recording, and a node's name.
func (m *meshed) openNode(ctx context.Context, nth int, name, dir string) (*nodeSide, error) {
	n := &nodeSide{name: name, nth: nth, dir: dir}
	m.nodes = append(m.nodes, n) // which are closed whatever comes of this
	if err := m.startNode(ctx, n); err != nil {
		return nil, fmt.Errorf("node %s: %w", name, err)
	}
	return n, nil
}

func (m *meshed) startNode(ctx context.Context, n *nodeSide) error {
	for _, d := range []string{"pods", "noted", agents, "plugins", "ledger"} {
		if err := os.MkdirAll(n.in(d), 0o755); err != nil {
			return err
		}
	}
	n.pods = folder.Source{Dir: n.in("pods")}
	// A runtime finds a plugin by its type.
	if err := os.Symlink(m.stage.cfg.Plugin, filepath.Join(n.in("plugins"), cni.Type)); err != nil {
		return err
	}
	n.runtime = chain.New(m.chain(n))
	name := agentName + "-" + n.name
	var err error
	if n.agent, err = host.OpenPod(m.bench.network, n.nth, name, n.in(name), m.logs); err != nil {
		return err
	}
	if err := m.startAgent(n); err != nil {
		return err
	}
	// Without its agent a proxy is never ready, and says no more than that.
	ctx, over := context.WithCancelCause(ctx)
	defer over(nil)
	agent := n.running
	m.tasks.Go(func() {
		select {
		case <-agent.Done():
			over(fmt.Errorf("its agent: %w", agent.Ended()))
		case <-ctx.Done():
		}
	})
	return m.startProxy(ctx, n)
}

// startAgent starts a node's agent, where there is none or the last one has ended.
func (m *meshed) startAgent(n *nodeSide) (err error) {
	ends := make(chan struct{})
	n.ends = ends
	n.running, err = n.agent.Run(agentName, system.Process{Env: nodeEnv, Command: append(slices.Clone(m.bench.command), "bench-node-agent",
		"--mesh="+m.namespace, "--agents="+n.in(agents), "--zds="+n.zds(), "--noted="+n.in("noted"), "--pods="+n.pods.Dir,
		"--fault="+string(m.faultOf(m.subject.System)))})
	if err != nil {
		return err
	}
	running := n.running
	m.agent(n, timeline.NodeAgentStarts)
	m.tasks.Go(func() { m.watchAgent(n.name, running, ends) })
	return nil
}

// agent tells what becomes of a node's agent.
func (m *meshed) agent(n *nodeSide, is string) {
	if m.ctx.Err() == nil {
		name := agentName + "-" + n.name
		m.sink.Event(timeline.Event{Source: "runner", Kind: timeline.NodeAgent, Subject: name, Name: name, Node: n.name, Attrs: map[string]string{"is": is}})
	}
}

// chain is what a node's runtime is made of.
func (m *meshed) chain(n *nodeSide) chain.Config {
	return chain.Config{
		Plugins: n.in("plugins"), Cache: n.in("cache"), State: enrolment.Store(n.in("noted")), Agents: n.in(agents),
		Ledger: n.in("ledger"), Fault: m.faultOf(m.subject.System),
	}
}

// watchAgent tells of the end of a node's agent, unless it is the suite that ends it.
func (m *meshed) watchAgent(of string, running *host.Container, ends <-chan struct{}) {
	select {
	case <-running.Done():
	case <-m.ctx.Done():
		return
	}
	select {
	case <-ends:
	default:
		m.lost("agent of "+of, running.Ended())
	}
}

// nodeEnv is that of what runs once on each node.
var nodeEnv = []string{"GOMAXPROCS=1", "GOGC=400"}

// startProxy starts a proxy on a node, beside those that there are, and returns when it serves.
func (m *meshed) startProxy(ctx context.Context, n *nodeSide) error {
	p := &nodeProxy{name: fmt.Sprintf("%s-%s-%d", proxyName, n.name, len(n.proxies)+1), told: make(chan struct{})}
	var err error
	if p.pod, err = host.OpenPod(m.bench.network, n.nth, p.name, n.in(p.name), m.logs); err != nil {
		return err
	}
	n.proxies = append(n.proxies, p)
	token, err := issuer.Token(m.bench.tokens, meshNamespace, proxyName, n.name, tokensLast)
	if err != nil {
		return err
	}
	settings := nodeproxy.Settings{Deadline: system.Duration(m.scenario.Topology.Deadline), Grace: m.graceOf(len(n.proxies) - 1), Fault: m.faultOf(m.subject.System)}
	p.running, err = p.pod.Run(proxyName, system.Process{
		Command: append(slices.Clone(m.bench.command), "node-proxy",
			"--settings="+settings.String(), "--zds="+n.zds(), "--controller="+m.bench.controllers(), "--server-name="+controller.ServerName(meshNamespace),
			"--token=token", "--node="+n.name, "--pod-name="+p.name, "--namespace="+meshNamespace),
		Env:   append(slices.Clone(nodeEnv), "LASTCALL_ROOTS="+string(m.bench.ca.PEM())),
		Files: map[string]string{"token": token},
	})
	if err != nil {
		return err
	}
	m.proxy(n, p, timeline.NodeProxyStarts)
	m.tasks.Go(func() { m.watchProxy(n, p) })
	ready := "http://" + net.JoinHostPort(p.pod.Address(), strconv.Itoa(nodeproxy.HealthPort)) + "/readyz"
	if err := disrupt.Await(ctx, nodeBudget, "the node proxy "+p.name, func(ctx context.Context) (bool, string, error) {
		select {
		case <-p.running.Done():
			return false, "", disrupt.Final(p.running.Ended())
		default:
			return true, "", health.Look(ctx, p.pod.Client(), ready)
		}
	}); err != nil {
		return err
	}
	m.proxy(n, p, timeline.NodeProxyServes)
	return nil
}

// watchProxy tells of a proxy's end: one that nobody told to go was to stay.
func (m *meshed) watchProxy(n *nodeSide, p *nodeProxy) {
	select {
	case <-p.running.Done():
	case <-m.ctx.Done():
		return
	}
	select {
	case <-p.told:
		m.proxy(n, p, timeline.NodeProxyGone)
	default:
		m.lost(p.name, p.running.Ended())
	}
}

// proxy tells what becomes of a node's proxy.
func (m *meshed) proxy(n *nodeSide, p *nodeProxy, is string) {
	m.tellProxy(n, p, is, nil)
}

// tellProxy is proxy, with more to say of it.
func (m *meshed) tellProxy(n *nodeSide, p *nodeProxy, is string, more map[string]string) {
	attrs := map[string]string{"is": is}
	maps.Copy(attrs, more)
	if m.ctx.Err() == nil {
		m.sink.Event(timeline.Event{Source: "runner", Kind: timeline.NodeProxy, Subject: p.name, Name: p.name, Node: n.name, Attrs: attrs})
	}
}

// endProxy tells a proxy to go, as a pod's deletion does, and the recording of it, with what more there is to say.
func (m *meshed) endProxy(n *nodeSide, p *nodeProxy, more map[string]string) error {
	close(p.told)
	m.tellProxy(n, p, timeline.NodeProxyTold, more)
	return p.running.Terminate()
}

// replaceProxies replaces the proxy of one node after the other, as the roll-out of a DaemonSet with a surge
// does: the next one serves before the last one is told to go. It returns when all that were told are gone.
func (m *meshed) replaceProxies(ctx context.Context) error {
	var ends []func() error
	for _, n := range m.nodes {
		last := n.last()
		told, err := m.replaceProxy(ctx, n, last)
		if err != nil {
			return fmt.Errorf("replacing %s: %w", last.name, err)
		}
		ends = append(ends, func() error { return m.awaitEnd(ctx, n, last, m.scenario.Topology.Grace-time.Since(told)) })
		if err := disrupt.Pause(ctx, betweenProxies); err != nil {
			return err
		}
	}
	for _, end := range ends {
		if err := end(); err != nil {
			return err
		}
	}
	return nil
}

// replaceProxy starts the next proxy of a node, and tells the last one to go. It returns when that may have handed over.
func (m *meshed) replaceProxy(ctx context.Context, n *nodeSide, last *nodeProxy) (told time.Time, err error) {
	knocks := func() error { return nil }
	if m.scenario.Needs(spec.Knocks) {
		if knocks, err = m.knock(ctx, n); err != nil {
			return told, err
		}
	}
	defer func() { err = errors.Join(err, knocks()) }()
	begun := time.Now()
	if err := m.startProxy(ctx, n); err != nil {
		return told, err
	}
	if err := disrupt.Pause(ctx, knocksBefore-time.Since(begun)); err != nil {
		return told, err
	}
	told = time.Now()
	if err := m.endProxy(n, last, nil); err != nil {
		return told, err
	}
	return told, disrupt.Pause(ctx, knocksAfter)
}

// betweenProxies is how long it lets be until the next node's proxy is replaced.
const betweenProxies = time.Second

// furnish has a pod of the node's be one that its proxy serves.
func (n *nodeSide) furnish(pod *corev1.Pod) (host.Beside, error) {
	s, err := n.sandbox(pod)
	return host.Beside{Attachment: n.attachment(s)}, err
}

// attachment is the network of a pod of the node's.
func (n *nodeSide) attachment(s chain.Sandbox) attachment {
	return attachment{n.runtime.Of(s), n.in("ledger"), s.UID}
}

// attachment is that of a pod, of whose end the plugin writes down in a folder what came of it.
type attachment struct {
	chain.Attachment
	ledger, uid string
}

var _ host.Ledgered = attachment{}

// Untold implements host.Ledgered.
func (a attachment) Untold() (string, error) { return cni.Untold(a.ledger, a.uid) }

// sandbox has the node's agent know of a pod, and is what its runtime knows.
func (n *nodeSide) sandbox(pod *corev1.Pod) (chain.Sandbox, error) {
	err := n.enrol(pod, true)
	return chain.Sandbox{
		ID: fmt.Sprintf("%s-%d", pod.UID, n.starts), UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name, Annotations: pod.Annotations,
	}, err
}

// enrol has the agent know a pod, as one that is to be in the mesh or not.
func (n *nodeSide) enrol(pod *corev1.Pod, is bool) error {
	rules, err := injector.Rules(pod)
	if err != nil {
		return err
	}
	return n.pods.Write(nodeagent.Pod{
		UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name, ServiceAccount: pod.Spec.ServiceAccountName,
		Enrolled: is, Redirect: rules,
	})
}

// nodeOf is the node whose proxy serves a pod; nil: none does.
func (m *meshed) nodeOf(pod *corev1.Pod) *nodeSide {
	if pod.Annotations[membership.DataplaneAnnotation] != membership.NodeDataplane {
		return nil
	}
	i := slices.IndexFunc(m.nodes, func(n *nodeSide) bool { return n.name == pod.Spec.NodeName })
	if i < 0 {
		return nil
	}
	return m.nodes[i]
}

// firstOn is the first instance on a node.
func (m *meshed) firstOn(n *nodeSide) (*host.Instance, error) {
	all := m.fleet.Instances()
	at := slices.IndexFunc(all, func(i *host.Instance) bool { return i.Node() == n.name })
	if at < 0 {
		return nil, errors.New("no instance is there")
	}
	return all[at], nil
}

// toOneOnEach does something to the first instance of each node, at once. what is that in words, with a verb for
// the instance's name.
func (m *meshed) toOneOnEach(ctx context.Context, what string, do func(context.Context, *host.Instance) error) error {
	all, ctx := errgroup.WithContext(ctx)
	for _, i := range m.fleet.Instances()[:bench.Nodes] {
		all.Go(func() error {
			if err := do(ctx, i); err != nil {
				return fmt.Errorf(what+": %w", i.Name(), err)
			}
			return nil
		})
	}
	return all.Wait()
}

// closeNodes ends them.
func (m *meshed) closeNodes() error {
	var errs []error
	for _, n := range m.nodes {
		for _, p := range n.proxies {
			errs = append(errs, p.pod.Close())
		}
		errs = append(errs, n.agent.Close())
	}
	return errors.Join(errs...)
}
