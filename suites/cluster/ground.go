// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures"
	"github.com/lastcall-dev/lastcall/fixtures/balancer"
	"github.com/lastcall-dev/lastcall/fixtures/deploy"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/echo"
	"github.com/lastcall-dev/lastcall/fixtures/health"
	"github.com/lastcall-dev/lastcall/fixtures/injector"
	"github.com/lastcall-dev/lastcall/fixtures/observe"
	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
	"github.com/lastcall-dev/lastcall/fixtures/slicewriter"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/control"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/load/probe"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

// probeCPU is what a probe may count on, in thousandths of a core: a generator
// that has to wait for its turn can't keep a schedule.
const probeCPU = 250

// jobWorks is how long the app of a Job works: long enough to be seen.
const jobWorks = 3 * time.Second

// ground is one scenario's topology in the cluster.
type ground struct {
	stage    *Stage
	scope    deploy.Scope
	scenario behaviour.Scenario
	sink     *behaviour.Sink
	port     int32
	system   behaviour.Subject
	identity identified
	// controllerIP is the Service's of the mesh's controller, where the recording is in the mesh.
	controllerIP string

	probe    *agent
	scout    *agent
	outside  *load.Flows
	balancer *balancer.Balancer
	node     string
	subject  subject
	fronts   fronts
	ways     ways
	observer *observe.Observer
	cancel   context.CancelFunc
	tasks    sync.WaitGroup
	ctx      context.Context
	direct   behaviour.Targets

	// meshedAt and strangerAt are the addresses of pods in the mesh and outside of it, and calledAt those of the Services that
	// the clients dial, or the instances.
	meshedAt, strangerAt, calledAt addresses

	asks     *http.Client // for the health of instances
	relieved sync.Once    // the pressure was ended before the streams

	fronted atomic.Bool // each instance is asked for its health, and those that come are too

	mu      sync.Mutex
	targets []deploy.Instance
	called  []deploy.Instance             // whom the instances dial themselves
	peers   []system.Backend              // a gateway's backends, by their Services
	loaded  bool                          // the load runs
	watched map[string]context.CancelFunc // end the looks at an instance's health, by its UID
	killed  map[string]string             // pods of ours that were killed for memory, and how
}

func (g *ground) open(ctx context.Context) error {
	s := g.stage
	g.ctx, g.cancel = context.WithCancel(ctx)
	g.asks = health.Client()
	level := deploy.Restricted
	if s.cfg.Ours {
		level = deploy.Privileged
	}
	if err := g.enmesh(ctx); err != nil {
		return err
	}
	if err := s.removals.of(ctx, g.scope.Namespace); err != nil {
		return err
	}
	if err := g.scope.Open(ctx, s.cs, level); err != nil {
		return err
	}
	if g.meshed() {
		if err := g.injects(ctx); err != nil {
			return err
		}
	}
	var err error
	if g.observer, err = observe.Start(g.ctx, s.cfg.Rest, observe.Options{
		Namespaces: []string{g.scope.Namespace}, Leases: g.system.Stands().Controls, Emit: g.observed,
	}); err != nil {
		return err
	}
	if err := g.watchWire(ctx); err != nil {
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
	g.outside = load.NewFlows(g.ctx, probe.Generator{Room: probe.NewRoom(probe.MaxInFlight)}, func(r timeline.Record) { g.sink.Emit(r, 0) })
	var objects []runtime.Object
	var liar *slicewriter.Writer
	if !g.system.OwnApp() {
		if err := g.install(ctx); err != nil {
			return err
		}
		for _, v := range g.views() {
			svc, err := g.scope.SystemService(echoName, g.subject.dialled, g.subject.ports, v)
			if err != nil {
				return err
			}
			objects = append(objects, svc)
		}
	} else {
		objects, liar = g.plain()
	}
	p := deploy.Probe{Name: probeName, Node: s.ClientsNode(), Credentials: secretName, CPU: probeCPU}
	scout := deploy.Probe{Name: scoutName, Node: s.ClientsNode(), Credentials: secretName}
	if s.cfg.Ours {
		p.HostPort, scout.HostPort = g.port, g.port+1
	}
	objects = append(objects, g.client(g.scope.ProbePod(p)), g.scoutPod(scout))
	if err := deploy.Create(ctx, s.cs, objects...); err != nil {
		return err
	}
	targets, err := g.up(ctx)
	if err != nil {
		return err
	}
	if g.scenario.Topology.Leaves {
		targets = leaversFirst(targets)
	}
	g.mu.Lock()
	g.targets = targets
	g.mu.Unlock()
	if g.system.Stands().Controls {
		if err := g.control(ctx); err != nil {
			return err
		}
	}
	if liar != nil {
		g.tasks.Go(func() {
			if err := liar.Run(g.ctx); err != nil {
				g.lost("slicewriter", err)
			}
		})
	}
	up, err := g.scope.Ready(ctx, s.cs, probeName, 1, upBudget)
	if err != nil {
		return err
	}
	g.node = up[0].Node
	if g.meshed() {
		g.tasks.Go(func() { g.census(up, false, tunnels(targets)) })
	}
	if g.meshed() && len(g.called) > 0 {
		g.tasks.Go(func() { g.census(targets, true, tunnels(g.called)) })
	}
	if err := g.findWays(ctx); err != nil {
		return err
	}
	if err := g.explore(ctx, scout); err != nil {
		return err
	}
	if err := g.balance(ctx); err != nil {
		return err
	}
	addr, dial := s.reach(g.scope.Namespace, up[0], g.port)
	at := types.NamespacedName{Namespace: g.scope.Namespace, Name: up[0].Name}
	g.probe, err = s.follow(ctx, "probe", at, addr, dial, g.sink.Emit, func(r timeline.Record) { g.sink.Emit(r, 0) })
	return err
}

// up waits for the pods that are ended.
func (g *ground) up(ctx context.Context) ([]deploy.Instance, error) {
	sub, n := g.subject, g.scenario.Topology.Replicas
	switch sub.ended.Kind {
	case disrupt.DaemonSet:
		return g.scope.DaemonsReady(ctx, g.stage.cs, sub.ended.Name, sub.component, n, upBudget)
	case disrupt.StatefulSet:
		// Unless its manifest says otherwise, a pod begins when the one before it is available.
		return g.scope.Ready(ctx, g.stage.cs, sub.component, n, upBudget+time.Duration(n)*g.scenario.Topology.MinReady)
	default:
		return g.scope.Ready(ctx, g.stage.cs, sub.component, n, upBudget)
	}
}

// plain is the reference app with its Services, and who writes their slices, where
// that is a liar.
func (g *ground) plain() (objects []runtime.Object, liar *slicewriter.Writer) {
	app := g.app()
	g.subject = subject{ended: disrupt.Workload{Kind: disrupt.Deployment, Name: app.Name}, component: app.Name, dialled: app.Name}
	dep := g.scope.Deployment(app)
	objects = append(objects, dep)
	if app.Budget > 0 {
		objects = append(objects, g.scope.DisruptionBudget(app))
	}
	if fixtures.Has(slicewriter.Faults(), g.scenario.Fault) {
		liar = &slicewriter.Writer{
			Client: g.stage.cs, Namespace: g.scope.Namespace, Port: deploy.WorkPort, Fault: g.scenario.Fault, MinReady: app.MinReady,
			Selector: metav1.FormatLabelSelector(dep.Spec.Selector),
		}
	}
	for _, v := range g.views() {
		svc := g.scope.Service(app, v)
		if liar != nil {
			svc.Spec.Selector = nil
			liar.Services = append(liar.Services, slicewriter.Service{
				Name: svc.Name, PortName: svc.Spec.Ports[0].Name, Publishing: svc.Spec.PublishNotReadyAddresses,
			})
		}
		objects = append(objects, svc)
	}
	return objects, liar
}

// onEachNode says whether the recording is about what each node has of the instances.
func (g *ground) onEachNode() bool {
	return g.byNodes() || slices.Contains(g.views(), deploy.Local)
}

func (g *ground) app() deploy.Echo {
	t := g.scenario.Topology
	e := deploy.Echo{
		Name: echoName, Replicas: t.Replicas, MinDrain: t.MinDrain, Unready: t.Unready, Deadline: t.Deadline,
		Grace: t.Grace, MinReady: t.MinReady, Unavailable: t.Unavailable, Hook: t.Hook, HookFails: t.HookFails,
		Liveness: t.Liveness, Budget: t.Budget, Apart: t.Apart, Even: g.onEachNode(),
		Ledger: g.stage.ledger(), Collector: g.stage.collector, Credentials: ledgerSecret,
	}
	if f := g.scenario.Fault; g.stage.stack.App().Made(behaviour.ComponentOf(f)) || fixtures.Has(deploy.Faults(), f) {
		e.Fault = f
		e.ProbeApart = f == echo.ListenerBeforeReady
		e.State = f == echo.DrainSticks
	}
	return e
}

// balance starts the balancer, where traffic goes through one.
func (g *ground) balance(ctx context.Context) error {
	if g.asksEach() {
		return g.front(ctx)
	}
	if !g.balanced() {
		return nil
	}
	svc := g.ways.services[viewOf(flow.Balanced)]
	cfg := balancer.Config{
		Listen: "127.0.0.1:0", Period: behaviour.BalancerPeriod, Threshold: behaviour.BalancerThreshold,
		Emit: func(e timeline.Event) { g.sink.Emit(timeline.Record{Event: &e}, 0) },
	}
	for _, t := range nodesOf(g.targets) {
		at := func(port int32) string { return net.JoinHostPort(t.NodeIPs[0], strconv.Itoa(int(port))) }
		cfg.Backends = append(cfg.Backends, balancer.Backend{Name: t.Node, Addr: at(g.subject.nodePort(svc, flow.HTTP1)), Health: "http://" + at(svc.Spec.HealthCheckNodePort) + "/healthz"})
	}
	var err error
	if g.balancer, err = balancer.New(cfg); err != nil {
		return err
	}
	return disrupt.Await(ctx, serviceBudget, "the balancer to find its nodes healthy", func(context.Context) (bool, string, error) {
		in := g.balancer.Healthy()
		return len(in) == len(cfg.Backends), fmt.Sprintf("healthy: %v", in), nil
	})
}

// observed takes what the watches show.
func (g *ground) observed(e timeline.Event) {
	if e.Kind == timeline.PodSeen {
		g.stage.router.own(e.Subject, g.sink)
	}
	if g.gates() {
		g.fronts.note(e)
	}
	g.sink.Emit(timeline.Record{Event: &e}, 0)
	g.locate(e)
	g.tellAddress(e)
	g.noteKill(e)
	g.relieve(e)
	if e.Kind == timeline.PodReady && e.Attrs["ready"] == "true" && g.joins() {
		g.tasks.Go(func() { g.join(e.Name, e.Subject) })
	}
	if e.Kind == timeline.PodReady && e.Attrs["ready"] == "true" && g.fronted.Load() {
		g.tasks.Go(func() { g.arrived(e.Name, e.Subject) })
	}
	if e.Kind == timeline.PodGone {
		g.buried(e.Subject)
		g.departed(e.Subject)
		g.tasks.Go(func() {
			// The probe is there once there are streams to it.
			stop := func(ctx context.Context, names ...flow.Stream) error { return g.probe.Stop(ctx, names...) }
			if err := g.direct.Gone(g.ctx, e.Subject, stop); err != nil {
				g.lost("probe", err)
			}
		})
	}
}

// joins says whether pods that come while the load runs are dialled directly
// too: where one disruption ends what another brought.
func (g *ground) joins() bool { return g.scenario.Disrupt.Renews() }

// join begins the direct streams to a pod that came while the load runs.
func (g *ground) join(name, uid string) {
	g.mu.Lock()
	loaded := g.loaded
	g.mu.Unlock()
	if !loaded || !g.direct.Claim(uid) {
		return
	}
	pod, err := g.stage.cs.CoreV1().Pods(g.scope.Namespace).Get(g.ctx, name, metav1.GetOptions{})
	if err != nil {
		// It went again, or the run is over: nobody dialled it, as the checks
		// will see.
		return
	}
	if string(pod.UID) != uid || !strings.HasPrefix(name, g.subject.ended.Name) {
		return
	}
	var some []load.Stream
	for _, p := range g.scenario.Traffic {
		if p.Path == flow.Direct {
			some = append(some, g.stream(p, uid, g.at(pod.Status.PodIP, p.Protocol)))
		}
	}
	g.direct.Add(some...)
	g.mu.Lock()
	g.targets = append(g.targets, deploy.InstanceOf(pod, nil))
	g.mu.Unlock()
	if err := g.probe.Start(g.ctx, some...); err != nil && g.ctx.Err() == nil {
		g.lost("probe", err)
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

func (g *ground) lost(name string, err error) {
	g.sink.Event(lossOf(name, err.Error(), false))
}

// Start begins the scenario's traffic.
func (g *ground) Start(ctx context.Context) (names []flow.Stream, nodes []string, err error) {
	defer func() { err = g.because(err) }()
	if err := g.stage.removals.begun(ctx); err != nil {
		return nil, nil, err
	}
	var inside, outside, unmeshed []load.Stream
	for _, p := range g.scenario.Traffic {
		some, err := g.streams(p)
		if err != nil {
			return nil, nil, err
		}
		switch {
		case p.Path == flow.Outbound: // those who call have them
		case p.Path.Outside():
			outside = append(outside, some...)
		case p.Path == flow.Unmeshed:
			unmeshed = append(unmeshed, some...)
		default:
			inside = append(inside, some...)
		}
		for _, s := range some {
			names = append(names, s.Name)
		}
		g.direct.Add(some...)
	}
	if err := g.probe.Start(ctx, inside...); err != nil {
		return nil, nil, err
	}
	if err := g.outside.Start(outside...); err != nil {
		return nil, nil, err
	}
	if len(unmeshed) > 0 {
		if err := g.scout.Start(ctx, unmeshed...); err != nil {
			return nil, nil, err
		}
	}
	if err := g.tellCallers(ctx, behaviour.CallsBegin); err != nil {
		return nil, nil, err
	}
	g.mu.Lock()
	g.loaded = true
	g.mu.Unlock()
	return names, []string{g.node}, g.press(ctx)
}

func (g *ground) stream(p load.Profile, target, addr string) load.Stream {
	s := g.scenario.Stream(p, target, addr, g.scope.Namespace)
	switch {
	case p.Protocol.Tunnels():
		g.own(&s)
	case p.Protocol.Secure():
		s.CA, s.ServerName = g.subject.ca, serverName
	}
	return s
}

// jobQuits is what a Job's app asks by POST in the end, as one that is wrapped does: its sidecar hears by that of its end. "": nothing.
func (g *ground) jobQuits() string {
	t := g.scenario.Topology
	switch {
	case t.Learns == system.ByCall:
		return sidecar.AdminURL(sidecar.QuitPath)
	case g.system.Patches() && t.Form == system.Plain && g.system.Quit != nil && g.system.Quit.Post != "":
		port := g.system.InPod(system.Place{}).Ports[g.system.Quit.Port]
		return fmt.Sprintf("http://%s%s", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), g.system.Quit.Post)
	}
	return ""
}

// Disrupt does what the scenario says.
func (g *ground) Disrupt(ctx context.Context) error {
	// A roll-out is meant to take minReadySeconds for each of its pods; the rest is
	// for what nobody means.
	shape := g.scenario.Topology
	budget := shape.Grace + time.Duration(shape.Replicas)*shape.MinReady + g.scenario.Disrupt.Spare()
	t := disrupt.Target{
		Client: g.stage.cs, Namespace: g.scope.Namespace, Workload: g.subject.ended, Signaller: g, Intruder: g, Unenroller: g,
		Budget: budget,
		Emit: func(e timeline.Event) {
			if e.Attrs["what"] == string(disrupt.NodeShutdown) {
				g.stage.shutting(e.Node)
			}
			g.sink.Emit(timeline.Record{Event: &e}, 0)
		},
		JobArgs: func(code int) []string {
			args := []string{"work", "--for=" + jobWorks.String(), "--code=" + strconv.Itoa(code)}
			if quit := g.jobQuits(); quit != "" {
				args = append(args, "--quit="+quit)
			}
			return args
		},
		Fault: g.scenario.Fault,
	}
	if g.byNodes() {
		t.Proxies, t.Agents = g.proxies(), disrupt.Workload{Kind: disrupt.DaemonSet, Name: nodeAgents}
	}
	switch {
	case g.meshed():
		t.Sidecar = injector.SidecarName
	case g.system.Patches():
		t.Sidecar = g.system.Cluster.Container
	}
	if g.stage.cfg.Nodes != nil {
		t.Nodes, t.Spare = g.stage.cfg.Nodes, []string{g.node}
	}
	d := g.scenario.Disrupt
	if d.Contained() {
		d.Container = g.subject.container
	}
	err := t.Run(ctx, d)
	return errors.Join(err, g.stage.rejoin(ctx))
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
func (g *ground) Stop(ctx context.Context) (err error) {
	defer func() { err = g.because(err) }()
	var ends errgroup.Group // each waits for what is in flight of its own
	ends.Go(func() error { return g.probe.StopPressure(ctx, "") })
	ends.Go(func() error { return g.probe.Stop(ctx) })
	ends.Go(func() error { return g.outside.Stop(ctx) })
	ends.Go(func() error { return g.scout.Stop(ctx) })
	ends.Go(func() error { return g.endCalls(ctx) })
	if err := ends.Wait(); err != nil {
		return err
	}
	if err := errors.Join(g.probe.WaitIdle(ctx), g.scout.WaitIdle(ctx)); err != nil {
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
	var err error
	if g.balancer != nil {
		err = g.balancer.Close(ctx)
	}
	for _, a := range []*agent{g.probe, g.scout} {
		if a != nil {
			a.Detach()
		}
	}
	g.stage.router.disown(g.sink)
	g.stage.removals.begin(g.scope.Namespace, func() error { return g.scope.Close(context.WithoutCancel(ctx), g.stage.cs, g.stage.objects) })
	return err
}
