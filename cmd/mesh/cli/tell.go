// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/lastcall-dev/lastcall/fixtures/sidecar"
)

// tellFor bounds the call: who listens on the loopback interface answers at once.
const tellFor = 5 * time.Second

// tellCommand tells the sidecar of the pod that it runs in to go: a hook's program, where the image
// has no shell.
func tellCommand() *cobra.Command {
	all := []string{sidecar.DrainPath, sidecar.QuitPath}
	return &cobra.Command{
		Use: "tell PATH", Short: "Have the sidecar of this pod begin its end (/drain), or accept no more (/quit): for a preStop hook", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(all, args[0]) {
				return usage("%q: want one of %q", args[0], all)
			}
			ctx, cancel := context.WithTimeoutCause(context.Background(), tellFor, fmt.Errorf("no answer within %s", tellFor))
			defer cancel()
			return sidecar.Tell(ctx, args[0])
		},
	}
}
