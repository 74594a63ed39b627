// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lastcall-dev/lastcall/fixtures/system"
)

// title is a column's.
func (c column) title() string {
	switch c.Grace {
	case short:
		return fmt.Sprintf("%s, grace %s", c.stands(), short)
	case long:
		return fmt.Sprintf("%s, grace an hour", c.stands())
	}
	return fmt.Sprintf("%s, a Job", c.stands())
}

// stands is how its sidecar stands in its pod: those that are alike have a table.
func (c column) stands() string {
	if c.PreStop {
		return string(c.Form) + " with a preStop hook"
	}
	return string(c.Form)
}

// text is a cell's.
func (c cell) text() string {
	if c.Why != "" {
		return "? (" + c.Why + ")"
	}
	if len(c.Jobs) > 0 {
		out := slices.Clone(c.Jobs)
		slices.Sort(out)
		return strings.Join(out, "; ")
	}
	gone := fmt.Sprintf("gone %s after its app", c.Stays.Round(100*time.Millisecond))
	if c.Stayed {
		gone = fmt.Sprintf("**still there after %s**", lookAt)
	}
	return fmt.Sprintf("in %s; out %s; %s", c.In.text(), c.Out.text(), gone)
}

// text is a share in words that stand out where something was lost.
func (s share) text() string {
	if s.Lost > 0 {
		return "**" + s.String() + "**"
	}
	return s.String()
}

// tables are those of the page, and from when on what they tell counts.
var tables = []struct{ stands, from string }{
	{column{Form: system.Plain}.stands(), "SIGTERM"},
	{column{Form: system.Native}.stands(), "SIGTERM"},
	{column{Form: system.Native, PreStop: true}.stands(), "its preStop hook"},
}

// write is the page of what was measured.
func write(rows []row) []byte {
	var b bytes.Buffer
	var made []string
	for _, r := range rows {
		made = append(made, r.Made...)
	}
	slices.Sort(made)
	fmt.Fprintf(&b, `# When a sidecar should accept no more

linkerd2 issue 10379 disputes it: a proxy that refuses at SIGTERM is quickly gone, and loses what its app would have served; one
that goes on accepting may never end. Below is what each way to leave costs, counted on kind, three nodes
(%s): the reference sidecar (docs/mesh.md), each way as a setting of the same program.

The app accepts for 12 s from D, whatever its grace period, and then ends. Two of three pods are deleted while clients in the
mesh ask each of them (20 new connections a second, and requests that take 2 s on kept ones), and the app itself calls another one
(20 new connections a second, 10 requests on kept ones). **in** is what was asked of the pods from D until their app accepted no more, and was lost;
**out** what they called from D until their app's exit, and was lost; the time is that of the pod's last process behind its app.

`, strings.Join(slices.Compact(made), "; "))
	for _, one := range tables {
		var of []int
		var heads []string
		for i, c := range columns {
			if c.stands() == one.stands {
				of = append(of, i)
				heads = append(heads, c.title())
			}
		}
		fmt.Fprintf(&b, "| from %s on it | %s |\n|---|%s\n", one.from, strings.Join(heads, " | "), strings.Repeat("---|", len(heads)))
		for _, r := range rows {
			var cells []string
			for _, i := range of {
				cells = append(cells, r.Cells[i].text())
			}
			fmt.Fprintf(&b, "| %s (`leave: %s`) | %s |\n", r.Does, r.Leave, strings.Join(cells, " | "))
		}
		b.WriteString("\n")
	}
	b.WriteString(`A plain container gets SIGTERM together with its app; a native sidecar when its app has exited: so all its ways lose nothing, and
differ in how long they keep the pod: a wait begins when the app has gone. One whose preStop hook begins its end hears of that at T_del, and
is then as a plain one that knows when its app has gone. The pod of a Job gets no SIGTERM: whatever a plain sidecar would do at it, it never does.
Something passes through each pod at any time here: one that leaves at zero leaves an app too that is idle for a moment
(lastcall explain sidecar.truthful-zero).

A 0 says no more than that none of so many was lost. Each cell is one recording, two terminations (a Job's: three Jobs, one of which is to
fail, and one a CronJob's):

| strategy | recordings, by the folder of the run |
|---|---|
`)
	for _, r := range rows {
		var names []string
		for _, p := range parts {
			for _, c := range p.columns {
				names = append(names, fmt.Sprintf("%s: `%s/%s`", c.title(), p.of(r.strategy), r.Cells[len(names)].Scenario))
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", r.Name, strings.Join(names, "; "))
	}
	b.WriteString("\nMade by `go run ./cmd/strategies`, which takes up where it stopped.\n")
	return b.Bytes()
}
