// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"github.com/lastcall-dev/lastcall/reports/markdown"
	"github.com/lastcall-dev/lastcall/reports/text"
)

// WriteText writes the comparison for a person at a terminal.
func WriteText(w io.Writer, c *Comparison) error {
	return writeText(w, c.title(), c.sections(), c.conclusion())
}

func (c *Comparison) title() string {
	return fmt.Sprintf("%d reports, held against the first", len(c.Reports))
}

func writeText(w io.Writer, title string, all []section, conclusion string) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "Lastcall: %s\n\n", title)
	for _, s := range all {
		fmt.Fprintf(&b, "%s\n", s.title)
		s.table.text(&b)
		for _, n := range s.notes {
			b.WriteString(text.Wrap("  ", n))
		}
		b.WriteString("\n")
	}
	b.WriteString(text.Wrap("", conclusion))
	return flush(w, &b)
}

func (t table) text(b *bytes.Buffer) {
	if len(t.rows) == 0 {
		return
	}
	rows := append([][]string{t.head}, t.rows...)
	// The last cell is a paragraph: it gets what the others leave of the line.
	taken := 2
	for i := range t.head[:len(t.head)-1] {
		widest := 0
		for _, row := range rows {
			for part := range strings.SplitSeq(row[i], "\n") {
				widest = max(widest, utf8.RuneCountInString(part))
			}
		}
		taken += widest + 2
	}
	var out bytes.Buffer
	tab := tabwriter.NewWriter(&out, 0, 8, 2, ' ', 0)
	for _, row := range rows {
		for _, line := range lines(row, min(taken, 64)) {
			fmt.Fprintf(tab, "  %s\n", strings.Join(line, "\t"))
		}
	}
	tab.Flush()
	for line := range strings.Lines(out.String()) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
}

// lines breaks a row into as many as its tallest cell has lines. The last
// cell's are broken where they would not fit behind what is taken.
func lines(row []string, taken int) [][]string {
	cells := make([][]string, len(row))
	tall, last := 1, len(row)-1
	for i, cell := range row {
		cells[i] = strings.Split(cell, "\n")
		if i == last {
			cells[i] = nil
			for part := range strings.SplitSeq(cell, "\n") {
				for line := range strings.Lines(text.Wrap(strings.Repeat(" ", taken), part)) {
					cells[i] = append(cells[i], strings.TrimSpace(line))
				}
			}
		}
		tall = max(tall, len(cells[i]))
	}
	out := make([][]string, tall)
	for n := range out {
		out[n] = make([]string, len(row))
		for i, c := range cells {
			if n < len(c) {
				out[n][i] = c[n]
			}
		}
	}
	return out
}

// WriteMarkdown writes the comparison for a page, such as a CI run's summary.
func WriteMarkdown(w io.Writer, c *Comparison) error {
	return writeMarkdown(w, c.title(), c.sections(), c.conclusion())
}

func writeMarkdown(w io.Writer, title string, all []section, conclusion string) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "## Lastcall: %s\n\n**%s**\n", title, markdown.Escape(conclusion))
	for _, s := range all {
		fmt.Fprintf(&b, "\n### %s\n\n", s.title)
		s.table.markdown(&b)
		for _, n := range s.notes {
			fmt.Fprintf(&b, "\n%s\n", markdown.Escape(n))
		}
	}
	return flush(w, &b)
}

func (t table) markdown(b *bytes.Buffer) {
	if len(t.rows) == 0 {
		return
	}
	line := func(cells []string, br string, code int) {
		for i, c := range cells {
			if code > 0 && i == code {
				fmt.Fprintf(b, "| `%s` ", c)
				continue
			}
			var parts []string
			for p := range strings.SplitSeq(c, "\n") {
				parts = append(parts, markdown.Escape(strings.TrimSpace(p)))
			}
			fmt.Fprintf(b, "| %s ", strings.Join(parts, br))
		}
		b.WriteString("|\n")
	}
	line(t.head, " ", 0)
	for i := range t.head {
		if i >= t.numbers {
			b.WriteString("|---:")
		} else {
			b.WriteString("|---")
		}
	}
	b.WriteString("|\n")
	for _, row := range t.rows {
		line(row, "<br>", t.code)
	}
}

// WriteYAML writes the comparison for a program.
func WriteYAML(w io.Writer, c *Comparison) error {
	return writeYAML(w, c)
}

func writeYAML(w io.Writer, document any) error {
	out, err := yaml.Marshal(document)
	if err != nil {
		return fmt.Errorf("write the comparison: %w", err)
	}
	return flush(w, bytes.NewBuffer(out))
}

func flush(w io.Writer, b *bytes.Buffer) error {
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write the comparison: %w", err)
	}
	return nil
}
