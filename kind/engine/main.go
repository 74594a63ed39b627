// SPDX-License-Identifier: Apache-2.0

// Command engine makes a container engine answer on this machine: it installs
// Debian's docker where there is none, starts it where nothing else does, and
// puts the capability shim in front of runc where the bounding set needs it.
// Each thing that it does is one line on standard output; where nothing is to
// be done it says so, and does nothing.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	setup := setup{say: func(format string, args ...any) { fmt.Printf("engine: "+format+"\n", args...) }}
	if err := setup.run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "engine: %v\n", err)
		stop()
		os.Exit(1)
	}
}
