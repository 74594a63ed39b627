// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/lastcall-dev/lastcall/reports/text"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
)

// errNoPropagation: a table or a picture of nothing would be taken for a
// finding.
var errNoPropagation = errors.New("none of these reports tells of a termination's propagation: `lastcall report rejudge` adds it to older ones that have their recordings")

// group is the reports that were made in the same way, by the same command.
type group struct {
	setting     setting
	command     string
	p           v1alpha1.Duration
	reports     int
	spread      []time.Duration       // sorted
	connections *v1alpha1.Connections // nil: of no report are they known
}

// label names the group, by its setting or, where that was not told, by its
// command.
func (g *group) label() string { return cmp.Or(g.setting.String(), g.command, "unknown") }

func (g *group) median() time.Duration { return g.spread[len(g.spread)/2] }
func (g *group) worst() time.Duration  { return g.spread[len(g.spread)-1] }

// groups are ordered by setting, and have a termination each.
func (c *Comparison) groups() ([]group, error) {
	var out []group
	for i := range c.Reports {
		r := &c.Reports[i]
		if len(r.spread) == 0 {
			continue
		}
		g := position(&out,
			func(g *group) bool { return g.setting == r.setting && g.command == r.Command && g.p == r.P },
			func() group { return group{setting: r.setting, command: r.Command, p: r.P} })
		g.reports++
		g.spread = append(g.spread, r.spread...)
		if r.Connections != nil {
			if g.connections == nil {
				g.connections = &v1alpha1.Connections{}
			}
			g.connections.Add(*r.Connections)
		}
	}
	if len(out) == 0 {
		return nil, errNoPropagation
	}
	for i := range out {
		slices.Sort(out[i].spread)
	}
	slices.SortStableFunc(out, func(a, b group) int {
		return cmp.Or(
			cmp.Compare(a.setting.Kubernetes, b.setting.Kubernetes),
			cmp.Compare(a.setting.Proxy, b.setting.Proxy),
			cmp.Compare(a.setting.Family, b.setting.Family),
		)
	})
	return out, nil
}

// WriteFindings writes what the service network did during the terminations,
// by version and mode, with the command that makes each line again.
func WriteFindings(w io.Writer, c *Comparison) error {
	groups, err := c.groups()
	if err != nil {
		return err
	}
	t := table{
		head: []string{
			"Kubernetes", "kube-proxy", "IP", "reports", "terminations", "median", "worst", "P",
			"open", "survived", "reset", "cut", "again",
		},
		numbers: 3,
		code:    12,
	}
	for _, g := range groups {
		row := []string{
			cmp.Or(g.setting.Kubernetes, "?"), cmp.Or(g.setting.Proxy, "?"), cmp.Or(g.setting.Family, "?"),
			strconv.Itoa(g.reports), text.Thousands(len(g.spread)),
			text.Latency(v1alpha1.Duration(g.median())), text.Latency(v1alpha1.Duration(g.worst())), g.p.String(),
		}
		if n := g.connections; n == nil {
			row = append(row, "-", "-", "-", "-")
		} else {
			row = append(row, text.Thousands(n.Open), text.Thousands(n.Survived), text.Thousands(n.Reset), text.Thousands(n.Cut))
		}
		t.rows = append(t.rows, append(row, cmp.Or(g.command, "a cluster that the suite did not make")))
	}
	var b bytes.Buffer
	b.WriteString("<!-- Written by `lastcall report compare --propagation`. -->\n\n")
	t.markdown(&b)
	fmt.Fprintf(&b, `
- median, worst: T_lastnew - T_endpoint, how long new connections went on reaching an instance
  after its EndpointSlice said that it terminates, where another one was ready. 0 (a dash) where
  none came after that.
- open: connections that clients kept open through a Service to an instance at its T_endpoint,
  and used after it; survived: those that the same instance answered when it got no new ones any
  more (the app asks its clients to leave, so that most end before that, in good order); reset:
  ended in an RST; cut: ended without one under a request that had begun. A dash: the report is
  an older one and doesn't say.
- again: the command that makes such a line again.
`)
	return flush(w, &b)
}
