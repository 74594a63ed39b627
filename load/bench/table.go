// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// table is what was measured, for people.
type table struct {
	plan
	runs    runs
	begun   time.Time
	command string
	text    strings.Builder
}

func (t *table) line(format string, args ...any) { fmt.Fprintf(&t.text, format+"\n", args...) }

func (t *table) markdown() string {
	t.line("\nMeasured on %s, on %s; %d rounds, the clients in turn, medians of the rounds. The host took %s of the processors' time during a run (median, and worst).",
		t.begun.UTC().Format("2006-01-02"), machine(), t.rounds, t.stolen())
	t.line("Command: `%s`.\n", t.command)
	for _, c := range t.peers {
		if c.needs != "" {
			t.line("- %s: not measured: not installed (%s)", c.name, c.needs)
		} else {
			t.line("- %s %s", c.name, c.version)
		}
	}
	for _, part := range []struct {
		what  string
		print func()
	}{{"cpu", t.cost}, {"schedule", t.schedule}, {"memory", t.memory}, {"outages", t.outage}} {
		if slices.ContainsFunc(t.kinds(), func(k kind) bool { return k.what == part.what }) {
			part.print()
		}
	}
	t.line("")
	return t.text.String()
}

// stolen is what the host took, of all runs.
func (t *table) stolen() string {
	var all []float64
	for _, of := range t.runs {
		for _, ms := range of {
			for _, m := range ms {
				all = append(all, m.stolen)
			}
		}
	}
	slices.Sort(all)
	return fmt.Sprintf("%.1f%% and %.1f%%", 100*percentile(all, 50), 100*percentile(all, 100))
}

// of is the median of something over the rounds of a client.
func of(ms []measured, get func(m measured) float64) float64 {
	var all []float64
	for _, m := range ms {
		all = append(all, get(m))
	}
	return median(all)
}

// micros is the processor time of a request, in microseconds.
func micros(m measured) float64 {
	return float64(m.cpu.Microseconds()) / float64(max(1, m.count.Requests))
}

func perSecond(m measured) float64 { return float64(m.count.Requests) / m.took.Seconds() }

// head begins a table.
func (t *table) head(columns ...string) {
	t.line("| %s |\n|%s", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
}

// rows prints a row for each client: cells is called where it was measured.
func (t *table) rows(columns int, k kind, cells func(c *peer) []string) {
	for _, c := range t.peers {
		row := []string{c.name}
		if lacks := k.lacks(c); lacks != "" {
			row = append(row, lacks)
		} else {
			row = append(row, cells(c)...)
		}
		for len(row) < columns {
			row = append(row, "")
		}
		t.line("| %s |", strings.Join(row, " | "))
	}
}

func (t *table) cost() {
	t.line("\n### Processor time of a request\n")
	t.line("User and system time of the client's process in µs, for each request that the server took: %d/s for %v over %d connections (wrk, and h2load with new ones: all that they can).\n", costRate, t.lasts, conns)
	t.head("client", "reused connections", "requests/s", "new connections", "requests/s")
	kept, fresh := kind{what: "cpu"}, kind{what: "cpu", new: true}
	t.rows(5, kept, func(c *peer) []string {
		var out []string
		for _, k := range []kind{kept, fresh} {
			ms := t.runs[k][c]
			out = append(out, fmt.Sprintf("%.1f", of(ms, micros)), fmt.Sprintf("%.0f", of(ms, perSecond)))
		}
		return out
	})
}

func (t *table) schedule() {
	t.line("\n### Schedule at %d/s\n", scheduleRate)
	t.line("Reused connections. By how much the k-th arrival at the server missed the k-th turn of the ideal schedule, earlier or later, after the first second. The probe sends at a random instant of each turn, of %v: that much is meant. Its own clock says how late it began.\n", time.Second/scheduleRate)
	t.head("client", "reached, /s", "p50", "p99", "worst", "by its own clock: p50", "p99", "worst")
	k := kind{what: "schedule"}
	t.rows(8, k, func(c *peer) []string {
		ms := t.runs[k][c]
		out := []string{fmt.Sprintf("%.0f", of(ms, func(m measured) float64 {
			_, rate := offSchedule(m.count.Arrivals, scheduleRate)
			return rate
		}))}
		for _, p := range []float64{50, 99, 100} {
			out = append(out, fmt.Sprintf("%.3f ms", of(ms, func(m measured) float64 {
				errs, _ := offSchedule(m.count.Arrivals, scheduleRate)
				return percentile(errs, p).Seconds() * 1000
			})))
		}
		for i := range ms[0].result.Late {
			out = append(out, fmt.Sprintf("%.3f ms", of(ms, func(m measured) float64 { return m.result.Late[i].Seconds() * 1000 })))
		}
		return out
	})
}

func (t *table) memory() {
	t.line("\n### Memory of %d idle connections\n", t.idle)
	t.line("Peak resident size of the client's process while so many connections are open and say nothing: the server withholds the answer to the one request of each.\n")
	t.head("client", "connections", "MiB", "KiB each")
	k := kind{what: "memory"}
	t.rows(4, k, func(c *peer) []string {
		ms := t.runs[k][c]
		open := of(ms, func(m measured) float64 { return float64(m.count.Open) })
		peak := of(ms, func(m measured) float64 { return float64(m.peak) })
		return []string{fmt.Sprintf("%.0f", open), fmt.Sprintf("%.0f", peak/(1<<20)), fmt.Sprintf("%.1f", peak/(1<<10)/max(1, open))}
	})
}

// seen is how many outages of a length a client has seen, of how many: those that
// met a request of it, if it told of as many failures as it met; else no more than
// it told of.
func seen(ms []measured) (n, times int, hidden bool) {
	for _, m := range ms {
		times += len(m.count.Outages)
		if m.result.Failed < m.count.Refused {
			hidden = true
			n += min(m.count.Met, m.result.Failed)
		} else {
			n += m.count.Met
		}
	}
	return n, times, hidden
}

func (t *table) outage() {
	t.line("\n### The shortest outage that is seen\n")
	t.line("A gate in the server resets what comes within it, %d times for each length, at random instants, 10 to 30 ms apart. The clients send %d/s over %d connections (wrk: all that it can). Seen has an outage who met it and told of the failure. In brackets: how likely it is to be seen, at least (95%%, Clopper-Pearson). ≤: the client told of fewer failures than it met.\n",
		max(1, t.outages/t.rounds)*t.rounds, outageRate, conns)
	columns := []string{"client", "connections"}
	for _, l := range lengths {
		columns = append(columns, l.String())
	}
	t.head(append(columns, "shortest seen 99 times in 100")...)
	for _, fresh := range []bool{true, false} {
		t.rows(len(columns)+1, kind{what: "outages", new: fresh}, func(c *peer) []string {
			out := []string{"reused"}
			if fresh {
				out[0] = "new"
			}
			shortest, all := "none of these", true
			for _, l := range slices.Backward(lengths) {
				n, times, hidden := seen(t.runs[kind{"outages", fresh, l}][c])
				cell := fmt.Sprintf("%d of %d (%.1f%%)", n, times, 100*atLeast(n, times))
				if hidden {
					cell = "≤ " + cell
				}
				out = slices.Insert(out, 1, cell)
				if all = all && float64(n) >= 0.99*float64(times); all {
					shortest = l.String()
				}
			}
			return append(out, shortest)
		})
	}
}
