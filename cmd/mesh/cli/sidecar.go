// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
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
	f.StringVar(&address, "controller", "", "IPs of the mesh's controllers, each of which will do: IP,IP")
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
		all, err := servers(address)
		if err != nil {
			return err
		}
		logger := log.New(stderr, "sidecar: ", log.LstdFlags|log.Lmicroseconds)
		dial := []grpc.DialOption{
			grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, ServerName: serverName})),
			grpc.WithContextDialer(dialController),
		}
		// For the CA any will do: the next one is dialled where one does not answer.
		conn, err := grpc.NewClient("passthrough:///"+all[0], append(dial, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			var errs []error
			for _, to := range all {
				c, err := dialController(ctx, to)
				if err == nil {
					return c, nil
				}
				errs = append(errs, err)
			}
			return nil, errors.Join(errs...)
		}))...)
		if err != nil {
			return err
		}
		defer conn.Close()
		keeper := &identity.Keeper{
			ID:     identity.ID{TrustDomain: identity.TrustDomain, Namespace: namespace, ServiceAccount: account},
			Issuer: issuer.Client{Conn: conn, Token: token}, Roots: []byte(roots), Log: logger,
		}
		known, err := discovery.NewClient(discovery.ClientConfig{
			Addresses: all, Node: &corev3.Node{Id: pod + "." + namespace}, Dial: dial, Log: logger,
		})
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go known.Run(ctx)
		view := known.View()
		car := sidecar.New(sidecar.Config{
			Settings: s, Grace: grace, Listen: mesh.Pod{}.Listen, Known: view.WaitFor, Sockets: appsockets.Others,
			DropLookups: func() error { return redirect.DropLookups(nil) },
			Health:      ":" + strconv.Itoa(injector.HealthPort), Admin: s.Admin(), Log: logger,
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

// dialController dials one as the sidecar itself, past the pod's own rules.
func dialController(ctx context.Context, to string) (net.Conn, error) {
	return redirect.Dialer(redirect.Mark, netip.Addr{}).DialContext(ctx, "tcp", to)
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
