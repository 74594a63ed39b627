// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command podnet is the pod network of a node: it writes the CNI configuration for
// the node's pod subnets and keeps a route to each other node's. It runs once on each
// node, in the node's network namespace, with NET_ADMIN and the right to read nodes.
//
// Environment: NODE_NAME, this node; POD_SUBNET, the cluster's pod subnets, comma
// separated; CONTROL_PLANE_ENDPOINT, host:port of the API server, so that nothing
// waits for kube-proxy (optional: without it the API server's Service is used).
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const (
	confDir = "/etc/cni/net.d"
	// again is how long a route that somebody else removed stays away at most.
	again = 10 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		slog.Error("podnet ends", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	self := os.Getenv("NODE_NAME")
	if self == "" {
		return errors.New("NODE_NAME is not set: the DaemonSet must pass spec.nodeName")
	}
	subnets, err := prefixes(os.Getenv("POD_SUBNET"))
	if err != nil {
		return fmt.Errorf("POD_SUBNET: %w", err)
	}
	client, err := apiClient(os.Getenv("CONTROL_PLANE_ENDPOINT"))
	if err != nil {
		return err
	}
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default: // one is waiting already, and it will see this change too
		}
	}
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(client, "nodes", metav1.NamespaceAll, fields.Everything()),
		ObjectType:    &corev1.Node{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { notify() },
			UpdateFunc: func(any, any) { notify() },
			DeleteFunc: func(any) { notify() },
		},
	})
	go informer.RunWithContext(ctx)
	go func() {
		// The last node of the first list may be told before the list counts as complete.
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			notify()
		}
	}()

	p := podnet{
		self: self, subnets: subnets, confDir: confDir,
		proxy:    &http.Client{Timeout: time.Second},
		deadline: time.Now().Add(servicesWithin),
	}
	timer := time.NewTimer(again)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-changed:
		}
		timer.Reset(again)
		// With half a list, routes to nodes that exist would be removed.
		if !informer.HasSynced() {
			continue
		}
		var nodes []*corev1.Node
		for _, item := range store.List() {
			nodes = append(nodes, item.(*corev1.Node))
		}
		switch err := p.reconcile(ctx, nodes); {
		case errors.Is(err, errServices):
			timer.Reset(servicesPoll)
		case err != nil:
			slog.Error("will try again", "in", again, "error", err)
		}
	}
}

// podnet is one node's part of the pod network.
type podnet struct {
	self     string
	subnets  []netip.Prefix
	confDir  string
	proxy    *http.Client
	deadline time.Time // until then the first CNI configuration waits for kube-proxy
}

// errServices means that pods could not reach Services yet.
var errServices = errors.New("waiting for kube-proxy")

// reconcile sets the routes first: no pod may start before packets for the dead are
// refused. And none should start before Services work: its first packets to one would
// leave the node untranslated, and the kernel remembers that for the whole connection,
// so that CoreDNS would come up half a minute late.
func (p podnet) reconcile(ctx context.Context, nodes []*corev1.Node) error {
	routes, err := routesFor(p.self, nodes, p.subnets)
	if err != nil {
		return err
	}
	n, err := apply(routes)
	if n > 0 {
		slog.Info("routes", "changed", n, "wanted", len(routes))
	}
	if err != nil {
		return err
	}
	at := slices.IndexFunc(nodes, func(n *corev1.Node) bool { return n.Name == p.self })
	if at < 0 {
		return nil
	}
	cidrs, err := podCIDRs(nodes[at])
	if err != nil || len(cidrs) == 0 {
		return err
	}
	if _, err := os.Stat(filepath.Join(p.confDir, conflistName)); errors.Is(err, os.ErrNotExist) {
		if err := servicesProgrammed(ctx, p.proxy, kubeProxyURL, cidrs); err != nil {
			if time.Now().Before(p.deadline) {
				return fmt.Errorf("%w: %w", errServices, err)
			}
			slog.Warn("going on without Services", "waited", servicesWithin, "last", err)
		}
	}
	mtu, err := mtuOf([]netip.Addr{addressOf(nodes[at], false), addressOf(nodes[at], true)})
	if err != nil {
		return err
	}
	content, err := render(cidrs, mtu)
	if err != nil {
		return err
	}
	wrote, err := install(p.confDir, content)
	if wrote {
		slog.Info("CNI configuration written", "podCIDRs", cidrs, "mtu", mtu)
	}
	return err
}

// apiClient reads core/v1 objects as the pod's service account. Its scheme holds
// nothing else, which makes the program a third of the size that the full clientset
// gives.
func apiClient(endpoint string) (rest.Interface, error) {
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("not in a pod: %w", err)
	}
	if endpoint != "" {
		config.Host = "https://" + endpoint
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config.APIPath = "/api"
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	return rest.RESTClientFor(config)
}
