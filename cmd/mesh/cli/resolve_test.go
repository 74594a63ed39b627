// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lastcall-dev/lastcall/fixtures/discovery"
	"github.com/lastcall-dev/lastcall/fixtures/identity"
	"github.com/lastcall-dev/lastcall/fixtures/mesh"
	"github.com/lastcall-dev/lastcall/fixtures/meshapi"
	"github.com/lastcall-dev/lastcall/fixtures/zds"
)

// told has a view know of a pod.
func told(v *discovery.View, name, node, account, ip string) {
	uid := discovery.PodUID(discovery.Cluster, "n", name)
	v.Update(map[string]*meshapi.Address{uid: {Type: &meshapi.Address_Workload{Workload: &meshapi.Workload{
		Uid: uid, Name: name, Namespace: "n", ServiceAccount: account, Node: node,
		Addresses: [][]byte{netip.MustParseAddr(ip).AsSlice()}, TunnelProtocol: meshapi.TunnelProtocol_HBONE,
	}}}}, nil)
}

// A connection is held until discovery has told of the pod that it comes from, as the agent has, and
// for so long at most.
func TestNodeResolver(t *testing.T) {
	from := zds.Workload{UID: "u", Name: "a", Namespace: "n", ServiceAccount: "sa"}
	to := netip.MustParseAddrPort("10.0.0.2:80")
	outside := netip.MustParseAddrPort("192.0.2.1:80")
	peer := mesh.Destination{Addr: to, Tunnel: true, Peer: identity.ID{TrustDomain: identity.TrustDomain, Namespace: "n", ServiceAccount: "peer"}}
	for name, c := range map[string]struct {
		does func(*discovery.View) // 2 s after the connection
		to   netip.AddrPort
		want mesh.Destination
		held time.Duration
		err  error
	}{
		"it is told":              {func(v *discovery.View) { told(v, "a", "n1", "sa", "10.0.0.1") }, to, peer, 2 * time.Second, nil},
		"it is told, and goes on": {func(v *discovery.View) { told(v, "a", "n1", "sa", "10.0.0.1") }, outside, mesh.Destination{Addr: outside}, 2 * time.Second, nil},
		"another pod is":          {func(v *discovery.View) { told(v, "b", "n1", "sa", "10.0.0.1") }, to, mesh.Destination{}, sourceWithin, errUnknownSource},
		"a namesake elsewhere is": {func(v *discovery.View) { told(v, "a", "n2", "sa", "10.0.0.1") }, to, mesh.Destination{}, sourceWithin, errUnknownSource},
		"one of another account":  {func(v *discovery.View) { told(v, "a", "n1", "other", "10.0.0.1") }, to, mesh.Destination{}, sourceWithin, errUnknownSource},
		"nothing is":              {func(*discovery.View) {}, to, mesh.Destination{}, sourceWithin, errUnknownSource},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := discovery.NewView()
				told(v, "peer", "n2", "peer", "10.0.0.2")
				resolve := nodeResolver(v, "n1")
				begun := time.Now()
				time.AfterFunc(2*time.Second, func() { c.does(v) })
				got, err := resolve(t.Context(), from, c.to)
				if held := time.Since(begun); got != c.want || !errors.Is(err, c.err) || held != c.held {
					t.Errorf("%+v, %v after %v, want %+v, %v after %v", got, err, held, c.want, c.err, c.held)
				}
				if c.err == nil {
					begun := time.Now()
					if got, err := resolve(t.Context(), from, c.to); got != c.want || err != nil || time.Since(begun) > 0 {
						t.Errorf("the next one: %+v, %v after %v", got, err, time.Since(begun))
					}
				}
			})
		})
	}
}

// A pod that ends holds no connection.
func TestNodeResolverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("it has ended")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		begun := time.Now()
		_, err := nodeResolver(discovery.NewView(), "n1")(ctx, zds.Workload{Name: "a", Namespace: "n"}, netip.MustParseAddrPort("10.0.0.2:80"))
		if !errors.Is(err, why) || time.Since(begun) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}

// Discovery says of a pod that is deleted that it is not healthy.
func TestDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := discovery.NewView()
		over := make(chan error, 1)
		go func() { over <- deleted(v)(t.Context(), zds.Workload{Name: "a", Namespace: "n"}) }()
		told(v, "a", "n1", "sa", "10.0.0.1")
		synctest.Wait()
		select {
		case err := <-over:
			t.Fatalf("of one that lives: %v", err)
		default:
		}
		uid := discovery.PodUID(discovery.Cluster, "n", "a")
		v.Update(map[string]*meshapi.Address{uid: {Type: &meshapi.Address_Workload{Workload: &meshapi.Workload{
			Uid: uid, Name: "a", Namespace: "n", Status: meshapi.WorkloadStatus_UNHEALTHY,
		}}}}, nil)
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}
