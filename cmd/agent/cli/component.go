// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lastcall-dev/lastcall/fixtures"
	"github.com/lastcall-dev/lastcall/fixtures/drain"
	"github.com/lastcall-dev/lastcall/fixtures/echo"
	"github.com/lastcall-dev/lastcall/load/control"
)

// ledgerEnd bounds the wait for a collector's last word.
const ledgerEnd = 5 * time.Second

// drainFlags are the times of a component's end. or is what else than SIGTERM
// begins it.
func drainFlags(c *cobra.Command, s *drain.Settings, or string) {
	f := c.Flags()
	f.DurationVar(&s.Min, "min-drain", 5*time.Second, "how long after SIGTERM, or "+or+", it stays ready")
	f.DurationVar(&s.Unready, "unready", 2*time.Second, "how long after that it goes on accepting: above probe period x failure threshold")
	f.DurationVar(&s.Deadline, "deadline", 20*time.Second, "when, after SIGTERM or "+or+", the rest is cut: below the grace period")
}

// faultFlag is the switch that breaks a component.
func faultFlag(c *cobra.Command, fault *string, all []fixtures.Fault) {
	var names []string
	for _, one := range all {
		names = append(names, string(one.Name))
	}
	c.Flags().StringVar(fault, "fault", "", "break it on purpose: "+strings.Join(names, ", "))
}

// ledgerFlags say where a component's ledger is kept.
type ledgerFlags struct {
	dir, collector, tls string
	tlsFlag             string // the name of the flag for tls
}

func newLedgerFlags(c *cobra.Command, tlsFlag, outlives string) *ledgerFlags {
	l, f := &ledgerFlags{tlsFlag: tlsFlag}, c.Flags()
	f.StringVar(&l.dir, "ledger", "", "folder for the ledger, which outlives "+outlives)
	f.StringVar(&l.collector, "collector", "", "host:port of a collector that keeps the ledger instead")
	f.StringVar(&l.tls, tlsFlag, "", "folder with ca.crt, tls.crt and tls.key for the collector")
	return l
}

func (l *ledgerFlags) open(pod string, stderr io.Writer) (echo.Ledger, error) {
	switch {
	case (l.dir == "") == (l.collector == ""):
		return nil, usage("give either --ledger (a folder that outlives the pod) or --collector (an address)")
	case l.dir != "":
		return echo.OpenFileLedger(l.dir, pod)
	case l.tls == "":
		return nil, usage("--collector needs --%s: a folder with this pod's credentials", l.tlsFlag)
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
