// SPDX-License-Identifier: Apache-2.0

package suites_test

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	// The ginkgo program hands its flags to a package only where a test file imports Ginkgo.
	_ "github.com/onsi/ginkgo/v2"

	"github.com/lastcall-dev/lastcall/suites"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

// settings are what `lastcall run` has flags for. A variable, because flags are to be known
// before they are read.
var settings = suites.AddFlags(flag.CommandLine)

// TestConformance is `lastcall run` in Ginkgo's hands: it makes a kind cluster, judges it
// and takes it away again.
//
//	go test ./suites -run TestConformance -timeout 60m
//	go tool ginkgo --label-filter='area:pod && level:MUST' ./suites
//	go test ./suites -run TestConformance -v -lastcall.stage=host
//	LASTCALL_K8S=1.36 go tool ginkgo ./suites -- -lastcall.kube-proxy=nftables
//
// The settings are in settings.go: `go test ./suites -args -h` prints them.
func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("it is a whole run, on a kind cluster of its own, and this is -short")
	}
	t.Chdir("..") // files are named as from the module's root
	cfg, err := settings.Config(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Out, err = filepath.Abs(cfg.Out); err != nil {
		t.Fatal(err)
	}
	cfg.Say = func(format string, args ...any) { fmt.Printf("lastcall: "+format+"\n", args...) }
	cfg.Planned = func(_ string, plan []behaviour.Scenario, takes time.Duration) {
		cfg.Say("%d recordings, about %s; the report goes to %s", len(plan), takes.Round(5*time.Second), cfg.Out)
	}
	// Ctrl-C has to find the cluster removed also before Ginkgo listens.
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	suites.RunContext(ctx, t, cfg)
}
