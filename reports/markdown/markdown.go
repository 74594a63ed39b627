// SPDX-License-Identifier: Apache-2.0

// Package markdown writes a report for a page, such as a CI run's summary: a
// table of the verdicts, and what is to be known of each that did not pass.
package markdown

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/reports/text"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// icons make a long table quick to read.
var icons = map[spec.Verdict]string{
	spec.Pass: "✅", spec.Fail: "❌", spec.Inconclusive: "❔", spec.Error: "⚠️", spec.Skipped: "⏭️",
}

// Write writes the report.
func Write(w io.Writer, r *v1alpha1.ConformanceReport) error {
	var b bytes.Buffer
	head(&b, r)
	if len(r.Behaviours) > 0 {
		b.WriteString("\n| verdict | level | behaviour | in short |\n|---|---|---|---|\n")
		for i := range r.Behaviours {
			x := &r.Behaviours[i]
			fmt.Fprintf(&b, "| %s %s | %s | `%s` | %s |\n", icons[x.Verdict], text.Word(x), x.Level, x.Name(), Escape(x.Line()))
		}
	}
	for i := range r.Behaviours {
		if x := &r.Behaviours[i]; x.Verdict != spec.Pass && x.Verdict != spec.Skipped {
			details(&b, x)
		}
	}
	pressure(&b, r)
	for _, c := range r.Controls {
		if c.Verdict != spec.Pass && c.Verdict != spec.Skipped {
			fmt.Fprintf(&b, "\n- Control %s %s: %s. %s\n", Escape(c.Name), Escape(c.Client), c.Verdict, Escape(c.Reason))
		}
	}
	for _, d := range r.Outlived() {
		fmt.Fprintf(&b, "\n- Known: %s\n", Escape(text.Outlived(d)))
	}
	for _, e := range r.Errors {
		fmt.Fprintf(&b, "\n- Error: %s\n", Escape(e))
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write the report as Markdown: %w", err)
	}
	return nil
}

func head(b *bytes.Buffer, r *v1alpha1.ConformanceReport) {
	s := r.Summary
	fmt.Fprintf(b, "## %s Lastcall: %s\n\n%d passed, %d failed", icons[r.Verdict], r.Verdict, s.Passed, s.Failed)
	if s.Warnings > 0 {
		fmt.Fprintf(b, " (%d only as a warning)", s.Warnings)
	}
	if s.Known > 0 {
		fmt.Fprintf(b, " (%d known)", s.Known)
	}
	fmt.Fprintf(b, ", %d inconclusive, %d error, %d skipped.\n\n", s.Inconclusive, s.Errors, s.Skipped)
	e := r.Environment
	about := []string{strings.TrimSpace(r.Implementation.Project + " " + r.Implementation.Version)}
	if e.Kubernetes != "" {
		about = append(about, "Kubernetes "+e.Kubernetes)
	}
	if e.KubeProxyMode != "" {
		about = append(about, "kube-proxy "+e.KubeProxyMode)
	}
	about = append(about, e.IPFamilies...)
	if e.TunnelDelay > 0 {
		about = append(about, "tunnels "+e.TunnelDelay.String()+" longer, either way")
	}
	if r.Settings.Profile != "" {
		about = append(about, "profile "+r.Settings.Profile)
	}
	if r.Settings.Fault != "" {
		about = append(about, "broken on purpose: fault "+string(r.Settings.Fault))
	}
	about = append(about, "P "+r.Settings.P.String())
	if p := r.Propagation; p != nil {
		about = append(about, fmt.Sprintf("propagation median %s, worst %s of %s", text.Latency(p.Median), text.Latency(p.Worst), text.Count(p.N, "termination")))
	}
	if r.Metadata.Took > 0 {
		about = append(about, "took "+r.Metadata.Took.D().Round(time.Second).String())
	}
	fmt.Fprintf(b, "%s.\n", Escape(strings.Join(about, ", ")))
	if line := text.Profiles(r); line != "" {
		fmt.Fprintf(b, "\nProfiles: %s.\n", Escape(line))
	}
	if line := text.Suspects(r); line != "" {
		fmt.Fprintf(b, "\n**%s.**\n", Escape(line))
	}
	if line := text.Killed(r); line != "" {
		fmt.Fprintf(b, "\n**%s.**\n", Escape(line))
	}
}

// pressure is a table of the closed-loop load beside the recordings' streams.
func pressure(b *bytes.Buffer, r *v1alpha1.ConformanceReport) {
	begun := false
	var told []string
	for i := range r.Scenarios {
		s := &r.Scenarios[i]
		for k := range s.Pressure {
			if !begun {
				begun = true
				b.WriteString("\n<details><summary>Closed-loop load beside the streams: no verdict rests on it</summary>\n\n" +
					"| recording | load | requests | errors | p50 | p90 | p99 | longest | served | rest |\n|---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n")
			}
			x := &s.Pressure[k]
			load, served, rest := x.Name, "?", "?"
			if x.Conns > 0 {
				load = fmt.Sprintf("%s, %d connections, %s/s", x.Name, x.Conns, text.Thousands(int(x.QPS)))
			}
			if x.Served != nil {
				served, rest = text.Thousands(x.Served.Count), text.Thousands(x.Served.Rest)
				if len(x.Served.AtLeast) > 0 {
					served, rest = "≥ "+served, "≥ "+rest
				}
			}
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", Escape(s.Name), Escape(load), text.Thousands(x.Requests), text.Thousands(x.Errors),
				text.Latency(x.P50), text.Latency(x.P90), text.Latency(x.P99), text.Latency(x.Max), served, rest)
			for _, line := range []string{x.Error, x.Lowered, x.Stopped, x.Warning} {
				if line != "" {
					told = append(told, s.Name+": "+line)
				}
			}
		}
	}
	if !begun {
		return
	}
	b.WriteString("\nServed is what the backends began to serve: what was answered, the first request of each connection, and the rest, which the client, or who stands before the backends, repeated without a word, or whose answers were lost.\n")
	for _, line := range told {
		fmt.Fprintf(b, "\n- %s\n", Escape(line))
	}
	b.WriteString("\n</details>\n")
}

// shown is how many culprits a page gets: the report holds them all.
const shown = 8

func details(b *bytes.Buffer, x *v1alpha1.Behaviour) {
	fmt.Fprintf(b, "\n<details><summary>%s %s: %s</summary>\n\n", icons[x.Verdict], x.Name(), Escape(x.Title))
	line := func(label, s string) {
		if s != "" {
			fmt.Fprintf(b, "- %s: %s\n", label, Escape(s))
		}
	}
	if x.Known != nil {
		line("Known deviation", x.Known.String())
	}
	if first := text.Unserved(x); first != "" {
		line("Rule", first)
	} else {
		for _, r := range x.Refs {
			line("Rule", fmt.Sprintf("%s: %q", text.Basis(r), r.Quote))
		}
		line("Why", x.Why)
	}
	line("Reason", x.Reason)
	for i := range x.Findings {
		f := &x.Findings[i]
		if f.Verdict == spec.Pass {
			continue
		}
		line("Check", f.Check)
		line("Accepted", f.Expected)
		line("Seen", f.Actual)
		for _, e := range f.Evidence {
			if !e.Met() {
				line("Too little evidence", fmt.Sprintf("%s, needs %s", text.Counted(e), text.Thousands(e.Floor)))
			}
		}
		line("How sure", text.Bounds(f.Bounds))
		for k, c := range f.Culprits[:min(shown, len(f.Culprits))] {
			line(fmt.Sprintf("Culprit %d of %d", k+1, len(f.Culprits)+f.MoreCulprits), fmt.Sprintf("%+.3fs %s %s", c.At.Seconds(), c.Target, c.Text))
		}
		line("Likely", f.Cause)
	}
	line("Fix", text.Fix(x))
	fmt.Fprintf(b, "- Explain: `lastcall explain %s`\n\n</details>\n", x.ID)
}

// Escape keeps a text from being taken for signs of Markdown or HTML.
func Escape(s string) string {
	return strings.NewReplacer("\\", "\\\\", "|", "\\|", "<", "&lt;", "~", "\\~", "*", "\\*", "`", "\\`", "_", "\\_", "[", "\\[", "\n", " ").Replace(s)
}
