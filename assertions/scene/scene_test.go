// SPDX-License-Identifier: Apache-2.0

package scene_test

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/scene"
)

// A quiet scene is the termination that its constants tell of. The marks of the runner are
// strings here, because the engine's own tests import this package.
func TestQuiet(t *testing.T) {
	c := assertions.NewCase(scene.Quiet().Timeline, scene.P)
	if len(c.Terminations) != 1 {
		t.Fatalf("%d terminations", len(c.Terminations))
	}
	end := c.Terminations[0]
	if end.UID != scene.UID || end.Drain.At != scene.D || end.Exit.At != scene.Exit || end.Kill != scene.D+15*time.Second {
		t.Errorf("%+v", end)
	}
	if c.Steady != 5*time.Second || c.Tail != 24*time.Second {
		t.Errorf("steady at %s, the load ends at %s", c.Steady, c.Tail)
	}
}
