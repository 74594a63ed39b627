// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"testing/synctest"
)

// TestMain lets this binary be a lastcall that starts what hangs itself up.
func TestMain(m *testing.M) {
	if os.Getenv("LASTCALL_TEST_AS") == "parent" {
		listen()
		out, err := exec.Command("sh", "-c", "kill -HUP $$; echo it did not hear").CombinedOutput()
		if len(out) > 0 || err == nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// What is started under nohup hears a SIGHUP, as in a container.
func TestNohupStaysHere(t *testing.T) {
	for _, before := range []string{"", "trap '' HUP; "} {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", before+`exec "$0"`, os.Args[0])
		cmd.Env = append(os.Environ(), "LASTCALL_TEST_AS=parent", "GORACE=atexit_sleep_ms=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%q: %v %s", before, err, out)
		}
	}
}

func TestWatch(t *testing.T) {
	for _, tc := range []struct {
		name  string
		heard []os.Signal
		said  string
		ends  bool
	}{
		{"Ctrl-C", []os.Signal{os.Interrupt}, "stopped by interrupt", false},
		{"SIGTERM, and Ctrl-C", []os.Signal{syscall.SIGTERM, os.Interrupt}, "stopped by terminated", true},
		{"a terminal that goes away is told twice", []os.Signal{syscall.SIGHUP, syscall.SIGHUP}, "stopped by hangup", false},
		{"and Ctrl-C", []os.Signal{syscall.SIGHUP, syscall.SIGHUP, os.Interrupt}, "stopped by hangup", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				signals, ended := make(chan os.Signal), false
				ctx, cancel := context.WithCancelCause(t.Context())
				go func() {
					watch(signals, cancel)
					ended = true
				}()
				for _, s := range tc.heard {
					signals <- s
				}
				synctest.Wait()
				if got := context.Cause(ctx); got == nil || got.Error() != tc.said || ended != tc.ends {
					t.Errorf("%v, ended %t; want %s, %t", got, ended, tc.said, tc.ends)
				}
				if !ended {
					signals <- os.Interrupt
				}
			})
		})
	}
}
