// SPDX-License-Identifier: Apache-2.0

// Package cluster is the stage in a Kubernetes cluster: one of ours, where
// the suite may look into the nodes, or anybody's, where it stays in
// namespaces of its own.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/deploy"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load/control"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// Budgets of the stage. None is normative.
const (
	// nodesBudget is how long a cluster may take to have a node for us.
	nodesBudget = 60 * time.Second
	// upBudget is how long pods may take to be ready.
	upBudget = 2 * time.Minute
	// downBudget is how long namespaces may take to go.
	downBudget = 80 * time.Second
)

// witnessPort and probePorts are the ports that agents have at the node's own
// address, on clusters of ours: no one else is there.
const (
	witnessPort = deploy.ControlPort
	probePorts  = 7450
)

// The names of our things, the same in each namespace.
const (
	echoName      = "echo"
	probeName     = "probe"
	scoutName     = "scout"
	witnessName   = "witness"
	collectorName = "collector"
	secretName    = "lastcall-tls"
	ledgerSecret  = "lastcall-ledger"
)

// Config says which cluster, and what may be done to it.
type Config struct {
	Rest *rest.Config
	// Run is the run's ID: part of the namespaces' names.
	Run string
	// Image is the agent's image, as the nodes know it.
	Image string
	// Ours: the suite made the cluster, so it may have a witness on the
	// nodes, ledgers on their disks, and ports of theirs.
	Ours bool
	// KindName is the kind cluster's name, for the error that says how an
	// image is loaded.
	KindName string
	// Reachable: the nodes' addresses can be dialled from this process.
	Reachable bool
	// Nodes runs commands on the nodes, where the suite made them.
	Nodes disrupt.NodeShell
	// Networks opens the network namespaces of the nodes, where this process may look into them. The caller closes them.
	Networks func(context.Context) ([]*os.File, error)
	// System is what is tested; nil: the reference, its app and its gateway.
	System *system.System
	// Rendered is the folder for the system's rendered configuration, a folder for each
	// recording; empty: nowhere.
	Rendered string
}

// Stage is an open stage, as the recordings of what is tested have it. It implements
// behaviour.Stage.
type Stage struct {
	*shared
	cfg   Config
	stack behaviour.Stack
	name  string // that of the system, where it is one of several; part of namespaces' names
}

// shared is what all views of a stage have together.
type shared struct {
	cs      kubernetes.Interface
	objects client.Client // for those of any kind: what manifests have
	auth    *control.Authority
	client  control.Credentials
	server  control.Credentials
	router  *router
	system  deploy.Scope // of what all scenarios share
	mesh    standing     // its controller
	plugin  standing     // its CNI plugin, on each node
	// scoped is what they share of the objects outside of namespaces, whatever the systems.
	scoped *deploy.Shared
	// backstage are the witnesses by node, or the one collector under "".
	backstage map[string]*agent
	collector string // where echo pods send their ledger; "" on ours
	workers   []string
	nodes     []corev1.Node
	// lacks says why a feature is not to be had here.
	lacks map[spec.Feature]string

	removals removals

	mu      sync.Mutex
	opened  int
	dead    []string
	leaving string // the node that is being shut down
}

// Open brings up what all scenarios share: the witnesses, or the collector.
func Open(ctx context.Context, cfg Config) (_ *Stage, err error) {
	conf := rest.CopyConfig(cfg.Rest)
	conf.QPS, conf.Burst = 100, 200
	cs, err := kubernetes.NewForConfig(conf)
	if err != nil {
		return nil, fmt.Errorf("a client for the cluster: %w", err)
	}
	objects, err := deploy.Client(conf)
	if err != nil {
		return nil, err
	}
	s := &Stage{cfg: cfg, shared: &shared{cs: cs, objects: objects, router: newRouter(), backstage: map[string]*agent{}}}
	if s.stack, err = behaviour.NewStack(cfg.System); err != nil {
		return nil, err
	}
	if s.auth, err = control.NewAuthority(); err != nil {
		return nil, err
	}
	if s.client, err = s.auth.Client(); err != nil {
		return nil, err
	}
	if s.server, err = s.auth.Server(); err != nil {
		return nil, err
	}
	if s.workers, err = s.schedulable(ctx); err != nil {
		return nil, err
	}
	s.look(ctx)
	s.system = s.scope("system")
	s.scoped = s.system.Shared()
	defer func() {
		if err != nil {
			cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), downBudget)
			defer cancel()
			_, cerr := s.Close(cleanup)
			err = errors.Join(err, cerr)
		}
	}()
	level := deploy.Restricted
	if cfg.Ours {
		level = deploy.Privileged
	}
	if err := s.system.Open(ctx, cs, level); err != nil {
		return nil, err
	}
	if err := s.credentials(ctx, s.system); err != nil {
		return nil, err
	}
	if cfg.Ours {
		return s, s.openWitnesses(ctx)
	}
	return s, s.openCollector(ctx)
}

// View is the stage as the recordings of another system (nil: of the reference) have it, which are rendered into a
// folder. What it made goes with the stage.
func (s *Stage) View(sys *system.System, rendered string) (*Stage, error) {
	stack, err := behaviour.NewStack(sys)
	if err != nil {
		return nil, err
	}
	cfg := s.cfg
	cfg.System, cfg.Rendered = sys, rendered
	return &Stage{shared: s.shared, cfg: cfg, stack: stack, name: sys.Name()}, nil
}

func (s *Stage) scope(name string) deploy.Scope {
	return deploy.Scope{Run: s.cfg.Run, Namespace: "lastcall-" + s.cfg.Run + "-" + name, Image: s.cfg.Image, KindName: s.cfg.KindName}
}

func (s *Stage) credentials(ctx context.Context, scope deploy.Scope) error {
	return deploy.Create(ctx, s.cs, scope.Credentials(secretName, s.server.CA, s.server.Cert, s.server.Key))
}

// ledgerCredentials are what echo pods show the collector: they are its
// clients, and an agent's own certificate is good for serving only.
func (s *Stage) ledgerCredentials(ctx context.Context, scope deploy.Scope) error {
	c, err := s.auth.Client()
	if err != nil {
		return err
	}
	return deploy.Create(ctx, s.cs, scope.Credentials(ledgerSecret, c.CA, c.Cert, c.Key))
}

// ledger is the run's directory on the nodes.
func (s *Stage) ledger() string {
	if !s.cfg.Ours {
		return ""
	}
	return deploy.LedgerRoot + "/" + s.cfg.Run
}

func (s *Stage) openWitnesses(ctx context.Context) error {
	nodes, err := s.cs.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("the nodes: %w", err)
	}
	w := deploy.Witness{Name: witnessName, Port: witnessPort, Ledger: s.ledger(), Credentials: secretName}
	if err := deploy.Create(ctx, s.cs, s.system.DaemonSet(w)); err != nil {
		return err
	}
	up, err := s.system.Ready(ctx, s.cs, witnessName, len(nodes.Items), upBudget)
	if err != nil {
		return err
	}
	for _, i := range up {
		if err := s.meet(ctx, i, s.router.emit); err != nil {
			return err
		}
	}
	return nil
}

// meet follows the witness of a node.
func (s *Stage) meet(ctx context.Context, i deploy.Instance, emit func(timeline.Record, time.Duration)) error {
	addr := net.JoinHostPort(i.NodeIPs[0], strconv.Itoa(witnessPort))
	at := types.NamespacedName{Namespace: s.system.Namespace, Name: i.Name}
	a, err := s.follow(ctx, "witness on "+i.Node, at, addr, nil, emit, func(r timeline.Record) {
		if !s.shut(i.Node) {
			s.router.all(r, 0)
		}
	})
	if err != nil {
		return err
	}
	s.backstage[i.Node] = a
	return nil
}

// shut says whether a node is being shut down: then its witness goes with it.
func (s *Stage) shut(node string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leaving == node
}

// shutting notes that a node is about to be shut down.
func (s *Stage) shutting(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = node
}

// rejoin follows the new witness of a node that was shut down and is back. It
// reads the node's ledgers from their begin: what its predecessor told already
// is left out.
func (s *Stage) rejoin(ctx context.Context) error {
	s.mu.Lock()
	node := s.leaving
	s.mu.Unlock()
	if node == "" {
		return nil
	}
	// Where this failed before, there is no old one any more.
	if a := s.backstage[node]; a != nil {
		a.Detach()
		delete(s.backstage, node)
	}
	told := s.router.pods()
	up, err := s.system.Ready(ctx, s.cs, witnessName, len(s.backstage)+1, upBudget)
	if err != nil {
		return fmt.Errorf("the witness of %s, which was shut down: %w", node, err)
	}
	s.shutting("")
	for _, i := range up {
		if i.Node != node {
			continue
		}
		return s.meet(ctx, i, func(r timeline.Record, offset time.Duration) {
			if !told[podOf(r)] {
				s.router.emit(r, offset)
			}
		})
	}
	return fmt.Errorf("no witness came back on %s", node)
}

func (s *Stage) openCollector(ctx context.Context) error {
	k := deploy.Collector{Name: collectorName, Credentials: secretName}
	if err := deploy.Create(ctx, s.cs, s.system.CollectorPod(k), s.system.CollectorService(k)); err != nil {
		return err
	}
	up, err := s.system.Ready(ctx, s.cs, collectorName, 1, upBudget)
	if err != nil {
		return err
	}
	svc, err := s.cs.CoreV1().Services(s.system.Namespace).Get(ctx, collectorName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("the collector's Service: %w", err)
	}
	s.collector = net.JoinHostPort(svc.Spec.ClusterIP, strconv.Itoa(deploy.CollectPort))
	addr, dial := s.reach(s.system.Namespace, up[0], 0)
	at := types.NamespacedName{Namespace: s.system.Namespace, Name: up[0].Name}
	a, err := s.follow(ctx, "collector", at, addr, dial, s.router.emit, func(r timeline.Record) { s.router.all(r, 0) })
	if err != nil {
		return err
	}
	s.backstage[""] = a
	return nil
}

// reach says how an agent's control channel is dialled: at its node's address
// on clusters of ours, through the API server elsewhere (ADR 0002).
func (s *Stage) reach(namespace string, i deploy.Instance, hostPort int32) (string, control.DialFunc) {
	if s.cfg.Ours {
		return net.JoinHostPort(i.NodeIPs[0], strconv.Itoa(int(hostPort))), nil
	}
	return net.JoinHostPort(i.Name, strconv.Itoa(deploy.ControlPort)), forward(s.cfg.Rest, namespace, i.Name, deploy.ControlPort)
}

// follow follows the agent of a pod.
func (s *Stage) follow(ctx context.Context, name string, pod types.NamespacedName, addr string, dial control.DialFunc,
	emit func(timeline.Record, time.Duration), tell func(timeline.Record),
) (*agent, error) {
	return follow(ctx, name, addr, dial, s.client, emit, func(err error) {
		why, memory := lookAfter(ctx, s.cs, pod, err)
		e := lossOf(name, why, memory)
		tell(timeline.Record{Event: &e})
	})
}

// schedulable are the nodes that take ordinary pods, sorted by name. A cluster
// that was made a moment ago may have none for some seconds.
func (s *Stage) schedulable(ctx context.Context) ([]string, error) {
	var out []string
	err := disrupt.Await(ctx, nodesBudget, "a node that takes ordinary pods", func(ctx context.Context) (bool, string, error) {
		nodes, err := s.cs.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, "", err
		}
		out, s.nodes = nil, nodes.Items
		var seen []string
		for _, n := range nodes.Items {
			hard := slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectPreferNoSchedule })
			switch {
			case n.Spec.Unschedulable:
				seen = append(seen, n.Name+" is cordoned")
			case len(hard) > 0:
				seen = append(seen, n.Name+" is tainted "+hard[0].Key)
			default:
				out = append(out, n.Name)
			}
		}
		return len(out) > 0, strings.Join(seen, "; "), nil
	})
	slices.Sort(out)
	return out, err
}

// Fit is a behaviour as the stage carries it, or says why it can't.
func (s *Stage) Fit(b behaviour.Behaviour) (behaviour.Behaviour, behaviour.Skip) {
	skip := s.lack(b)
	b.BrokenBy = s.stack.Breaks(b)
	sys := s.stack.Subject(b.Topology)
	if skip.Why != "" || sys.OwnApp() {
		b.Topology = b.Topology.Together()
		return b, skip
	}
	if b, skip = behaviour.Fit(b, sys.System); skip.Why != "" || sys.Before() || sys.Patches() {
		return b, skip // it is a Deployment (system.RenderManifests, RenderBeside)
	}
	return s.ofKind(b, sys.System)
}

// ofKind is a behaviour as an app carries it by the kind of its workload: a DaemonSet has as many
// pods as there are nodes for it, and no more are ended; others have as many as the behaviour wants.
func (s *Stage) ofKind(b behaviour.Behaviour, sys *system.System) (behaviour.Behaviour, behaviour.Skip) {
	uncarried := func(why string, args ...any) (behaviour.Behaviour, behaviour.Skip) {
		return b, behaviour.Because(spec.Uncarried, fmt.Sprintf(why, args...))
	}
	scope, d := s.scope("plan"), sys.Drain
	manifests, ended, err := sys.RenderManifests(sys.InPod(system.Place{
		Name: sys.Metadata.Name, Namespace: scope.Namespace, Address: "0.0.0.0", ServerName: serverName,
		MinDrain: d.MinDrain.D(), Timeout: d.Cut(), Grace: d.Grace.D(),
		Image: scope.Image, Secret: systemSecret, ConfigMap: systemConfig,
	}))
	if err != nil {
		return uncarried("its manifests can't be filled in: %v", err)
	}
	made, err := scope.Prepare(deploy.System{Component: gateName, Objects: manifests, Ended: ended, Container: sys.Cluster.Container})
	if err != nil {
		return uncarried("its manifests can't be used: %v", err)
	}
	if why := lackOfKind(b, made.Workload); why != "" {
		return uncarried("%s", why)
	}
	if made.Kind.Sizes() {
		return b, behaviour.Skip{}
	}
	on := deploy.Daemons(made.Template.Spec, s.nodes)
	if on < leastDaemons {
		return uncarried("the DaemonSet %s has a pod on %d of the cluster's nodes, by their taints and its tolerations and nodeSelector, and while one ends another has to serve: use more --nodes", made.Name, on)
	}
	b.Topology.Replicas, b.Disrupt.Targets = on, min(b.Disrupt.Targets, on)
	return b, behaviour.Skip{}
}

// leastDaemons is how many pods a DaemonSet has to have.
const leastDaemons = 2

// lack says why the stage can't carry a behaviour; it is zero if it can.
func (s *Stage) lack(b behaviour.Behaviour) behaviour.Skip {
	if skip := Lacks(b, s.cfg.System, s.cfg.Ours, s.cfg.Reachable); skip.Why != "" {
		return skip
	}
	for _, need := range b.Needs {
		if why := s.lacks[need]; why != "" {
			return behaviour.Because(spec.Uncarried, why)
		}
	}
	return behaviour.Skip{}
}

// look finds out which features the cluster lacks.
func (s *Stage) look(ctx context.Context) {
	s.lacks = map[spec.Feature]string{}
	if _, err := nameServer(ctx, s.cs); err != nil {
		s.lacks[spec.ClusterDNS] = err.Error()
	}
	if s.cfg.Nodes == nil {
		s.lacks[spec.NodeShutdown] = "it shuts a node down, which the suite does on clusters that it made only: use --stage kind"
	} else if err := disrupt.CanShutDown(ctx, s.cfg.Nodes, s.workers[len(s.workers)-1]); err != nil {
		s.lacks[spec.NodeShutdown] = err.Error()
	}
}

// ClientsNode is the name of the node that the clients run on.
func (s *Stage) ClientsNode() string { return s.workers[0] }

// Describe says where the run takes place.
func (s *Stage) Describe(ctx context.Context) (v1alpha1.Environment, error) {
	var env v1alpha1.Environment
	version, err := s.cs.Discovery().ServerVersion()
	if err != nil {
		return env, fmt.Errorf("the cluster's version: %w", err)
	}
	env.Kubernetes = version.GitVersion
	nodes, err := s.cs.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return env, fmt.Errorf("the nodes: %w", err)
	}
	env.Images = []v1alpha1.Image{{Ref: s.cfg.Image}}
	if s.cfg.System != nil && s.cfg.System.Cluster != nil {
		for _, ref := range s.cfg.System.Cluster.Images {
			env.Images = append(env.Images, v1alpha1.Image{Ref: ref})
		}
	}
	for _, n := range nodes.Items {
		info := n.Status.NodeInfo
		role := "worker"
		if _, ok := n.Labels["node-role.kubernetes.io/control-plane"]; ok {
			role = "control-plane"
		}
		env.Nodes = append(env.Nodes, v1alpha1.Node{Name: n.Name, Role: role, Kubelet: info.KubeletVersion})
		env.Kernel = cmp.Or(env.Kernel, info.KernelVersion)
		env.ContainerRuntime = cmp.Or(env.ContainerRuntime, info.ContainerRuntimeVersion)
		for _, cidr := range n.Spec.PodCIDRs {
			family := "IPv4"
			if strings.Contains(cidr, ":") {
				family = "IPv6"
			}
			if !slices.Contains(env.IPFamilies, family) {
				env.IPFamilies = append(env.IPFamilies, family)
			}
		}
		for _, image := range n.Status.Images {
			for i, used := range env.Images {
				if slices.Contains(image.Names, used.Ref) {
					env.Images[i].Digest = cmp.Or(used.Digest, digestOf(image.Names))
				}
			}
		}
	}
	return env, nil
}

func digestOf(names []string) string {
	for _, n := range names {
		if _, digest, ok := strings.Cut(n, "@"); ok {
			return digest
		}
	}
	return ""
}

// Open brings a scenario's topology up.
func (s *Stage) Open(ctx context.Context, sc behaviour.Scenario, sink *behaviour.Sink) (behaviour.Ground, error) {
	s.mu.Lock()
	s.opened++
	n := s.opened
	s.mu.Unlock()
	g := &ground{
		stage: s, scope: s.scope(s.namespace(sc)), scenario: sc, sink: sink, port: probePorts + 2*int32(n), system: s.stack.Subject(sc.Topology),
	}
	return g, g.open(ctx)
}

// namespace is the end of the name of a scenario's namespace: a name of its own among all systems.
func (s *Stage) namespace(sc behaviour.Scenario) string {
	const most = 63 - len("lastcall-123456-") - 1 // what a namespace's name may have (RFC 1123)
	name := s.name
	if room := most - len(sc.Name); len(name) > room {
		name = strings.TrimRight(name[:room], "-")
	}
	return strings.TrimRight(sc.Name+"-"+name, "-")
}

// Dead are the addresses of pods that were deleted in front of the suite's
// eyes.
func (s *Stage) Dead() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.dead)
}

// Detach lets go of the agents, and leaves what the run put into the cluster
// to whoever removes the cluster.
func (s *Stage) Detach() {
	for _, a := range s.backstage {
		a.Detach()
	}
	s.backstage = nil
}

// Close removes what the run put into the cluster.
func (s *Stage) Close(ctx context.Context) (*v1alpha1.Egress, error) {
	s.Detach()
	err := errors.Join(s.removals.wait(), deploy.Remove(ctx, s.cs, s.objects, s.cfg.Run, downBudget))
	if err == nil && s.cfg.Nodes != nil {
		_, err = sweep(ctx, s.cfg.Nodes, s.nodes)
	}
	return nil, err
}
