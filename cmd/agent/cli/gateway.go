// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"io"
	"log"
	"os"

	"github.com/spf13/cobra"

	"github.com/lastcall-dev/lastcall/fixtures"
	"github.com/lastcall-dev/lastcall/fixtures/gateway"
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
	c.RunE = func(*cobra.Command, []string) error {
		var err error
		if cfg.Fault, err = fixtures.Find(gateway.Faults(), fault); err != nil {
			return usageError{err}
		}
		if cfg.Ledger, err = where.open(id.podUID, stderr); err != nil {
			return err
		}
		cfg.Pod, cfg.PodName, cfg.Node, cfg.Log = id.podUID, id.podName, id.node, stderr
		return errors.Join(runGateway(cfg, signals), closeLedger(cfg.Ledger))
	}
	return c
}

func runGateway(cfg gateway.Config, signals <-chan os.Signal) error {
	g, err := gateway.New(cfg)
	if err != nil {
		return usageError{err}
	}
	logger := log.New(cfg.Log, "gateway: ", log.LstdFlags)
	return runComponent(g, gateway.ErrNeverStarted, signals, logger, func() {
		logger.Printf("version %s, pod %s", version(), cfg.Pod)
		for _, name := range g.Listeners() {
			logger.Printf("%s on %s", name, g.Addr(name))
		}
	})
}
