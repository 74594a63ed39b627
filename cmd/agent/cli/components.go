// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"io"
	"log"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lastcall-dev/lastcall/cmd/component"
	"github.com/lastcall-dev/lastcall/fixtures"
	"github.com/lastcall-dev/lastcall/fixtures/drain"
	"github.com/lastcall-dev/lastcall/fixtures/echo"
	"github.com/lastcall-dev/lastcall/fixtures/gateway"
	"github.com/lastcall-dev/lastcall/fixtures/shutdown"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// row is one reference component, as the agent runs it.
type row struct {
	name, short string
	faults      []fixtures.Fault
	// outlives is what its ledger does, tls the flag with the credentials of a collector, and
	// calls what else than SIGTERM begins its drain.
	outlives, tls, calls string
	// flags adds its own, and returns what runs it when they have been read.
	flags func(*pflag.FlagSet) func(started) error
}

// started is what each component is given when it is run.
type started struct {
	identity
	drain   drain.Settings
	ledger  echo.Ledger
	fault   spec.Fault
	log     io.Writer
	signals <-chan os.Signal
}

// logger is for what the agent itself says of a component.
func (s started) logger(name string) *log.Logger { return log.New(s.log, name+": ", log.LstdFlags) }

// components are all reference components. A new one is a row.
func components() []row {
	return []row{
		{
			name: "echo", short: "The reference application: HTTP/1.1, h2c, TLS and opaque TCP, with a drain and a ledger",
			faults: echo.Faults(), outlives: "the pod (hostPath)", tls: "tls", calls: "the preStop hook", flags: echoFlags,
		},
		{
			name: "gateway", short: "The reference gateway: a reverse proxy for HTTP/1.1 and HTTP/2, and opaque TCP, with a drain",
			faults: managedFaults(), outlives: "the instance", tls: "collector-tls", calls: "the drain call", flags: gatewayFlags,
		},
	}
}

// managedFaults are those of a gateway, and of the shutdown manager beside it: a pod of both is
// given one fault, and each of its programs looks whether it is its own.
func managedFaults() []fixtures.Fault { return slices.Concat(gateway.Faults(), shutdown.Faults()) }

func (r row) command(signals <-chan os.Signal, stderr io.Writer) *cobra.Command {
	c := &cobra.Command{Use: r.name, Short: r.short, Args: noArgs}
	with := started{log: stderr, signals: signals}
	id := identityFlags(c)
	where := newLedgerFlags(c, r.tls, r.outlives)
	drainFlags(c, &with.drain, r.calls)
	var fault string
	faultFlag(c, &fault, r.faults)
	run := r.flags(c.Flags())
	c.RunE = func(*cobra.Command, []string) error {
		var err error
		if with.fault, err = fixtures.Find(r.faults, fault); err != nil {
			return usageError{err}
		}
		if err := with.drain.Validate(); err != nil {
			return usageError{err}
		}
		with.identity = *id
		if with.ledger, err = where.open(id.podUID, stderr); err != nil {
			return err
		}
		return errors.Join(run(with), closeLedger(with.ledger))
	}
	return c
}

func echoFlags(f *pflag.FlagSet) func(started) error {
	var cfg echo.Config
	f.StringVar(&cfg.Listen, "listen", ":8080", "address of work, /readyz and /livez")
	f.StringVar(&cfg.ProbeListen, "probe-listen", "", "second address of /readyz and /livez")
	f.StringVar(&cfg.TCP, "tcp", "", "address of talks in opaque TCP")
	f.StringVar(&cfg.TLS, "https", "", "address of work in TLS, in HTTP/1.1")
	f.StringVar(&cfg.Cert, "cert", "", "PEM file with the certificate of --https")
	f.StringVar(&cfg.Key, "key", "", "PEM file with the key of --cert")
	f.DurationVar(&cfg.Startup, "startup", 0, "how long it takes before it listens")
	f.DurationVar(&cfg.Grace, "grace", 0, "the pod's grace period, for the fault that drains over all of it")
	f.DurationVar(&cfg.Watch, "watch", 0, "tell what the other sides of connections do that it ends, for so long; 0: tell nothing")
	var out calls
	f.StringVar(&out.what, "calls", "", "what it sends out itself from SIGUSR1 on, to SIGUSR2 or its drain's end: streams of load.Stream, in JSON")
	f.BoolVar(&out.atOnce, "calls-at-once", false, "begin them at the start, before anything listens, and not at a signal")
	f.StringVar(&cfg.State, "state", "", "folder that outlives the container and not the pod, for the fault that remembers a drain")
	return func(s started) error {
		cfg.Pod, cfg.PodName, cfg.Node, cfg.Log = s.podUID, s.podName, s.node, s.log
		cfg.Drain, cfg.Ledger, cfg.Fault = s.drain, s.ledger, s.fault
		logger := s.logger("echo")
		if out.what != "" {
			stop, err := out.ready(cfg.Pod, s.ledger, logger)
			if err != nil {
				return usageError{err}
			}
			defer stop()
			cfg.Calls = &out
		}
		app, err := echo.New(cfg)
		if err != nil {
			return usageError{err}
		}
		return component.Run(app, echo.ErrNeverStarted, s.signals, logger, func() {
			logger.Printf("version %s, pod %s on %s", version(), cfg.Pod, app.Addr())
		})
	}
}

func gatewayFlags(f *pflag.FlagSet) func(started) error {
	var cfg gateway.Config
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
	var m management
	f.BoolVar(&m.managed, "managed", false, "leave its end to a shutdown manager, and leave at SIGTERM at once; so it is with each fault of that one's")
	f.StringVar(&m.own, "own-manager", "", "file of a shutdown manager in this process, for a gateway that is managed and has no pod: SIGTERM is the pod's deletion then")
	return func(s started) error {
		cfg.Pod, cfg.PodName, cfg.Node, cfg.Log = s.podUID, s.podName, s.node, s.log
		cfg.Drain, cfg.Ledger = s.drain, s.ledger
		if fixtures.Has(shutdown.Faults(), s.fault) {
			m.managed, m.fault = true, s.fault // the gateway itself is whole
		} else {
			cfg.Fault = s.fault
		}
		return runGateway(cfg, m, s.signals)
	}
}
