// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
)

// asMesh has this binary be the mesh's programs.
const asMesh = "LASTCALL_TEST_MESH"

func TestMain(m *testing.M) {
	if os.Getenv(asMesh) == "" {
		os.Exit(m.Run())
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM)
	os.Exit(Run(os.Args[1:], Signals{End: signals}, os.Stderr))
}
