// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ktypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/host"
	"github.com/lastcall-dev/lastcall/fixtures/identity"
	"github.com/lastcall-dev/lastcall/fixtures/injector"
	"github.com/lastcall-dev/lastcall/fixtures/membership"
	"github.com/lastcall-dev/lastcall/fixtures/redirect"
	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/control"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/load/work"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// The clients' pod.
const (
	clientName  = "probe"
	clientUID   = "probe"
	controlPort = 7443
)

// The name of the instances' Service, and the label of pods that names theirs.
const (
	echoName = "echo"
	appLabel = "app"
)

// pressureAtMost bounds pressure that nobody ends.
const pressureAtMost = time.Hour

// meshed is a recording whose pods are in the suite's mesh, and so are its clients: each of them is
// in a network namespace of its own, and has a sidecar, or its node's proxy serves it.
type meshed struct {
	*ground
	bench     *meshBench
	namespace string
	services  map[string]string         // their IPs
	callers   []*host.Instance          // those that were told to begin what they send out
	peers     map[flow.Path]*host.Fleet // of the suite's own, that the callers dial

	made      host.Config   // what the instances are made of
	newcomers []*host.Fleet // at the addresses of instances that are gone

	dir   string      // the folder of the nodes
	logs  string      // the folder for what the processes write
	nodes []*nodeSide // where pods are served by their nodes' proxies

	crashing  atomic.Bool // a node's proxy or its agent has been killed
	departing departures

	subscriber *host.Pod // of discovery; nil: nobody is asked
	pod        *host.Pod // the clients'
	running    *host.Container
	probe      *control.Attached

	wired bool // somebody watches the wire (watchWire)

	mu   sync.Mutex
	pods map[string]*corev1.Pod                     // that there are, by UID
	ends map[string]map[string]discoveryv1.Endpoint // those of the Services, by their pods' UIDs
}

func (m *meshed) open(ctx context.Context) error {
	cfg, err := m.prepare(ctx)
	if err != nil {
		return err
	}
	if m.bench, err = m.openMesh(ctx); err != nil {
		return err
	}
	m.namespace = m.scenario.Name
	if err := errors.Join(m.announce(), m.identify()); err != nil {
		return err
	}
	cfg.Issue, cfg.Emit = nil, m.event
	cfg.Tells = m.subject.Reference()
	cfg.Pods = m.in(m.beside(echoName))
	t := m.scenario.Topology
	cfg.Place.Namespace, cfg.Place.Form, cfg.Place.Waits, cfg.Place.AtZero = m.namespace, cmp.Or(t.Form, system.Native), t.Waits, t.AtZero
	cfg.Place.PreStop, cfg.Place.Validity, cfg.Place.Late = t.PreStop, t.Validity, t.Late
	m.sink.Event(timeline.Event{Source: "runner", Kind: timeline.Marker, Attrs: map[string]string{
		"what": assertions.MarkSubject, "role": string(m.subject.Stands().Role), "container": m.subject.Cluster.Container,
	}})
	// What an app sends out while nobody carries it; and how the tunnels of pods end whose node's proxy outlives them.
	if m.scenario.Needs(spec.Wire) || t.Late > 0 || m.unenrols() || m.losesNode() || m.byNodes() && (m.handsOver() || m.scenario.TunnelsAlone()) {
		if err := m.watchWire(); err != nil {
			return err
		}
	}
	if err := m.openNodes(ctx, cfg.Dir, cfg.Logs); err != nil {
		return err
	}
	if cfg.Place.Calls, err = m.openPeer(ctx, cfg); err != nil {
		return err
	}
	cfg.System = m.calling(cfg.System)
	m.made = cfg
	m.fleet, err = host.Open(ctx, m.own(cfg))
	if err := m.theirs(err); err != nil {
		return err
	}
	// The clients come last: what their sidecar knows from the first moment on is all of it.
	return m.openClient(ctx, cfg.Dir, cfg.Logs)
}

// announce has discovery know of the namespace and of its Services.
func (m *meshed) announce() error {
	m.services = map[string]string{}
	all := []runtime.Object{namespace(m.namespace)}
	for _, name := range []string{echoName, behaviour.CallPeer} {
		ip, err := m.bench.network.Service()
		if err != nil {
			return err
		}
		m.services[name], m.ends[name] = ip.String(), map[string]discoveryv1.Endpoint{}
		svc, err := m.serviceObject(name)
		if err != nil {
			return err
		}
		all = append(all, svc)
	}
	m.name(true)
	return m.bench.put(m.namespace, all...)
}

// name has the name server know the Services, or forget them.
func (m *meshed) name(known bool) {
	for service, ip := range m.services {
		var at netip.Addr
		if known {
			at, _ = netip.ParseAddr(ip) // which was one
		}
		m.bench.network.Name(behaviour.ServiceName(service, m.namespace), at)
	}
}

// clientAccount is the service account that our own client of tunnels says that it has.
const clientAccount = "lastcall-probe"

// identify gives our own client an identity of the mesh: it has no sidecar that would ask for one.
func (m *meshed) identify() error {
	var err error
	m.identity, err = m.bench.ca.Workload(m.id(clientAccount).URL(), identity.Validity)
	return err
}

// id is the identity of a service account in the recording's namespace.
func (m *meshed) id(account string) identity.ID {
	return identity.ID{TrustDomain: identity.TrustDomain, Namespace: m.namespace, ServiceAccount: account}
}

// trespass is behaviour.Trespass of the clients' pod.
func (m *meshed) trespass(ctx context.Context, i *host.Instance, c disrupt.Control) ([]disrupt.Try, error) {
	ip := i.Backend().Address
	p := load.Profile{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.New, Op: flow.Get}}
	return behaviour.Trespass(ctx, m.probe.Asks, m.stream(p, i.UID(), ip, redirect.TunnelPort), ip, m.subject.Ports[c.Port], c.Path)
}

// stream is one to an address, at a port of the subject's.
func (m *meshed) stream(p load.Profile, target, ip string, port int) load.Stream {
	s := m.scenario.Stream(p, target, net.JoinHostPort(ip, strconv.Itoa(port)), m.scenario.Name)
	if p.Protocol.Tunnels() {
		s.CA, s.ServerName = string(m.bench.ca.PEM()), m.id(account).String()
		app := m.subject.Ports[behaviour.PortOf(flow.HTTP1)]
		s.Tunnel = load.Tunnel{To: net.JoinHostPort(ip, strconv.Itoa(app)), Cert: string(m.identity.Cert), Key: string(m.identity.Key)}
	}
	return s
}

// in is where instances stand that have something beside them.
func (m *meshed) in(beside func(system.Place, int) (host.Beside, error)) *host.Pods {
	return &host.Pods{Network: m.bench.network, Node: m.spread(), Beside: beside, Looks: m.crashes()}
}

// beside says what the mesh puts into the pod of an instance that is an endpoint of a Service.
func (m *meshed) beside(service string) func(system.Place, int) (host.Beside, error) {
	return func(place system.Place, on int) (host.Beside, error) { return m.admitted(service, place, on) }
}

func (m *meshed) admitted(service string, place system.Place, on int) (host.Beside, error) {
	template, err := m.template(place)
	if err != nil {
		return host.Beside{}, err
	}
	template.Labels[appLabel] = service
	return m.join(on, place.Name, place.UID, place.Address, template)
}

// join makes a pod of a template, has discovery know of it, and says what is beside its app.
func (m *meshed) join(on int, name, uid, ip string, template corev1.PodTemplateSpec) (host.Beside, error) {
	pod, err := m.bench.admit(m.namespace, host.Node(on), name, uid, ip, template)
	if err != nil {
		return host.Beside{}, err
	}
	if err := m.tell(pod); err != nil {
		return host.Beside{}, err
	}
	if n := m.nodeOf(pod); n != nil {
		if m.losesNode() {
			return m.furnishTold(n, pod)
		}
		return n.furnish(pod)
	}
	return m.bench.beside(pod)
}

// template is what the subject's manifest says of the pod of an instance, as one of the mesh's.
func (m *meshed) template(place system.Place) (corev1.PodTemplateSpec, error) {
	in := m.subject.InPod(place)
	in.Image, in.Mesh = "none", meshID
	all, ended, err := m.subject.RenderManifests(in)
	if err != nil {
		return corev1.PodTemplateSpec{}, err
	}
	var made appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(all[ended].Object, &made); err != nil {
		return corev1.PodTemplateSpec{}, fmt.Errorf("%s is no Deployment: %w", all[ended].GetName(), err)
	}
	return made.Spec.Template, nil
}

// openClient puts the clients up: a probe, whose data path leaves its control channel alone, and the
// tunnels that it opens itself.
func (m *meshed) openClient(ctx context.Context, dir, logs string) (err error) {
	on := m.clientNode()
	if m.pod, err = host.OpenPod(m.bench.network, on, clientName, filepath.Join(dir, clientName), logs); err != nil {
		return err
	}
	meta := metav1.ObjectMeta{Annotations: map[string]string{injector.SettingsAnnotation: sidecar.ForClients(controlPort, m.scenario.Fault).String()}}
	switch {
	case m.scenario.Topology.Strangers:
		meta = metav1.ObjectMeta{Labels: map[string]string{injector.OutLabel: "false"}}
	case m.byNodes():
		meta.Labels = map[string]string{membership.DataplaneLabel: membership.NodeDataplane}
		meta.Annotations[membership.AgentAnnotation] = m.namespace
	}
	beside, err := m.join(on, clientName, clientUID, m.pod.Address(), corev1.PodTemplateSpec{ObjectMeta: meta})
	if err != nil {
		return err
	}
	if err := m.pod.Begin(ctx, beside); err != nil {
		return err
	}
	cred, err := m.stage.authority.Server()
	if err != nil {
		return err
	}
	files := map[string]string{}
	for name, text := range cred.Files() {
		files[name] = string(text)
	}
	m.running, err = m.pod.Run(clientName, system.Process{
		Command: append(slices.Clone(m.stage.cfg.Agent), clientName, "--listen=:"+strconv.Itoa(controlPort), "--tls=.", "--spool=spool", "--pod-uid="+clientUID, "--pod-name="+clientName, "--node="+host.Node(on)),
		Env:     []string{"GOMAXPROCS=1", "GOGC=400", "GOMEMLIMIT=400MiB"},
		Files:   files,
	})
	if err != nil {
		return err
	}
	runner, err := m.stage.authority.Client()
	if err != nil {
		return err
	}
	addr := net.JoinHostPort(m.pod.Address(), strconv.Itoa(controlPort))
	dial := func(ctx context.Context) (net.Conn, error) { return m.bench.network.Dial(ctx, "tcp", addr) }
	m.probe, err = control.Attach(ctx, addr, dial, runner, m.sink.Emit, func(err error) { m.lost(clientName, err) })
	if err != nil {
		return fmt.Errorf("the clients: %w", err)
	}
	m.halt, m.elsewhere = m.probe.Stop, m.trespass
	m.tasks.Go(func() { m.look(clientUID, clientName, m.running.OthersSockets, m.tunnels(m.fleet)) })
	if m.handsOver() {
		return m.openSubscriber(dir, logs)
	}
	m.watch("controller", m.bench.replicas[0].running)
	if side := m.pod.Sidecar(); side != nil {
		m.watch("sidecar of "+clientName, side)
	}
	return nil
}

// watch tells of the end of what has to stay.
func (m *meshed) watch(name string, c *host.Container) {
	m.tasks.Go(func() {
		select {
		case <-c.Done():
			m.lost(name, c.Ended())
		case <-m.ctx.Done():
		}
	})
}

func (m *meshed) lost(name string, err error) {
	if m.ctx.Err() == nil {
		m.sink.Event(timeline.Event{Source: "runner", Kind: timeline.AgentLost, Attrs: map[string]string{"agent": name, "why": err.Error()}})
	}
}

// tunnels are the addresses at which the sidecars of instances take tunnels.
func (m *meshed) tunnels(to *host.Fleet) []string {
	var out []string
	for _, b := range to.Backends() {
		// Of a Service in the other family the other one is chosen.
		all, _ := m.bench.addresses(b.Address) // which is one
		for _, a := range all {
			out = append(out, net.JoinHostPort(a, strconv.Itoa(redirect.TunnelPort)))
		}
	}
	return out
}

// look counts, as long as the ground is there, the tunnels that a pod has to others: of one that is
// ended, as long as its app runs.
func (m *meshed) look(uid, name string, sockets func([]string) (map[string][]timeline.Socket, error), peers []string) {
	tick := time.NewTicker(behaviour.CensusEvery)
	defer tick.Stop()
	for {
		at := timeline.Monotonic()
		seen, err := sockets(peers)
		if err != nil {
			if m.ctx.Err() == nil && (uid == clientUID || !errors.Is(err, fs.ErrNotExist)) {
				m.sink.Event(timeline.Event{Source: node, Kind: timeline.WatchGap, Subject: "sockets", Name: name, Attrs: map[string]string{"why": err.Error()}})
			}
			return
		}
		for _, peer := range peers {
			m.sink.Emit(timeline.Record{Event: &timeline.Event{
				At: at, Source: node, Kind: timeline.Sockets, Subject: uid, Name: name, Node: node,
				Attrs: map[string]string{"peer": peer, "sockets": timeline.ListSockets(seen[peer])},
			}}, 0)
		}
		select {
		case <-tick.C:
		case <-m.ctx.Done():
			return
		}
	}
}

// event takes what happens to the instances, and has discovery know of it as an API server would.
func (m *meshed) event(e timeline.Event) {
	if m.ctx.Err() == nil {
		if err := m.follow(e); err != nil {
			m.lost("discovery's folder", err)
		}
	}
	m.callOut(e)
	m.lookBehind(e)
	m.ground.event(e)
}

func (m *meshed) follow(e timeline.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	pod := m.pods[e.Subject]
	if pod == nil {
		return nil
	}
	switch e.Kind {
	case timeline.PodDeletion:
		pod.DeletionTimestamp = new(metav1.Now())
		return m.bench.put(fileOf(pod), pod)
	case timeline.Endpoint:
		service := pod.Labels[appLabel]
		m.ends[service][e.Subject] = endpointOf(pod, e)
		return m.publish(service)
	case timeline.EndpointGone:
		service := pod.Labels[appLabel]
		delete(m.ends[service], e.Subject)
		return m.publish(service)
	case timeline.PodGone:
		delete(m.pods, e.Subject)
		m.listed(pod.Name, timeline.ListedGone)
		return m.bench.drop(fileOf(pod))
	}
	return nil
}

// tell has discovery know of a pod.
func (m *meshed) tell(pod *corev1.Pod) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pods[string(pod.UID)] = pod
	if err := m.bench.put(fileOf(pod), pod); err != nil {
		return err
	}
	m.listed(pod.Name, timeline.ListedThere)
	return nil
}

// fileOf is where a pod stands.
func fileOf(pod *corev1.Pod) string { return pod.Namespace + "-pod-" + pod.Name }

// serviceObject is a Service.
func (m *meshed) serviceObject(name string) (*corev1.Service, error) {
	all, err := m.bench.addresses(m.services[name])
	svc := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: name},
		Spec:       corev1.ServiceSpec{ClusterIP: m.services[name], ClusterIPs: all},
	}
	for _, port := range m.ports() {
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: strconv.Itoa(port), Port: int32(port), TargetPort: intstr.FromInt(port)})
	}
	return svc, err
}

// ports are the numbers of the subject's, each once.
func (m *meshed) ports() []int {
	var out []int
	for _, port := range m.subject.Ports {
		out = append(out, port)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// publish writes a Service's endpoints down, a slice for each family. It is called with the lock held.
func (m *meshed) publish(service string) error {
	var all []runtime.Object
	for _, node := range m.bench.network.Stack().Gateways() {
		all = append(all, m.slice(service, node.Is6()))
	}
	return m.bench.put(m.endsFile(service), all...)
}

// slice has the endpoints of a Service in one family.
func (m *meshed) slice(service string, six bool) *discoveryv1.EndpointSlice {
	family, name := discoveryv1.AddressTypeIPv4, service+"-ipv4"
	if six {
		family, name = discoveryv1.AddressTypeIPv6, service+"-ipv6"
	}
	slice := &discoveryv1.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta:  metav1.ObjectMeta{Namespace: m.namespace, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: family,
	}
	for _, e := range m.ends[service] {
		e.Addresses = slices.DeleteFunc(slices.Clone(e.Addresses), func(ip string) bool { return strings.Contains(ip, ":") != six })
		slice.Endpoints = append(slice.Endpoints, e)
	}
	for _, port := range m.ports() {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: new(strconv.Itoa(port)), Port: new(int32(port)), Protocol: new(corev1.ProtocolTCP)})
	}
	return slice
}

// endsFile is where a Service's endpoints stand.
func (m *meshed) endsFile(service string) string { return m.namespace + "-endpoints-" + service }

func endpointOf(pod *corev1.Pod, e timeline.Event) discoveryv1.Endpoint {
	is := func(what string) *bool { return new(e.Attrs[what] == "true") }
	var all []string
	for _, ip := range pod.Status.PodIPs {
		all = append(all, ip.IP)
	}
	return discoveryv1.Endpoint{
		Addresses:  all,
		Conditions: discoveryv1.EndpointConditions{Ready: is("ready"), Serving: is("serving"), Terminating: is("terminating")},
		NodeName:   new(pod.Spec.NodeName),
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
	}
}

// Start begins the scenario's traffic.
func (m *meshed) Start(ctx context.Context) (names []flow.Stream, nodes []string, err error) {
	var all []load.Stream
	for _, p := range m.scenario.Traffic {
		if m.misbehaves(p) {
			continue // misbehave
		}
		if p.Path.Dialled() {
			for nth, i := range m.fleet.Instances() {
				if m.scenario.Topology.Carries(nth, p) {
					names = append(names, flow.To(p.Flow, i.UID()))
				}
			}
			continue
		}
		some, err := m.streams(p)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, some...)
	}
	for _, s := range all {
		names = append(names, s.Name)
	}
	m.direct.Add(all...)
	if err := m.probe.Start(ctx, all...); err != nil {
		return nil, nil, err
	}
	if err := errors.Join(m.beginCalls(), m.departs()); err != nil {
		return nil, nil, err
	}
	return names, []string{host.Node(m.clientNode())}, m.startPressure(ctx)
}

// streams are those of a flow of the clients'.
func (m *meshed) streams(p load.Profile) (out []load.Stream, err error) {
	name := behaviour.PortOf(p.Protocol)
	number, ok := m.subject.Ports[name]
	switch {
	case !ok:
		return nil, fmt.Errorf("%s has no port %s", m.subject.Metadata.Name, name)
	case p.Path == flow.Service:
		return []load.Stream{m.stream(p, "", m.services[echoName], number)}, nil
	}
	for nth, i := range m.fleet.Instances() {
		if m.scenario.Topology.Carries(nth, p) {
			out = append(out, m.stream(p, i.UID(), i.Backend().Address, number))
		}
	}
	return out, nil
}

func (m *meshed) startPressure(ctx context.Context) error {
	p := m.scenario.Pressure
	if p == nil {
		return nil
	}
	return m.probe.Pressure(ctx, control.Pressure{
		Name: work.Pressure, Addr: net.JoinHostPort(m.services[echoName], strconv.Itoa(m.subject.Ports[behaviour.PortOf(flow.HTTP1)])),
		Conns: p.Conns, QPS: p.QPS, Seconds: pressureAtMost.Seconds(),
	})
}

// Disrupt does what the scenario says.
func (m *meshed) Disrupt(ctx context.Context) error {
	switch m.scenario.Disrupt.Kind {
	case disrupt.Peers:
		return m.misbehave(ctx)
	case disrupt.HandOver:
		return m.done(ctx, m.handOver)
	case disrupt.ReplaceProxies:
		return m.done(ctx, m.replaceProxies)
	case disrupt.HurryProxies:
		return m.done(ctx, m.hurryProxies)
	case disrupt.RestartInPlace:
		return m.done(ctx, m.restartInPlace)
	case disrupt.RuntimeCalls:
		return m.done(ctx, m.callPlugin)
	case disrupt.Unenrol:
		return m.done(ctx, m.unenrol)
	case disrupt.ReuseAddress:
		return m.done(ctx, m.reuseAddresses)
	case disrupt.CrashNode:
		return m.done(ctx, m.crashNode)
	case disrupt.RestartNode:
		return m.done(ctx, m.restartNode)
	default:
		return m.ground.Disrupt(ctx)
	}
}

// done does a disruption that is the stage's own, and tells of it.
func (m *meshed) done(ctx context.Context, do func(context.Context) error) error {
	return disrupt.Tell(m.sink.Event, timeline.Event{}, map[string]string{"what": string(m.scenario.Disrupt.Kind)}, func() error { return do(ctx) })
}

// Stop ends the load and waits for what is in flight, and for the clients' history.
func (m *meshed) Stop(ctx context.Context) error {
	var ends errgroup.Group // each waits for what is in flight of its own
	ends.Go(func() error { return m.probe.StopPressure(ctx, "") })
	ends.Go(func() error { return m.probe.Stop(ctx) })
	ends.Go(func() error { return m.endCalls(ctx) })
	if err := ends.Wait(); err != nil {
		return err
	}
	if err := m.probe.WaitIdle(ctx); err != nil {
		return err
	}
	return m.probe.Rest(ctx)
}

// Close removes the topology.
func (m *meshed) Close(ctx context.Context) error {
	m.cancel()
	var errs []error
	if m.probe != nil {
		m.probe.Detach()
	}
	for _, pod := range []*host.Pod{m.pod, m.subscriber} {
		errs = append(errs, pod.Close())
	}
	errs = append(errs, m.closePeers(ctx), m.closeNewcomers(ctx), m.ground.Close(ctx), m.closeNodes())
	m.departing.close()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, pod := range m.pods {
		errs = append(errs, m.bench.drop(fileOf(pod)))
	}
	if m.handsOver() && m.bench != nil {
		return errors.Join(append(errs, m.bench.close())...)
	}
	if m.bench != nil {
		m.name(false)
		errs = append(errs, m.bench.drop(m.endsFile(echoName)), m.bench.drop(m.endsFile(behaviour.CallPeer)), m.bench.drop(m.namespace))
	}
	return errors.Join(errs...)
}

func types(uid string) ktypes.UID { return ktypes.UID(uid) }
