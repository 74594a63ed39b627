// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"slices"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/suites/spec"
)

// The same toll counts endings of every cause: what each has against a floor, what was lost
// at how many, and at how many the rule was broken.
func TestToll(t *testing.T) {
	called := Instant{At: 10 * sec, Source: "t"}
	c := Case{
		Terminations: []Ending{{Name: "gone", Cause: CauseDeletion}},
		Endings: []Ending{
			{Name: "gone", Cause: CauseDeletion}, {Name: "one", Cause: CauseProcessEnd, Called: called},
			{Name: "crashed", Cause: CauseProcessEnd}, {Name: "two", Cause: CauseProcessEnd, Called: called},
			{Name: "three", Cause: CauseProcessEnd, Called: called},
		},
	}
	floor := Floor{Name: "requests", N: 3}
	came := map[string]attempts{"gone": {all: 9, sound: 9}, "one": {all: 5, sound: 5}, "two": {all: 5, sound: 2, lost: 1}, "three": {all: 5, sound: 4}}
	for name, tc := range map[string]struct {
		of          ends
		least       spec.Count
		hit, broken int
		verdict     spec.Verdict
		says        string
	}{
		"deletions":   {c.terminated(), spec.Count{Name: "requests", At: "gone", N: 9, Floor: 3}, 0, 0, spec.Pass, "1 termination"},
		"drain calls": {c.calledToDrain("drain call", "drain calls"), spec.Count{Name: "requests", At: "two", N: 2, Floor: 3}, 1, 1, spec.Fail, "3 drain calls"},
	} {
		var g gather
		n := g.toll(tc.of)
		for e := range n.each() {
			w := came[e.Name]
			n.add(w, attempts{all: 1})
			n.has(floor, w.sound)
			if e.Name == "three" {
				g.culprit(time.Second, e.Name, "", "broke it")
				if _, follows := n.next(); follows {
					t.Errorf("%s: something follows the last", name)
				}
			}
		}
		n.bound(n.hit, n.sum.all, n.sum.lost)
		f := g.conclude("", "")
		if n.hit != tc.hit || n.broken != tc.broken || f.Verdict != tc.verdict || n.String() != tc.says {
			t.Errorf("%s: hit %d, broken %d, %v, %s", name, n.hit, n.broken, f.Verdict, n)
		}
		if !slices.Equal(f.Evidence, []spec.Count{tc.least}) {
			t.Errorf("%s: evidence %+v", name, f.Evidence)
		}
		if b := f.Bounds; b.Terminations != len(tc.of.of) || b.Affected != tc.hit || b.Requests != n.sum.all || b.Lost != n.sum.lost {
			t.Errorf("%s: bounds %+v", name, b)
		}
	}
}

// Of no endings nothing is known, in the words for them.
func TestTollOfNone(t *testing.T) {
	for want, of := range map[string]ends{
		notEnough + "no pod was seen to terminate": Case{}.terminated(),
		notEnough + "no pod was called to drain":   Case{}.calledToDrain("drain", "drains"),
	} {
		var g gather
		for range g.toll(of).each() {
			t.Error("there was one")
		}
		if f := g.conclude("", ""); f.Verdict != spec.Inconclusive || f.Actual != want {
			t.Errorf("%v: %s, want %s", f.Verdict, f.Actual, want)
		}
	}
}
