// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/lastcall-dev/lastcall/load/control"
	"github.com/lastcall-dev/lastcall/load/probe"
)

func probeCommand(signals <-chan os.Signal, stderr io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "probe", Short: "Make load as the runner says, and record what became of it", Args: noArgs}
	id, ch := identityFlags(c), channelFlags(c)
	c.RunE = func(*cobra.Command, []string) error {
		ctx, cancel := untilSignal(signals)
		defer cancel()
		spool, l, creds, err := ch.open(ctx)
		if err != nil {
			return err
		}
		s := &control.Server{Role: "probe", Spool: spool, Generator: probe.Generator{Room: probe.NewRoom(probe.MaxInFlight)}, Presser: pressure{}}
		return ch.serve(ctx, s, l, creds, id, stderr)
	}
	return c
}
