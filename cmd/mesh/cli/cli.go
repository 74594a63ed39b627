// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line of the reference mesh. Its signals and its exit are main's.
package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// usageError is bad input: exit code 2.
type usageError struct{ error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Signals are what main takes.
type Signals struct {
	// End brings SIGTERM and SIGINT; Hide brings SIGUSR1, at which a sidecar can't tell any more what
	// passes through it.
	End, Hide <-chan os.Signal
}

// Run is the whole program, and returns its exit code.
func Run(args []string, signals Signals, stderr io.Writer) int {
	root := &cobra.Command{Use: "mesh", Short: "The reference mesh of Lastcall", SilenceUsage: true, SilenceErrors: true}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(sidecarCommand(signals, stderr), tellCommand(), subscribeCommand(signals.End, stderr), waypointCommand(signals.End, stderr), redirectCommand(stderr), controllerCommand(signals.End, stderr), benchControllerCommand(signals.End, stderr), nodeProxyCommand(signals.End, stderr), nodeAgentCommand(signals.End, stderr), benchNodeAgentCommand(signals.End, stderr), installPluginCommand(signals.End, stderr))
	root.SetArgs(args)
	root.SetOut(stderr)
	root.SetErr(stderr)
	err := root.Execute()
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "mesh:", err)
	var bad usageError
	if errors.As(err, &bad) {
		return 2
	}
	return 1
}
