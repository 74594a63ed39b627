// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/e2e-framework/klient"
	"sigs.k8s.io/e2e-framework/support"

	"github.com/lastcall-dev/lastcall/kind/docker"
)

// Provider is the one way in which the suite makes a cluster, in the form that anyone's
// e2e-framework suite knows.
type Provider struct {
	config  Config
	fresh   bool // a cluster that stands is refused
	cluster *Cluster
	made    bool // by Create
	release func() error
}

var (
	_ support.E2EClusterProviderWithImageLoader = (*Provider)(nil)
	_ support.E2EClusterProviderWithLifeCycle   = (*Provider)(nil)
)

// NewProvider returns a provider for a cluster of 3 nodes.
func NewProvider() *Provider { return &Provider{} }

// ProviderFor returns a provider for the cluster that config describes.
func ProviderFor(config Config) *Provider { return &Provider{config: config} }

// WithNodes, in WithOpts, sets the number of nodes.
func WithNodes(nodes int) support.ClusterOpts {
	return configure(func(c *Config) { c.Nodes = nodes })
}

// WithIPFamily, in WithOpts, sets IPv4, IPv6 or Dual.
func WithIPFamily(family string) support.ClusterOpts {
	return configure(func(c *Config) { c.IPFamily = family })
}

// WithKubeProxy, in WithOpts, sets IPTables, NFTables or IPVS.
func WithKubeProxy(mode string) support.ClusterOpts {
	return configure(func(c *Config) { c.KubeProxy = mode })
}

// WithImage, in WithOpts, sets the node image.
func WithImage(image string) support.ClusterOpts {
	return configure(func(c *Config) { c.Image = image })
}

// WithProgress, in WithOpts, sets what takes progress lines.
func WithProgress(progress func(string)) support.ClusterOpts {
	return configure(func(c *Config) { c.Progress = progress })
}

// WithNew, in WithOpts, has Create refuse a cluster that stands already.
func WithNew() support.ClusterOpts {
	return option(func(p *Provider) { p.fresh = true })
}

func configure(set func(*Config)) support.ClusterOpts {
	return option(func(p *Provider) { set(&p.config) })
}

// option is one for this provider; others pass by.
func option(set func(*Provider)) support.ClusterOpts {
	return func(p support.E2EClusterProvider) {
		if p, ok := p.(*Provider); ok {
			set(p)
		}
	}
}

// errNoCluster: something was asked of a provider before Create.
var errNoCluster = errors.New("this provider has no cluster yet: call Create first")

// SetDefaults changes nothing: Up knows the defaults.
func (p *Provider) SetDefaults() support.E2EClusterProvider { return p }

// WithName sets the cluster's name.
func (p *Provider) WithName(name string) support.E2EClusterProvider {
	p.config.Name = name
	return p
}

// WithVersion sets the Kubernetes version, "1.34" or "v1.34.4".
func (p *Provider) WithVersion(version string) support.E2EClusterProvider {
	p.config.Kubernetes = version
	return p
}

// WithPath changes nothing: no program stands behind this provider.
func (p *Provider) WithPath(string) support.E2EClusterProvider { return p }

// WithOpts applies WithNodes and the like.
func (p *Provider) WithOpts(opts ...support.ClusterOpts) support.E2EClusterProvider {
	for _, opt := range opts {
		opt(p)
	}
	return p
}

// Check refuses what Create would refuse, as far as it shows before anything is begun: it
// is for who has other things to make before the cluster.
func (p *Provider) Check(ctx context.Context) error {
	stands, err := p.stands(ctx)
	if err != nil || stands != nil {
		return err
	}
	return p.config.Check()
}

// stands is the cluster of that name that stands already, if it is what was asked for;
// nil where there is none.
func (p *Provider) stands(ctx context.Context) (*Cluster, error) {
	cluster, err := Open(ctx, p.config.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case p.fresh:
		return nil, taken(p.config.Name)
	}
	return cluster, cluster.fits(p.config)
}

// Create brings the cluster up, or takes the one of that name that stands already and is
// what was asked for, and returns its kubeconfig's file. It holds the cluster: until
// Destroy, Release or the end of the process nobody else gets it. There are no arguments
// to give.
func (p *Provider) Create(ctx context.Context, args ...string) (string, error) {
	if len(args) > 0 {
		return "", fmt.Errorf("arguments %q: this provider takes none, use WithOpts", args)
	}
	if p.cluster != nil {
		return p.cluster.Kubeconfig(), nil
	}
	cluster, err := p.stands(ctx)
	if err != nil {
		return "", err
	}
	made := cluster == nil
	if made {
		if cluster, err = Up(ctx, p.config); err != nil {
			return "", err
		}
	}
	// One that was just made may be another run's already: then it is left to that.
	if p.release, err = cluster.Hold(); err != nil {
		return "", err
	}
	p.cluster, p.made = cluster, made
	return cluster.Kubeconfig(), nil
}

// Cluster is the cluster, nil before Create.
func (p *Provider) Cluster() *Cluster { return p.cluster }

// Made says whether Create made the cluster; else it stood already.
func (p *Provider) Made() bool { return p.made }

// Release gives the cluster back and leaves it standing.
func (p *Provider) Release() error {
	release := p.release
	p.cluster, p.made, p.release = nil, false, nil
	if release == nil {
		return nil
	}
	return release()
}

// CreateWithConfig refuses: a kind configuration could contradict the guard,
// which must know the ranges and the network.
func (p *Provider) CreateWithConfig(context.Context, string) (string, error) {
	return "", errors.New("this provider takes no kind configuration file: use WithName, WithVersion and WithOpts")
}

// GetKubeconfig returns the kubeconfig's file, "" before Create.
func (p *Provider) GetKubeconfig() string {
	if p.cluster == nil {
		return ""
	}
	return p.cluster.Kubeconfig()
}

// GenerateKubeconfig returns the kubeconfig's file: there is one, for the host.
func (p *Provider) GenerateKubeconfig(...string) (string, error) {
	if p.cluster == nil {
		return "", errNoCluster
	}
	return p.cluster.Kubeconfig(), nil
}

// GetKubectlContext returns the kubeconfig's context, "" before Create.
func (p *Provider) GetKubectlContext() string {
	if p.cluster == nil {
		return ""
	}
	return p.cluster.Context()
}

// KubernetesRestConfig returns a client configuration, nil before Create.
func (p *Provider) KubernetesRestConfig() *rest.Config {
	if p.cluster == nil {
		return nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", p.cluster.Kubeconfig())
	if err != nil {
		return nil
	}
	return config
}

// WaitForControlPlane asks for the nodes once: Create has waited for them.
func (p *Provider) WaitForControlPlane(ctx context.Context, client klient.Client) error {
	set, err := kubernetes.NewForConfig(client.RESTConfig())
	if err != nil {
		return fmt.Errorf("a client for the control plane: %w", err)
	}
	list, err := set.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("ask the control plane for its nodes: %w", err)
	}
	if missing := notReady(list.Items); len(missing) > 0 {
		return fmt.Errorf("nodes not Ready: %q", missing)
	}
	return nil
}

// ExportLogs puts the logs of all nodes into a folder.
func (p *Provider) ExportLogs(_ context.Context, dest string) error {
	if p.cluster == nil {
		return errNoCluster
	}
	if err := provider(p.config.withDefaults().Progress).CollectLogs(p.cluster.Network(), dest); err != nil {
		return fmt.Errorf("collect the logs of cluster %s: %w", p.cluster.Name(), explain(err))
	}
	return nil
}

// Destroy takes the cluster of that name down, also one that stood before Create, or that
// another process made.
func (p *Provider) Destroy(ctx context.Context) error {
	return errors.Join(Down(ctx, p.config.Name), p.Release())
}

// LoadImage loads an image that the engine has into every node.
func (p *Provider) LoadImage(ctx context.Context, image string, _ ...string) error {
	if p.cluster == nil {
		return errNoCluster
	}
	return p.cluster.LoadImage(ctx, image)
}

// LoadImageArchive loads a docker or OCI archive into every node.
func (p *Provider) LoadImageArchive(ctx context.Context, archive string, _ ...string) error {
	if p.cluster == nil {
		return errNoCluster
	}
	return p.cluster.LoadArchive(ctx, archive)
}

// AddNode refuses: kind can't add one.
func (p *Provider) AddNode(context.Context, *support.Node, ...string) error {
	return errors.New("kind can't add a node to a cluster: use WithOpts(WithNodes(n)) before Create")
}

// RemoveNode deletes a worker from the cluster and its container from the
// engine.
func (p *Provider) RemoveNode(ctx context.Context, node *support.Node, _ ...string) error {
	found, err := p.node(node)
	if err != nil {
		return err
	}
	if found.Role != workerRole {
		return fmt.Errorf("node %s is the control plane: use Destroy", found.Name)
	}
	client, err := p.cluster.client()
	if err != nil {
		return err
	}
	if err := client.CoreV1().Nodes().Delete(ctx, found.Name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete node %s: %w", found.Name, err)
	}
	if _, err := docker.Output(ctx, "rm", "--force", "--volumes", found.Name); err != nil {
		return fmt.Errorf("remove the container of node %s: %w", found.Name, err)
	}
	p.cluster.nodes = slices.DeleteFunc(p.cluster.nodes, func(n Node) bool { return n.Name == found.Name })
	p.cluster.record.Nodes--
	return p.cluster.record.save()
}

// StartNode starts a stopped node, and puts its part of the guard back before it
// returns: routes do not outlive a node's stop.
func (p *Provider) StartNode(ctx context.Context, node *support.Node, _ ...string) error {
	found, err := p.node(node)
	if err != nil {
		return err
	}
	if _, err := docker.Output(ctx, "start", found.Name); err != nil {
		return fmt.Errorf("start node %s: %w", found.Name, err)
	}
	return p.cluster.guard.Routes(ctx, []string{found.Name})
}

// StopNode stops a node.
func (p *Provider) StopNode(ctx context.Context, node *support.Node, _ ...string) error {
	found, err := p.node(node)
	if err != nil {
		return err
	}
	if _, err := docker.Output(ctx, "stop", found.Name); err != nil {
		return fmt.Errorf("stop node %s: %w", found.Name, err)
	}
	return nil
}

// ListNode lists the nodes with the state of their containers ("running").
func (p *Provider) ListNode(ctx context.Context, _ ...string) ([]support.Node, error) {
	if p.cluster == nil {
		return nil, errNoCluster
	}
	var list []support.Node
	for _, node := range p.cluster.nodes {
		state, err := docker.Output(ctx, "inspect", "--type", "container", "--format", "{{.State.Status}}", node.Name)
		if err != nil {
			return nil, fmt.Errorf("the state of node %s: %w", node.Name, err)
		}
		entry := support.Node{Name: node.Name, Role: node.Role, Cluster: p.cluster.Name(), State: state}
		if len(node.Addresses) > 0 {
			entry.IP = net.IP(node.Addresses[0].AsSlice())
		}
		list = append(list, entry)
	}
	return list, nil
}

const workerRole = "worker"

// node finds a node of the cluster by its name.
func (p *Provider) node(node *support.Node) (Node, error) {
	if p.cluster == nil {
		return Node{}, errNoCluster
	}
	i := slices.IndexFunc(p.cluster.nodes, func(n Node) bool { return node != nil && n.Name == node.Name })
	if i < 0 {
		return Node{}, fmt.Errorf("cluster %s has no such node", p.cluster.Name())
	}
	return p.cluster.nodes[i], nil
}
