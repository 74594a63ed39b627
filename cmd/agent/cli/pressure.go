// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/serve"
	"github.com/lastcall-dev/lastcall/load/control"
	"github.com/lastcall-dev/lastcall/load/fortio"
)

// pressure makes closed-loop load with fortio.
type pressure struct{}

func (pressure) Press(ctx context.Context, p control.Pressure) (timeline.Event, error) {
	return fortio.Run(ctx, fortio.Spec{
		Name: p.Name, Addr: p.Addr, Conns: p.Conns, QPS: p.QPS,
		Duration: time.Duration(p.Seconds * float64(time.Second)),
	})
}

// pressureCommand makes closed-loop load in a process of its own, on the host stage.
func pressureCommand(signals <-chan os.Signal) *cobra.Command {
	c := &cobra.Command{Use: "pressure", Short: "Make closed-loop load with fortio until SIGTERM, and sum it up", Args: noArgs}
	var s fortio.Spec
	var out string
	f := c.Flags()
	f.StringVar(&s.Name, "name", "fortio", "what it is called in the record")
	f.StringVar(&s.Addr, "addr", "", "IP and port that it goes to")
	f.IntVar(&s.Conns, "conns", 100, "how many connections there are, each with one request at a time")
	f.Float64Var(&s.QPS, "qps", 100, "requests per second, of all connections together")
	f.DurationVar(&s.Duration, "at-most", time.Hour, "how long it lasts where nobody ends it")
	f.BoolVar(&s.Fresh, "fresh", false, "open a connection for each request")
	f.StringVar(&out, "out", "", "file for the summary, one record as JSON; empty: standard output")
	c.RunE = func(c *cobra.Command, _ []string) error {
		// Not untilSignal: its cause would stand in the summary as a reason to end before
		// the streams, and this signal is the ordinary end.
		ctx, cancel := serve.Until(context.Background(), signals, nil)
		defer cancel()
		e, err := fortio.Run(ctx, s)
		if err != nil {
			return err
		}
		if used, err := timeline.CPUTime(); err == nil {
			e.Attrs["cpu"] = used.String()
		}
		line, err := json.Marshal(timeline.Record{Event: &e})
		if err != nil {
			return fmt.Errorf("the summary: %w", err)
		}
		line = append(line, '\n')
		if out == "" {
			_, err = c.OutOrStdout().Write(line)
			return err
		}
		// Whole or not at all: its reader may look while it is written.
		if err := os.WriteFile(out+".part", line, 0o600); err != nil {
			return fmt.Errorf("the summary: %w", err)
		}
		return os.Rename(out+".part", out)
	}
	return c
}
