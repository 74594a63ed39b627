// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lastcall-dev/lastcall/fixtures"
	"github.com/lastcall-dev/lastcall/fixtures/echo"
	"github.com/lastcall-dev/lastcall/load/control"
)

// ledgerEnd bounds the wait for a collector's last word.
const ledgerEnd = 5 * time.Second

func echoCommand(signals <-chan os.Signal, stderr io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "echo", Short: "The reference application: HTTP/1.1 and h2c, with a drain and a ledger", Args: noArgs}
	id := identityFlags(c)
	var cfg echo.Config
	var where ledgerFlags
	var fault string
	f := c.Flags()
	f.StringVar(&cfg.Listen, "listen", ":8080", "address of work, /readyz and /livez")
	f.StringVar(&cfg.ProbeListen, "probe-listen", "", "second address of /readyz and /livez")
	f.StringVar(&where.dir, "ledger", "", "folder for the ledger, which outlives the pod (hostPath)")
	f.StringVar(&where.collector, "collector", "", "host:port of a collector that keeps the ledger instead")
	f.StringVar(&where.tls, "tls", "", "folder with ca.crt, tls.crt and tls.key for the collector")
	f.DurationVar(&cfg.Drain.Min, "min-drain", 5*time.Second, "how long after SIGTERM, or the preStop hook, it stays ready")
	f.DurationVar(&cfg.Drain.Unready, "unready", 2*time.Second, "how long after that it goes on accepting: above probe period x failure threshold")
	f.DurationVar(&cfg.Drain.Deadline, "deadline", 20*time.Second, "when, after SIGTERM or the preStop hook, the rest is cut: below the grace period")
	f.DurationVar(&cfg.Startup, "startup", 0, "how long it takes before it listens")
	f.DurationVar(&cfg.Grace, "grace", 0, "the pod's grace period, for the fault that drains over all of it")
	f.StringVar(&cfg.State, "state", "", "folder that outlives the container and not the pod, for the fault that remembers a drain")
	f.StringVar(&fault, "fault", "", "break it on purpose: "+faultNames())
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

func faultNames() string {
	var names []string
	for _, f := range echo.Faults() {
		names = append(names, string(f.Name))
	}
	return strings.Join(names, ", ")
}

func runEcho(cfg echo.Config, signals <-chan os.Signal) error {
	app, err := echo.New(cfg)
	if err != nil {
		return usageError{err}
	}
	logger := log.New(cfg.Log, "echo: ", log.LstdFlags)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		for {
			select {
			case s := <-signals:
				logger.Printf("%v", s)
				app.Drain(signalName(s))
			case <-ctx.Done():
				return
			}
		}
	}()
	if err := app.Start(ctx); errors.Is(err, echo.ErrNeverStarted) {
		logger.Print(err)
		return nil
	} else if err != nil {
		return err
	}
	logger.Printf("version %s, pod %s on %s", version(), cfg.Pod, app.Addr())
	return app.Wait()
}

func signalName(s os.Signal) string {
	if s == os.Interrupt {
		return "SIGINT"
	}
	return "SIGTERM"
}

type ledgerFlags struct{ dir, collector, tls string }

func (l ledgerFlags) open(pod string, stderr io.Writer) (echo.Ledger, error) {
	switch {
	case (l.dir == "") == (l.collector == ""):
		return nil, usage("give either --ledger (a folder that outlives the pod) or --collector (an address)")
	case l.dir != "":
		return echo.OpenFileLedger(l.dir, pod)
	case l.tls == "":
		return nil, usage("--collector needs --tls: a folder with this pod's credentials")
	}
	creds, err := control.ReadCredentials(l.tls)
	if err != nil {
		return nil, err
	}
	config, err := creds.ClientTLS()
	if err != nil {
		return nil, err
	}
	return echo.NewRemoteLedger(l.collector, config, pod, stderr)
}

func closeLedger(l echo.Ledger) error {
	ctx, cancel := context.WithTimeout(context.Background(), ledgerEnd)
	defer cancel()
	if err := l.Sync(ctx); err != nil {
		return errors.Join(fmt.Errorf("the ledger's end is not confirmed: %w", err), l.Close())
	}
	return l.Close()
}
