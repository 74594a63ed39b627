// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lastcall-dev/lastcall/reports/text"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

func newExplain() *cobra.Command {
	return &cobra.Command{
		Use:   "explain ID",
		Short: "Explain a behaviour: the rule, why it matters, what breaks it, how to fix that",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, ok := behaviour.Find(args[0])
			if !ok {
				return unknown(args[0])
			}
			_, err := fmt.Fprint(cmd.OutOrStdout(), explain(b))
			return err
		},
	}
}

func explain(b behaviour.Behaviour) string {
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
	f("\nHow it is tested\n%s  Done: %s\n  Traffic:\n", text.Wrap("  On: ", b.Topology.String()), behaviour.InWords(b.Disrupt))
	for _, p := range b.Traffic {
		f("    %s, %g/s\n", p.Key(), p.Rate)
	}
	for _, c := range b.Checks {
		s.WriteString(text.Wrap("  Check: ", c.Name+": "+c.Expected))
		for _, fl := range c.Floors {
			if fl.N == 0 {
				continue // it is counted, and no verdict waits for it
			}
			f("    needs at least %d: %s\n", fl.N, fl.Name)
		}
	}
	f("  Needs: %s\n", joined(b.Needs))
	about := s.String()
	f("\nSee it fail\n")
	for _, name := range b.BrokenBy {
		does := ""
		for _, fault := range behaviour.Faults() {
			if fault.Name == name {
				does = "   (" + fault.Component + ": " + fault.Does + ")"
			}
		}
		f("  lastcall run --behaviours %s --fault %s%s\n", b.ID, name, does)
	}
	f("\nThe words\n%s", legend(about, b.Traffic))
	return s.String()
}
