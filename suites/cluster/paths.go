// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/lastcall-dev/lastcall/fixtures/deploy"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

// dnsNamespace and dnsService are where kubeadm, and everybody after it, has
// the cluster's name server.
const (
	dnsNamespace = "kube-system"
	dnsService   = "kube-dns"
	dnsPort      = 53
)

// viewOf is the Service that a path leads through; "" for none.
func viewOf(p flow.Path) deploy.View {
	switch p {
	case flow.Direct, flow.Outbound:
		return ""
	case flow.HealthPort, flow.Balanced:
		return deploy.View(flow.NodePortLocal)
	case flow.Unmeshed:
		return deploy.View(flow.Service)
	default:
		return deploy.View(p)
	}
}

// views are the Services that the scenario's traffic needs. The app's own is
// always among them: its endpoints are what everything is judged by.
func (g *ground) views() []deploy.View {
	out := []deploy.View{deploy.View(flow.Service)}
	for _, p := range g.scenario.Traffic {
		if p.Path == flow.Balanced && g.asksEach() {
			continue // each instance has a Service of its own
		}
		if v := viewOf(p.Path); v != "" && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// ways are the addresses behind the paths of a scenario.
type ways struct {
	services map[deploy.View]*corev1.Service
	dns      string // host:port of the cluster's name server
}

// findWays reads the addresses that the cluster gave to the Services.
func (g *ground) findWays(ctx context.Context) error {
	g.ways = ways{services: map[deploy.View]*corev1.Service{}}
	for _, v := range g.views() {
		svc, err := g.stage.cs.CoreV1().Services(g.scope.Namespace).Get(ctx, deploy.ServiceName(echoName, v), metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("the Service of the path %s: %w", v, err)
		}
		g.ways.services[v] = svc
		g.calledAt.add(svc.Spec.ClusterIPs...)
	}
	for _, p := range g.scenario.Traffic {
		if p.Op != flow.Lookup {
			continue
		}
		var err error
		g.ways.dns, err = nameServer(ctx, g.stage.cs)
		return err
	}
	return nil
}

// nameServer is where the cluster's names are asked for.
func nameServer(ctx context.Context, cs kubernetes.Interface) (string, error) {
	svc, err := cs.CoreV1().Services(dnsNamespace).Get(ctx, dnsService, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("the cluster's name server: %w", err)
	}
	return net.JoinHostPort(svc.Spec.ClusterIP, strconv.Itoa(dnsPort)), nil
}

// nodesOf are the nodes that hold targets, with an address each, by name.
func nodesOf(targets []deploy.Instance) []deploy.Instance {
	byNode := slices.Clone(targets)
	slices.SortFunc(byNode, func(a, b deploy.Instance) int { return cmp.Compare(a.Node, b.Node) })
	return slices.CompactFunc(byNode, func(a, b deploy.Instance) bool { return a.Node == b.Node })
}

// streams are the streams of one flow: one for each target, for each node of a
// target, or just one.
func (g *ground) streams(p load.Profile) ([]load.Stream, error) {
	var out []load.Stream
	add := func(at, host string, port int32) {
		out = append(out, g.stream(p, at, net.JoinHostPort(host, strconv.Itoa(int(port)))))
	}
	svc := g.ways.services[viewOf(p.Path)]
	_, port := g.subject.port(p.Protocol)
	switch p.Path {
	case flow.Direct:
		for nth, t := range g.targets {
			if g.scenario.Topology.Carries(nth, p) {
				add(t.UID, t.IP, port)
			}
		}
	case flow.Outbound:
		out = g.outbound(p)
	case flow.NodePort:
		// Any node will do: the policy is Cluster.
		add("", g.targets[len(g.targets)-1].NodeIPs[0], g.subject.nodePort(svc, p.Protocol))
	case flow.NodePortLocal:
		for _, t := range nodesOf(g.targets) {
			add(t.Node, t.NodeIPs[0], g.subject.nodePort(svc, p.Protocol))
		}
	case flow.HealthPort:
		for _, t := range nodesOf(g.targets) {
			add(t.Node, t.NodeIPs[0], svc.Spec.HealthCheckNodePort)
		}
	case flow.Balanced:
		if g.balancer == nil {
			return nil, errors.New("there is no balancer")
		}
		out = append(out, g.stream(p, "", g.balancer.Addr()))
	case flow.Headless, flow.HeadlessPublishing:
		s := g.stream(p, "", g.ways.dns)
		s.Query = behaviour.ServiceName(svc.Name, g.scope.Namespace)
		s.IPv6 = svc.Spec.IPFamilies[0] == corev1.IPv6Protocol
		out = append(out, s)
	default:
		add("", svc.Spec.ClusterIP, port)
	}
	return out, nil
}
