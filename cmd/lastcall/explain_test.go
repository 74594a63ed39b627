// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/lastcall-dev/lastcall/cmd/lastcall/cli"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
	"github.com/lastcall-dev/lastcall/suites"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
)

// Each run that `lastcall explain` prints is one that `lastcall run` begins: its stage carries the behaviour, its system is
// put to it, and something there has the fault.
func TestExplainedRuns(t *testing.T) {
	t.Chdir("../..") // systems are named as in a checkout
	for _, b := range behaviour.Catalogue() {
		var said strings.Builder
		if code := cli.Run(t.Context(), []string{"explain", b.ID}, &said, io.Discard, cli.Actions{}); code != 0 {
			t.Fatalf("explain %s: exit %d", b.ID, code)
		}
		_, runs, _ := strings.Cut(said.String(), "\nSee it fail\n")
		shown := 0
		for line := range strings.Lines(runs) {
			shown++
			command, _, _ := strings.Cut(line, "(") // what the fault does
			var told strings.Builder
			begins := false
			cli.Run(t.Context(), strings.Fields(command)[1:], io.Discard, &told, cli.Actions{
				Execute: func(_ context.Context, r cli.RunRequest) ([]*v1alpha1.ConformanceReport, error) {
					cfg, err := config(r)
					if err == nil {
						err = suites.Check(cfg)
					}
					if err == nil && cfg.System != nil {
						if _, skip := behaviour.Fit(b, cfg.System); skip.Why != "" {
							err = errors.New(skip.Why)
						}
					}
					begins = err == nil
					return nil, err
				},
			})
			if !begins {
				t.Errorf("%s%s", line, told.String())
			}
		}
		if shown != len(b.BrokenBy) {
			t.Errorf("%s: %d runs, and %d faults break it:\n%s", b.ID, shown, len(b.BrokenBy), runs)
		}
	}
}
