// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/spf13/cobra"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/witness"
	"github.com/lastcall-dev/lastcall/load/control"
)

// watch is one thing that a witness does until its context ends.
type watch func(ctx context.Context) error

func witnessCommand(signals <-chan os.Signal, stderr io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "witness", Short: "See from the node how pods end, and gather their ledgers", Args: noArgs}
	id, ch := identityFlags(c), channelFlags(c)
	var ledger, collect string
	c.Flags().StringVar(&ledger, "ledger", "", "folder with the ledgers of this node's pods (hostPath)")
	c.Flags().StringVar(&collect, "collect", "", "address on which pods hand over their ledgers; then nothing of the node is looked at")
	c.RunE = func(*cobra.Command, []string) error {
		if ledger == "" {
			return usage("--ledger is needed: the folder in which ledgers are, or with --collect are to be kept")
		}
		ctx, cancel := untilSignal(signals)
		defer cancel()
		spool, l, creds, err := ch.open(ctx)
		if err != nil {
			return err
		}
		s := &control.Server{Role: "witness", Spool: spool}
		tail, err := witness.NewTail(ledger, id.node, s.Emit)
		if err != nil {
			return errors.Join(err, l.Close(), spool.Close())
		}
		watches := []watch{tail.Run}
		if collect != "" {
			w, err := collector(ctx, ledger, collect, creds, stderr)
			if err != nil {
				return errors.Join(err, l.Close(), spool.Close())
			}
			watches = append(watches, w)
		} else {
			watches = append(watches, nodeWatches(s, tail, id.node, stderr)...)
		}
		// The ledgers are looked at a last time before the history ends.
		served, end := context.WithCancel(context.WithoutCancel(ctx))
		defer end()
		watched := runAll(ctx, watches, s, id.node)
		go func() { <-watched.done; end() }()
		err = ch.serve(served, s, l, creds, id, stderr)
		cancel()
		<-watched.done
		return errors.Join(err, watched.err)
	}
	return c
}

func collector(ctx context.Context, dir, addr string, creds control.Credentials, stderr io.Writer) (watch, error) {
	config, err := creds.ServerTLS()
	if err != nil {
		return nil, err
	}
	boot, err := timeline.BootID()
	if err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listening for ledgers: %w", err)
	}
	return func(ctx context.Context) error { return witness.NewCollector(dir, boot, stderr).Serve(ctx, l, config) }, nil
}

type watched struct {
	done chan struct{}
	err  error
}

// runAll runs all watches until ctx ends. One that ends before is blind from
// then on: the history says so, and the others end with it.
func runAll(ctx context.Context, watches []watch, s *control.Server, node string) *watched {
	ctx, cancel := context.WithCancel(ctx)
	w := &watched{done: make(chan struct{})}
	results := make(chan error, len(watches))
	for _, run := range watches {
		go func() { results <- run(ctx) }()
	}
	go func() {
		defer close(w.done)
		defer cancel()
		for range watches {
			err := <-results
			if err == nil {
				continue
			}
			w.err = errors.Join(w.err, err)
			s.Emit(timeline.Record{Event: &timeline.Event{
				At: timeline.Monotonic(), Source: "witness", Kind: timeline.WatchGap, Subject: "witness", Node: node,
				Attrs: map[string]string{"why": err.Error()},
			}})
			cancel()
		}
	}()
	return w
}
