//go:build !linux

// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"
)

func sidecarCommand(<-chan os.Signal, io.Writer) *cobra.Command {
	return &cobra.Command{Use: "sidecar", Short: "The reference mesh's sidecar (Linux only)", RunE: func(*cobra.Command, []string) error {
		return errors.New("the sidecar runs on Linux only: it needs the kernel's redirects")
	}}
}
