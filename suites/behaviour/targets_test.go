// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
)

func TestTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var targets Targets
		direct, node := load.Profile{Flow: flow.Flow{Path: flow.Direct}}, load.Profile{Flow: flow.Flow{Path: flow.HealthPort}}
		targets.Add(
			load.Stream{Name: flow.Named("a@one"), Profile: direct}, load.Stream{Name: flow.Named("b@one"), Profile: direct}, load.Stream{Name: flow.Named("a@two"), Profile: direct},
			load.Stream{Name: flow.Named("c@node"), Profile: node}, load.Stream{Name: flow.Named("d"), Profile: load.Profile{Flow: flow.Flow{Path: flow.Service}}})
		for uid, want := range map[string]bool{"one": false, "two": false, "node": true, "three": true} {
			if got := targets.Claim(uid); got != want {
				t.Errorf("claim of %s: %v", uid, got)
			}
			if targets.Claim(uid) {
				t.Errorf("%s was claimed twice", uid)
			}
		}
		failed := errors.New("failed")
		gone := func(ctx context.Context, uid string) (names []flow.Stream, after time.Duration, err error) {
			begun := time.Now()
			err = targets.Gone(ctx, uid, func(_ context.Context, of ...flow.Stream) error { names = of; return failed })
			return names, time.Since(begun), err
		}
		if names, after, err := gone(t.Context(), "one"); !slices.Equal(names, []flow.Stream{flow.Named("a@one"), flow.Named("b@one")}) || after != afterGone || !errors.Is(err, failed) {
			t.Errorf("%q after %v, %v", names, after, err)
		}
		for _, uid := range []string{"one", "three", "node", "nobody"} {
			if names, after, err := gone(t.Context(), uid); names != nil || after != 0 || err != nil {
				t.Errorf("%s has none: %q after %v, %v", uid, names, after, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if names, after, err := gone(ctx, "two"); names != nil || after != time.Second || err != nil {
			t.Errorf("the recording is over: %q after %v, %v", names, after, err)
		}
	})
}
