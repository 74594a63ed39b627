// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"testing"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/fixtures/system"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// A recording of a system that promises no drain timeout is judged as that; and where a
// check says that what it is about did not come up, so does the behaviour.
func TestUntilKilled(t *testing.T) {
	asks := assertions.Check{
		Name: "who cuts", Expected: "SIGKILL", Floors: []assertions.Floor{{Name: "n", N: 1}},
		Judge: func(c assertions.Case) spec.Finding {
			if c.UntilKilled {
				return spec.Finding{Verdict: spec.Skipped, Actual: "SIGKILL cut"}
			}
			return spec.Finding{Verdict: spec.Fail, Actual: "it cut"}
		},
	}
	for _, promised := range []bool{true, false} {
		b := sample("a.a")
		b.Checks = []assertions.Check{asks}
		want, reason := spec.Fail, ""
		if !promised {
			b.Topology.Deadline = b.Topology.Grace
			want, reason = spec.Skipped, "SIGKILL cut"
		}
		s := Fold([]Behaviour{b}, "", false)[0]
		dir := t.TempDir()
		tape(t, dir, s, nil)
		r, err := readRecording(dir, s, defaultP)
		if err != nil {
			t.Fatal(err)
		}
		got := r.judge(b, func(system.Role, flow.Flow) string { return "" })
		if kind := got.Skip; (kind == spec.Moot) == promised {
			t.Errorf("promised %t: skipped for %q", promised, kind)
		}
		if got.Verdict != want || got.Reason != reason {
			t.Errorf("promised %t: %s (%s), want %s (%s)", promised, got.Verdict, got.Reason, want, reason)
		}
	}
}
