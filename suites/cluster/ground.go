// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/deploy"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/echo"
	"github.com/lastcall-dev/lastcall/fixtures/observe"
	"github.com/lastcall-dev/lastcall/fixtures/slicewriter"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/control"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// attemptTimeout bounds an attempt: longer than a starved machine delays an
// answer, far shorter than anybody would wait.
const attemptTimeout = 10 * time.Second

// afterGone is how long the direct streams to a pod that is gone go on: they
// show that nothing answers at its address any more, and what it is that does
// not.
const afterGone = 4 * time.Second

// ground is one scenario's topology in the cluster.
type ground struct {
	stage    *Stage
	scope    deploy.Scope
	scenario behaviour.Scenario
	sink     *behaviour.Sink
	port     int32

	probe    *agent
	scout    *agent
	node     string
	service  string
	observer *observe.Observer
	cancel   context.CancelFunc
	tasks    sync.WaitGroup
	ctx      context.Context

	mu      sync.Mutex
	targets []deploy.Instance
	streams map[string][]string // by target's UID
}

func (g *ground) open(ctx context.Context) error {
	s := g.stage
	g.ctx, g.cancel = context.WithCancel(ctx)
	g.streams = map[string][]string{}
	level := deploy.Restricted
	if s.cfg.Ours {
		level = deploy.Privileged
	}
	if err := g.scope.Open(ctx, s.cs, level); err != nil {
		return err
	}
	var err error
	if g.observer, err = observe.Start(g.ctx, s.cfg.Rest, observe.Options{Namespaces: []string{g.scope.Namespace}, Emit: g.observed}); err != nil {
		return err
	}
	if err := s.credentials(ctx, g.scope); err != nil {
		return err
	}
	if !s.cfg.Ours {
		if err := s.ledgerCredentials(ctx, g.scope); err != nil {
			return err
		}
	}
	app, svc := g.app(), g.scope.Service(g.app())
	liar := isLie(g.scenario.Fault)
	if liar {
		svc.Spec.Selector = nil
	}
	p := deploy.Probe{Name: probeName, Node: s.workers[0], Credentials: secretName}
	scout := deploy.Probe{Name: scoutName, Node: s.workers[0], Credentials: secretName}
	if s.cfg.Ours {
		p.HostPort, scout.HostPort = g.port, g.port+1
	}
	if err := deploy.Create(ctx, s.cs, g.scope.Deployment(app), svc, g.scope.ProbePod(p), g.scope.ProbePod(scout)); err != nil {
		return err
	}
	targets, err := g.scope.Ready(ctx, s.cs, echoName, app.Replicas, upBudget)
	if err != nil {
		return err
	}
	g.mu.Lock()
	g.targets = targets
	g.mu.Unlock()
	if liar {
		w := slicewriter.Writer{
			Client: s.cs, Namespace: g.scope.Namespace, Service: echoName,
			Selector: metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: g.scope.Service(app).Spec.Selector}),
			Port:     deploy.WorkPort, PortName: svc.Spec.Ports[0].Name, Fault: g.scenario.Fault,
		}
		g.tasks.Go(func() {
			if err := w.Run(g.ctx); err != nil {
				g.lost("slicewriter", err)
			}
		})
	}
	up, err := g.scope.Ready(ctx, s.cs, probeName, 1, upBudget)
	if err != nil {
		return err
	}
	g.node = up[0].Node
	got, err := s.cs.CoreV1().Services(g.scope.Namespace).Get(ctx, echoName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("the Service: %w", err)
	}
	g.service = net.JoinHostPort(got.Spec.ClusterIP, strconv.Itoa(deploy.WorkPort))
	if err := g.explore(ctx, scout); err != nil {
		return err
	}
	addr, dial := s.reach(g.scope.Namespace, up[0], g.port)
	g.probe, err = s.follow(ctx, "probe", addr, dial, g.sink.Emit, func(r timeline.Record) { g.sink.Emit(r, 0) })
	return err
}

func (g *ground) app() deploy.Echo {
	t := g.scenario.Topology
	e := deploy.Echo{
		Name: echoName, Replicas: t.Replicas, MinDrain: t.MinDrain, Unready: t.Unready, Deadline: t.Deadline,
		Grace: t.Grace, MinReady: t.MinReady, Ledger: g.stage.ledger(), Collector: g.stage.collector, Credentials: ledgerSecret,
	}
	if isEchos(g.scenario.Fault) {
		e.Fault = g.scenario.Fault
		e.ProbeApart = g.scenario.Fault == echo.ListenerBeforeReady
	}
	return e
}

func isEchos(f spec.Fault) bool {
	for _, k := range echo.Faults() {
		if k.Name == f {
			return true
		}
	}
	return false
}

func isLie(f spec.Fault) bool {
	for _, k := range slicewriter.Faults() {
		if k.Name == f {
			return true
		}
	}
	return false
}

// observed takes what the watches show.
func (g *ground) observed(e timeline.Event) {
	if e.Kind == timeline.PodSeen {
		g.stage.router.own(e.Subject, g.sink)
	}
	g.sink.Emit(timeline.Record{Event: &e}, 0)
	if e.Kind == timeline.PodGone {
		g.buried(e.Subject)
		g.tasks.Go(func() { g.stopDirect(e.Subject) })
	}
}

// buried notes the addresses of a target that is gone.
func (g *ground) buried(uid string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, t := range g.targets {
		if t.UID == uid {
			g.stage.mu.Lock()
			g.stage.dead = append(g.stage.dead, t.IPs...)
			g.stage.mu.Unlock()
		}
	}
}

// stopDirect ends the direct streams to a pod some time after it went.
func (g *ground) stopDirect(uid string) {
	g.mu.Lock()
	names := g.streams[uid]
	delete(g.streams, uid)
	g.mu.Unlock()
	if len(names) == 0 {
		return
	}
	t := time.NewTimer(afterGone)
	defer t.Stop()
	select {
	case <-t.C:
	case <-g.ctx.Done():
		return
	}
	if err := g.probe.Stop(g.ctx, names...); err != nil && g.ctx.Err() == nil {
		g.lost("probe", err)
	}
}

func (g *ground) lost(name string, err error) {
	g.sink.Event(timeline.Event{Source: "runner", Kind: timeline.AgentLost, Attrs: map[string]string{"agent": name, "why": err.Error()}})
}

// Start begins the scenario's traffic.
func (g *ground) Start(ctx context.Context) (names, nodes []string, err error) {
	var all []load.Stream
	for _, p := range g.scenario.Traffic {
		if p.Path == load.Service {
			all = append(all, g.stream(p.Key(), p, g.service))
			continue
		}
		for _, t := range g.targets {
			name := p.Key() + "@" + t.UID
			all = append(all, g.stream(name, p, net.JoinHostPort(t.IP, strconv.Itoa(deploy.WorkPort))))
			g.mu.Lock()
			g.streams[t.UID] = append(g.streams[t.UID], name)
			g.mu.Unlock()
		}
	}
	for _, s := range all {
		names = append(names, s.Name)
	}
	if err := g.probe.Start(ctx, all...); err != nil {
		return nil, nil, err
	}
	if g.scenario.Pressure > 0 {
		err = g.probe.Pressure(ctx, control.Pressure{
			Name: "fortio", Addr: g.service, Conns: 10, QPS: g.scenario.Pressure,
			Seconds: g.scenario.Estimate().Seconds() - 20,
		})
	}
	return names, []string{g.node}, err
}

func (g *ground) stream(name string, p load.Profile, addr string) load.Stream {
	h := fnv.New64a()
	// A hash never fails to be written to.
	_, _ = h.Write([]byte(g.scope.Namespace + name))
	return load.Stream{
		Name: name, Profile: p, Addr: addr, Timeout: attemptTimeout,
		// A third of the resolution (design, rule 3).
		Tolerance: g.scenario.Resolution / 3, Seed: h.Sum64(),
	}
}

// Disrupt does what the scenario says.
func (g *ground) Disrupt(ctx context.Context) error {
	t := disrupt.Target{
		Client: g.stage.cs, Namespace: g.scope.Namespace, Deployment: echoName, Signaller: g,
		Budget: g.scenario.Topology.Grace + 5*time.Minute,
		Emit:   func(e timeline.Event) { g.sink.Emit(timeline.Record{Event: &e}, 0) },
		Fault:  g.scenario.Fault,
	}
	return t.Run(ctx, g.scenario.Disrupt)
}

// Signal sends a signal through the node's witness, or from inside the pod
// where there is none.
func (g *ground) Signal(ctx context.Context, node, podUID, container, signal string) error {
	if !g.stage.cfg.Ours {
		return g.signalInside(ctx, podUID, signal)
	}
	w := g.stage.backstage[node]
	if w == nil {
		return fmt.Errorf("no witness on node %s can send SIG%s", node, signal)
	}
	_, err := w.Signal(ctx, control.Signal{Pod: podUID, Container: container, Signal: signal})
	return err
}

// Stop ends the load and waits for what is in flight, and for the histories.
func (g *ground) Stop(ctx context.Context) error {
	if err := g.probe.Stop(ctx); err != nil {
		return err
	}
	if err := g.probe.WaitIdle(ctx); err != nil {
		return err
	}
	errs := []error{g.probe.catchUp(ctx), g.scout.catchUp(ctx)}
	for _, a := range g.stage.backstage {
		errs = append(errs, a.catchUp(ctx))
	}
	return errors.Join(errs...)
}

// Close ends the recording and begins the removal of the namespace. That it
// goes is waited for once, when the stage closes.
func (g *ground) Close(ctx context.Context) error {
	if g.observer != nil {
		g.observer.Stop()
	}
	g.cancel()
	g.tasks.Wait()
	for _, a := range []*agent{g.probe, g.scout} {
		if a != nil {
			a.close()
		}
	}
	g.stage.router.disown(g.sink)
	g.stage.removals.Go(func() error { return g.scope.Close(context.WithoutCancel(ctx), g.stage.cs) })
	return nil
}
