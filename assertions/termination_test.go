// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
)

// The end of an instance is that of its own container, not of one beside it.
func TestExitOfTheSubject(t *testing.T) {
	const uid = "uid-1"
	s := &scene{p: 3 * sec}
	for at, what := range map[time.Duration]string{9 * sec: "shutdown-manager", 14 * sec: "gateway"} {
		s.event(at, timeline.ProcExit, uid, map[string]string{"container": what})
		s.event(at+time.Second, timeline.PodContainer, uid, map[string]string{"container": what, "state": "terminated", "exitCode": map[string]string{"shutdown-manager": "0", "gateway": "7"}[what]})
	}
	s.event(5*sec, timeline.PodDeletion, uid, map[string]string{"grace": "30"})
	end := func() Termination {
		all := Terminations(&s.tl)
		if len(all) != 1 {
			t.Fatalf("%d terminations", len(all))
		}
		return all[0]
	}
	if e := end().Exit; !e.Known() {
		t.Error("no exit without a named container")
	}
	s.event(0, timeline.Marker, "", map[string]string{"what": MarkSubject, "deployment": "gateway", "container": "gateway"})
	if e := end(); e.Exit.At != 14*sec || e.ExitCode != 7 {
		t.Errorf("it ended at %s with %d", e.Exit.At, e.ExitCode)
	}
}
