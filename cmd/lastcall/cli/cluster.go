// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/lastcall-dev/lastcall/kind"
	"github.com/lastcall-dev/lastcall/kind/nodeimage"
)

// What a cluster is unless something else is asked for.
const (
	defaultKubernetes = kind.DefaultKubernetes
	defaultNodes      = kind.DefaultNodes
	defaultName       = "lastcall"
)

// UpRequest asks for a cluster.
type UpRequest struct {
	Name       string
	Kubernetes string
	Nodes      int
	Image      string
	IPFamily   string
	KubeProxy  string
	Kubeconfig string
	// Say is told what is being done.
	Say func(string)
}

// ClusterActions make clusters and take them away.
type ClusterActions struct {
	// Up returns the path of the cluster's kubeconfig.
	Up   func(context.Context, UpRequest) (string, error)
	Down func(ctx context.Context, name string) error
	// Cleanup returns what it removed from this machine.
	Cleanup func(ctx context.Context) ([]string, error)
	// CleanupIn removes what runs left in somebody else's cluster.
	CleanupIn func(ctx context.Context, kubeconfig string) ([]string, error)
}

func newUp(up func(context.Context, UpRequest) (string, error)) *cobra.Command {
	var r UpRequest
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Make a kind cluster that can't send a packet out of this machine",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if r.Image != "" && !cmd.Flags().Changed("k8s") {
				r.Kubernetes = "" // what the image holds
			}
			if err := checkCluster(r.Nodes, kind.Config{Name: r.Name, Kubernetes: r.Kubernetes, Image: r.Image, IPFamily: r.IPFamily, KubeProxy: r.KubeProxy}); err != nil {
				return err
			}
			told := newProgress(cmd.ErrOrStderr())
			r.Say = told.say
			path, err := up(cmd.Context(), r)
			told.close()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "cluster %s is up: export KUBECONFIG=%s\n`lastcall down --name %s` takes it away\n", r.Name, path, r.Name)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&r.Name, "name", defaultName, "name of the cluster")
	f.StringVar(&r.Kubernetes, "k8s", defaultKubernetes, k8sHelp)
	f.IntVar(&r.Nodes, "nodes", defaultNodes, "number of nodes, the control plane among them")
	f.StringVar(&r.Image, "image", "", "node image, instead of the one for --k8s")
	f.StringVar(&r.IPFamily, "ip", "", ipHelp)
	f.StringVar(&r.KubeProxy, "kube-proxy", kind.DefaultKubeProxy, kubeProxyHelp)
	f.StringVar(&r.Kubeconfig, "kubeconfig", "", "file to write the kubeconfig to; it must not exist (default one of the suite's own)")
	return cmd
}

func newDown(down func(ctx context.Context, name string) error) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Take a cluster away that `lastcall up` made",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := down(cmd.Context(), name); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "cluster %s is gone\n", name)
			return err
		},
	}
	cmd.Flags().StringVar(&name, "name", defaultName, "name of the cluster")
	return cmd
}

func newCleanup(do ClusterActions) *cobra.Command {
	var kubeconfig string
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Remove all that runs of the suite left, also after a crash",
		Long: `Remove all that runs of the suite left on this machine: clusters that it made,
running ones too, their networks, routes and rules; and the folders and the
processes of runs on the host that were killed. A run on the host that lives keeps
its own. With --kubeconfig, what they left in that cluster instead: the namespaces
labelled lastcall.dev/run, what was made for them outside of namespaces, and, on
nodes that the suite made, what their pods left there (the mesh's CNI plugin, their
folders), and a cordon or a shutdown of the run's that was not undone. The images
that a run loaded into nodes stay.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cleanup := do.Cleanup
			if kubeconfig != "" {
				if err := checkKubeconfig(kubeconfig); err != nil {
					return err
				}
				cleanup = func(ctx context.Context) ([]string, error) { return do.CleanupIn(ctx, kubeconfig) }
			}
			removed, err := cleanup(cmd.Context())
			for _, what := range removed {
				fmt.Fprintf(cmd.OutOrStdout(), "removed %s\n", what)
			}
			if err == nil && len(removed) == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "nothing of ours was left")
			}
			return err
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "clean up in this cluster, which stays, instead of on this machine")
	return cmd
}

// Help that commands share.
var (
	k8sHelp = "Kubernetes version: " + strings.Join(nodeimage.Supported(), ", ")
	ipHelp  = "IP family of pods and services: ipv4, ipv6 or dual (default dual, where this machine has IPv6, else ipv4)"

	kubeProxyHelp = "kube-proxy's mode: iptables, nftables or, where this machine's kernel has it, ipvs"
)

// checkCluster refuses what can be refused before anything is started. To
// package kind, no nodes are the default.
func checkCluster(nodes int, config kind.Config) error {
	if nodes < 1 {
		return fmt.Errorf("--nodes %d: a cluster has one node at least", nodes)
	}
	config.Nodes = nodes
	return config.Check()
}

// checkKubeconfig refuses a file that names no cluster, before anything is
// dialled. clientcmd alone would fall back to the cluster that this process
// runs in, or to localhost.
func checkKubeconfig(path string) error {
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return fmt.Errorf("kubeconfig %s: it can't be read: %w", path, err)
	}
	var why string
	current, known := config.Contexts[config.CurrentContext]
	switch {
	case len(config.Contexts) == 0 && len(config.Clusters) == 0:
		why = "it holds neither a context nor a cluster"
	case config.CurrentContext == "":
		why = "it has no current-context; its contexts are " + strings.Join(slices.Sorted(maps.Keys(config.Contexts)), ", ")
	case !known:
		why = fmt.Sprintf("its current-context is %q, and it has no such context", config.CurrentContext)
	case config.Clusters[current.Cluster] == nil:
		why = fmt.Sprintf("its context %q is of the cluster %q, which it does not have", config.CurrentContext, current.Cluster)
	case config.Clusters[current.Cluster].Server == "":
		why = fmt.Sprintf("its cluster %q has no server", current.Cluster)
	}
	if why != "" {
		return fmt.Errorf("kubeconfig %s: it names no cluster: %s", path, why)
	}
	if _, err := clientcmd.BuildConfigFromFlags("", path); err != nil {
		return fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	return nil
}
