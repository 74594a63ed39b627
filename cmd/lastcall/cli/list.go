// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lastcall-dev/lastcall/fixtures"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/reports/text"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/cluster"
	"github.com/lastcall-dev/lastcall/suites/host"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// entry is a behaviour as `list -o json` gives it.
type entry struct {
	ID    string     `json:"id"`
	Title string     `json:"title"`
	Level spec.Level `json:"level"`
	// Basis names the documents of the references.
	Basis      []string       `json:"basis"`
	References []spec.Ref     `json:"references"`
	Profile    spec.Profile   `json:"profile"`
	Labels     []string       `json:"labels"`
	Needs      []spec.Feature `json:"needs"`
	Stages     []string       `json:"stages"`
	// Scenario is the recording that it shares when everything is selected.
	Scenario   string       `json:"scenario"`
	Disruption string       `json:"disruption"`
	Faults     []spec.Fault `json:"faults"`
	// Why it matters, and what usually breaks it in the field.
	Why    string `json:"why"`
	Causes string `json:"causes"`
}

// catalogue lists all behaviours.
func catalogue() []entry {
	all := behaviour.Catalogue()
	plan := behaviour.Fold(all, "", false)
	out := make([]entry, 0, len(all))
	for _, b := range all {
		e := entry{
			ID: b.ID, Title: b.Title, Level: b.Level, References: b.Refs, Profile: b.Profile,
			Labels: b.Labels, Needs: b.Needs, Faults: b.BrokenBy, Disruption: behaviour.InWords(b.Disrupt),
			Why: b.Why, Causes: b.Causes,
			Stages: stages(b),
		}
		for _, r := range b.Refs {
			if !slices.Contains(e.Basis, r.Doc) {
				e.Basis = append(e.Basis, r.Doc)
			}
		}
		for _, s := range plan {
			if slices.Contains(s.Behaviours, b.ID) {
				e.Scenario = s.Name
			}
		}
		out = append(out, e)
	}
	return out
}

func newList() *cobra.Command {
	var format string
	var labels []string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the behaviours that the suite knows, and the faults",
		Long: `List the behaviours that the suite knows, and the faults that prove that it would
see them broken. What a name begins with, pod, endpoints or rollout, is a label
too: lastcall list --labels pod, and lastcall run --labels pod.

A MUST that fails fails the run; a SHOULD that fails is a warning, unless the run
is --strict. The CONTROL kills pods without warning, to prove that the suite
would see a loss.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			all, err := labelled(catalogue(), labels)
			if err != nil {
				return err
			}
			switch format {
			case "table":
				return table(out, all)
			case "json":
				e := json.NewEncoder(out)
				e.SetEscapeHTML(false)
				e.SetIndent("", "  ")
				return e.Encode(all)
			case "markdown":
				return page(out, all)
			}
			return fmt.Errorf("-o %q: it is table, json or markdown", format)
		},
	}
	cmd.Flags().StringSliceVar(&labels, "labels", nil, "only behaviours with one of these labels, or of one of these areas (default all)")
	cmd.Flags().StringVarP(&format, "output", "o", "table", "table, json or markdown")
	return cmd
}

// labelled are those that `run --labels` would select.
func labelled(all []entry, labels []string) ([]entry, error) {
	if len(labels) == 0 {
		return all, nil
	}
	some, err := behaviour.Select(behaviour.Catalogue(), labels, nil)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(e entry) bool {
		return !slices.ContainsFunc(some, func(b behaviour.Behaviour) bool { return b.ID == e.ID })
	}), nil
}

// faultsOf are those that a behaviour of these must notice; of the whole catalogue, also those that none must.
func faultsOf(all []entry) []fixtures.Fault {
	if len(all) == len(behaviour.Catalogue()) {
		return behaviour.Faults()
	}
	return slices.DeleteFunc(behaviour.Faults(), func(f fixtures.Fault) bool {
		return !slices.ContainsFunc(all, func(e entry) bool { return slices.Contains(e.Faults, f.Name) })
	})
}

// table is for a terminal: what there is to choose from. The rest is in the
// JSON form, and in what `lastcall explain` says.
func table(w io.Writer, all []entry) error {
	var b strings.Builder
	wide := 0
	for _, e := range all {
		wide = max(wide, len(e.ID))
	}
	row := func(level, id, title string) {
		b.WriteString(text.Wrap(fmt.Sprintf("%-7s  %-*s  ", level, wide, id), title))
	}
	row("LEVEL", "BEHAVIOUR", "TITLE")
	var areas []string
	core := 0
	for _, e := range all {
		row(string(e.Level), e.ID, e.Title)
		if area, _, _ := strings.Cut(e.ID, "."); !slices.Contains(areas, area) {
			areas = append(areas, area)
		}
		if slices.Contains(e.Labels, "core") {
			core++
		}
	}
	fmt.Fprintf(&b, "\nLabels (lastcall run --labels NAME): core, the quick look (%d of them);\n%s", core, text.Wrap("and the areas: ", strings.Join(areas, ", ")))
	var parts []string
	for _, row := range system.Roles() {
		parts = append(parts, fmt.Sprintf("%s is its %s", strings.Join(row.Components, " with "), row.Name))
	}
	b.WriteString("One behaviour: lastcall explain BEHAVIOUR\n\nFaults, each of which a behaviour must notice (lastcall run --fault NAME), in parts of the suite:\n" +
		text.Wrap("", strings.Join(parts, ", ")+", slicewriter its writer of EndpointSlices, deploy its Deployment, disrupt what ends pods."))
	wide = 0
	faults := faultsOf(all)
	for _, f := range faults {
		wide = max(wide, len(f.Name))
	}
	for _, f := range faults {
		b.WriteString(text.Wrap(fmt.Sprintf("%-*s  ", wide, f.Name), f.Component+": "+f.Does))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// page is the form of docs/catalogue.md.
func page(w io.Writer, all []entry) error {
	does := map[spec.Fault]string{}
	for _, f := range behaviour.Faults() {
		does[f.Name] = f.Component + ": " + f.Does
	}
	var b strings.Builder
	b.WriteString("<!-- Generated by `make generate`. Do not edit. -->\n\n# The catalogue\n\n")
	fmt.Fprintf(&b, "%d behaviours: each with its level, the sentence that it rests on, and the faults that prove that the\nsuite would see it broken. `lastcall explain ID` says how each is tested, and how to mend what fails it.\n\n", len(all))
	b.WriteString("| behaviour | level | rule | basis |\n|---|---|---|---|\n")
	for _, e := range all {
		var basis []string
		for _, doc := range e.Basis {
			basis = append(basis, text.Basis(spec.Ref{Doc: doc}))
		}
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s | %s |\n", e.ID, anchor(e.ID), e.Level, cell(e.Title), cell(strings.Join(basis, ", ")))
	}
	b.WriteString("\n")
	for _, e := range all {
		fmt.Fprintf(&b, "## %s\n\n%s: %s.\n\n", e.ID, e.Level, strings.TrimSuffix(e.Title, "."))
		for _, r := range e.References {
			name := text.Basis(r)
			if r.URL != "" {
				name = "[" + name + "](" + r.URL + ")"
			}
			fmt.Fprintf(&b, "> %s\n>\n> %s\n\n", r.Quote, name)
		}
		fmt.Fprintf(&b, "Why: %s\n\nWhat usually breaks it: %s\n\n", e.Why, e.Causes)
		area, _, _ := strings.Cut(e.ID, ".")
		fmt.Fprintf(&b, "- Labels: %s. Needs: %s. Stages: %s.\n- What is done: %s.\n- Broken on purpose by:\n",
			strings.Join(append([]string{area}, e.Labels...), ", "), joined(e.Needs), strings.Join(e.Stages, ", "), e.Disruption)
		for _, f := range e.Faults {
			fmt.Fprintf(&b, "  - `%s` (%s)\n", f, does[f])
		}
		b.WriteString("\n")
	}
	b.WriteString("# Faults\n\n| fault | what it does | must fail |\n|---|---|---|\n")
	for _, f := range faultsOf(all) {
		fmt.Fprintf(&b, "| `%s` | %s: %s | %s |\n", f.Name, f.Component, cell(f.Does), strings.Join(behaviour.Breaks(f.Name), ", "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// anchor is the name that pages give a heading: dots and brackets are dropped.
func anchor(id string) string {
	return strings.NewReplacer(".", "", "[", "", "]", "").Replace(strings.ToLower(id))
}

// cell keeps a text from ending its cell of a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }

func joined[T ~string](all []T) string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = string(s)
	}
	return strings.Join(out, ", ")
}

// stages are those that carry a behaviour, of the reference for its role. A cluster of others shows its nodes to nobody.
func stages(b behaviour.Behaviour) []string {
	var out []string
	if cluster.Lacks(b, nil, true, true).Why == "" {
		out = append(out, stageKind)
	}
	if cluster.Lacks(b, nil, false, false).Why == "" {
		out = append(out, stageCluster)
	}
	if host.Lacks(b) == "" {
		out = append(out, stageHost)
	}
	return out
}
