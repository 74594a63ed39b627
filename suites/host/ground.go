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
	"sync"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/balancer"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/host"
	"github.com/lastcall-dev/lastcall/fixtures/pki"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/fixtures/witness"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/load/probe"
	"github.com/lastcall-dev/lastcall/load/work"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// startup is how long a replacement waits: about as long as a pod takes to come
// up on a cluster of the suite's.
const startup = time.Second

// backends is how many apps stand behind a gateway.
const backends = 2

// The backends' own times: they are not ended while anybody looks.
const (
	backendDrain    = time.Second
	backendDeadline = 10 * time.Second
	backendGrace    = 15 * time.Second
)

// ground is one scenario's topology on the host.
type ground struct {
	stage    *Stage
	scenario behaviour.Scenario
	sink     *behaviour.Sink
	subject  behaviour.Subject

	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	ledger string
	tail   *witness.Tail
	read   context.CancelFunc // ends the tail
	tailed chan error

	stands   *host.Fleet // what stays: a gateway's backends, or the gateway before what is ended
	fleet    *host.Fleet // what is ended
	identity pki.Pair    // of our own client of tunnels, where there are any

	flows  *load.Flows
	direct behaviour.Targets
	halt   func(ctx context.Context, names ...flow.Stream) error // ends streams; nil: there are none yet
	// elsewhere is the disrupter's; nil: its own.
	elsewhere func(context.Context, *host.Instance, disrupt.Control) ([]disrupt.Try, error)
	press     *host.Pressure // closed-loop load beside the flows; nil: none

	mu sync.Mutex
	lb *balancer.Balancer // nil where no traffic goes through one
}

// prepare begins the recording, and says what the instances have in common.
func (g *ground) prepare(ctx context.Context) (host.Config, error) {
	g.ctx, g.cancel = context.WithCancel(context.WithoutCancel(ctx))
	dir, logs := filepath.Join(g.stage.dir, g.scenario.Name), filepath.Join(g.stage.cfg.Logs, g.scenario.Name)
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return host.Config{}, fmt.Errorf("a folder for the logs: %w", err)
	}
	g.ledger = filepath.Join(dir, "ledger")
	var err error
	if g.tail, err = witness.NewTail(g.ledger, "host", func(r timeline.Record) { g.sink.Emit(r, 0) }); err != nil {
		return host.Config{}, err
	}
	reading, stop := context.WithCancel(g.ctx)
	g.read, g.tailed = stop, make(chan error, 1)
	go func() { g.tailed <- g.tail.Run(reading) }()

	t := g.scenario.Topology
	cfg := host.Config{
		System: g.subject.System, Issue: g.stage.issue, Replicas: t.Replicas, Addresses: g.stage.addresses,
		Dir: dir, Logs: logs, Startup: startup, Lag: g.stage.cfg.Lag, Tells: !g.subject.Named, Emit: g.event,
		Place: system.Place{
			CA: g.stage.cert.caFile, ServerName: serverName, Agent: g.stage.cfg.Agent, Ledger: g.ledger,
			MinDrain: t.MinDrain, Unready: t.Unready, Timeout: t.Deadline, Grace: t.Grace,
			Fault: string(g.faultOf(g.subject.System)),
		},
	}
	if g.subject.Successor == system.InPlace {
		cfg.Vacated = g.vacated
	}
	if to := g.stage.cfg.Rendered; to != "" && g.subject.Named {
		cfg.Rendered = filepath.Join(to, g.scenario.Name)
	}
	return cfg, nil
}

func (g *ground) open(ctx context.Context) error {
	cfg, err := g.prepare(ctx)
	if err != nil {
		return err
	}
	t := g.scenario.Topology
	switch {
	case t.Behind:
		err = g.openBehind(ctx, cfg)
	case g.gates():
		err = g.openBefore(ctx, cfg)
	default:
		if g.subject.OwnApp() {
			cfg.Issue = nil // the reference app asks for nothing in TLS, unless it is a backend
		}
		if r := g.subject.Stands().Role; r != system.App {
			g.mark(assertions.MarkSubject, r)
		}
		cfg.Chosen = g.chose(timeline.ByService)
		g.fleet, err = host.Open(ctx, g.own(cfg))
		err = g.theirs(err)
	}
	if err != nil {
		return err
	}
	g.flows = load.NewFlows(g.ctx, probe.Generator{Room: probe.NewRoom(probe.MaxInFlight)}, func(r timeline.Record) { g.sink.Emit(r, 0) })
	g.halt = g.flows.Stop
	return g.balance(ctx)
}

// mark says of which role what is ended is.
func (g *ground) mark(what string, r system.Role) {
	g.sink.Event(timeline.Event{Source: "runner", Kind: timeline.Marker, Attrs: map[string]string{"what": what, "role": string(r)}})
}

// own is a fleet with the grace period of a vendor's system, where it is one.
func (g *ground) own(cfg host.Config) host.Config {
	if g.subject.Named && !g.subject.Reference() {
		cfg.Place.Grace = 0
	}
	return cfg
}

// openBefore puts up what is ended before two backends that stay.
func (g *ground) openBefore(ctx context.Context, ended host.Config) (err error) {
	back := ended.Place
	back.MinDrain, back.Unready, back.Timeout, back.Grace = backendDrain, backendDrain, backendDeadline, backendGrace
	back.Fault = string(g.faultOf(g.stage.stack.App()))
	g.stands, err = host.Open(ctx, host.Config{
		System: g.stage.stack.App(), Issue: g.stage.issue, Place: back, Replicas: backends, Addresses: ended.Addresses,
		Dir: filepath.Join(ended.Dir, "backends"), Logs: ended.Logs, Lag: time.Millisecond, Tells: true, Emit: g.backstage,
	})
	if err != nil {
		return fmt.Errorf("the backends: %w", err)
	}
	ended.Place.Backends = g.stands.Backends()
	if err := g.identify(&ended); err != nil {
		return err
	}
	ended.Chosen = g.chose(timeline.ByService)
	g.mark(assertions.MarkFront, g.subject.Stands().Role)
	g.fleet, err = host.Open(ctx, g.own(ended))
	return g.theirs(err)
}

// theirs says of an error that the subject did not come up, where that is a vendor's.
func (g *ground) theirs(err error) error {
	if !errors.Is(err, host.ErrDown) || !g.subject.Named {
		return err
	}
	return fmt.Errorf("%w: %w (what it wrote: %s)", behaviour.ErrDown, err, filepath.Join(g.stage.cfg.Logs, g.scenario.Name))
}

// openBehind puts up what is ended behind a gateway that stays. It knows its
// backends by their addresses, so that those come up again in their places.
func (g *ground) openBehind(ctx context.Context, ended host.Config) (err error) {
	before := ended
	app := *g.stage.stack.App()
	app.Successor = system.InPlace
	started := *app.Host
	started.Command = append(slices.Clone(started.Command), "--watch="+behaviour.WatchFor.String())
	app.Host = &started
	ended.System, ended.Tells, ended.Rendered = &app, true, ""
	ended.Place.Fault = string(g.faultOf(g.stage.stack.App()))
	if g.fleet, err = host.Open(ctx, ended); err != nil {
		return fmt.Errorf("the backends: %w", err)
	}
	before.Replicas, before.Emit, before.Dir = 1, g.backstage, filepath.Join(before.Dir, "before")
	d := g.subject.Drain
	before.Place.MinDrain, before.Place.Timeout, before.Place.Grace = d.MinDrain.D(), d.Cut(), d.Grace.D()
	peers := g.fleet.Backends()
	before.Place.Backends = peers
	if g.stands, err = host.Open(ctx, before); err != nil {
		return g.theirs(err)
	}
	g.tasks.Go(func() { g.census(peers) })
	return nil
}

// gates says whether what is ended stands before backends.
func (g *ground) gates() bool { return g.subject.Before() && !g.scenario.Topology.Behind }

// front is what the clients dial.
func (g *ground) front() *host.Fleet {
	if g.scenario.Topology.Behind {
		return g.stands
	}
	return g.fleet
}

// census tells, as long as the ground is there, which sockets what stands before
// the instances that are ended has to them.
func (g *ground) census(peers []system.Backend) {
	tick := time.NewTicker(behaviour.CensusEvery)
	defer tick.Stop()
	for {
		g.stands.Census(peers)
		select {
		case <-tick.C:
		case <-g.ctx.Done():
			return
		}
	}
}

// faultOf is the scenario's fault where it is one of a component that the system is made of.
func (g *ground) faultOf(sys *system.System) spec.Fault {
	if f := g.scenario.Fault; sys.Made(behaviour.ComponentOf(f)) {
		return f
	}
	return ""
}

// event takes what happens to the instances that are ended.
func (g *ground) event(e timeline.Event) {
	if g.ctx.Err() != nil {
		return // the recording is over, and everything is being removed
	}
	g.sink.Emit(timeline.Record{Event: &e}, 0)
	switch e.Kind {
	case timeline.PodReady:
		g.tasks.Go(g.present)
	case timeline.ProcExit:
		g.tail.Exited(e.Subject)
	case timeline.PodGone:
		if g.subject.Successor != system.InPlace {
			// It fails with the ground only.
			g.tasks.Go(func() { _ = g.vacated(g.ctx, e.Subject) })
		}
	}
}

// vacated returns when nobody dials an instance that is gone any more.
func (g *ground) vacated(ctx context.Context, uid string) error {
	// There are streams once there is who stops them.
	return g.direct.Gone(ctx, uid, func(ctx context.Context, names ...flow.Stream) error { return g.halt(ctx, names...) })
}

// backstage takes what happens to what stays: of no interest, but for its
// sockets, and an end that nobody asked for.
func (g *ground) backstage(e timeline.Event) {
	switch e.Kind {
	case timeline.ProcExit:
	case timeline.PodContainer:
		if e.Attrs["reason"] == timeline.ReasonOOMKilled && g.ctx.Err() == nil {
			g.sink.Event(timeline.Event{Source: "runner", Kind: timeline.AgentLost, Attrs: map[string]string{
				"agent": e.Name, "memory": "true",
				"why": "it was killed for memory, as it seems: a SIGKILL that is none of the suite's ended it, and the kernel counted kills for memory while it ran",
			}})
		}
		return
	case timeline.Sockets, timeline.Gauge, timeline.WatchGap:
		if g.ctx.Err() == nil {
			g.sink.Emit(timeline.Record{Event: &e}, 0)
		}
		return
	default:
		return
	}
	g.tail.Exited(e.Subject)
	if g.ctx.Err() == nil {
		g.sink.Event(timeline.Event{Source: "runner", Kind: timeline.AgentLost, Attrs: map[string]string{"agent": e.Name, "why": "its process ended"}})
	}
}

// chose records to whom connections are given, by whom: behind a gateway an answer names a
// backend, and what is ended is the gateway; and an app that has paths of its own names nobody.
func (g *ground) chose(by string) func(client net.Addr, uid string) {
	if !g.gates() && g.scenario.Asks == nil {
		return nil
	}
	return func(client net.Addr, uid string) {
		g.sink.Event(timeline.Event{Source: "host", Kind: timeline.Chosen, Subject: uid, Attrs: map[string]string{"client": client.String(), "by": by}})
	}
}

// Start begins the scenario's traffic.
func (g *ground) Start(context.Context) (names []flow.Stream, nodes []string, err error) {
	var all []load.Stream
	for _, p := range g.scenario.Traffic {
		port := behaviour.PortOf(p.Protocol)
		switch p.Path {
		case flow.Service:
			addr, ok := g.front().Addr(port)
			if !ok {
				return nil, nil, fmt.Errorf("%s has no port %s", g.subject.Metadata.Name, port)
			}
			all = append(all, g.stream(p, "", addr))
			continue
		case flow.Balanced:
			all = append(all, g.stream(p, "", g.lb.Addr()))
			continue
		}
		for _, i := range g.front().Instances() {
			addr, ok := i.Addr(port)
			if !ok {
				return nil, nil, fmt.Errorf("%s has no port %s", g.subject.Metadata.Name, port)
			}
			all = append(all, g.stream(p, i.UID(), addr))
		}
	}
	for _, s := range all {
		names = append(names, s.Name)
	}
	g.direct.Add(all...)
	if err := g.flows.Start(all...); err != nil {
		return nil, nil, err
	}
	return names, []string{"host"}, g.startPressure()
}

// startPressure begins the closed-loop load, where the scenario has some: it dials what
// the clients of the path Service dial.
func (g *ground) startPressure() error {
	p := g.scenario.Pressure
	if p == nil {
		return nil
	}
	port := behaviour.PortOf(flow.HTTP1)
	addr, ok := g.front().Addr(port)
	if !ok {
		return fmt.Errorf("%s has no port %s", g.subject.Metadata.Name, port)
	}
	dir := filepath.Join(g.stage.dir, g.scenario.Name, "pressure")
	log := filepath.Join(g.stage.cfg.Logs, g.scenario.Name, "pressure.log")
	var err error
	g.press, err = host.Press(g.stage.cfg.Agent, work.Pressure, addr, p.Conns, p.QPS, dir, log)
	return err
}

// pressureEnd is how long the closed-loop load may take to end: its last requests have
// 3 s each.
const pressureEnd = 15 * time.Second

// stopPressure ends it, and records its summary.
func (g *ground) stopPressure(ctx context.Context) {
	if g.press == nil {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, pressureEnd, fmt.Errorf("not within %s", pressureEnd))
	defer cancel()
	e := g.press.Stop(ctx)
	g.press = nil
	g.sink.Emit(timeline.Record{Event: &e}, 0)
}

func (g *ground) stream(p load.Profile, target, addr string) load.Stream {
	s := g.scenario.Stream(p, target, addr, g.scenario.Name)
	s.From = g.stage.sources()
	switch {
	case p.Protocol.Tunnels():
		g.tunnel(&s)
	case p.Protocol.Secure():
		s.CA, s.ServerName = string(g.stage.cert.ca), serverName
	}
	return s
}

// Disrupt does what the scenario says.
func (g *ground) Disrupt(ctx context.Context) error {
	budget := g.scenario.Topology.Grace + 5*time.Minute
	ctx, cancel := context.WithTimeoutCause(ctx, budget, fmt.Errorf("not within %s", budget))
	defer cancel()
	x := host.Disrupter{Fleet: g.fleet, MinReady: g.scenario.Topology.MinReady, Fault: g.scenario.Fault, Elsewhere: g.elsewhere}
	return x.Run(ctx, g.scenario.Disrupt)
}

// Stop ends the load and waits for what is in flight.
func (g *ground) Stop(ctx context.Context) error {
	g.stopPressure(ctx)
	return g.halt(ctx)
}

// Close removes the topology.
func (g *ground) Close(ctx context.Context) error {
	g.cancel()
	if g.press != nil {
		g.press.Kill()
	}
	var errs []error
	if g.lb != nil {
		errs = append(errs, g.lb.Close(ctx))
	}
	for _, f := range []*host.Fleet{g.fleet, g.stands} {
		if f != nil {
			errs = append(errs, f.Close(ctx))
		}
	}
	g.tasks.Wait()
	if g.read != nil {
		g.read()
		errs = append(errs, <-g.tailed)
	}
	return errors.Join(errs...)
}
