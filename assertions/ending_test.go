// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
)

// Who says nothing of its D has it between its deletion and the kubelet's word.
func TestDrainOfABlackBox(t *testing.T) {
	const uid = "uid-1"
	killed := func(at time.Duration) func(*scene) {
		return func(s *scene) {
			s.event(at, timeline.ClusterEvent, uid, map[string]string{"reason": "Killing", "message": "Stopping container proxy"})
		}
	}
	for name, c := range map[string]struct {
		more     []func(*scene)
		from, to time.Duration
	}{
		"by its deletion alone":         {nil, 8 * sec, 12 * sec},
		"by the kubelet":                {[]func(*scene){killed(10*sec + 300*time.Millisecond)}, 10*sec - watchSkew, 10*sec + 300*time.Millisecond + stopsWithin},
		"the first of two containers":   {[]func(*scene){killed(10 * sec), killed(15 * sec)}, 10*sec - watchSkew, 10*sec + stopsWithin},
		"a restart before":              {[]func(*scene){killed(4 * sec), killed(11 * sec)}, 10*sec - watchSkew, 11*sec + stopsWithin},
		"a restart before, and no word": {[]func(*scene){killed(4 * sec)}, 8 * sec, 12 * sec},
		"a busy kubelet":                {[]func(*scene){killed(14 * sec)}, 10*sec - watchSkew, 14*sec + stopsWithin},
	} {
		s := &scene{p: 3 * sec}
		s.event(10*sec, timeline.PodDeletion, uid, map[string]string{"grace": "30"})
		for _, add := range c.more {
			add(s)
		}
		all := NewCase(&s.tl, s.p).Terminations
		if len(all) != 1 {
			t.Fatalf("%s: %d terminations", name, len(all))
		}
		if d := all[0].Drain; d.At-d.Err != c.from || d.At+d.Err != c.to {
			t.Errorf("%s: D is in [%s, %s], want [%s, %s]", name, d.At-d.Err, d.At+d.Err, c.from, c.to)
		}
	}
}

// The end of an instance is that of its own container, not of one beside it.
func TestExitOfTheSubject(t *testing.T) {
	const uid = "uid-1"
	s := &scene{p: 3 * sec}
	for at, what := range map[time.Duration]string{9 * sec: "shutdown-manager", 14 * sec: "gateway"} {
		s.event(at, timeline.ProcExit, uid, map[string]string{"container": what})
		s.event(at+time.Second, timeline.PodContainer, uid, map[string]string{"container": what, "state": "terminated", "exitCode": map[string]string{"shutdown-manager": "0", "gateway": "7"}[what]})
	}
	s.event(5*sec, timeline.PodDeletion, uid, map[string]string{"grace": "30"})
	end := func() Ending {
		all := NewCase(&s.tl, s.p).Terminations
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

// The exit code is that of the end, not of a restart before it; nobody's where only the
// restart's was seen.
func TestExitCodeIsOfTheEnd(t *testing.T) {
	const uid = "uid-1"
	for name, c := range map[string]struct {
		seen bool
		want int
	}{"seen": {true, 0}, "the pod was just gone": {false, -1}} {
		s := &scene{p: 3 * sec}
		s.event(2*sec, timeline.PodContainer, uid, map[string]string{"state": "terminated", "exitCode": "137"})
		s.event(10*sec, timeline.PodDeletion, uid, map[string]string{"grace": "30"})
		if c.seen {
			s.event(15*sec, timeline.PodContainer, uid, map[string]string{"state": "terminated", "exitCode": "0"})
		}
		s.event(16*sec, timeline.PodGone, uid, nil)
		all := NewCase(&s.tl, s.p).Terminations
		if len(all) != 1 || all[0].ExitCode != c.want || !all[0].Exit.Known() {
			t.Errorf("%s: %+v", name, all)
		}
	}
}
