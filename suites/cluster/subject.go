// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/deploy"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

// The names of what belongs to such a system.
const (
	gateName     = "gateway"
	backendName  = "backend"
	systemSecret = "lastcall-system-tls"
	systemConfig = "lastcall-system"
	// serverName is the name that the clients in TLS ask for.
	serverName = "lastcall.test"
)

// backends is how many apps stand behind a gateway that is ended, in one Service.
const backends = 2

// The times of those: they are not ended while anybody looks.
const (
	backendDrain    = time.Second
	backendDeadline = 10 * time.Second
	backendGrace    = 15 * time.Second
)

// subject is what a scenario ends, and what its clients dial, as the cluster knows them.
type subject struct {
	// ended makes the pods that are ended, component is their label, and container the one of
	// them that a signal goes to; empty: they have one.
	ended                disrupt.Workload
	component, container string
	// dialled is the label of the pods that the clients dial: those, or what stands before them.
	dialled string
	// placed is where a system stands.
	placed system.Place
	// ports are where it is asked, by the names of a system's; none: at WorkPort.
	ports []deploy.Port
	// ca is what the certificate of its TLS is signed by, PEM.
	ca string
}

// port is where a protocol is spoken, and its name in the Services.
func (s subject) port(p flow.Protocol) (name string, number int32) {
	wanted := behaviour.PortOf(p)
	for _, one := range s.ports {
		if one.Name == wanted {
			return one.Name, int32(one.Number)
		}
	}
	return "work", deploy.WorkPort
}

// nodePort is the node port of a Service that leads to where a protocol is spoken.
func (s subject) nodePort(svc *corev1.Service, p flow.Protocol) int32 {
	_, number := s.port(p)
	for _, one := range svc.Spec.Ports {
		if one.Port == number {
			return one.NodePort
		}
	}
	return 0
}

// install puts a system up, a gateway before its backends.
func (g *ground) install(ctx context.Context) error {
	back := g.backend()
	var peers []system.Backend
	var err error
	if g.system.Before() {
		if peers, err = g.serve(ctx, back); err != nil {
			return err
		}
	}
	all, err := g.everyAddress(ctx)
	if err != nil {
		return err
	}
	addresses := make([]string, len(peers))
	for i, p := range peers {
		addresses[i] = p.Address
	}
	cert, err := g.stage.auth.Server(append(addresses, serverName)...)
	if err != nil {
		return err
	}
	sys, place := g.system, g.place(peers, all)
	if place.Calls, err = g.callPeer(ctx); err != nil {
		return err
	}
	config, err := sys.RenderFiles(place)
	if to := g.stage.cfg.Rendered; err == nil && to != "" {
		err = system.WriteFiles(filepath.Join(to, g.scenario.Name), config, 0o644)
	}
	if err != nil {
		return err
	}
	objects := g.scope.Files(systemSecret, systemConfig, cert.CA, cert.Cert, cert.Key, config)
	if g.system.Before() {
		objects = append(objects, g.workload(back))
	}
	if err := deploy.Create(ctx, g.stage.cs, objects...); err != nil {
		return err
	}
	if g.system.Before() {
		if _, err := g.scope.Ready(ctx, g.stage.cs, back.Name, back.Replicas, upBudget); err != nil {
			return fmt.Errorf("the backends: %w", err)
		}
	}
	manifests, ended, container, err := g.objects(place)
	if err == nil && g.byNodes() {
		err = leaveOut(manifests, g.proxies())
	}
	if err != nil {
		return err
	}
	scoped, err := sys.RenderScoped(place)
	if err != nil {
		return err
	}
	t := g.scenario.Topology
	what := deploy.System{
		Component: gateName, Objects: manifests, Ended: ended, Container: container, Scoped: scoped,
		Replicas: t.Replicas, MinReady: t.MinReady, Unavailable: t.Unavailable, Apart: t.Apart, Even: g.onEachNode(),
	}
	if t.Behind {
		what.Replicas, what.MinReady, what.Unavailable = 1, 0, 0
	}
	made, err := g.scope.Prepare(what)
	if err != nil {
		return err
	}
	g.subject = subject{dialled: gateName, ca: string(cert.CA), placed: place}
	for _, p := range flow.Protocols() {
		name := behaviour.PortOf(p)
		there := slices.ContainsFunc(g.subject.ports, func(one deploy.Port) bool { return one.Name == name })
		if number, ok := place.Ports[name]; ok && !there {
			g.subject.ports = append(g.subject.ports, deploy.Port{Name: name, Number: number})
		}
	}
	if t.Behind {
		g.subject.ended, g.subject.component = disrupt.Workload{Kind: disrupt.StatefulSet, Name: back.Name}, back.Name
		if err := g.scope.Install(ctx, g.stage.objects, what, made, g.stage.scoped); err != nil {
			return err
		}
		stands, err := g.scope.Ready(ctx, g.stage.cs, gateName, what.Replicas, upBudget)
		if err != nil {
			return err
		}
		var pooled []string
		for _, p := range peers {
			pooled = append(pooled, p.Pooled()...)
		}
		g.tasks.Go(func() { g.census(stands, false, pooled) })
		return nil
	}
	g.subject.ended = made.Workload
	g.subject.component, g.subject.container = gateName, made.Container.Name
	if g.gates() {
		g.fronts.expect(made.Name)
		g.sink.Event(timeline.Event{Source: "runner", Kind: timeline.Marker, Attrs: map[string]string{
			"what": assertions.MarkFront, "deployment": made.Name, "role": string(g.system.Stands().Role),
		}})
	}
	g.tellSubject(made, g.system.ProxyContainer(manifests))
	return g.scope.Install(ctx, g.stage.objects, what, made, g.stage.scoped)
}

// objects are what installs the system: which of them is the workload that is ended, and which
// container of its pods everything is about. Of a sidecar that is the app which it is put beside.
func (g *ground) objects(place system.Place) (all []unstructured.Unstructured, ended int, container string, err error) {
	if !g.system.Patches() {
		all, ended, err = g.system.RenderManifests(place)
		return all, ended, g.system.Cluster.Container, err
	}
	app, own, d := g.stage.stack.Beside(), place, g.system.Drain
	own.MinDrain, own.Timeout = d.MinDrain.D(), d.Cut()
	if to := g.stage.cfg.Rendered; to != "" {
		patch, err := g.system.RenderPatch(own)
		if err == nil {
			err = system.WriteFiles(filepath.Join(to, g.scenario.Name), map[string]string{patchFile: patch}, 0o644)
		}
		if err != nil {
			return nil, 0, "", err
		}
	}
	all, ended, err = g.system.RenderBeside(app, own, place)
	return all, ended, app.Cluster.Container, err
}

// patchFile is what a sidecar added to the app's pods, where recordings keep what was filled in.
const patchFile = "patch.yaml"

// backend is the app behind the system: what is ended, or what stays.
func (g *ground) backend() deploy.Echo {
	e := deploy.Echo{
		Name: backendName, Replicas: backends, MinDrain: backendDrain, Unready: backendDrain,
		Deadline: backendDeadline, Grace: backendGrace,
	}
	if t := g.scenario.Topology; t.Behind {
		e = g.app()
		e.Name, e.Watch = backendName, behaviour.WatchFor
	}
	e.Talks, e.Secret = true, systemSecret
	e.Ledger, e.Collector, e.Credentials = g.stage.ledger(), g.stage.collector, ledgerSecret
	return e
}

// workload is what makes the backends' pods: where they are ended, each comes back as itself.
func (g *ground) workload(back deploy.Echo) runtime.Object {
	if g.scenario.Topology.Behind {
		return g.scope.StatefulSet(back)
	}
	return g.scope.Deployment(back)
}

// serve makes the Services that lead to the backends, and says where the system finds them: all
// of them in one, as a cluster has it; those that are ended each in one of its own, whose address
// stays when the pod is replaced (ADR 0011).
func (g *ground) serve(ctx context.Context, back deploy.Echo) ([]system.Backend, error) {
	services := []*corev1.Service{g.scope.Service(back, deploy.Plain)}
	if g.scenario.Topology.Behind {
		services = nil
		for n := range back.Replicas {
			services = append(services, g.scope.PodService(back, n))
		}
	}
	var out []system.Backend
	for _, svc := range services {
		made, err := g.stage.cs.CoreV1().Services(g.scope.Namespace).Create(ctx, svc, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("the backends' Service %s: %w", svc.Name, err)
		}
		out = append(out, system.Backend{
			Name: made.Name, Address: made.Spec.ClusterIP, HTTP: deploy.WorkPort, TLS: deploy.TLSPort, TCP: deploy.TalkPort,
		})
	}
	g.mu.Lock()
	g.peers = out
	g.mu.Unlock()
	return out, nil
}

// tellAddress tells at which address a pod is dialled by who stands before it, where it is
// another than its own.
func (g *ground) tellAddress(e timeline.Event) {
	if e.Kind != timeline.PodSeen || !g.scenario.Topology.Behind {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.peers {
		if p.Name == e.Name {
			g.sink.Emit(timeline.Record{Event: &timeline.Event{
				At: e.At, Err: e.Err, Source: "runner", Kind: timeline.PodAddress, Subject: e.Subject, Name: e.Name,
				Attrs: map[string]string{"address": p.Address},
			}}, 0)
		}
	}
}

// everyAddress is what a pod listens at to be reached at all of its addresses, by the family of
// the cluster's Services.
func (g *ground) everyAddress(ctx context.Context) (string, error) {
	api, err := g.stage.cs.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("the family of the cluster's Services: %w", err)
	}
	if strings.Contains(api.Spec.ClusterIP, ":") {
		return "::", nil
	}
	return "0.0.0.0", nil
}

// place is where the system's pods stand, which listen at an address.
func (g *ground) place(peers []system.Backend, all string) system.Place {
	t, sys := g.scenario.Topology, g.system
	p := sys.InPod(system.Place{
		Name: sys.Metadata.Name, Namespace: g.scope.Namespace, Address: all, ServerName: serverName, Backends: peers,
		MinDrain: t.MinDrain, Unready: t.Unready, Timeout: t.Deadline, Grace: t.Grace,
		Image: g.scope.Image, Ledger: g.stage.ledger(), Collector: g.stage.collector, CollectorSecret: ledgerSecret,
		Secret: systemSecret, ConfigMap: systemConfig, Form: cmp.Or(t.Form, system.Native), Learns: t.Learns, Mesh: g.mesh(), Waits: t.Waits, PreStop: t.PreStop, AtZero: t.AtZero,
		Validity: t.Validity, Late: t.Late, Liveness: t.Liveness, Controller: g.controllerIP, Roots: string(g.identity.ca),
	})
	if d := sys.Drain; t.Behind {
		p.MinDrain, p.Timeout, p.Grace = d.MinDrain.D(), d.Cut(), d.Grace.D()
	}
	if f := g.scenario.Fault; sys.Made(behaviour.ComponentOf(f)) {
		p.Fault = string(f)
	}
	return p
}

// tellSubject tells which container is the one that everything is about, and the
// times that its manifest has. proxy is the container of the node proxies that serve its pods.
func (g *ground) tellSubject(made deploy.Installed, proxy string) {
	about := map[string]string{"what": assertions.MarkSubject, "container": made.Container.Name, "workload": string(made.Kind) + "/" + made.Name}
	if made.Kind == disrupt.Deployment {
		about["deployment"] = made.Name
	}
	if r := g.system.Stands(); !r.Before && r.Role != system.App {
		about["role"] = string(r.Role)
	}
	if g.system.Patches() {
		about["sidecar"] = g.system.Cluster.Container
	}
	g.sink.Event(timeline.Event{Source: "runner", Kind: timeline.Marker, Attrs: about})
	if g.byNodes() {
		p := g.proxies()
		g.sink.Event(timeline.Event{Source: "runner", Kind: timeline.Marker, Attrs: map[string]string{
			"what": assertions.MarkProxies, "workload": string(p.Kind) + "/" + p.Name, "container": proxy, "timeout": g.system.ProxyPlace(g.subject.placed).Timeout.String(),
		}})
	}
	t := g.scenario.Topology
	attrs := map[string]string{"minDrain": t.MinDrain.String(), "timeout": t.Deadline.String()}
	if t.UntilKilled() {
		attrs["timeout"] = system.NoTimeout.String()
	}
	// What a manifest leaves open has the API's defaults (core/v1, PodSpec and Probe).
	// One that has no readiness probe has no period, and the check says so.
	seconds := func(n int32) string { return (time.Duration(n) * time.Second).String() }
	attrs["grace"] = seconds(corev1.DefaultTerminationGracePeriodSeconds)
	if s := made.Template.Spec.TerminationGracePeriodSeconds; s != nil {
		attrs["grace"] = seconds(int32(*s))
	}
	if probe := made.Container.ReadinessProbe; probe != nil {
		attrs["probe"], attrs["threshold"] = seconds(cmp.Or(probe.PeriodSeconds, 10)), fmt.Sprint(cmp.Or(probe.FailureThreshold, 3))
	}
	g.sink.Event(timeline.Event{Source: "manifest", Kind: timeline.Timers, Name: made.Name, Attrs: attrs})
}

// fronts says which pod stood between a client and the one that answered it.
type fronts struct {
	mu   sync.Mutex
	pods *assertions.Addresses // the system's; nil before it is installed
}

// expect says of which Deployment the pods are.
func (f *fronts) expect(deployment string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pods = assertions.NewAddresses(deployment)
}

// note takes what the watch shows of a pod.
func (f *fronts) note(e timeline.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pods != nil {
		f.pods.Note(e)
	}
}

// of is the pod that has an address now; "" where it is nobody's that we know.
func (f *fronts) of(ip string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pods == nil {
		return ""
	}
	return f.pods.Of(ip, math.MaxInt64)
}

// reached is the pod that a client reached: behind a gateway the answer names a backend, and
// what is ended is the gateway. "" where nobody knows.
func (g *ground) reached(s timeline.Sample) string {
	if s.Server != "" && g.gates() {
		return g.fronts.of(s.Via)
	}
	return s.Server
}

// gates says whether what is ended stands before backends.
func (g *ground) gates() bool { return g.system.Before() && !g.scenario.Topology.Behind }

// looks is what a scout asks for on a path.
func (g *ground) looks(path flow.Path) load.Profile {
	p := load.Profile{Flow: flow.Flow{Path: path, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 20}
	if g.system.OwnApp() {
		return p
	}
	for _, t := range g.scenario.Traffic {
		switch t.Protocol {
		case flow.HTTP1, flow.H2C, flow.TLS1, flow.H2:
			p.Protocol, p.Op, p.Takes = t.Protocol, flow.Get, 0
			return p
		case flow.TCP:
			p.Protocol, p.Op, p.Takes = t.Protocol, flow.Talk, 200*time.Millisecond
		}
	}
	return p
}

// at is where a protocol is spoken at an IP.
func (g *ground) at(ip string, p flow.Protocol) string {
	_, port := g.subject.port(p)
	return net.JoinHostPort(ip, fmt.Sprint(port))
}
