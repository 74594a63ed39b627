// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lastcall-dev/lastcall/reports/compare"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
)

func newCompare() *cobra.Command {
	var format, picture string
	var propagation, same bool
	cmd := &cobra.Command{
		Use:   "compare DIR|FILE...",
		Short: "Hold reports against the first of them: verdicts, losses, propagation",
		Long: `Compare two reports or more: what changed between versions, modes and runs. The
first report is what the others are held against.

A behaviour that a run was to judge and that its report does not have is worse;
one that the run was not asked for is no difference.

Exit codes: 0 no MUST, no control, no cell of a kill matrix and no run as a whole
is worse than in the first report; 1 one is, or (--same) a verdict is not the same
or none is of two; 2 something could not be read, or is
no report.`,
		Example: `  lastcall report compare lastcall-report/1.34 lastcall-report/1.35
  lastcall report compare -o markdown lastcall-report/* >> "$GITHUB_STEP_SUMMARY"
  lastcall report compare --same native plain    # two forms of one thing
  lastcall report compare --propagation --picture propagation.png lastcall-report/*`,
		Args: some(2, "name two reports or more, the first is what the others are held against"),
		RunE: func(cmd *cobra.Command, args []string) error {
			write, err := inFormat(format, compare.WriteText, compare.WriteMarkdown, compare.WriteYAML)
			if err != nil {
				return err
			}
			if propagation {
				if cmd.Flags().Changed("output") && format != "markdown" {
					return fmt.Errorf("-o %s: --propagation writes markdown", format)
				}
				write = compare.WriteFindings
			}
			in, err := inputs(args)
			if err != nil {
				return err
			}
			c, err := compare.Of(in)
			if err != nil {
				return err
			}
			if picture != "" {
				if err := draw(picture, c); err != nil {
					return err
				}
			}
			if err := write(cmd.OutOrStdout(), c); err != nil {
				return err
			}
			if len(c.Worse) > 0 {
				return exit{code: v1alpha1.ExitFail, err: fmt.Errorf("worse than in %s: %s", args[0], strings.Join(c.WorseInWords(), ", "))}
			}
			if !same {
				return nil
			}
			switch names, both := c.Disagree(); {
			case len(names) > 0:
				return exit{code: v1alpha1.ExitFail, err: fmt.Errorf("--same: not the same verdict: %s", strings.Join(names, ", "))}
			case both == 0:
				return exit{code: v1alpha1.ExitFail, err: errors.New("--same: no behaviour has a verdict in two of these reports")}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVarP(&format, "output", "o", "text", "text, markdown or yaml")
	f.BoolVar(&propagation, "propagation", false, "write only what the service network did, by version and mode, as a Markdown table")
	f.BoolVar(&same, "same", false, "exit 1 where two reports have verdicts that are not the same, at whatever level; what is inconclusive says neither")
	f.StringVar(&picture, "picture", "", "draw the propagation by version and mode into this `FILE` (PNG)")
	return cmd
}

// newSum adds up what runs of the same say.
func newSum() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "sum DIR|FILE...",
		Short: "Add up reports of the same: how often each behaviour passed, and on how much evidence",
		Long: `Add up two reports or more of one system on one stage: in how many of them each
behaviour passed, what was seen where it did not, and what losses and evidence
come to over all of them. That a loss was not seen in one run bounds it little; ten
runs bound it ten times as well.

Exit codes: that of the worst of the runs; 2 also where something could not be
read, is no report, or is one of something else.`,
		Example: `  for n in 1 2 3; do lastcall run --stage host --out runs/$n; done
  lastcall report sum runs/*
  make soak TIMES=10 STAGE=host    # in a checkout: both`,
		Args: some(2, "name two reports or more, of runs of the same"),
		RunE: func(cmd *cobra.Command, args []string) error {
			write, err := inFormat(format, compare.WriteSeriesText, compare.WriteSeriesMarkdown, compare.WriteSeriesYAML)
			if err != nil {
				return err
			}
			in, err := inputs(args)
			if err != nil {
				return err
			}
			s, err := compare.SeriesOf(in)
			if err != nil {
				return err
			}
			if err := write(cmd.OutOrStdout(), s); err != nil {
				return err
			}
			if s.ExitCode != v1alpha1.ExitPass {
				return exit{code: s.ExitCode}
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "text", "text, markdown or yaml")
	return cmd
}

// inputs reads all that can be read, so that all mistakes are told at once.
func inputs(paths []string) ([]compare.Input, error) {
	var in []compare.Input
	var bad []error
	for _, path := range paths {
		i, err := compare.Read(path)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		in = append(in, i)
	}
	return in, errors.Join(bad...)
}

func draw(path string, c *compare.Comparison) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("--picture: %w", err)
	}
	return errors.Join(compare.WritePNG(f, c), f.Close())
}
