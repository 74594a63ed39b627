// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/lastcall-dev/lastcall/fixtures/deploy"
)

// Cleanup removes what runs left in a cluster, and says what that was: the
// namespaces with our label, and what was made for them outside of namespaces. There is nothing
// else of ours.
func Cleanup(ctx context.Context, kubeconfig string) ([]string, error) {
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
	return names, nil
}
