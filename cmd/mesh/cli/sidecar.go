// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/lastcall-dev/lastcall/cmd/component"
	"github.com/lastcall-dev/lastcall/fixtures/appsockets"
	"github.com/lastcall-dev/lastcall/fixtures/controller"
	"github.com/lastcall-dev/lastcall/fixtures/discovery"
	"github.com/lastcall-dev/lastcall/fixtures/identity"
	"github.com/lastcall-dev/lastcall/fixtures/injector"
	"github.com/lastcall-dev/lastcall/fixtures/issuer"
	"github.com/lastcall-dev/lastcall/fixtures/mesh"
	"github.com/lastcall-dev/lastcall/fixtures/redirect"
	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
)

func sidecarCommand(signals Signals, stderr io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "sidecar", Short: "The data path of one pod, which lives as long as its app", Args: cobra.NoArgs}
	var settings, address, serverName, pod, token, namespace, account, roots string
	var grace time.Duration
	f := c.Flags()
	f.StringVar(&settings, "settings", "{}", "how it stands in its pod, and when it leaves (sidecar.Settings, in YAML)")
	f.StringVar(&address, "controller", "", "IP of the mesh's controller")
	f.StringVar(&serverName, "server-name", "", "name of the controller in its certificate")
	f.StringVar(&token, "token", "", "file of the service account token that the CA is shown")
	f.StringVar(&pod, "pod-name", os.Getenv("LASTCALL_POD_NAME"), "name of the pod; or LASTCALL_POD_NAME")
	f.StringVar(&namespace, "namespace", os.Getenv("LASTCALL_NAMESPACE"), "namespace of the pod; or LASTCALL_NAMESPACE")
	f.StringVar(&account, "service-account", os.Getenv("LASTCALL_SERVICE_ACCOUNT"), "service account of the pod; or LASTCALL_SERVICE_ACCOUNT")
	f.StringVar(&roots, "roots", os.Getenv("LASTCALL_ROOTS"), "whom the mesh trusts, PEM; or LASTCALL_ROOTS")
	f.DurationVar(&grace, "grace", 30*time.Second, "the pod's grace period")
	c.RunE = func(*cobra.Command, []string) error {
		s, err := sidecar.Parse(settings)
		if err != nil {
			return usageError{err}
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(roots)) {
			return usage("--roots: no certificate in PEM")
		}
		if _, err := netip.ParseAddr(address); err != nil {
			return usage("--controller: %w", err)
		}
		logger := log.New(stderr, "sidecar: ", log.LstdFlags|log.Lmicroseconds)
		to := net.JoinHostPort(address, strconv.Itoa(controller.GRPCPort))
		dial := []grpc.DialOption{
			grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, ServerName: serverName})),
			grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				return redirect.Dialer(redirect.Mark, netip.Addr{}).DialContext(ctx, "tcp", addr)
			}),
		}
		conn, err := grpc.NewClient("passthrough:///"+to, dial...)
		if err != nil {
			return err
		}
		defer conn.Close()
		keeper := &identity.Keeper{
			ID:     identity.ID{TrustDomain: identity.TrustDomain, Namespace: namespace, ServiceAccount: account},
			Issuer: issuer.Client{Conn: conn, Token: token}, Roots: []byte(roots), Log: logger,
		}
		known, err := discovery.NewClient(discovery.ClientConfig{
			Addresses: []string{to}, Node: &corev3.Node{Id: pod + "." + namespace}, Dial: dial, Log: logger,
		})
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go known.Run(ctx)
		view := known.View()
		car := sidecar.New(sidecar.Config{
			Settings: s, Grace: grace, Listen: mesh.Listen, Known: view.WaitFor, Sockets: appsockets.Others,
			Health: ":" + strconv.Itoa(injector.HealthPort), Admin: s.Admin(), Log: logger,
			Path: mesh.Config{Network: mesh.Pod{}, Keeper: keeper, Resolve: resolver(view), Log: logger},
		})
		go func() {
			select {
			case <-signals.Hide:
				car.Hide()
			case <-ctx.Done():
			}
		}()
		return component.Run(car, sidecar.ErrNeverStarted, signals.End, logger, func() { logger.Print("serves") })
	}
	return c
}

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
