// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

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
	pods    folder.Source // what the agent knows of the node's pods
	runtime *chain.Chain
	own     *host.Pod
}

// byNodes says whether the recording's pods are served by their nodes' proxies.
func (m *meshed) byNodes() bool { return m.subject.Stands().Role == system.NodeProxy }

// spread has instances alternate between the nodes, where there is more than one that counts.
func (m *meshed) spread() func(nth int) int {
	if !m.byNodes() {
		return nil
	}
	return func(nth int) int { return nth % bench.Nodes }
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
	for nth := range bench.Nodes {
		n, err := m.openNode(ctx, nth, filepath.Join(dir, host.Node(nth)), logs)
		m.nodes = append(m.nodes, n)
		if err != nil {
			return fmt.Errorf("node %s: %w", host.Node(nth), err)
		}
	}
	return nil
}

// openNode returns what it has made when it fails, too.
func (m *meshed) openNode(ctx context.Context, nth int, dir, logs string) (_ *nodeSide, err error) {
	n := &nodeSide{name: host.Node(nth)}
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, d := range []string{"pods", "noted", "agents", "plugins"} {
		if err := os.MkdirAll(in(d), 0o755); err != nil {
			return n, err
		}
	}
	n.pods = folder.Source{Dir: in("pods")}
	// A runtime finds a plugin by its type.
	if err := os.Symlink(m.stage.cfg.Plugin, filepath.Join(in("plugins"), cni.Type)); err != nil {
		return n, err
	}
	n.runtime = chain.New(chain.Config{Plugins: in("plugins"), Cache: in("cache"), State: enrolment.Store(in("noted")), Agents: in("agents")})
	name := proxyName + "-" + n.name
	if n.own, err = host.OpenPod(m.bench.network, nth, name, in("own"), logs); err != nil {
		return n, err
	}
	env := []string{"GOMAXPROCS=1", "GOGC=400"}
	zds := in("zds.sock")
	agent, err := n.own.Run(agentName, system.Process{Env: env, Command: append(slices.Clone(m.bench.command), "bench-node-agent",
		"--mesh="+meshID, "--agents="+in("agents"), "--zds="+zds, "--noted="+in("noted"), "--pods="+n.pods.Dir)})
	if err != nil {
		return n, err
	}
	token, err := issuer.NodeToken(m.bench.tokens, meshNamespace, controller.NodeProxyAccount, n.name, tokensLast)
	if err != nil {
		return n, err
	}
	settings := nodeproxy.Settings{Deadline: system.Duration(m.scenario.Topology.Deadline), Fault: m.faultOf(m.subject.System)}
	proxy, err := n.own.Run(proxyName, system.Process{
		Command: append(slices.Clone(m.bench.command), "node-proxy",
			"--settings="+settings.String(), "--zds="+zds, "--controller="+m.bench.controllers(), "--server-name="+controller.ServerName(meshNamespace),
			"--token=token", "--node="+n.name, "--pod-name="+name, "--namespace="+meshNamespace),
		Env:   append(env, "LASTCALL_ROOTS="+string(m.bench.ca.PEM())),
		Files: map[string]string{"token": token},
	})
	if err != nil {
		return n, err
	}
	m.watch("agent of "+n.name, agent)
	m.watch("node proxy of "+n.name, proxy)
	ready := "http://" + net.JoinHostPort(n.own.Address(), strconv.Itoa(injector.HealthPort)) + "/readyz"
	return n, disrupt.Await(ctx, nodeBudget, "the node proxy", func(ctx context.Context) (bool, string, error) {
		for _, c := range []*host.Container{agent, proxy} {
			select {
			case <-c.Done():
				return false, "", disrupt.Final(c.Ended())
			default:
			}
		}
		return true, "", health.Look(ctx, n.own.Client(), ready)
	})
}

// furnish has a pod of the node's be one that its proxy serves.
func (n *nodeSide) furnish(pod *corev1.Pod) (host.Beside, error) {
	rules, err := injector.Rules(pod)
	if err != nil {
		return host.Beside{}, err
	}
	err = n.pods.Write(nodeagent.Pod{
		UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name, ServiceAccount: pod.Spec.ServiceAccountName,
		Enrolled: true, Redirect: rules,
	})
	return host.Beside{Attachment: n.runtime.Of(chain.Sandbox{
		ID: string(pod.UID), UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name, Annotations: pod.Annotations,
	})}, err
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

// closeNodes ends them.
func (m *meshed) closeNodes() error {
	var errs []error
	for _, n := range m.nodes {
		errs = append(errs, n.own.Close())
	}
	return errors.Join(errs...)
}
