// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"strings"
	"testing"

	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// The catalogue's page gives of each behaviour its level, the sentence that it
// rests on, and what breaks it.
func TestCataloguePage(t *testing.T) {
	got := lastcall(t, spec.Pass, "list", "-o", "markdown")
	if got.code != 0 {
		t.Fatalf("exit %d\n%s", got.code, got.stderr)
	}
	for _, b := range behaviour.Catalogue() {
		_, part, ok := strings.Cut(got.stdout, "\n## "+b.ID+"\n")
		if !ok {
			t.Errorf("no part of %s", b.ID)
			continue
		}
		part, _, _ = strings.Cut(part, "\n## ")
		want := []string{string(b.Level) + ": ", b.Why, b.Causes}
		for _, r := range b.Refs {
			want = append(want, "> "+r.Quote)
		}
		for _, f := range b.BrokenBy {
			want = append(want, "`"+string(f)+"` (")
		}
		for _, w := range want {
			if !strings.Contains(part, w) {
				t.Errorf("%s: no %q in\n%s", b.ID, w, part)
			}
		}
		if strings.Contains(part, "Labels: .") {
			t.Errorf("%s: an empty list of labels in\n%s", b.ID, part)
		}
		if strings.Contains(part, " ()") {
			t.Errorf("%s: a fault without a description in\n%s", b.ID, part)
		}
	}
}

// Whatever a behaviour's streams are named by is explained with it.
func TestExplainKnowsAllStreams(t *testing.T) {
	for _, b := range behaviour.Catalogue() {
		got := lastcall(t, spec.Pass, "explain", b.ID)
		for _, p := range b.Traffic {
			for _, word := range []string{string(p.Path), string(p.Protocol), string(p.Conns), string(p.Op)} {
				if !strings.Contains(got.stdout, "\n  "+word+" ") {
					t.Errorf("%s: nobody says what %q means in %s", b.ID, word, p.Flow.String())
				}
			}
		}
	}
}
