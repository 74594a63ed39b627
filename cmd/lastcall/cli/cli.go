// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line, apart from what only a process may do:
// its signals and its exit are main's.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
)

// ExitKilled is the exit code after a second signal, as shells give it.
const ExitKilled = 130

// Actions are what the commands do to the world.
type Actions struct {
	Execute func(context.Context, RunRequest) ([]*v1alpha1.ConformanceReport, error)
	Rejudge func(dir string) (*v1alpha1.ConformanceReport, error)
	Cluster ClusterActions
}

// exit is an exit code on its way up: its error, if any, still has to be told.
type exit struct {
	code int
	err  error
}

func (e exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e exit) Unwrap() error { return e.err }

// Run carries a command line out and returns the process's exit code.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer, do Actions) int {
	root := newRoot(do)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return v1alpha1.ExitPass
	}
	var e exit
	if !errors.As(err, &e) {
		e = exit{code: v1alpha1.ExitUsage, err: err}
	}
	if e.err != nil {
		// Several mistakes are several lines.
		for line := range strings.Lines(e.err.Error()) {
			fmt.Fprintf(stderr, "lastcall: %s\n", strings.TrimRight(line, "\n"))
		}
	}
	return e.code
}

func newRoot(do Actions) *cobra.Command {
	root := &cobra.Command{
		Use:   "lastcall",
		Short: "Chaos and conformance for graceful termination in Kubernetes",
		Long: `Lastcall records what happens to requests when pods go away, and judges the
recording: which written rule was broken, when, to whom, and by what.

Exit codes: 0 passed; 1 a MUST failed (with --strict, a SHOULD) that is no known
deviation of the system's file; 2 bad input, or an environment in which the suite
can't run; 3 nothing of that kind failed, but something could not be shown.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          subcommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		var none *pflag.NotExistError
		if errors.As(err, &none) {
			var names []string
			cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
			if near := nearest(none.GetSpecifiedName(), 2, names); len(near) > 0 {
				err = fmt.Errorf("%w: is it --%s?", err, strings.Join(near, " or --"))
			}
		}
		return fmt.Errorf("%w: see `%s --help`", err, cmd.CommandPath())
	})
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(
		newRun(do.Execute),
		newList(),
		newExplain(),
		newReport(do.Rejudge),
		newSystem(),
		newPacing(),
		newUp(do.Cluster.Up),
		newDown(do.Cluster.Down),
		newCleanup(do.Cluster),
		newVersion(),
	)
	return root
}

// subcommand refuses what is none of a command's own, and says which it may have been.
func subcommand(cmd *cobra.Command, args []string) error {
	err := cobra.NoArgs(cmd, args)
	if err == nil {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("%w: is it %s?", err, strings.Join(near, " or "))
	}
	return fmt.Errorf("%w: see `%s --help`", err, cmd.CommandPath())
}

// one asks for one argument, in words.
func one(what, which string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("name one %s: %s", what, which)
		}
		return nil
	}
}

// some asks for so many arguments or more, in words.
func some(least int, ask string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least {
			return errors.New(ask)
		}
		return nil
	}
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, and the commit that it was built from",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s := v1alpha1.ThisSuite()
			revision := s.Revision
			switch {
			case revision == "":
				revision = "commit not recorded"
			case s.Modified:
				revision += ", modified"
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "lastcall %s (%s, %s)\n", s.Version, revision, s.Go)
			return err
		},
	}
}
