// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lastcall-dev/lastcall/fixtures/deploy"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/control"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

// callPeer puts up whom the instances dial, where they dial anybody, and says what they are to
// do, as the reference app takes it.
func (g *ground) callPeer(ctx context.Context) (string, error) {
	flows := g.scenario.Calls()
	if len(flows) == 0 {
		return "", nil
	}
	peer := deploy.Echo{
		Name: behaviour.CallPeer, Replicas: 1, MinDrain: backendDrain, Unready: backendDrain, Deadline: backendDeadline, Grace: backendGrace,
		Ledger: g.stage.ledger(), Collector: g.stage.collector, Credentials: ledgerSecret,
	}
	svc, err := g.stage.cs.CoreV1().Services(g.scope.Namespace).Create(ctx, g.scope.Service(peer, deploy.Plain), metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("the Service of whom the instances dial: %w", err)
	}
	g.calledAt.add(svc.Spec.ClusterIPs...)
	if err := deploy.Create(ctx, g.stage.cs, g.scope.Deployment(peer)); err != nil {
		return "", err
	}
	if g.called, err = g.scope.Ready(ctx, g.stage.cs, behaviour.CallPeer, peer.Replicas, upBudget); err != nil {
		return "", fmt.Errorf("whom the instances dial: %w", err)
	}
	var streams []load.Stream
	at := net.JoinHostPort(svc.Spec.ClusterIP, strconv.Itoa(deploy.WorkPort))
	for _, p := range flows {
		if p.Op != flow.Lookup {
			streams = append(streams, g.stream(p, "", at))
			continue
		}
		dns, err := nameServer(ctx, g.stage.cs)
		if err != nil {
			return "", err
		}
		s := g.stream(p, "", dns)
		s.Query, s.IPv6 = behaviour.ServiceName(svc.Name, svc.Namespace), svc.Spec.IPFamilies[0] == corev1.IPv6Protocol
		streams = append(streams, s)
	}
	text, err := json.Marshal(streams)
	return string(text), err
}

// outbound are the streams of a flow that the instances have.
func (g *ground) outbound(p load.Profile) []load.Stream {
	var out []load.Stream
	for nth, t := range g.targets {
		if !g.scenario.Topology.Carries(nth, p) {
			continue
		}
		out = append(out, load.Stream{Name: flow.To(p.Flow, t.UID), Profile: p})
	}
	return out
}

// tellCallers sends the instances a signal, where they send out anything. Those that are gone
// have ended it.
func (g *ground) tellCallers(ctx context.Context, signal string) error {
	if len(g.called) == 0 {
		return nil
	}
	for nth, t := range g.targets {
		if !g.scenario.Caller(nth) {
			continue
		}
		w := g.stage.backstage[t.Node]
		if w == nil {
			return fmt.Errorf("no witness on node %s can have %s begin what it sends out", t.Node, t.Name)
		}
		_, err := w.Signal(ctx, control.Signal{Pod: t.UID, Container: g.subject.container, Signal: signal})
		if gone := errors.Is(err, fs.ErrNotExist) && signal == behaviour.CallsEnd; err != nil && !gone {
			return fmt.Errorf("what %s sends out (SIG%s): %w", t.Name, signal, err)
		}
	}
	return nil
}

// endCalls ends what the instances that are left send out, and waits until it has ended.
func (g *ground) endCalls(ctx context.Context) error {
	if len(g.called) == 0 {
		return nil
	}
	if err := g.findCallers(ctx); err != nil {
		return err
	}
	if err := g.tellCallers(ctx, behaviour.CallsEnd); err != nil {
		return err
	}
	return disrupt.Pause(ctx, g.scenario.CallsLast())
}

// findCallers finds the instances that came while the recording went on, where they begin what they
// send out by themselves.
func (g *ground) findCallers(ctx context.Context) error {
	if g.scenario.Topology.Late == 0 {
		return nil
	}
	now, err := g.scope.Ready(ctx, g.stage.cs, g.subject.component, g.scenario.Topology.Replicas, upBudget)
	if err != nil {
		return fmt.Errorf("who sends out anything: %w", err)
	}
	for _, i := range now {
		if !slices.ContainsFunc(g.targets, func(t deploy.Instance) bool { return t.UID == i.UID }) {
			g.targets = append(g.targets, i)
		}
	}
	return nil
}
