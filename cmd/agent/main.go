// SPDX-License-Identifier: Apache-2.0

// Command agent is everything of Lastcall that runs beside the system under
// test, in one static binary: the probe that makes load, the echo app that is
// loaded, and the witness that sees processes go. It is fit to be PID 1.
package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/lastcall-dev/lastcall/cmd/agent/cli"
)

func main() {
	// As PID 1 a signal without a handler is dropped by the kernel: the
	// handler is there before anything else is done.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	os.Exit(cli.Run(os.Args[1:], signals, os.Stdout, os.Stderr))
}
