// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/lastcall-dev/lastcall/fixtures/discovery"
	"github.com/lastcall-dev/lastcall/fixtures/mesh"
	"github.com/lastcall-dev/lastcall/fixtures/zds"
)

// resolver is what discovery says of a destination.
func resolver(view *discovery.View) func(context.Context, netip.AddrPort) (mesh.Destination, error) {
	return func(_ context.Context, to netip.AddrPort) (mesh.Destination, error) {
		d := view.Resolve(to)
		w, known := view.Known(d.Addr.Addr())
		return mesh.Destination{
			Addr: d.Addr, Tunnel: d.HBONE, Peer: d.Identity, Nobody: d.Kind == discovery.NoEndpoint, Ends: known && !w.Healthy,
		}, nil
	}
}

// sourceWithin is how long a connection is held whose own pod discovery does not know: it hears of that
// when the pod's network stands, a second or two after the pod's proxy has.
const sourceWithin = 5 * time.Second

// errUnknownSource says why a connection is held no longer.
var errUnknownSource = errors.New("discovery has not told of the pod that it comes from")

// nodeResolver is what discovery says of a destination of a pod's on a node. It waits until it has told of
// the pod itself, as the node's agent has: who knows that knows what the pod may find, its peers that are
// in the mesh above all.
func nodeResolver(view *discovery.View, node string) func(context.Context, zds.Workload, netip.AddrPort) (mesh.Destination, error) {
	resolve := resolver(view)
	return func(ctx context.Context, from zds.Workload, to netip.AddrPort) (mesh.Destination, error) {
		within, cancel := context.WithTimeoutCause(ctx, sourceWithin, fmt.Errorf("%w within %v", errUnknownSource, sourceWithin))
		defer cancel()
		_, err := view.AwaitUID(within, discovery.PodUID(discovery.Cluster, from.Namespace, from.Name), func(w *discovery.Workload) bool {
			return w.Node == node && w.ServiceAccount == from.ServiceAccount
		})
		if err != nil {
			return mesh.Destination{}, err
		}
		return resolve(ctx, to)
	}
}

// deleted waits until discovery says that a pod is deleted.
func deleted(view *discovery.View) func(context.Context, zds.Workload) error {
	return func(ctx context.Context, of zds.Workload) error {
		_, err := view.AwaitUID(ctx, discovery.PodUID(discovery.Cluster, of.Namespace, of.Name), func(w *discovery.Workload) bool { return !w.Healthy })
		return err
	}
}
