// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/kind/docker"
	"github.com/lastcall-dev/lastcall/kind/egress"
)

// Budgets of a cluster's life.
const (
	// createBudget bounds kind's own work, once the image is there.
	createBudget = 5 * time.Minute
	// readyBudget bounds the wait for the nodes after that.
	readyBudget = 2 * time.Minute
	// removeBudget bounds a removal.
	removeBudget = 2 * time.Minute
	// containerBudget bounds one attempt to remove one container. The engine goes on
	// with one that was cut short.
	containerBudget = 30 * time.Second
	// listBudget bounds what the engine takes to list what it has.
	listBudget = 30 * time.Second
)

// thawEvery is how often it is looked whether something is frozen in a container that is
// being removed.
const thawEvery = 200 * time.Millisecond

// Cluster is one that stands.
type Cluster struct {
	record record
	guard  *egress.Guard
	nodes  []Node
}

// Node is one node of a cluster.
type Node struct {
	Name      string       // of the node and of its container
	Role      string       // "control-plane" or "worker"
	Addresses []netip.Addr // of the cluster's IP families
}

// Open returns a cluster that Up made, in this process or another one. What of
// its guard a reboot or a restarted engine took away, it puts back.
func Open(ctx context.Context, name string) (*Cluster, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	r, err := load(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no cluster %s: `lastcall up --name %s` makes one: %w", name, name, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	if !r.Ready {
		return nil, taken(name)
	}
	guard, err := egress.Open(guardConfig(r))
	if errors.Is(err, fs.ErrNotExist) {
		guard, err = egress.Install(ctx, guardConfig(r))
	}
	if err != nil {
		return nil, err
	}
	c := &Cluster{record: r, guard: guard}
	if c.nodes, err = listNodes(ctx, r); err != nil {
		return nil, err
	}
	if len(c.nodes) != r.Nodes {
		return nil, fmt.Errorf("cluster %s has %d nodes of %d: `lastcall down --name %s`, then up again", name, len(c.nodes), r.Nodes, name)
	}
	if err := c.routes(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// fits says why a cluster that stands is not the one that was asked for. What was not
// asked for may be anything.
func (c *Cluster) fits(wanted Config) error {
	var differs string
	switch {
	case wanted.Kubernetes != "" && !sameVersion(wanted.Kubernetes, c.Kubernetes()):
		differs = fmt.Sprintf("runs Kubernetes %s, not %s", strings.TrimPrefix(c.Kubernetes(), "v"), strings.TrimPrefix(wanted.Kubernetes, "v"))
	case wanted.Image != "" && c.Image() != wanted.Image:
		differs = fmt.Sprintf("has node image %s, not %s", c.Image(), wanted.Image)
	case wanted.Nodes != 0 && len(c.nodes) != wanted.Nodes:
		differs = fmt.Sprintf("has %d nodes, not %d", len(c.nodes), wanted.Nodes)
	case wanted.IPFamily != "" && c.IPFamily() != wanted.IPFamily:
		differs = fmt.Sprintf("has IP family %s, not %s", c.IPFamily(), wanted.IPFamily)
	case wanted.KubeProxy != "" && c.KubeProxy() != wanted.KubeProxy:
		differs = fmt.Sprintf("has kube-proxy in mode %s, not %s", c.KubeProxy(), wanted.KubeProxy)
	default:
		return nil
	}
	return fmt.Errorf("cluster %s stands and %s: take another name, or `lastcall down --name %s` first", c.Name(), differs, c.Name())
}

// routes puts the nodes' part of the guard in its place.
func (c *Cluster) routes(ctx context.Context) error {
	names := make([]string, len(c.nodes))
	for i, node := range c.nodes {
		names[i] = node.Name
	}
	return c.guard.Routes(ctx, names)
}

// Name is the cluster's name as given to Up.
func (c *Cluster) Name() string { return c.record.Name }

// Kubernetes is the version that runs, "v1.34.4".
func (c *Cluster) Kubernetes() string { return c.record.Kubernetes }

// Image is the node image's reference.
func (c *Cluster) Image() string { return c.record.Image }

// IPFamily is IPv4, IPv6 or Dual.
func (c *Cluster) IPFamily() string { return c.record.IPFamily }

// KubeProxy is the mode that kube-proxy was made to run in: IPTables, NFTables or
// IPVS.
func (c *Cluster) KubeProxy() string { return c.record.KubeProxy }

// Kubeconfig is a file of ours, with this cluster alone in it.
func (c *Cluster) Kubeconfig() string { return c.record.Kubeconfig }

// Context is the kubeconfig's context.
func (c *Cluster) Context() string { return "kind-" + prefix + c.record.Name }

// Bridge is the host's interface of the cluster's network.
func (c *Cluster) Bridge() string { return c.record.Bridge }

// The shares of the CPU of nodes. 1024 is what a container has that nobody gave another; on cgroup v2 that is a weight, and what
// a share is as one says the container runtime, which is one more reason to give each node its own.
const (
	usual    = 1024
	favoured = 3 * usual // docs/adr/0009 has what other ones do
)

// Favour gives a node a larger share of this machine's CPU than the other ones, while they want more than there is.
// Nodes are containers, each with the same share: clients that run in one, and have a share of it in turn, were sure of 0.13
// of two cores. They sent a fifth of their requests late, on a machine a tenth of which was idle.
func (c *Cluster) Favour(ctx context.Context, node string) error {
	found := false
	for _, n := range c.Nodes() {
		share := usual
		if n.Name == node {
			share, found = favoured, true
		}
		if _, err := docker.Output(ctx, "update", "--cpu-shares", strconv.Itoa(share), n.Name); err != nil {
			return fmt.Errorf("giving the node %s its share of the CPU: %w", n.Name, err)
		}
	}
	if !found {
		return fmt.Errorf("cluster %s has no node %s", c.Name(), node)
	}
	return nil
}

// Network is the name of the cluster's docker network.
func (c *Cluster) Network() string { return prefix + c.record.Name }

// Guard is the wall around the cluster.
func (c *Cluster) Guard() *egress.Guard { return c.guard }

// PodSubnets are the pods' ranges, IPv4 first.
func (c *Cluster) PodSubnets() []netip.Prefix { return slices.Clone(c.record.Ranges.Pods) }

// ServiceSubnets are the services' ranges, IPv4 first.
func (c *Cluster) ServiceSubnets() []netip.Prefix { return slices.Clone(c.record.Ranges.Services) }

// Nodes are the cluster's nodes, control plane first.
func (c *Cluster) Nodes() []Node { return slices.Clone(c.nodes) }

// Networks opens the network namespaces of the nodes, which the caller closes: on the engine's own machine, as root.
func (c *Cluster) Networks(ctx context.Context) (_ []*os.File, err error) {
	var all []*os.File
	defer func() {
		if err != nil {
			for _, f := range all {
				_ = f.Close()
			}
		}
	}()
	for _, node := range c.nodes {
		pid, err := docker.Output(ctx, "inspect", "--format", "{{.State.Pid}}", node.Name)
		if err != nil {
			return nil, fmt.Errorf("the network of node %s: %w", node.Name, err)
		}
		f, err := os.Open(filepath.Join("/proc", strings.TrimSpace(pid), "ns", "net"))
		if err != nil {
			return nil, fmt.Errorf("the network of node %s: %w", node.Name, err)
		}
		all = append(all, f)
	}
	return all, nil
}

// NodeSubnets are the ranges of the cluster's docker network.
func (c *Cluster) NodeSubnets(ctx context.Context) ([]netip.Prefix, error) {
	lines, err := docker.Lines(ctx, "network", "inspect", "--format", "{{range .IPAM.Config}}{{.Subnet}}\n{{end}}", c.Network())
	if err != nil {
		return nil, fmt.Errorf("the ranges of network %s: %w", c.Network(), err)
	}
	var list []netip.Prefix
	for _, line := range lines {
		if line == "" {
			continue
		}
		subnet, err := netip.ParsePrefix(line)
		if err != nil {
			return nil, fmt.Errorf("the ranges of network %s: %w", c.Network(), err)
		}
		list = append(list, subnet)
	}
	return list, nil
}

// Ranges are all ranges whose packets may never leave the machine: pods,
// services and nodes. It is what a capture filters on.
func (c *Cluster) Ranges(ctx context.Context) ([]netip.Prefix, error) {
	nodes, err := c.NodeSubnets(ctx)
	if err != nil {
		return nil, err
	}
	return slices.Concat(c.record.Ranges.Pods, c.record.Ranges.Services, nodes), nil
}

func guardConfig(r record) egress.Config {
	return egress.Config{Name: prefix + r.Name, Bridge: r.Bridge, Pods: r.Ranges.Pods, Services: r.Ranges.Services}
}

// listNodes asks the engine for the cluster's node containers.
func listNodes(ctx context.Context, r record) ([]Node, error) {
	ids, err := docker.Lines(ctx, "ps", "--all", "--quiet", "--no-trunc", "--filter", "label="+kindLabel+"="+prefix+r.Name)
	if err != nil {
		return nil, fmt.Errorf("list the nodes of cluster %s: %w", r.Name, err)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	format := `{{.Name}} {{index .Config.Labels "` + roleLabel + `"}}{{range .NetworkSettings.Networks}} {{.IPAddress}} {{.GlobalIPv6Address}}{{end}}`
	lines, err := docker.Lines(ctx, append([]string{"inspect", "--type", "container", "--format", format}, ids...)...)
	if err != nil {
		return nil, fmt.Errorf("the nodes of cluster %s: %w", r.Name, err)
	}
	var list []Node
	for _, line := range lines {
		node, err := parseNode(line, r.IPFamily)
		if err != nil {
			return nil, fmt.Errorf("the nodes of cluster %s: %w", r.Name, err)
		}
		list = append(list, node)
	}
	// "control-plane" comes before "worker".
	slices.SortFunc(list, func(a, b Node) int { return strings.Compare(a.Role+a.Name, b.Role+b.Name) })
	return list, nil
}

// parseNode reads a container's name, role and addresses. An engine gives IPv4
// addresses to the nodes of an IPv6 cluster too, but the cluster knows nothing of
// them.
func parseNode(line, family string) (Node, error) {
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return Node{}, fmt.Errorf("the engine says %q", line)
	}
	node := Node{Name: strings.TrimPrefix(fields[0], "/"), Role: fields[1]}
	for _, text := range fields[2:] {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return Node{}, fmt.Errorf("the address of node %s: %w", node.Name, err)
		}
		if family != IPv6 || address.Is6() {
			node.Addresses = append(node.Addresses, address)
		}
	}
	return node, nil
}

// kind's own labels on node containers.
const (
	kindLabel = "io.x-k8s.kind.cluster"
	roleLabel = "io.x-k8s.kind.role"
)

// LoadArchive loads a docker or OCI image archive into every node.
func (c *Cluster) LoadArchive(ctx context.Context, archive string) error {
	if _, err := os.Stat(archive); err != nil {
		return fmt.Errorf("image archive: %w", err)
	}
	return eachNode(ctx, c.nodes, func(ctx context.Context, node Node) error {
		file, err := os.Open(archive)
		if err != nil {
			return fmt.Errorf("image archive: %w", err)
		}
		defer file.Close()
		return c.importImages(ctx, node, file)
	})
}

// HasImages says which of the images the engine does not have, and how it gets them.
func HasImages(ctx context.Context, images []string) error {
	if len(images) == 0 {
		return nil
	}
	if _, err := docker.Ask(ctx); err != nil {
		return err
	}
	for _, image := range images {
		if _, err := docker.Output(ctx, "image", "inspect", "--format", "{{.Id}}", image); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("the container engine has no image %s: pull or build it there, or make it of the program that the host stage starts (lastcall system image FILE)", image)
		}
	}
	return nil
}

// LoadImage loads an image that the engine has into every node.
func (c *Cluster) LoadImage(ctx context.Context, image string) error {
	dir, err := os.MkdirTemp("", "lastcall-image-")
	if err != nil {
		return fmt.Errorf("a place for the image: %w", err)
	}
	defer os.RemoveAll(dir)
	archive := filepath.Join(dir, "image.tar")
	if _, err := docker.Output(ctx, "save", "--output", archive, image); err != nil {
		return fmt.Errorf("image %s: %w", image, err)
	}
	return c.LoadArchive(ctx, archive)
}
