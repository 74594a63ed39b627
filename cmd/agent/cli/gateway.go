// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"io"
	"log"
	"os"

	"github.com/spf13/cobra"

	"github.com/lastcall-dev/lastcall/fixtures"
	"github.com/lastcall-dev/lastcall/fixtures/gateway"
	"github.com/lastcall-dev/lastcall/fixtures/shutdown"
)

func gatewayCommand(signals <-chan os.Signal, stderr io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "gateway", Short: "The reference gateway: a reverse proxy for HTTP/1.1 and HTTP/2, and opaque TCP, with a drain", Args: noArgs}
	id := identityFlags(c)
	var cfg gateway.Config
	var fault string
	f := c.Flags()
	f.StringVar(&cfg.HTTP1, "http1", "", "address of HTTP/1.1")
	f.StringVar(&cfg.H2C, "h2c", "", "address of HTTP/2 in plaintext, with prior knowledge")
	f.StringVar(&cfg.TLS, "tls", "", "address of HTTP/2 and HTTP/1.1 in TLS, by ALPN")
	f.StringVar(&cfg.Cert, "cert", "", "PEM file with the certificate of --tls")
	f.StringVar(&cfg.Key, "key", "", "PEM file with the key of --cert")
	f.StringSliceVar(&cfg.Backends, "backends", nil, "host:port,... where requests go, as HTTP/1.1")
	f.StringVar(&cfg.TCP, "tcp", "", "address of opaque TCP")
	f.StringSliceVar(&cfg.TCPBackends, "tcp-backends", nil, "host:port,... where opaque streams go")
	f.StringVar(&cfg.BackendTLS, "backend-tls", "", "address of HTTP/1.1 that is passed on in TLS")
	f.StringSliceVar(&cfg.TLSBackends, "tls-backends", nil, "host:port,... where it goes")
	f.StringVar(&cfg.BackendCA, "backend-ca", "", "PEM file of who signs the certificates of --tls-backends")
	f.StringVar(&cfg.Health, "health", "", "address of /readyz, /livez, /lbz (what a load balancer asks) and /gauges")
	f.StringVar(&cfg.Admin, "admin", "", "loopback address on which POST /drain begins the drain")
	where := newLedgerFlags(c, "collector-tls", "the instance")
	drainFlags(c, &cfg.Drain, "the drain call")
	faultFlag(c, &fault, gateway.Faults())
	var m management
	f.BoolVar(&m.managed, "managed", false, "leave its end to a shutdown manager, and leave at SIGTERM at once; so it is with each fault of that one's")
	f.StringVar(&m.own, "own-manager", "", "file of a shutdown manager in this process, for a gateway that is managed and has no pod: SIGTERM is the pod's deletion then")
	c.RunE = func(*cobra.Command, []string) error {
		var err error
		if cfg.Fault, err = fixtures.Find(gateway.Faults(), fault); err != nil {
			return usageError{err}
		}
		if cfg.Ledger, err = where.open(id.podUID, stderr); err != nil {
			return err
		}
		cfg.Pod, cfg.PodName, cfg.Node, cfg.Log = id.podUID, id.podName, id.node, stderr
		m.managed = m.managed || fixtures.Has(shutdown.Faults(), cfg.Fault)
		return errors.Join(runGateway(cfg, m, signals), closeLedger(cfg.Ledger))
	}
	return c
}

// management is who ends a gateway: itself, unless it is managed.
type management struct {
	managed bool
	own     string // the file of a manager in this process; empty: there is none
}

func runGateway(cfg gateway.Config, by management, signals <-chan os.Signal) error {
	logger := log.New(cfg.Log, "gateway: ", log.LstdFlags)
	own := ownManager{done: by.own, fault: cfg.Fault, log: logger}
	within := by.managed && by.own != ""
	if within {
		if err := own.take(&cfg); err != nil {
			return usageError{err}
		}
	}
	g, err := gateway.New(cfg)
	if err != nil {
		return usageError{err}
	}
	var c component = g
	if by.managed {
		m := &managed{Gateway: g, term: make(chan struct{})}
		if within {
			m.hook = func(ctx context.Context) { own.hook(ctx, cfg, g) }
		}
		c = m
	}
	return runComponent(c, gateway.ErrNeverStarted, signals, logger, func() {
		if within {
			if err := own.begin(context.Background(), drainURL(g)); err != nil {
				logger.Print(err)
			}
		}
		logger.Printf("version %s, pod %s", version(), cfg.Pod)
		for _, name := range g.Listeners() {
			logger.Printf("%s on %s", name, g.Addr(name))
		}
	})
}
