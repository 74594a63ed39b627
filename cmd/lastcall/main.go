// SPDX-License-Identifier: Apache-2.0

// Command lastcall records what happens to requests when pods go away, and
// judges it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"k8s.io/klog/v2"

	agent "github.com/lastcall-dev/lastcall/cmd/agent/cli"
	"github.com/lastcall-dev/lastcall/cmd/lastcall/cli"
	mesh "github.com/lastcall-dev/lastcall/cmd/mesh/cli"
	"github.com/lastcall-dev/lastcall/fixtures/cni"
	"github.com/lastcall-dev/lastcall/fixtures/system"
)

func main() {
	// client-go logs what it thinks of broken connections, which are this
	// tool's daily work: what matters comes back as an error.
	klog.SetLogger(klog.Logger{})
	// A container runtime starts a plugin by its file's name.
	if filepath.Base(os.Args[0]) == cni.Type {
		os.Exit(cni.Main())
	}
	if len(os.Args) > 1 && (os.Args[1] == system.AgentCommand || os.Args[1] == system.MeshCommand) {
		signals := make(chan os.Signal, 4)
		signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
		if os.Args[1] == system.MeshCommand {
			hides := make(chan os.Signal, 1)
			signal.Notify(hides, syscall.SIGUSR1)
			os.Exit(mesh.Run(os.Args[2:], mesh.Signals{End: signals, Hide: hides}, os.Stderr))
		}
		os.Exit(agent.Run(os.Args[2:], signals, os.Stdout, os.Stderr))
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := listen()
	go func() {
		watch(signals, cancel)
		os.Exit(cli.ExitKilled)
	}()
	os.Exit(cli.Run(ctx, os.Args[1:], os.Stdout, os.Stderr, actions()))
}

// listen takes the signals that stop a run: Ctrl-C, SIGTERM, and a terminal that goes
// away, unless nohup said that this is not to matter. It is caught and dropped then: a
// signal that is ignored stays ignored in what a process starts, and a system that is
// told to go by SIGHUP would never hear it.
func listen() <-chan os.Signal {
	signals := make(chan os.Signal, 2)
	hangups := signals
	if signal.Ignored(syscall.SIGHUP) {
		hangups = make(chan os.Signal, 1)
	}
	signal.Notify(hangups, syscall.SIGHUP)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	return signals
}

// watch cancels at the first signal, so that what was made is removed and what was
// recorded is kept. It returns at the second one, which ends the process; a terminal that
// goes away is told by its shell and by the kernel, and both are one.
func watch(signals <-chan os.Signal, cancel context.CancelCauseFunc) {
	first := <-signals
	fmt.Fprintf(os.Stderr, "\nlastcall: %s: removing what was made, keeping what was recorded; once more to end at once\n", first)
	cancel(fmt.Errorf("stopped by %s", first))
	for s := range signals {
		if s != syscall.SIGHUP {
			break
		}
	}
	fmt.Fprintln(os.Stderr, "lastcall: ended at once: `lastcall cleanup` removes what is left")
}
