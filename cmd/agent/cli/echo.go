// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"io"
	"log"
	"os"

	"github.com/spf13/cobra"

	"github.com/lastcall-dev/lastcall/fixtures"
	"github.com/lastcall-dev/lastcall/fixtures/echo"
)

func echoCommand(signals <-chan os.Signal, stderr io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "echo", Short: "The reference application: HTTP/1.1, h2c, TLS and opaque TCP, with a drain and a ledger", Args: noArgs}
	id := identityFlags(c)
	var cfg echo.Config
	var fault string
	f := c.Flags()
	f.StringVar(&cfg.Listen, "listen", ":8080", "address of work, /readyz and /livez")
	f.StringVar(&cfg.ProbeListen, "probe-listen", "", "second address of /readyz and /livez")
	f.StringVar(&cfg.TCP, "tcp", "", "address of talks in opaque TCP")
	f.StringVar(&cfg.TLS, "https", "", "address of work in TLS, in HTTP/1.1")
	f.StringVar(&cfg.Cert, "cert", "", "PEM file with the certificate of --https")
	f.StringVar(&cfg.Key, "key", "", "PEM file with the key of --cert")
	where := newLedgerFlags(c, "tls", "the pod (hostPath)")
	drainFlags(c, &cfg.Drain, "the preStop hook")
	f.DurationVar(&cfg.Startup, "startup", 0, "how long it takes before it listens")
	f.DurationVar(&cfg.Grace, "grace", 0, "the pod's grace period, for the fault that drains over all of it")
	f.DurationVar(&cfg.Watch, "watch", 0, "tell what the other sides of connections do that it ends, for so long; 0: tell nothing")
	f.StringVar(&cfg.State, "state", "", "folder that outlives the container and not the pod, for the fault that remembers a drain")
	faultFlag(c, &fault, echo.Faults())
	c.RunE = func(*cobra.Command, []string) error {
		var err error
		if cfg.Fault, err = fixtures.Find(echo.Faults(), fault); err != nil {
			return usageError{err}
		}
		if err := cfg.Drain.Validate(); err != nil {
			return usageError{err}
		}
		if cfg.Ledger, err = where.open(id.podUID, stderr); err != nil {
			return err
		}
		cfg.Pod, cfg.PodName, cfg.Node, cfg.Log = id.podUID, id.podName, id.node, stderr
		return errors.Join(runEcho(cfg, signals), closeLedger(cfg.Ledger))
	}
	return c
}

func runEcho(cfg echo.Config, signals <-chan os.Signal) error {
	app, err := echo.New(cfg)
	if err != nil {
		return usageError{err}
	}
	logger := log.New(cfg.Log, "echo: ", log.LstdFlags)
	return runComponent(app, echo.ErrNeverStarted, signals, logger, func() {
		logger.Printf("version %s, pod %s on %s", version(), cfg.Pod, app.Addr())
	})
}
