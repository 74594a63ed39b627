// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/reports/text"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/host"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func newExplain() *cobra.Command {
	return &cobra.Command{
		Use:   "explain ID",
		Short: "Explain a behaviour: the rule, why it matters, what breaks it, how to fix that",
		Args:  one("behaviour", "`lastcall list` shows them"),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, ok := behaviour.Find(args[0])
			if !ok {
				return unknown(args[0])
			}
			references, err := behaviour.NewStack(nil)
			if err == nil {
				_, err = fmt.Fprint(cmd.OutOrStdout(), explain(b, references))
			}
			return err
		},
	}
}

func explain(b behaviour.Behaviour, references behaviour.Stack) string {
	var s strings.Builder
	f := func(format string, args ...any) { fmt.Fprintf(&s, format, args...) }
	f("%s (%s)\n%s\n", b.ID, b.Level, b.Title)
	f("\nThe rule\n")
	for _, r := range b.Refs {
		s.WriteString(text.Wrap("  ", fmt.Sprintf("%s: %q", text.Basis(r), r.Quote)))
		if r.URL != "" {
			f("  %s\n", r.URL)
		}
	}
	for _, part := range []struct{ title, text string }{
		{"Why", b.Why},
		{"What usually breaks it", b.Causes},
		{"How to fix that", b.Fix},
	} {
		f("\n%s\n%s", part.title, text.Wrap("  ", part.text))
	}
	about := s.String()
	s.Reset()
	f("\nHow it is tested\n%s  What is done: %s\n  Traffic:\n", text.Wrap("  On: ", b.Topology.String()), behaviour.InWords(b.Disrupt))
	for _, p := range b.Traffic {
		f("    %s, %g/s\n", p.Flow, p.Rate)
	}
	for _, c := range b.Checks {
		s.WriteString(text.Wrap("  Check: ", c.Name+": "+c.Expected))
		for _, fl := range c.Floors {
			if fl.N == 0 {
				continue // it is counted, and no verdict waits for it
			}
			of := ": "
			if fl.Per != "" {
				of = " "
			}
			s.WriteString(text.Wrap("    ", fmt.Sprintf("needs at least %d%s%s", fl.N, of, fl)))
		}
	}
	f("  With less evidence the verdict is Inconclusive.\n  Needs: %s\n  Stages: %s\n", joined(needed(b.Needs)), joined(stages(b)))
	tested := s.String()
	s.Reset()
	f("\nAsk it, of the suite's own or of yours\n")
	for _, stage := range stages(b) {
		if stage != stageCluster { // which takes flags of its own, and no system
			f("  lastcall run --stage %s [--system mine.yaml] --behaviours %s\n", stage, b.ID)
		}
	}
	f("\nSee it fail\n")
	for _, name := range b.BrokenBy {
		does := ""
		for _, fault := range behaviour.Faults() {
			if fault.Name == name {
				does = "   (" + fault.Component + ": " + fault.Does + ")"
			}
		}
		f("  lastcall run%s --fault %s%s\n", broken(b, name, references), name, does)
	}
	// The words come before what can't be read without them.
	return about + "\nThe words\n" + legend(about+tested, b.Traffic) + tested + s.String()
}

// broken are the flags of a run in which a behaviour has one of its faults to notice: on a host, where that shows it, so that no
// cluster is made, and of the reference that has the fault, where the one that the behaviour is put to by default has it not.
func broken(b behaviour.Behaviour, f spec.Fault, references behaviour.Stack) string {
	flags := ""
	if slices.Contains(stages(b), stageHost) && host.Has(f) {
		flags = " --stage " + stageHost
	}
	if row, ours := system.RoleOf(behaviour.ComponentOf(f)); ours && !references.Has(b, f) {
		flags += " --system systems/" + row.Reference
	}
	return flags + " --behaviours " + b.ID
}

// needed are features as a system's file says that it has them, where that is not the word itself.
func needed(features []spec.Feature) []string {
	out := make([]string, len(features))
	for i, f := range features {
		switch f {
		case spec.LBHealth:
			out[i] = "a path that load balancers ask (health.lb)"
		case spec.Admin:
			out[i] = "a request that begins the drain (admin, or http in terminate)"
		default:
			out[i] = string(f)
		}
	}
	return out
}
