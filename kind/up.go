// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/e2e-framework/klient/wait"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/kind/pkg/cluster"

	"github.com/lastcall-dev/lastcall/kind/docker"
	"github.com/lastcall-dev/lastcall/kind/egress"
	"github.com/lastcall-dev/lastcall/kind/engine/bounding"
)

// Up makes a cluster and returns when its nodes are Ready and its guard stands.
// Everything that can be known before is checked before; one that fails or is
// cancelled leaves nothing behind. Errors are one line, and say what to do.
func Up(ctx context.Context, config Config) (_ *Cluster, err error) {
	config = config.withDefaults()
	p, err := prepare(ctx, config)
	if err != nil {
		return nil, err
	}
	if err := p.record.claim(); err != nil {
		return nil, err
	}
	defer func() {
		if err == nil {
			return
		}
		// Also after a cancellation, and for as long as it takes.
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeBudget)
		defer cancel()
		if _, removeErr := remove(undo, p.record.Name); removeErr != nil {
			err = fmt.Errorf("%w; and it could not be cleaned up, run `lastcall cleanup`: %w", err, removeErr)
		}
	}()
	if p.record.Image, p.record.Kubernetes, err = nodeImage(ctx, config); err != nil {
		return nil, err
	}
	if err := agree(config, p.record); err != nil {
		return nil, err
	}
	if err := p.record.save(); err != nil {
		return nil, err
	}
	return p.build(ctx)
}

// plan is a cluster that was checked and not begun.
type plan struct {
	record   record
	host     host
	progress func(string)
}

// prepare checks the configuration and the machine, and changes nothing.
func prepare(ctx context.Context, config Config) (*plan, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	if err := checkKubeconfig(config.Kubeconfig, os.Getenv); err != nil {
		return nil, err
	}
	engine, err := docker.Ask(ctx)
	if err != nil {
		return nil, err
	}
	if target := os.Getenv("DOCKER_HOST"); target != "" && !strings.HasPrefix(target, "unix://") {
		return nil, fmt.Errorf("DOCKER_HOST is %s: the egress guard can only stand on this machine; unset it", target)
	}
	if err := egress.Check(); err != nil {
		return nil, err
	}
	if err := nameIsFree(ctx, config.Name); err != nil {
		return nil, err
	}
	if err := roomFor(engine.Root, leastRoom); err != nil {
		return nil, err
	}
	// What an image on this machine holds can be read before anything begins.
	if config.Image != "" && present(ctx, config.Image) {
		version, err := versionOf(ctx, config.Name, config.Image)
		if err != nil {
			return nil, err
		}
		if err := agree(config, record{Image: config.Image, Kubernetes: version}); err != nil {
			return nil, err
		}
	}

	family := config.IPFamily
	if family == "" {
		family = IPv4
		if hasIPv6() {
			family = Dual
		}
	}
	if family != IPv4 && !hasIPv6() {
		return nil, fmt.Errorf("IP family %s: this host has no IPv6; use %s", family, IPv4)
	}
	if family == IPv6 {
		if err := canPublish(ctx); err != nil {
			return nil, err
		}
	}
	used, err := takenPrefixes()
	if err != nil {
		return nil, err
	}
	chosen, err := choose(config.Name, family, used)
	if err != nil {
		return nil, err
	}
	set, err := bounding.Current()
	if err != nil {
		return nil, err
	}
	kubeconfig := config.Kubeconfig
	if kubeconfig == "" {
		dir, err := stateDir(config.Name)
		if err != nil {
			return nil, err
		}
		kubeconfig = filepath.Join(dir, "kubeconfig")
	} else if kubeconfig, err = filepath.Abs(kubeconfig); err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", config.Kubeconfig, err)
	}
	return &plan{
		record: record{
			Name: config.Name, Nodes: config.Nodes, IPFamily: family, KubeProxy: config.KubeProxy, Ranges: chosen,
			Bridge: bridgeName(config.Name), Kubeconfig: kubeconfig, Created: time.Now().UTC(),
		},
		host:     host{cgroupV1: engine.CgroupVersion == "1", noResource: slices.Contains(set.Lacking(), "CAP_SYS_RESOURCE")},
		progress: config.Progress,
	}, nil
}

// agree compares the version that was asked for with the image's own.
func agree(config Config, r record) error {
	if config.Kubernetes != "" && !sameVersion(config.Kubernetes, r.Kubernetes) {
		return fmt.Errorf("image %s holds Kubernetes %s, and %s was asked for: leave one of the two out", r.Image, r.Kubernetes, config.Kubernetes)
	}
	return nil
}

// nameIsFree looks for clusters, networks and folders that have the name.
func nameIsFree(ctx context.Context, name string) error {
	dir, err := stateDir(name)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(dir); err == nil {
		return taken(name)
	}
	names, err := docker.Lines(ctx, "ps", "--all", "--filter", "label="+kindLabel, "--format", `{{.Label "`+kindLabel+`"}}`)
	if err != nil {
		return fmt.Errorf("list kind's clusters: %w", err)
	}
	for _, other := range []string{name, prefix + name} {
		if slices.Contains(names, other) {
			return fmt.Errorf("a kind cluster %s exists already: take another name (or, if it is left from a killed run, `lastcall cleanup`)", other)
		}
	}
	networks, err := docker.Lines(ctx, "network", "ls", "--filter", "name=^"+prefix+name+"$", "--format", "{{.Name}}")
	if err != nil {
		return fmt.Errorf("list the engine's networks: %w", err)
	}
	if len(networks) > 0 {
		return fmt.Errorf("a docker network %s%s exists already: take another name, or `lastcall cleanup`", prefix, name)
	}
	return nil
}

// takenPrefixes are the ranges that a new cluster must keep clear of.
func takenPrefixes() ([]netip.Prefix, error) {
	used, err := hostPrefixes()
	if err != nil {
		return nil, err
	}
	names, err := recorded()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		// A record that can't be read has no cluster yet.
		if r, err := load(name); err == nil {
			used = append(append(used, r.Ranges.Pods...), r.Ranges.Services...)
			if r.Ranges.Network6.IsValid() {
				used = append(used, r.Ranges.Network6)
			}
		}
	}
	return used, nil
}

// hasIPv6 tells whether this host can have an IPv6 network.
func hasIPv6() bool {
	content, err := os.ReadFile("/proc/net/if_inet6")
	return err == nil && len(content) > 0
}

// canPublish tells whether an IPv6 cluster's API server can be reached: kind
// publishes it at [::1], and at 127.0.0.1 for the other families.
func canPublish(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "[::1]:0")
	if err != nil {
		return fmt.Errorf("IP family %s: the API server can't be published at [::1] (%w); use %s, or `ip -6 address add ::1/128 dev lo`", IPv6, err, Dual)
	}
	return l.Close()
}

// build makes what was planned: first the wall, then what stands behind it.
func (p *plan) build(ctx context.Context) (*Cluster, error) {
	guard, err := egress.Install(ctx, guardConfig(p.record))
	if err != nil {
		return nil, err
	}
	p.progress(fmt.Sprintf("egress guard %s stands", guard.Config().Name))
	if err := p.network(ctx); err != nil {
		return nil, err
	}
	config := render(p.record, p.host)
	if err := p.create(ctx, config); err != nil {
		return nil, err
	}
	c := &Cluster{record: p.record, guard: guard}
	if c.nodes, err = listNodes(ctx, p.record); err != nil {
		return nil, err
	}
	if err := c.routes(ctx); err != nil {
		return nil, err
	}
	if err := c.waitReady(ctx, p.progress); err != nil {
		return nil, err
	}
	c.record.Ready = true
	if err := c.record.save(); err != nil {
		return nil, err
	}
	return c, nil
}

// network makes the cluster's docker network, with a bridge whose name the
// guard knows.
func (p *plan) network(ctx context.Context) error {
	args := []string{
		"network", "create", "--driver", "bridge",
		"--label", egress.Label + "=" + prefix + p.record.Name,
		"--opt", "com.docker.network.bridge.name=" + p.record.Bridge,
		"--opt", "com.docker.network.bridge.enable_ip_masquerade=true",
	}
	if p.record.Ranges.Network6.IsValid() {
		args = append(args, "--ipv6", "--subnet", p.record.Ranges.Network6.String())
	}
	if _, err := docker.Output(ctx, append(args, prefix+p.record.Name)...); err != nil {
		return fmt.Errorf("make the cluster's network: %w", err)
	}
	return nil
}

// kindNetwork is how kind's library is told of a network: by the process's
// environment, so one cluster at a time is created in one process.
const kindNetwork = "KIND_EXPERIMENTAL_DOCKER_NETWORK"

var creating sync.Mutex

// create lets kind do its work. kind knows no context: when ours ends, its
// containers are taken away until it gives up.
func (p *plan) create(ctx context.Context, config *v1alpha4.Cluster) error {
	creating.Lock()
	defer creating.Unlock()
	before, was := os.LookupEnv(kindNetwork)
	if err := os.Setenv(kindNetwork, prefix+p.record.Name); err != nil {
		return fmt.Errorf("name the network to kind: %w", err)
	}
	defer func() {
		if was {
			_ = os.Setenv(kindNetwork, before)
		} else {
			_ = os.Unsetenv(kindNetwork)
		}
	}()

	ctx, cancel := context.WithTimeoutCause(ctx, createBudget, fmt.Errorf("not done within %s", createBudget))
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- provider(p.progress).Create(prefix+p.record.Name,
			cluster.CreateWithV1Alpha4Config(config),
			cluster.CreateWithKubeconfigPath(p.record.Kubeconfig),
			cluster.CreateWithDisplayUsage(false),
			cluster.CreateWithDisplaySalutation(false))
	}()
	select {
	case err := <-done:
		if err != nil {
			if ctx.Err() != nil { // a Ctrl-C reaches kind's commands too
				return fmt.Errorf("cluster %s: %w", p.record.Name, context.Cause(ctx))
			}
			return fmt.Errorf("cluster %s: %w", p.record.Name, explain(err))
		}
		return nil
	case <-ctx.Done():
	}
	p.progress("stopping: taking the half-made nodes away")
	if err := p.abandon(context.WithoutCancel(ctx), done); err != nil {
		return fmt.Errorf("cluster %s: %w; %w", p.record.Name, context.Cause(ctx), err)
	}
	return fmt.Errorf("cluster %s: %w", p.record.Name, context.Cause(ctx))
}

// abandon removes the cluster's containers, also those that kind still makes,
// until kind has returned.
func (p *plan) abandon(ctx context.Context, done <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, removeBudget)
	defer cancel()
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		select {
		case <-done: //nolint:errcheck // what kind says of a creation that was given up tells nobody anything
			return nil
		case <-ctx.Done():
			return errors.Join(errors.New("kind did not give up"), last)
		case <-tick.C:
			_, last = removeContainers(ctx, p.record.Name)
		}
	}
}

// waitReady waits until every node is Ready, and says what it last saw.
func (c *Cluster) waitReady(ctx context.Context, progress func(string)) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	progress("waiting for the nodes to be Ready")
	last := "nothing yet"
	err = wait.For(func(ctx context.Context) (bool, error) {
		list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		switch {
		case err == nil:
			missing := notReady(list.Items)
			if len(list.Items) == len(c.nodes) && len(missing) == 0 {
				return true, nil
			}
			last = fmt.Sprintf("%d of %d nodes there; not Ready: %s", len(list.Items), len(c.nodes), strings.Join(missing, ", "))
		case ctx.Err() == nil:
			last = err.Error()
		}
		return false, nil
	}, wait.WithContext(ctx), wait.WithTimeout(readyBudget), wait.WithInterval(250*time.Millisecond), wait.WithImmediate())
	if err != nil {
		return fmt.Errorf("cluster %s: nodes not Ready: %w: last seen: %s", c.record.Name, err, last)
	}
	return nil
}

// notReady names the nodes that are not Ready, with the reason.
func notReady(list []corev1.Node) []string {
	var missing []string
	for _, node := range list {
		reason := "no condition yet"
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				reason = condition.Message
				if condition.Status == corev1.ConditionTrue {
					reason = ""
				}
			}
		}
		if reason != "" {
			missing = append(missing, fmt.Sprintf("%s (%s)", node.Name, reason))
		}
	}
	return missing
}

func (c *Cluster) client() (kubernetes.Interface, error) {
	rest, err := clientcmd.BuildConfigFromFlags("", c.record.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig of cluster %s: %w", c.record.Name, err)
	}
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return nil, fmt.Errorf("a client for cluster %s: %w", c.record.Name, err)
	}
	return client, nil
}

// lastLines keeps the end of a program's output, on one line.
func lastLines(output string, count int) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], " | ")
}
