// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lastcall-dev/lastcall/reports/markdown"
	"github.com/lastcall-dev/lastcall/reports/text"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/reports/yaml"
	"github.com/lastcall-dev/lastcall/suites/meta"
)

func newReport(rejudge func(dir string) (*v1alpha1.ConformanceReport, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Print a run's report, compare reports, or judge recordings again",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		reading("rejudge DIR", "Judge a run's recordings again, with no cluster, and print what comes out", rejudge),
		reading("show DIR", "Print the report of a run", yaml.ReadDir),
		newCompare(),
		expect(),
	)
	return cmd
}

// expect holds a run with a fault against what was written down before it.
func expect() *cobra.Command {
	return &cobra.Command{
		Use:   "expect DIR",
		Short: "Say whether a run with a fault failed what that fault must fail, and nothing else",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := yaml.ReadDir(args[0])
			if err != nil {
				return err
			}
			want, err := meta.Expected(r.Settings.Fault)
			if err != nil {
				return err
			}
			if err := meta.Compare(want, r); err != nil {
				return exit{code: v1alpha1.ExitFail, err: err}
			}
			fmt.Fprintf(cmd.OutOrStdout(), "fault %s: %d verdicts, all as they were written down\n", want.Fault, len(r.Behaviours))
			return nil
		},
	}
}

// reading is a command that gets a report out of a directory, prints it, and
// ends as the run itself would.
func reading(use, short string, read func(dir string) (*v1alpha1.ConformanceReport, error)) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			write, ok := map[string]func(*v1alpha1.ConformanceReport) error{
				"text": func(r *v1alpha1.ConformanceReport) error {
					return text.Write(out, r, text.Options{Dir: args[0], Colour: text.Terminal(out)})
				},
				"markdown": func(r *v1alpha1.ConformanceReport) error { return markdown.Write(out, r) },
				"yaml":     func(r *v1alpha1.ConformanceReport) error { return yaml.Write(out, r) },
			}[format]
			if !ok {
				return fmt.Errorf("-o %q: it is text, markdown or yaml", format)
			}
			r, err := read(args[0])
			if err != nil {
				return err
			}
			if err := write(r); err != nil {
				return err
			}
			return ended(r)
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "text", "text, markdown or yaml")
	return cmd
}
