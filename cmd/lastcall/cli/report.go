// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/lastcall-dev/lastcall/reports/compare"
	"github.com/lastcall-dev/lastcall/reports/markdown"
	"github.com/lastcall-dev/lastcall/reports/statement"
	"github.com/lastcall-dev/lastcall/reports/text"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/reports/yaml"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/meta"
)

func newReport(rejudge func(dir string) (*v1alpha1.ConformanceReport, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Print a run's report, compare reports or add them up, write a statement, or judge recordings again",
		Args:  subcommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newRejudge(rejudge),
		reading("show DIR|FILE", "Print the report of a run", func(path string) (*v1alpha1.ConformanceReport, error) {
			in, err := compare.Read(path)
			return in.Report, err
		}),
		newCompare(),
		newSum(),
		newStatement(),
		expect(),
	)
	return cmd
}

func newRejudge(rejudge func(dir string) (*v1alpha1.ConformanceReport, error)) *cobra.Command {
	var told io.Writer
	cmd := reading("rejudge DIR", "Judge a run's recordings again, with no cluster: write its report anew, and print it",
		func(dir string) (*v1alpha1.ConformanceReport, error) {
			if info, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("%s: no such directory", dir)
			} else if err == nil && !info.IsDir() {
				return nil, fmt.Errorf("%s is a file: name the directory that it lies in", dir)
			}
			r, err := rejudge(dir)
			if err == nil {
				fmt.Fprintf(told, "lastcall: wrote %s, report.txt and the pictures in %s anew; junit.xml is as the run itself wrote it\n", v1alpha1.File, dir)
			}
			return r, err
		})
	cmd.Long = `Judge the recordings of a run again, with no cluster. That writes report.yaml,
report.txt and the recordings' pictures in DIR anew, by the rules of this binary,
and prints the report. The recordings themselves are only read. junit.xml and
ginkgo.log are the run's own, and stay as they are.`
	cmd.PreRun = func(cmd *cobra.Command, _ []string) { told = cmd.ErrOrStderr() }
	return cmd
}

func newStatement() *cobra.Command {
	return &cobra.Command{
		Use:   "statement DIR|FILE",
		Short: "Write what a report states of a system, to be submitted: each profile's result, and how to make it again",
		Long: `Write a statement, as Markdown: whose the system is, where and by what it was
judged, the result of each profile with its counts, what keeps a profile from
being conformant, the rules that failed and the known deviations with their
reasons, and the command that makes such a report again. It is a function of the
report alone, and lies beside it where that is submitted: docs/vendors.md says where.

Profiles are app (pod.*, rollout.*), service network (endpoints.*), mesh (sidecar.*, node.*, cni.*, controller.*,
hbone.*) and gateway (the rest):
  conformant     every MUST passed, or needs a feature that the system does not claim;
                 and one passed at least
  nonconformant  a MUST failed, be it a known deviation
  partial        no MUST failed, and a MUST was skipped for another reason, not
                 selected or not shown; or the run as a whole is in doubt
  unjudged       no MUST failed, and none passed`,
		Example: `  lastcall run --stage host --system my-proxy.yaml --out now
  lastcall report statement now > statement.md`,
		Args: one("directory or file", "that of a run's report"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := compare.Read(args[0])
			if err != nil {
				return err
			}
			if err := statement.Write(cmd.OutOrStdout(), in.Report); err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return nil
		},
	}
}

// expect holds a run with a fault against what was written down before it.
func expect() *cobra.Command {
	return &cobra.Command{
		Use:   "expect DIR",
		Short: "Say whether a run with a fault failed what that fault must fail, and nothing else",
		Args:  one("directory", "that of a run with --fault"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := yaml.ReadDir(args[0])
			if err != nil {
				return err
			}
			if r.Settings.Fault == "" {
				return fmt.Errorf("%s is a run without --fault: there is nothing that it must fail", args[0])
			}
			want, err := meta.Expected(r.Settings.Fault, behaviour.Breaks(r.Settings.Fault))
			if err != nil {
				return err
			}
			if err := meta.Compare(want, r); err != nil {
				return exit{code: v1alpha1.ExitFail, err: err}
			}
			fmt.Fprintf(cmd.OutOrStdout(), "fault %s: %s, as was written down before\n", want.Fault, text.Count(len(r.Behaviours), "verdict"))
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
		Long:  short + ".\n\nIt ends with the run's exit code: 0 passed, 1 failed, 3 not shown.",
		Args:  one("directory", "lastcall-report/<date>, where `lastcall run` put its report"),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			write, err := inFormat(format,
				func(r *v1alpha1.ConformanceReport) error {
					return text.Write(out, r, text.Options{Dir: compare.Directory(args[0]), Colour: text.Terminal(out)})
				},
				func(r *v1alpha1.ConformanceReport) error { return markdown.Write(out, r) },
				func(r *v1alpha1.ConformanceReport) error { return yaml.Write(out, r) },
			)
			if err != nil {
				return err
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

// inFormat is the one of three writers that -o names.
func inFormat[W any](format string, text, markdown, yaml W) (W, error) {
	write, ok := map[string]W{"text": text, "markdown": markdown, "yaml": yaml}[format]
	if !ok {
		return write, fmt.Errorf("-o %q: it is text, markdown or yaml", format)
	}
	return write, nil
}
