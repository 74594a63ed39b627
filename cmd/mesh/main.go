// SPDX-License-Identifier: Apache-2.0

// Command mesh is the programs of the reference mesh, in one static binary: the sidecar, who writes
// its pod's redirect rules, and the controller. It is fit to be PID 1. They are not the agent's: what
// they link (gRPC, Envoy's messages) each probe and echo app would have to load at its start.
package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/lastcall-dev/lastcall/cmd/mesh/cli"
)

func main() {
	// As PID 1 a signal without a handler is dropped by the kernel: the
	// handler is there before anything else is done.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	hides := make(chan os.Signal, 1)
	signal.Notify(hides, syscall.SIGUSR1)
	os.Exit(cli.Run(os.Args[1:], cli.Signals{End: signals, Hide: hides}, os.Stderr))
}
