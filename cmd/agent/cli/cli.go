// SPDX-License-Identifier: Apache-2.0

// Package cli is the agent's command line: everything of Lastcall that runs
// beside the system under test, or as the reference of one. Its signals and its
// exit are main's.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// usageError is bad input: exit code 2.
type usageError struct{ error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Run is the whole program, and returns its exit code. signals brings SIGTERM
// and SIGINT.
func Run(args []string, signals <-chan os.Signal, stdout, stderr io.Writer) int {
	root := command(signals, stderr)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.Execute()
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "agent:", err)
	var bad usageError
	if errors.As(err, &bad) {
		return 2
	}
	return 1
}

func command(signals <-chan os.Signal, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:           "agent",
		Short:         "Lastcall's agent: probe, echo app and witness in one binary",
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("there is no command %q: use %s", args[0], commands(c))
			}
			return c.Help()
		},
		Args: cobra.ArbitraryArgs,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(probeCommand(signals, stderr), pressureCommand(signals), witnessCommand(signals, stderr), signalCommand(), workCommand(signals), peerCommand(signals, stderr),
		shutdownCommand(signals, stderr), shutdownManagerCommand(signals, stderr),
		&cobra.Command{
			Use: "version", Short: "Say which build this is", Args: noArgs,
			Run: func(c *cobra.Command, _ []string) { fmt.Fprintln(c.OutOrStdout(), version()) },
		})
	for _, r := range components() {
		root.AddCommand(r.command(signals, stderr))
	}
	return root
}

// commands are the names of a command's own.
func commands(c *cobra.Command) string {
	var names []string
	for _, one := range c.Commands() {
		if one.IsAvailableCommand() {
			names = append(names, one.Name())
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("takes flags only, not %q", args)
	}
	return nil
}

// identity is who this agent is, from the downward API.
type identity struct{ podUID, podName, node string }

func identityFlags(c *cobra.Command) *identity {
	var id identity
	c.Flags().StringVar(&id.podUID, "pod-uid", os.Getenv("LASTCALL_POD_UID"), "UID of the pod (metadata.uid); or LASTCALL_POD_UID")
	c.Flags().StringVar(&id.podName, "pod-name", os.Getenv("LASTCALL_POD_NAME"), "name of the pod (metadata.name); or LASTCALL_POD_NAME")
	c.Flags().StringVar(&id.node, "node", os.Getenv("LASTCALL_NODE"), "name of the node (spec.nodeName); or LASTCALL_NODE")
	return &id
}

// untilSignal is a context that ends at the first signal. Later ones change
// nothing: what has to end is bounded by itself.
func untilSignal(signals <-chan os.Signal) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		select {
		case s := <-signals:
			cancel(fmt.Errorf("signal: %v", s))
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// version names the build: the module's version, or the commit it was built at.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && (v == "" || v == "(devel)") {
			v = s.Value
		}
	}
	if v == "" {
		v = "(devel)"
	}
	return v + " " + info.GoVersion
}
