// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command bench measures the probe beside its peers (fortio, hey, vegeta, wrk,
// h2load), all of them against one server, over the loopback interface only: what
// a request costs, how well the schedule is kept, what a connection takes, and
// how short an outage may be to be seen. `make bench-peers` runs it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		stop()
		os.Exit(1)
	}
}

// run measures, or is one of the processes that are started for it.
func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "backend":
		return backendMain(ctx)
	case len(args) == 2 && (args[0] == "probe" || args[0] == "fortio"):
		return ownMain(ctx, args[0], args[1])
	}
	var p plan
	var only, out, tools string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.IntVar(&p.rounds, "rounds", 3, "how often each client is measured; the table has medians")
	f.DurationVar(&p.lasts, "lasts", 8*time.Second, "how long one run of requests is")
	f.IntVar(&p.outages, "outages", 300, "outages of each length, in all rounds together")
	f.IntVar(&p.idle, "idle", 10000, "connections that are held")
	f.StringVar(&p.what, "what", "cpu,schedule,memory,outages", "what is measured")
	f.StringVar(&only, "only", "", "clients, with commas between; empty: all")
	f.StringVar(&tools, "tools", "bin/peers", "where hey and vegeta stand")
	f.StringVar(&out, "out", "", "a Markdown file whose table is written anew; empty: standard output")
	calm := f.Duration("calm", 20*time.Second, "how long each run waits for a quiet machine")
	if err := f.Parse(args); err != nil {
		return err
	}
	if runtime.NumCPU() < 2 {
		return fmt.Errorf("one processor: client and server need one each")
	}
	if err := moreFiles(uint64(p.idle) + 1000); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b, end, err := newBench(ctx, self)
	if err != nil {
		return err
	}
	defer end()
	b.calm = *calm
	b.log = func(format string, args ...any) { fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...) }
	p.peers = peers(ctx, self, tools)
	if only != "" {
		names := strings.Split(only, ",")
		p.peers = slices.DeleteFunc(p.peers, func(c *peer) bool { return !slices.Contains(names, c.name) })
	}
	begun := time.Now()
	runs, err := p.measure(ctx, b)
	if err != nil {
		return err
	}
	t := table{plan: p, runs: runs, begun: begun, command: "go run ./load/bench " + strings.Join(args, " ")}
	return write(out, t.markdown())
}

// The table stands between these lines; what is around them is people's.
const (
	tableBegins = "<!-- make bench-peers writes from here -->\n"
	tableEnds   = "<!-- to here -->\n"
)

// write puts the table into a file, in place of its old one.
func write(path, text string) error {
	if path == "" {
		_, err := os.Stdout.WriteString(text)
		return err
	}
	old, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("the page for the table: %w", err)
	}
	before, rest, ok := strings.Cut(string(old), tableBegins)
	_, after, ends := strings.Cut(rest, tableEnds)
	if !ok || !ends {
		return fmt.Errorf("%s has no place for the table: want the lines %q and %q", path, tableBegins, tableEnds)
	}
	return os.WriteFile(path, []byte(before+tableBegins+text+tableEnds+after), 0o644)
}
