// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"

	"github.com/lastcall-dev/lastcall/fixtures/controller"
	"github.com/lastcall-dev/lastcall/fixtures/discovery"
	"github.com/lastcall-dev/lastcall/fixtures/identity"
	"github.com/lastcall-dev/lastcall/fixtures/issuer"
	"github.com/lastcall-dev/lastcall/fixtures/redirect"
)

// member is what a proxy is told of the mesh that it is in, and of itself there.
type member struct {
	controllers, serverName, roots string
	token, pod, namespace          string
}

func (m *member) flags(f *pflag.FlagSet) {
	f.StringVar(&m.controllers, "controller", "", "IPs of the mesh's controllers, each of which will do: IP,IP")
	f.StringVar(&m.serverName, "server-name", "", "name of the controller in its certificate")
	f.StringVar(&m.roots, "roots", os.Getenv("LASTCALL_ROOTS"), "whom the mesh trusts, PEM; or LASTCALL_ROOTS")
	f.StringVar(&m.token, "token", "", "file of the service account token that the CA is shown")
	f.StringVar(&m.pod, "pod-name", os.Getenv("LASTCALL_POD_NAME"), "name of its pod; or LASTCALL_POD_NAME")
	f.StringVar(&m.namespace, "namespace", os.Getenv("LASTCALL_NAMESPACE"), "namespace of its pod; or LASTCALL_NAMESPACE")
}

// dialledWithin is how long one dial of all controllers may take.
const dialledWithin = 5 * time.Second

// upstream is what a proxy has of the mesh's controllers.
type upstream struct {
	of    *member
	conn  *grpc.ClientConn // to the CA
	known *discovery.Client
	log   *log.Logger
}

// join asks nobody yet.
func (m *member) join(logger *log.Logger) (*upstream, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(m.roots)) {
		return nil, usage("--roots: no certificate in PEM")
	}
	all, err := servers(m.controllers)
	if err != nil {
		return nil, err
	}
	dial := []grpc.DialOption{
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, ServerName: m.serverName})),
		grpc.WithContextDialer(dialController),
	}
	known, err := discovery.NewClient(discovery.ClientConfig{
		Addresses: all, Node: &corev3.Node{Id: m.pod + "." + m.namespace}, Dial: dial, Log: logger,
	})
	if err != nil {
		return nil, err
	}
	// For the CA any will do: the next one is dialled where one does not answer, also one that takes connections and says nothing
	// on them. The keeper of a certificate has pauses of its own, and the library's would last for two minutes behind a long outage.
	var dials atomic.Uint64
	patient := grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: dialledWithin, Backoff: backoff.Config{
		BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second,
	}})
	conn, err := grpc.NewClient("passthrough:///"+all[0], append(dial, patient, discovery.Alive(), grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		var errs []error
		first := int(dials.Add(1) - 1)
		for i := range all {
			c, err := dialController(ctx, all[(first+i)%len(all)])
			if err == nil {
				return c, nil
			}
			errs = append(errs, err)
		}
		return nil, errors.Join(errs...)
	}))...)
	if err != nil {
		return nil, err
	}
	return &upstream{of: m, conn: conn, known: known, log: logger}, nil
}

func (u *upstream) close() { _ = u.conn.Close() }

// keeper keeps a certificate of an identity, which is the proxy's own, or, where it is asked for as such,
// that of a pod that it serves.
func (u *upstream) keeper(id, as identity.ID) *identity.Keeper {
	return &identity.Keeper{
		ID: id, Issuer: issuer.Client{Conn: u.conn, Token: u.of.token, As: as}, Roots: []byte(u.of.roots), Log: u.log,
	}
}

// servers are the controllers' addresses, as a flag has their IPs.
func servers(ips string) ([]string, error) {
	var out []string
	for ip := range strings.SplitSeq(ips, ",") {
		if _, err := netip.ParseAddr(ip); err != nil {
			return nil, usage("--controller: %w", err)
		}
		out = append(out, net.JoinHostPort(ip, strconv.Itoa(controller.GRPCPort)))
	}
	return out, nil
}

// dialController dials one as the proxy itself, past the rules of a pod that it is in.
func dialController(ctx context.Context, to string) (net.Conn, error) {
	return redirect.Dialer(redirect.Mark, netip.Addr{}).DialContext(ctx, "tcp", to)
}
