// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/lastcall-dev/lastcall/fixtures/deploy"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
)

// Cleanup removes what runs left in a cluster, and says what that was: the
// namespaces with our label, and what was made for them outside of namespaces. On nodes that the suite made, where
// on is not nil, it removes their folders too. There is nothing else of ours.
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
	if err := deploy.Remove(ctx, cs, objects, "", downBudget); err != nil {
		return nil, err
	}
	if on == nil {
		return names, nil
	}
	nodes, err := cs.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("the nodes: %w", err)
	}
	return names, sweep(ctx, on, nodes.Items)
}

// sweep removes the folders of nodes in which pods of the suite keep files, when no such pod is left: an agent
// leaves its sockets to its successor, and a namespace that goes takes no time to end one well.
func sweep(ctx context.Context, on disrupt.NodeShell, nodes []corev1.Node) error {
	errs := make([]error, len(nodes))
	var each sync.WaitGroup
	for i, n := range nodes {
		each.Go(func() {
			if _, err := on.Exec(ctx, n.Name, "rm", "-rf", deploy.LedgerRoot, deploy.RunRoot); err != nil {
				errs[i] = fmt.Errorf("what the suite's pods left on node %s: %w", n.Name, err)
			}
		})
	}
	each.Wait()
	return errors.Join(errs...)
}
