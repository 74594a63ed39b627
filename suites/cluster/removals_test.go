// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// What is recorded again waits for its own namespace, and for no other; what failed is told at the end.
func TestRemovals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r removals
		broken := errors.New("broken")
		begun := time.Now()
		for name, takes := range map[string]time.Duration{"a": time.Second, "b": 2 * time.Second} {
			r.begin(name, func() error {
				<-time.After(takes)
				if name == "b" {
					return broken
				}
				return nil
			})
		}
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		for _, c := range []struct {
			ctx  context.Context
			name string
			err  error
			took time.Duration // since the removals began
		}{
			{t.Context(), "another", nil, 0},
			{short, "a", context.DeadlineExceeded, time.Millisecond},
			{t.Context(), "a", nil, time.Second},
		} {
			if err := r.of(c.ctx, c.name); !errors.Is(err, c.err) || time.Since(begun) != c.took {
				t.Errorf("%s: %v after %v, want %v after %v", c.name, err, time.Since(begun), c.err, c.took)
			}
		}
		if err := r.begun(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("those begun, for a millisecond: %v", err)
		}
		if err := r.begun(t.Context()); err != nil || time.Since(begun) != 2*time.Second {
			t.Errorf("those begun: %v after %v", err, time.Since(begun))
		}
		r.begin("slow", func() error { <-time.After(time.Minute); return nil })
		if err := r.begun(t.Context()); err != nil || time.Since(begun) != 2*time.Second+feltFor {
			t.Errorf("one that takes long: %v after %v", err, time.Since(begun))
		}
		if err := r.wait(); !errors.Is(err, broken) || time.Since(begun) != 2*time.Second+time.Minute {
			t.Errorf("all: %v after %v", err, time.Since(begun))
		}
	})
}
