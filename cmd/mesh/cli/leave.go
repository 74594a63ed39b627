// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"syscall"

	"github.com/spf13/cobra"
)

// leaveCommand tells the container that it runs in to go: a hook's program, where the image has no
// shell.
func leaveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "leave", Short: "Send SIGTERM to the first process of this container: for a preStop hook", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := syscall.Kill(1, syscall.SIGTERM); err != nil {
				return fmt.Errorf("SIGTERM to process 1: %w", err)
			}
			return nil
		},
	}
}
