// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/balancer"
	"github.com/lastcall-dev/lastcall/fixtures/deploy"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/health"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// asksEach says whether each instance is asked for its health from outside, as a load balancer
// does whose targets are pods.
func (g *ground) asksEach() bool {
	return g.system.Health.LB != nil && g.scenario.Needs(spec.LBHealth)
}

// balanced says whether traffic of the scenario goes through a balancer.
func (g *ground) balanced() bool {
	return slices.ContainsFunc(g.scenario.Traffic, func(p load.Profile) bool { return p.Path == flow.Balanced })
}

// front begins to ask each instance that there is for its health, and puts a balancer before them
// where traffic goes through one. It waits until that has found all of them healthy.
func (g *ground) front(ctx context.Context) error {
	if g.balanced() {
		b, err := balancer.New(balancer.Config{
			Listen: "127.0.0.1:0", Period: behaviour.BalancerPeriod, Threshold: behaviour.BalancerThreshold,
			Emit: func(e timeline.Event) { g.sink.Emit(timeline.Record{Event: &e}, 0) },
			Chosen: func(client net.Addr, uid string) {
				g.sink.Event(timeline.Event{Source: "runner", Kind: timeline.Chosen, Subject: uid, Attrs: map[string]string{
					"client": client.String(), "by": timeline.ByBalancer,
				}})
			},
		})
		if err != nil {
			return err
		}
		g.mu.Lock()
		g.balancer = b
		g.mu.Unlock()
	}
	g.mu.Lock()
	targets := slices.Clone(g.targets)
	g.mu.Unlock()
	for _, t := range targets {
		if err := g.present(ctx, t); err != nil {
			return err
		}
	}
	g.fronted.Store(true)
	if g.balancer == nil {
		return nil
	}
	return disrupt.Await(ctx, serviceBudget, "the balancer to find all instances healthy", func(context.Context) (bool, string, error) {
		in := g.balancer.Healthy()
		return len(in) == len(targets), fmt.Sprintf("healthy: %d of %d", len(in), len(targets)), nil
	})
}

// present makes an instance reachable from outside, begins to look at its health, and shows it to
// the balancer.
func (g *ground) present(ctx context.Context, t deploy.Instance) error {
	watching, first := g.watch(t.UID)
	if !first {
		return nil
	}
	svc, err := g.reachable(ctx, t)
	if err != nil {
		return err
	}
	at := func(port string) string {
		number := int32(g.subject.placed.Ports[port])
		for _, one := range svc.Spec.Ports {
			if one.Port == number {
				return net.JoinHostPort(t.NodeIPs[0], strconv.Itoa(int(one.NodePort)))
			}
		}
		return ""
	}
	for probe, get := range map[string]*system.HTTPGet{health.Live: g.system.Health.Live, health.LB: g.system.Health.LB} {
		if get == nil {
			continue
		}
		w := health.Watch{
			Probe: probe, URL: "http://" + at(get.Port) + get.Path, Client: g.asks,
			Subject: t.UID, Name: t.Name, Node: t.Node, Source: "runner",
			Emit: func(e timeline.Event) { g.sink.Emit(timeline.Record{Event: &e}, 0) },
		}
		g.tasks.Go(func() { w.Run(watching) })
	}
	if g.balancer != nil {
		lb := g.system.Health.LB
		g.balancer.Put(balancer.Backend{Name: t.UID, Addr: at(behaviour.PortOf(flow.HTTP1)), Health: "http://" + at(lb.Port) + lb.Path})
	}
	return nil
}

// watch is what the looks at an instance's health last for; false where it is looked at already.
func (g *ground) watch(uid string) (context.Context, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.watched[uid] != nil {
		return nil, false
	}
	if g.watched == nil {
		g.watched = map[string]context.CancelFunc{}
	}
	ctx, stop := context.WithCancel(g.ctx)
	g.watched[uid] = stop
	return ctx, true
}

// reachable makes the Service that leads to one instance from outside.
func (g *ground) reachable(ctx context.Context, t deploy.Instance) (*corev1.Service, error) {
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, deploy.InstanceLabel, t.UID)
	if _, err := g.stage.cs.CoreV1().Pods(g.scope.Namespace).Patch(ctx, t.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return nil, fmt.Errorf("a label for pod %s: %w", t.Name, err)
	}
	ports := slices.Clone(g.subject.ports)
	for _, get := range []*system.HTTPGet{g.system.Health.Live, g.system.Health.LB} {
		if get == nil {
			continue
		}
		p := deploy.Port{Name: get.Port, Number: g.subject.placed.Ports[get.Port]}
		if !slices.ContainsFunc(ports, func(o deploy.Port) bool { return o.Number == p.Number }) {
			ports = append(ports, p)
		}
	}
	svc, err := g.scope.InstanceService(g.subject.component, t.UID, ports)
	if err != nil {
		return nil, err
	}
	made, err := g.stage.cs.CoreV1().Services(g.scope.Namespace).Create(ctx, svc, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("the Service of pod %s: %w", t.Name, err)
	}
	return made, nil
}

// arrived presents an instance that came while the recording goes on, once it is ready.
func (g *ground) arrived(name, uid string) {
	pod, err := g.stage.cs.CoreV1().Pods(g.scope.Namespace).Get(g.ctx, name, metav1.GetOptions{})
	if err != nil || string(pod.UID) != uid || !strings.HasPrefix(name, g.subject.ended.Name) {
		return // it went again, the run is over, or it is another's
	}
	if err := g.present(g.ctx, deploy.InstanceOf(pod, nil)); err != nil && g.ctx.Err() == nil {
		g.lost("runner", err)
	}
}

// departed ends the looks at an instance that is gone.
func (g *ground) departed(uid string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if stop := g.watched[uid]; stop != nil {
		stop()
	}
}
