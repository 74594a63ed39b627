// SPDX-License-Identifier: Apache-2.0

// Package host is the stage without a cluster: the system under test runs as
// processes on this host, behind a balancer of the stage's own, and the clients
// are this very process.
package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/lastcall-dev/lastcall/fixtures"
	"github.com/lastcall-dev/lastcall/fixtures/bench"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/fixtures/host"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load/control"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// DefaultLag is how long the stage's service network takes to follow an
// endpoint where nothing else is said: about what kube-proxy takes, and within
// every P, so that a propagation window is there to be survived.
const DefaultLag = 500 * time.Millisecond

// serverName is the name that the clients in TLS ask for.
const serverName = "lastcall.test"

// Config says what is tested, and with what.
type Config struct {
	// System is what is tested; nil: the reference stack.
	System *system.System
	// Agent is the command of the reference components, and Mesh that of the reference
	// mesh's.
	Agent, Mesh []string
	// Plugin is the program of its CNI plugin, which is told by its file's name what it is (cni.Type).
	Plugin string
	// Logs is the folder for what the processes write.
	Logs string
	// Rendered is the folder for the system's rendered configuration, a folder for each
	// recording; empty: nowhere.
	Rendered string
	// P is the run's propagation window.
	P time.Duration
	// Lag is how long the service network takes to follow an endpoint; 0 is
	// DefaultLag.
	Lag time.Duration
	// Pods says which addresses pods of the mesh have.
	Pods bench.Stack
	// TunnelDelay is how much later each packet of a tunnel arrives, between pods of the mesh; 0:
	// nothing is late.
	TunnelDelay time.Duration
	// Say takes what people should hear; nil: nobody does.
	Say func(format string, args ...any)
}

// Stage is an open stage, as the recordings of what is tested have it. It implements
// behaviour.Stage.
type Stage struct {
	*shared
	cfg   Config
	stack behaviour.Stack
	dir   string // of its recordings, below that of all
}

// shared is what all views of a stage have together.
type shared struct {
	addresses *host.Addresses
	authority *control.Authority
	clients   atomic.Uint32 // ranges of addresses that were given out
	views     atomic.Int64  // of other systems
	root      string
	lock      *os.File // of root: it is this run's
	cert      certificates
	members   *members // of those who open tunnels to a system, and take them

	mesh  sync.Mutex
	bench *meshBench // nil before a recording needs it
	lacks func() error
}

// certificates are what clients trust.
type certificates struct {
	ca     []byte
	caFile string
}

// Open prepares the stage. Nothing runs yet.
func Open(_ context.Context, cfg Config) (_ *Stage, err error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("the host stage needs Linux, where each instance has an address of its own in 127.0.0.0/8, and this is %s: use --stage cluster", runtime.GOOS)
	}
	if cfg.Lag == 0 {
		cfg.Lag = DefaultLag
	}
	if cfg.Say == nil {
		cfg.Say = func(string, ...any) {}
	}
	s := &Stage{cfg: cfg, shared: &shared{addresses: host.NewAddresses(), lacks: sync.OnceValue(func() error { return bench.Lacks(cfg.Pods) })}}
	if s.stack, err = behaviour.NewStack(cfg.System); err != nil {
		return nil, err
	}
	if cfg.System != nil {
		if err := runs(cfg.System); err != nil {
			return nil, err
		}
	}
	if s.authority, err = control.NewAuthority(); err != nil {
		return nil, err
	}
	one, err := s.authority.Server(serverName)
	if err != nil {
		return nil, err
	}
	if s.root, s.lock, err = newFolder(); err != nil {
		return nil, err
	}
	s.dir = s.root
	s.cert = certificates{ca: one.CA, caFile: filepath.Join(s.dir, "ca.crt")}
	s.members, err = newMembers(filepath.Join(s.dir, "identity-ca.crt"))
	err = errors.Join(err, os.WriteFile(s.cert.caFile, one.CA, 0o600), os.MkdirAll(cfg.Logs, 0o755))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir), s.lock.Close())
	}
	return s, nil
}

// View is the stage as the recordings of another system (nil: of the reference) have it, with folders for what its
// processes write and for its rendered configuration. What it made goes with the stage.
func (s *Stage) View(sys *system.System, logs, rendered string) (*Stage, error) {
	if sys != nil {
		if err := runs(sys); err != nil {
			return nil, err
		}
	}
	stack, err := behaviour.NewStack(sys)
	if err != nil {
		return nil, err
	}
	cfg := s.cfg
	cfg.System, cfg.Logs, cfg.Rendered = sys, logs, rendered
	v := &Stage{shared: s.shared, cfg: cfg, stack: stack, dir: viewDir(s.root, s.views.Add(1))}
	return v, errors.Join(os.MkdirAll(v.dir, 0o755), os.MkdirAll(logs, 0o755))
}

// viewDir is the folder of the nth view of a stage. Its name is one character, and not the system's: the paths of sockets
// are below it (openNode).
func viewDir(root string, nth int64) string { return filepath.Join(root, strconv.FormatInt(nth, 36)) }

// sources is a range of loopback addresses that clients dial from: one is not
// enough for as many connections as they make.
func (s *Stage) sources() string {
	n := s.clients.Add(1)
	return fmt.Sprintf("127.%d.%d.%d/28", 240+n>>12&7, n>>4&255, n&15<<4)
}

// runs says whether a system can be started here.
func runs(sys *system.System) error {
	if sys.Host == nil && sys.Meshed() {
		return fmt.Errorf("system %s is a node proxy of its own, to which pods are handed on the nodes of a cluster: use --stage kind", sys.Metadata.Name)
	}
	if sys.Host == nil {
		return fmt.Errorf("system %s has no host part: say how it is started as a process, or use another stage", sys.Metadata.Name)
	}
	command := sys.Host.Command[0]
	if _, err := exec.LookPath(command); err != nil && command != "{{.Agent}}" {
		hint := ""
		if sys.Host.Needs != "" {
			hint = ": it needs " + sys.Host.Needs
		}
		return fmt.Errorf("system %s is started by %q, which is not here%s", sys.Metadata.Name, command, hint)
	}
	return nil
}

// issue makes an instance's certificate.
func (s *Stage) issue(address string) (cert, key []byte, err error) {
	c, err := s.authority.Server(serverName, address)
	return c.Cert, c.Key, err
}

// Fit is a behaviour as the stage carries it, or says why it can't.
func (s *Stage) Fit(b behaviour.Behaviour) (behaviour.Behaviour, behaviour.Skip) {
	if why := Lacks(b); why != "" {
		return b, behaviour.Because(spec.Uncarried, why)
	}
	sys := s.stack.Subject(b.Topology)
	if row := sys.Stands(); row.Meshed {
		if err := s.lacks(); err != nil {
			return b, behaviour.Because(spec.Uncarried, fmt.Sprintf("it is about a %s, whose pods are network namespaces on this stage, and %v: use --stage kind", row.Name, err))
		}
	}
	b.BrokenBy = slices.DeleteFunc(s.stack.Breaks(b), func(f spec.Fault) bool { return !Has(f) })
	if sys.Named {
		// Who is of another role need not hear of features.
		if skip := behaviour.OfAnotherRole(b, sys.System); skip.Why != "" {
			return b, skip
		}
	}
	for _, need := range b.Needs {
		switch need {
		case spec.Services, spec.Bench, spec.Wire, spec.Knocks:
			continue
		}
		if why := sys.Lacks(need); why != "" {
			return b, behaviour.Because(spec.Unclaimed, why)
		}
	}
	if !sys.Named {
		b.Topology = s.quick(b).Together().InForm(sys.System)
		return b, behaviour.Skip{}
	}
	return behaviour.Fit(b, sys.System)
}

// Lacks says what a behaviour takes that no host has; "" for nothing.
func Lacks(b behaviour.Behaviour) string {
	if strings.HasPrefix(b.ID, "endpoints.") {
		return "it is about a cluster's own Services, and this stage has none: use --stage kind"
	}
	row, _ := b.Topology.Role.Row()
	if row.Controls {
		return fmt.Sprintf("it is about a %s, which an API server asks, and this stage has none: use --stage kind", row.Name)
	}
	if why := b.Disrupt.Host(); why != "" {
		return why
	}
	for _, p := range b.Traffic {
		if p.Path.Dialled() && row.Meshed {
			continue
		}
		if p.Path != flow.Direct && p.Path != flow.Service && p.Path != flow.Balanced {
			return fmt.Sprintf("its clients come by way of a Service of Kubernetes (%s), and this stage has none: use --stage kind", p.Path)
		}
	}
	for _, need := range b.Needs {
		if what := ofClusters(need); what != "" {
			return fmt.Sprintf("it needs %s, and this stage has none: use --stage kind", what)
		}
	}
	return ""
}

// ofClusters says what a feature is that only a cluster has.
func ofClusters(f spec.Feature) string {
	switch f {
	case spec.Pods:
		return "pods and a kubelet"
	case spec.OutsideClient:
		return "a client outside of a cluster"
	case spec.KubeProxy:
		return "kube-proxy"
	case spec.ClusterDNS:
		return "a cluster's DNS"
	case spec.NodeShutdown:
		return "a node that can be shut down"
	case spec.ControlPlane:
		return "a control plane"
	}
	return ""
}

// quick is a behaviour's topology of the reference's without the time that only a cluster's
// service network needs: what an instance does from P after D on, it does not do
// for longer than a moment.
func (s *Stage) quick(b behaviour.Behaviour) behaviour.Topology {
	t := b.Topology
	if longest := b.Disrupt.After + s.cfg.P + time.Second; t.Role == "" && t.MinDrain > longest {
		t.MinDrain = longest
	}
	t.Unready = min(t.Unready, 2*time.Second)
	return t
}

// Describe says where the run takes place.
func (s *Stage) Describe(ctx context.Context) (v1alpha1.Environment, error) {
	env := v1alpha1.Environment{CPUs: runtime.NumCPU(), Kernel: kernel(), TunnelDelay: v1alpha1.Duration(s.cfg.TunnelDelay)}
	if s.cfg.Pods != bench.IPv4 {
		env.IPFamilies = s.cfg.Pods.Families()
	}
	if s.cfg.System == nil {
		return env, nil
	}
	p, err := s.cfg.System.RenderVersion(s.dir)
	if err == nil && len(p.Command) > 0 {
		env.Program, err = version(ctx, p)
	}
	if err != nil {
		// Nothing is judged by it.
		env.ProgramUnknown = err.Error()
	}
	return env, nil
}

// versionWithin is how long a program may take to say which version it is.
const versionWithin = 10 * time.Second

// version is the first line that a command prints.
func version(ctx context.Context, p system.Process) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, versionWithin, fmt.Errorf("it did not end within %s", versionWithin))
	defer cancel()
	cmd := exec.CommandContext(ctx, p.Command[0], p.Command[1:]...)
	cmd.Env = append(os.Environ(), p.Env...)
	// What it leaves behind may hold its output open.
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it said what it is
	}
	if why := context.Cause(ctx); err != nil && why != nil {
		err = why
	}
	if err != nil && line != "" {
		err = fmt.Errorf("%w: %s", err, line)
	}
	if err != nil {
		return "", fmt.Errorf("host.version: %s: %w", strings.Join(p.Command, " "), err)
	}
	return strings.TrimSpace(line), nil
}

// Open brings a scenario's topology up.
func (s *Stage) Open(ctx context.Context, sc behaviour.Scenario, sink *behaviour.Sink) (behaviour.Ground, error) {
	if f := sc.Fault; f != "" && !Has(f) {
		return nil, fmt.Errorf("the fault %s is one of a cluster's: this stage has no such component", f)
	}
	g := &ground{stage: s, scenario: sc, sink: sink, subject: s.stack.Subject(sc.Topology)}
	if g.subject.Meshed() {
		m := &meshed{ground: g, pods: map[string]*corev1.Pod{}, ends: map[string]map[string]discoveryv1.Endpoint{}}
		return m, m.open(ctx)
	}
	return g, g.open(ctx)
}

// meshBench is the mesh of all recordings, which stands from the first of them on.
func (s *Stage) meshBench(ctx context.Context) (*meshBench, error) {
	s.mesh.Lock()
	defer s.mesh.Unlock()
	if s.bench != nil {
		return s.bench, nil
	}
	b, err := s.openBench(ctx, filepath.Join(s.root, "mesh"), filepath.Join(s.cfg.Logs, meshLogs), 1)
	if err == nil {
		s.bench = b
	}
	return b, err
}

// meshLogs is the folder for what the mesh's controller writes, among those of the recordings.
const meshLogs = "mesh"

// Has says whether a fault can be switched on on a host.
func Has(f spec.Fault) bool {
	if fixtures.Has(disrupt.Faults(), f) {
		return f == disrupt.KillMisses // the one that its own disrupter has
	}
	return !behaviour.OfCluster(f)
}

// Close removes what the stage made, and ends what the processes of the run left behind.
func (s *Stage) Close(ctx context.Context) (*v1alpha1.Egress, error) {
	var down error
	if s.bench != nil {
		down = s.bench.close()
	}
	left, err := endBelow(context.WithoutCancel(ctx), s.root)
	for _, l := range left {
		s.cfg.Say("%v was left behind by what the run started: it was ended", l)
	}
	return nil, errors.Join(down, err, os.RemoveAll(s.root), s.lock.Close())
}
