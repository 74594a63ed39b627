// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// What a control took of the machine decides how the rest is recorded, where that is more
// than its price; and each behaviour is told of when its last recording has ended.
func TestWhatCostsMoreIsPlannedAnew(t *testing.T) {
	price := OnCluster
	rate := 0.4 * price.cores() / price.Weight / costNew
	a, b, kill := sample("a.a"), sample("a.b"), sample("a.kill")
	a.Traffic = []load.Profile{{Path: load.Service, Protocol: load.HTTP1, Conns: load.New, Op: load.Get, Rate: rate}}
	b.Traffic = []load.Profile{{Path: load.Service, Protocol: load.H2C, Conns: load.New, Op: load.Get, Rate: rate}}
	kill.Disrupt, kill.Level = KillEach, spec.Control
	take := []Behaviour{a, b, kill}
	for name, tc := range map[string]struct {
		idle, more float64 // before the first recording, and beside a control's price
		known      bool
		stolen     float64
		measured   bool
		parts      int // that the scenario of both is recorded in
	}{
		"as expected":                    {idle: 0.3, more: 0.3, known: true, parts: 1},
		"a little more":                  {idle: 0.3, more: 0.4, known: true, parts: 1},
		"twice as much":                  {idle: 0.3, more: 0.9, known: true, parts: 2},
		"others used it before too":      {idle: 1.5, more: 1.5, known: true, parts: 1},
		"nobody knows what is its own":   {more: 0.9, parts: 1},
		"its host took the machine":      {idle: 0.3, more: 0.9, known: true, stolen: 0.5, parts: 1},
		"the machine is asked each time": {idle: 0.3, more: 0.9, known: true, measured: true, parts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := price
			p.Measured = tc.measured
			var said []string
			cfg := Config{Dir: t.TempDir(), Price: p, Progress: func(g Progress) { said = append(said, g.Step) }}
			r := &Recorder{cfg: cfg, take: take, done: map[string]chan struct{}{}, ended: map[string]bool{}}
			r.idle.used, r.idle.known = tc.idle, tc.known
			r.planned(p.fitting(Fold(take, "", false), take))
			r.run.Plan[0].Cost = 0.6
			control, rest := r.Plan()[0], r.Plan()[1:]
			if !control.Control || len(rest) != 1 {
				t.Fatalf("the plan is %v", r.Plan())
			}
			if err := os.MkdirAll(historyDir(cfg.Dir, control.Name), 0o755); err != nil {
				t.Fatal(err)
			}
			m := Meta{Format: Format, Scenario: control, Busy: control.Cost + tc.more, Stolen: tc.stolen, Ended: true}
			if err := writeJSON(filepath.Join(historyDir(cfg.Dir, control.Name), scenarioFile), m); err != nil {
				t.Fatal(err)
			}
			r.through(control)
			left := r.refit(rest)
			if len(left) != tc.parts || len(r.Plan()) != 1+tc.parts {
				t.Fatalf("%d recordings are left, of %d: want %d", len(left), len(r.Plan()), tc.parts)
			}
			if told := slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, "planned by that") }); told != (tc.parts > 1) || (r.run.Scale > 0) != told {
				t.Errorf("told %t, a scale of %g", told, r.run.Scale)
			}
			for _, s := range left {
				if s.Cost > p.cores() {
					t.Errorf("%v takes %.2f of %.2f cores", s.Behaviours, s.Cost, p.cores())
				}
				for _, id := range s.Behaviours {
					if isClosed(r.Done(id)) {
						t.Errorf("%s is told of before it is recorded", id)
					}
				}
				r.through(s)
			}
			for _, b := range take {
				if !isClosed(r.Done(b.ID)) {
					t.Errorf("nobody is told that %s is recorded", b.ID)
				}
			}
		})
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
