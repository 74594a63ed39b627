// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// The scene's pod serves for 12 s after its D, and the load ends 4.3 s after its exit.
func TestAcceptsUntil(t *testing.T) {
	nobodyDials := func(s *scene) {
		s.tl.Samples = slices.DeleteFunc(s.tl.Samples, func(x timeline.Sample) bool { return x.Start >= shut })
	}
	unseen := func(s *scene) { nobodyDials(s); s.drop(ofKind(timeline.ProcExit, timeline.PodGone)) }
	const dials = "new connections dialled at the pod in [D, D+10s]"
	for name, tc := range map[string]struct {
		after time.Duration
		own   []Floor
		edit  func(*scene)
		want  spec.Verdict
		says  string
	}{
		"it serves":                         {10 * sec, nil, nil, spec.Pass, "were served"},
		"over more than there were":         {10 * sec, []Floor{{Name: dials, N: 100_000}}, nil, spec.Inconclusive, "at least 100000 are needed"},
		"another's floor":                   {10 * sec, []Floor{{Name: "dials", N: 100_000}}, nil, spec.Pass, ""},
		"it serves no more":                 {14 * sec, nil, nil, spec.Fail, "failed within 14s of the drain's start"},
		"it has left, and nobody dials":     {14 * sec, nil, nobodyDials, spec.Inconclusive, "pod-a left at D + 12.19s"},
		"the load is over":                  {20 * sec, nil, unseen, spec.Inconclusive, "the load ended at D + 16.49s of pod-a"},
		"the load is over, and one is lost": {20 * sec, nil, func(s *scene) { s.drop(ofKind(timeline.ProcExit, timeline.PodGone)) }, spec.Fail, ""},
	} {
		s := healthy()
		if tc.edit != nil {
			tc.edit(s)
		}
		if f := s.run(AcceptsUntil(tc.after, tc.own...)); f.Verdict != tc.want || !strings.Contains(f.Actual, tc.says) {
			t.Errorf("%s: %s, %q; want %s, %q", name, f.Verdict, f.Actual, tc.want, tc.says)
		}
	}
}

// Those that were dialled in the window are counted, and of the others those that failed.
func TestAcceptsUntilCounts(t *testing.T) {
	f := healthy().run(AcceptsUntil(10 * sec))
	counted := f.Evidence[slices.IndexFunc(f.Evidence, func(c spec.Count) bool { return c.Name == "new connections dialled at the pod in [D, D+10s]" })].N
	if says := fmt.Sprintf("all %d new connections", counted); counted < 50 || !strings.Contains(f.Actual, says) {
		t.Errorf("%q, want %q", f.Actual, says)
	}
	s := healthy()
	const began = del + 10*time.Millisecond
	inside, failed := 0, 0
	for i := range s.tl.Samples {
		x := &s.tl.Samples[i]
		if !directTo(*x, uid) || slowOp(*x) || !x.New() || arrival(*x) < began || arrival(*x) > began+10*sec {
			continue
		}
		if inside++; inside%10 == 0 {
			x.Outcome, failed = timeline.Refused, failed+1
		}
	}
	f = s.run(AcceptsUntil(10 * sec))
	if says := fmt.Sprintf("%d of %d new connections failed", failed, inside); failed == 0 || f.Verdict != spec.Fail || !strings.Contains(f.Actual, says) {
		t.Errorf("%s, %q, want %q", f.Verdict, f.Actual, says)
	}
}

// Each check that takes floors of a caller's holds its evidence against them, each of them.
func TestFloorsOfACaller(t *testing.T) {
	for _, check := range []func(...Floor) Check{
		ZeroFailed, SendsGoAway, CloseNotifyFirst,
		func(own ...Floor) Check { return AcceptsUntil(10*sec, own...) },
	} {
		for i, f := range check().Floors {
			f.N = 987_654
			k := check(f)
			if k.Floors[i].N != f.N {
				t.Errorf("%s: declares %d for %q", k.Name, k.Floors[i].N, f.Name)
			}
			said := false
			for _, c := range healthy().run(k).Evidence {
				if c.Name == f.Name && c.Floor == f.N {
					said = true
				}
			}
			if !said && f.Name != "requests on kept connections" { // asks for nothing, and is not counted
				t.Errorf("%s: counts into another floor for %q", k.Name, f.Name)
			}
		}
	}
}
