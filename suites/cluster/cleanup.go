// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/lastcall-dev/lastcall/fixtures/cni/installer"
	"github.com/lastcall-dev/lastcall/fixtures/deploy"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
)

// Cleanup removes what runs left in a cluster, and says what that was: the
// namespaces with our label, and what was made for them outside of namespaces. On nodes that the suite made, where
// on is not nil, it undoes a cordon and a shutdown too, and removes what pods left there. There is nothing else of ours.
func Cleanup(ctx context.Context, kubeconfig string, on disrupt.NodeShell) ([]string, error) {
	conf, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	cs, err := kubernetes.NewForConfig(conf)
	if err != nil {
		return nil, fmt.Errorf("a client for the cluster: %w", err)
	}
	objects, err := deploy.Client(conf)
	if err != nil {
		return nil, err
	}
	list, err := cs.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: deploy.RunLabel})
	if err != nil {
		return nil, fmt.Errorf("the namespaces of runs: %w", err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, "namespace "+list.Items[i].Name)
		scoped, err := deploy.ScopedOf(&list.Items[i])
		if err != nil {
			return nil, err
		}
		for _, o := range scoped {
			names = append(names, o.String())
		}
	}
	var nodes []corev1.Node
	if on != nil {
		list, err := cs.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("the nodes: %w", err)
		}
		nodes = list.Items
	}
	// First, so that pods end on nodes that are as they were.
	undone, notUndone := disrupt.GiveBack(ctx, cs, on, nodes)
	if err := deploy.Remove(ctx, cs, objects, "", downBudget); err != nil {
		return undone, errors.Join(notUndone, err)
	}
	swept, err := sweep(ctx, on, nodes)
	return slices.Concat(undone, names, swept), errors.Join(notUndone, err)
}

// leavings are what pods of the suite may leave on a node, in the order in which it goes: the list of the mesh's CNI
// plugin before its program. Their installer is given a second to end, and may be killed before it has taken them
// away; an agent leaves its sockets to its successor, and a namespace that goes takes no time to end one well.
func leavings() []string {
	plugin := installer.Installer{Lists: deploy.PluginLists, Plugins: deploy.PluginPrograms}
	return append(plugin.Files(), deploy.LedgerRoot, deploy.RunRoot)
}

// sweep removes what pods of the suite left on nodes, when no such pod is left, and says what that was.
func sweep(ctx context.Context, on disrupt.NodeShell, nodes []corev1.Node) ([]string, error) {
	swept, errs := make([][]string, len(nodes)), make([]error, len(nodes))
	all := leavings()
	var each sync.WaitGroup
	for i, n := range nodes {
		each.Go(func() {
			// It takes them in their order, and says of each one that was there, in quotes.
			said, err := on.Exec(ctx, n.Name, append([]string{"rm", "-rfv"}, all...)...)
			if err != nil {
				errs[i] = fmt.Errorf("what the suite's pods left on node %s: %w", n.Name, err)
				return
			}
			for _, path := range all {
				if strings.Contains(said, "'"+path+"'") {
					swept[i] = append(swept[i], path+" of node "+n.Name)
				}
			}
		})
	}
	each.Wait()
	return slices.Concat(swept...), errors.Join(errs...)
}
