// SPDX-License-Identifier: Apache-2.0

// Command lastcall records what happens to requests when pods go away, and
// judges it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/klog/v2"

	agent "github.com/lastcall-dev/lastcall/cmd/agent/cli"
	"github.com/lastcall-dev/lastcall/cmd/lastcall/cli"
	"github.com/lastcall-dev/lastcall/fixtures/system"
)

func main() {
	// client-go logs what it thinks of broken connections, which are this
	// tool's daily work: what matters comes back as an error.
	klog.SetLogger(klog.Logger{})
	if len(os.Args) > 1 && os.Args[1] == system.AgentCommand {
		signals := make(chan os.Signal, 4)
		signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
		os.Exit(agent.Run(os.Args[2:], signals, os.Stdout, os.Stderr))
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	go watch(cancel)
	os.Exit(cli.Run(ctx, os.Args[1:], os.Stdout, os.Stderr, actions()))
}

// watch cancels at the first Ctrl-C or SIGTERM, so that what was made is
// removed and what was recorded is kept. The second one ends the process.
func watch(cancel context.CancelCauseFunc) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	first := <-signals
	fmt.Fprintf(os.Stderr, "\nlastcall: %s: removing what was made, keeping what was recorded; once more to end at once\n", first)
	cancel(fmt.Errorf("stopped by %s", first))
	<-signals
	fmt.Fprintln(os.Stderr, "lastcall: ended at once: `lastcall cleanup` removes what is left")
	os.Exit(cli.ExitKilled)
}
