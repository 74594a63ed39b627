// SPDX-License-Identifier: Apache-2.0

package suites

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/lastcall-dev/lastcall/fixtures/agentimage"
	"github.com/lastcall-dev/lastcall/fixtures/bench"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/kind"
	"github.com/lastcall-dev/lastcall/kind/docker"
	"github.com/lastcall-dev/lastcall/kind/egress"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/cluster"
	"github.com/lastcall-dev/lastcall/suites/host"

	// The agent has it, and a module that requires this one and was tidied has the sums of
	// what it imports itself alone: without it compile fails there.
	_ "github.com/lastcall-dev/lastcall/load/fortio"
)

// The stages.
const (
	StageKind    = "kind"
	StageCluster = "cluster"
	StageHost    = "host"
)

// downBudget bounds the removal of a cluster that the run made.
const downBudget = 2 * time.Minute

// OpenStage brings up the stage that a run asks for.
func OpenStage(ctx context.Context, cfg Config) (behaviour.Stage, error) {
	switch cfg.Stage {
	case StageKind:
		return openKind(ctx, cfg)
	case StageCluster:
		return openCluster(ctx, cfg)
	case StageHost:
		return openHost(ctx, cfg)
	default:
		return nil, &UsageError{fmt.Errorf("there is no stage %q: use %s, %s or %s", cfg.Stage, StageKind, StageCluster, StageHost)}
	}
}

// logsDir is where the processes of the host stage write, in the report's
// directory.
const logsDir = "logs"

// systemDir has what was tested, in the report's directory: the system's file, and for each
// recording its configuration, filled in.
const (
	systemDir  = "system"
	systemFile = "system.yaml"
)

// showSystem writes the system's file there.
func showSystem(cfg Config) error {
	if cfg.System == nil {
		return nil
	}
	text, err := cfg.System.Public()
	if err != nil {
		return err
	}
	return system.WriteFiles(filepath.Join(cfg.Out, systemDir), map[string]string{systemFile: string(text)}, 0o644)
}

// openHost prepares this very host.
func openHost(ctx context.Context, cfg Config) (behaviour.Stage, error) {
	logs, err := filepath.Abs(filepath.Join(cfg.Out, logsDir))
	if err != nil {
		return nil, err
	}
	agent, mesh, plugin := cfg.Agent, cfg.Mesh, cfg.Plugin
	meshed := cfg.System == nil || cfg.System.Meshed()
	var built []string
	for _, p := range []struct {
		name  string
		wants bool
		is    func(path string)
	}{
		{"agent", len(agent) == 0, func(path string) { agent = []string{path} }},
		{"mesh", len(mesh) == 0 && meshed, func(path string) { mesh = []string{path} }},
		{"cni", plugin == "" && meshed, func(path string) { plugin = path }},
	} {
		if !p.wants {
			continue
		}
		path, err := compile(ctx, p.name, cfg.Out)
		if err != nil {
			return nil, &UsageError{errors.Join(err, remove(built))}
		}
		p.is(path)
		built = append(built, path)
	}
	stack, err := bench.ParseStack(cfg.IPFamily)
	if err != nil {
		return nil, &UsageError{errors.Join(err, remove(built))}
	}
	s, err := host.Open(ctx, host.Config{
		System: cfg.System, Agent: agent, Mesh: mesh, Plugin: plugin, Logs: logs, Rendered: filepath.Join(cfg.Out, systemDir), P: cfg.P, Lag: cfg.Lag, Pods: stack, TunnelDelay: cfg.TunnelDelay, Say: cfg.Say,
	})
	switch {
	case err != nil:
		return nil, &UsageError{errors.Join(err, remove(built))}
	case len(built) > 0:
		return compiled{hosted{s}, built}, nil
	}
	return hosted{s}, nil
}

// remove removes programs.
func remove(programs []string) error {
	var errs []error
	for _, path := range programs {
		errs = append(errs, os.Remove(path))
	}
	return errors.Join(errs...)
}

// hosted is this host as a stage.
type hosted struct{ *host.Stage }

// View implements viewer.
func (h hosted) View(cfg Config) (behaviour.Stage, error) {
	logs, err := filepath.Abs(filepath.Join(cfg.Out, logsDir))
	if err != nil {
		return nil, err
	}
	return h.Stage.View(cfg.System, logs, filepath.Join(cfg.Out, systemDir))
}

// compiled is a host stage whose programs were compiled for it, and go with it.
type compiled struct {
	hosted

	programs []string
}

// Close implements behaviour.Stage.
func (c compiled) Close(ctx context.Context) (*v1alpha1.Egress, error) {
	egress, err := c.hosted.Close(ctx)
	return egress, errors.Join(err, remove(c.programs))
}

// compile builds a program of the suite's (cmd) for this host: from any module that requires
// this one.
func compile(ctx context.Context, name, dir string) (string, error) {
	path, err := filepath.Abs(filepath.Join(dir, name))
	if err != nil {
		return "", err
	}
	source := module + "/cmd/" + name
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", path, source).CombinedOutput(); err != nil {
		return "", fmt.Errorf("the %s of the host stage: go build %s: %w\n%s", name, source, err, out)
	}
	return path, nil
}

// runID tells the runs of one cluster apart. It is part of namespaces' names.
func runID() (string, error) {
	b := make([]byte, 3)
	if _, err := rand.Read(b); err != nil {
		return "", fmt.Errorf("an ID for the run: %w", err)
	}
	return hex.EncodeToString(b), nil
}

// openCluster opens a cluster that the suite did not make.
func openCluster(ctx context.Context, cfg Config) (behaviour.Stage, error) {
	if cfg.System != nil {
		return nil, &UsageError{errors.New("a system is tested on stages host and kind: the control kills its process, for which the suite needs the nodes")}
	}
	if cfg.Kubeconfig == "" {
		return nil, &UsageError{errors.New("stage cluster needs --kubeconfig: the suite touches no cluster that it was not shown")}
	}
	conf, err := clientcmd.BuildConfigFromFlags("", cfg.Kubeconfig)
	if err != nil {
		return nil, &UsageError{fmt.Errorf("kubeconfig %s: %w", cfg.Kubeconfig, err)}
	}
	image := cfg.AgentImage
	if image == "" {
		built, err := buildAgent(ctx)
		if err != nil {
			return nil, err
		}
		image = built.Ref
		cfg.Say("the agent's image is %s; the cluster's nodes need it, and it is in %s", image, built.Archive)
	}
	id, err := runID()
	if err != nil {
		return nil, err
	}
	name, isKind := strings.CutPrefix(contextOf(cfg.Kubeconfig), "kind-")
	if !isKind {
		name = ""
	}
	cfg.Say("opening the cluster of %s", cfg.Kubeconfig)
	return cluster.Open(ctx, cluster.Config{Rest: conf, Run: id, Image: image, KindName: name})
}

// module is this one's path.
const module = "github.com/lastcall-dev/lastcall"

// moduleDir is where this module's source is: the checkout, wherever in it this runs, or
// what a module has that requires this one.
func moduleDir(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(failed.Stderr))
	}
	if err != nil {
		return "", fmt.Errorf("no source of the agent here: go list -m %s: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// buildAgent makes the agent's image of the checkout that the suite runs in.
func buildAgent(ctx context.Context) (image agentimage.Image, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return image, fmt.Errorf("a place for the agent's image: %w", err)
	}
	source, err := moduleDir(ctx)
	if err == nil {
		image, err = agentimage.Build(ctx, agentimage.Options{Source: source, Dir: filepath.Join(cache, "lastcall", "agent")})
	}
	if err != nil {
		return image, &UsageError{fmt.Errorf("%w; run this in a checkout of lastcall, which the agent is built from, or name an image with --agent-image", err)}
	}
	return image, nil
}

func contextOf(kubeconfig string) string {
	c, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return ""
	}
	return c.CurrentContext
}

// kindStage is a cluster of ours: it stands behind its guard, and proves that
// nothing got out.
type kindStage struct {
	*cluster.Stage
	provider *kind.Provider
	cluster  *kind.Cluster // the provider's; nil until it stands
	keep     bool
	before   egress.Counters
	captures map[string]*egress.Capture
	outer    []string
	ranges   []netip.Prefix
}

func openKind(ctx context.Context, cfg Config) (_ behaviour.Stage, err error) {
	for _, sys := range cfg.tested() {
		if sys.Cluster == nil {
			return nil, &UsageError{fmt.Errorf("system %s has no cluster part: say which manifests install it (cluster.manifests), or use --stage host", sys.Metadata.Name)}
		}
	}
	s := &kindStage{keep: cfg.Keep, provider: kind.ProviderFor(kindConfig(cfg)), captures: map[string]*egress.Capture{}}
	defer func() {
		if err != nil {
			cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), downBudget)
			defer cancel()
			err = errors.Join(err, s.down(cleanup))
		}
	}()
	if err := s.provider.Check(ctx); err != nil {
		return nil, &UsageError{err}
	}
	// What can go wrong without a cluster goes wrong before there is one.
	for _, sys := range cfg.tested() {
		if err := kind.HasImages(ctx, sys.Cluster.Images); err != nil {
			return nil, &UsageError{fmt.Errorf("cluster.images of system %s: %w", sys.Metadata.Name, err)}
		}
	}
	image, err := buildAgent(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	kubeconfig, err := s.provider.Create(ctx)
	if errors.Is(err, docker.ErrNoEngine) {
		err = fmt.Errorf("%w; stage %s needs none", err, StageHost)
	}
	if err != nil {
		return nil, &UsageError{err}
	}
	s.cluster = s.provider.Cluster()
	if s.provider.Made() {
		cfg.Say("cluster %s is up after %s", cfg.Name, time.Since(began).Round(time.Second))
	} else {
		cfg.Say("using the cluster %s that stands", cfg.Name)
		// A run that was killed left its namespaces, and its agents hold ports of
		// the nodes.
		left, err := cluster.Cleanup(ctx, kubeconfig, shell{})
		if err != nil {
			return nil, err
		}
		for _, what := range left {
			cfg.Say("removed what an earlier run left: %s", what)
		}
	}
	if err := s.watch(ctx); err != nil {
		return nil, err
	}
	cfg.Say("loading the agent's image %s", image.Ref)
	if err := s.cluster.LoadArchive(ctx, image.Archive); err != nil {
		return nil, err
	}
	for _, sys := range cfg.tested() {
		for _, ref := range sys.Cluster.Images {
			cfg.Say("loading the image %s", ref)
			if err := s.cluster.LoadImage(ctx, ref); err != nil {
				return nil, err
			}
		}
	}
	conf, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	id, err := runID()
	if err != nil {
		return nil, err
	}
	var networks func(context.Context) ([]*os.File, error)
	if bridged() {
		networks = s.cluster.Networks
	}
	s.Stage, err = cluster.Open(ctx, cluster.Config{
		Rest: conf, Run: id, Image: image.Ref, Ours: true, KindName: s.cluster.Network(), Nodes: shell{},
		Reachable: bridged(), Networks: networks,
		System: cfg.System, Rendered: filepath.Join(cfg.Out, systemDir),
	})
	if err != nil {
		return s, err
	}
	// Nothing is wrong with a run without it but that it needs a faster machine.
	if err := s.cluster.Favour(ctx, s.ClientsNode()); err != nil {
		cfg.Say("the clients may have to wait for the CPU: %v", err)
	}
	return s, nil
}

// bridged says whether the nodes of clusters of ours can be dialled from here: on Linux
// the engine's bridge is this machine's own; elsewhere it is inside of a virtual machine.
func bridged() bool { return runtime.GOOS == "linux" }

// shell runs commands in nodes that are containers.
type shell struct{}

// Exec implements disrupt.NodeShell.
func (shell) Exec(ctx context.Context, node string, argv ...string) (string, error) {
	return docker.Output(ctx, append([]string{"exec", node}, argv...)...)
}

// CleanupIn removes what runs left in the cluster of a kubeconfig, which stays, and says what that was.
func CleanupIn(ctx context.Context, kubeconfig string) ([]string, error) {
	ours, err := kind.MadeHere(kubeconfig)
	if err != nil {
		return nil, err
	}
	if !ours {
		return cluster.Cleanup(ctx, kubeconfig, nil)
	}
	return cluster.Cleanup(ctx, kubeconfig, shell{})
}

// kindConfig is the cluster that a run asks for.
func kindConfig(cfg Config) kind.Config {
	return kind.Config{
		Name: cfg.Name, Kubernetes: cfg.Kubernetes, Nodes: cfg.Nodes,
		KubeProxy: cfg.KubeProxy, IPFamily: cfg.IPFamily,
		Progress: func(line string) { cfg.Say("%s", line) },
	}
}

// watch begins to watch what crosses the cluster's bridge, and what leaves.
func (s *kindStage) watch(ctx context.Context) (err error) {
	if s.before, err = s.cluster.Guard().Counters(ctx); err != nil {
		return err
	}
	if s.ranges, err = s.cluster.Ranges(ctx); err != nil {
		return err
	}
	if s.outer, err = kind.OuterInterfaces(); err != nil {
		return err
	}
	for _, iface := range append(slices.Clone(s.outer), s.cluster.Bridge()) {
		c, err := egress.StartCapture(iface, s.ranges)
		if err != nil {
			return fmt.Errorf("watching %s: %w", iface, err)
		}
		s.captures[iface] = c
	}
	return nil
}

// View implements viewer.
func (s *kindStage) View(cfg Config) (behaviour.Stage, error) {
	v, err := s.Stage.View(cfg.System, filepath.Join(cfg.Out, systemDir))
	return kindView{v, s}, err
}

// kindView is a cluster of ours as another system's recordings have it.
type kindView struct {
	*cluster.Stage
	of *kindStage
}

// Describe implements behaviour.Stage.
func (v kindView) Describe(ctx context.Context) (v1alpha1.Environment, error) {
	return v.of.describe(ctx, v.Stage)
}

// Describe implements behaviour.Stage.
func (s *kindStage) Describe(ctx context.Context) (v1alpha1.Environment, error) {
	return s.describe(ctx, s.Stage)
}

// describe adds to what a view of the cluster says what only its maker knows.
func (s *kindStage) describe(ctx context.Context, view *cluster.Stage) (v1alpha1.Environment, error) {
	env, err := view.Describe(ctx)
	if err != nil {
		return env, err
	}
	env.NodeImage = s.cluster.Image()
	// kube-proxy says it at the node's loopback, which is [::1] in an IPv6
	// cluster and 127.0.0.1 in others: curl tries both.
	mode, err := docker.Output(ctx, "exec", s.cluster.Nodes()[0].Name, "curl", "-s", "--max-time", "5", "http://localhost:10249/proxyMode")
	if err != nil {
		return env, fmt.Errorf("asking kube-proxy for its mode: %w", err)
	}
	env.KubeProxyMode = strings.TrimSpace(mode)
	return env, nil
}

// Close proves that nothing leaked, and removes what the run made.
func (s *kindStage) Close(ctx context.Context) (*v1alpha1.Egress, error) {
	report, err := s.prove(ctx)
	if s.ends() {
		// What is in the cluster goes with it.
		s.Detach()
	} else {
		_, cerr := s.Stage.Close(ctx)
		err = errors.Join(err, cerr)
	}
	return report, errors.Join(err, s.down(ctx))
}

// ends says whether the cluster ends with the run.
func (s *kindStage) ends() bool { return s.provider.Made() && !s.keep }

func (s *kindStage) down(ctx context.Context) error {
	var errs []error
	for _, iface := range slices.Sorted(maps.Keys(s.captures)) {
		_, err := s.captures[iface].Stop()
		errs = append(errs, err)
	}
	s.captures = nil
	if s.ends() {
		errs = append(errs, s.provider.Destroy(ctx))
	} else {
		errs = append(errs, s.provider.Release())
	}
	return errors.Join(errs...)
}

// prove dials an address of the pod ranges from the cluster's network, past
// all pod routes, so that only the host's own rule can stop it; and reads what
// the captures saw.
func (s *kindStage) prove(ctx context.Context) (*v1alpha1.Egress, error) {
	e := &v1alpha1.Egress{Filter: join(s.ranges)}
	guard := s.cluster.Guard()
	var errs []error
	dead := s.oneOfEach(s.Dead())
	if len(dead) == 0 {
		e.Notes = append(e.Notes, "no pod was deleted, so the host's own rule was not dialled")
	}
	proof, err := guard.Prove(ctx, s.cluster.Image(), dead...)
	errs = append(errs, err)
	for _, d := range proof.Dials {
		e.Notes = append(e.Notes, fmt.Sprintf("a dial to %s from the cluster's network, past all pod routes: %s; the host's counter went from %d to %d", d.Address, d.Error, d.Before, d.After))
	}
	after, err := guard.Counters(ctx)
	errs = append(errs, err)
	e.GuardV4 = v1alpha1.GuardCounter{Before: s.before.PodsIPv4, After: after.PodsIPv4}
	e.GuardV6 = v1alpha1.GuardCounter{Before: s.before.PodsIPv6, After: after.PodsIPv6}
	e.OuterInterface = strings.Join(s.outer, ", ")
	for iface, c := range s.captures {
		saw, err := c.Stop()
		errs = append(errs, err)
		if iface == s.cluster.Bridge() {
			e.BridgePackets = int(saw.Packets)
			continue
		}
		e.OuterPackets += int(saw.Packets)
		for _, line := range saw.Samples {
			e.Notes = append(e.Notes, "left by "+iface+": "+line)
		}
	}
	s.captures = nil
	if e.OuterPackets > 0 {
		errs = append(errs, fmt.Errorf("%d packets of the cluster's ranges crossed %s: the egress guard leaks", e.OuterPackets, e.OuterInterface))
	}
	if e.BridgePackets == 0 {
		errs = append(errs, errors.New("the capture saw nothing on the cluster's own bridge: it proves nothing about what leaves"))
	}
	return e, errors.Join(errs...)
}

// oneOfEach picks one address for each of the cluster's pod ranges.
func (s *kindStage) oneOfEach(addresses []string) []netip.Addr {
	var out []netip.Addr
	for _, p := range s.cluster.PodSubnets() {
		for _, text := range addresses {
			if a, err := netip.ParseAddr(text); err == nil && p.Contains(a) {
				out = append(out, a)
				break
			}
		}
	}
	return out
}

func join(ps []netip.Prefix) string {
	out := make([]string, 0, len(ps))
	for _, p := range ps {
		out = append(out, "net "+p.String())
	}
	return strings.Join(out, " or ")
}
