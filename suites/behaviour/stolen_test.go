// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
)

func TestStolen(t *testing.T) {
	begin := time.Date(2026, 11, 22, 19, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return begin.Add(time.Duration(s * float64(time.Second))) }
	var s stolen
	for i, share := range []float64{0, 0.4, 0.1, 0.2} {
		s.add(spell{from: at(float64(i)), to: at(float64(i + 1)), share: share})
	}
	for _, tc := range []struct{ from, to, want float64 }{
		{0, 4, 0.4}, {0, 1, 0}, {2, 3, 0.1}, {2, 3.5, 0.2}, {1.5, 2, 0.4}, {5, 9, 0},
	} {
		if got := s.worst(at(tc.from), at(tc.to)); got != tc.want {
			t.Errorf("in [%v, %v]: %v, want %v", tc.from, tc.to, got, tc.want)
		}
	}
	for _, tc := range []struct{ taken, all, want float64 }{{1, 2, 0.5}, {1, 3, 0.333}, {0, 0, 0}} {
		if got := portion(tc.taken, tc.all); got != tc.want {
			t.Errorf("%v of %v: %v", tc.taken, tc.all, got)
		}
	}
}

func TestBusy(t *testing.T) {
	begin := time.Date(2026, 11, 22, 19, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return begin.Add(time.Duration(s * float64(time.Second))) }
	var s stolen
	for i, busy := range []float64{0.5, 2, 1, 1.5} {
		s.add(spell{from: at(float64(i)), to: at(float64(i + 1)), busy: busy})
	}
	for _, tc := range []struct {
		since, cores float64
		enough       bool
	}{{0, 1.25, true}, {2, 1.25, true}, {2.5, 0, false}, {9, 0, false}} {
		got, known, enough := s.busy(at(tc.since))
		if !known || enough != tc.enough || enough && got != tc.cores {
			t.Errorf("since %v: %v cores, known %t, enough %t", tc.since, got, known, enough)
		}
	}
	s.add(spell{from: at(4), to: at(5), busy: -1})
	if _, known, _ := s.busy(at(0)); known {
		t.Error("a machine that says nothing was believed")
	}
}

func TestRoom(t *testing.T) {
	begin := time.Now()
	for _, tc := range []struct {
		name     string
		measured bool
		busy     []float64
		want     bool
	}{
		{"there is", true, []float64{1, 1}, true},
		{"there is none", true, []float64{1.3, 1.3}, false},
		{"too early to say", true, []float64{0.1}, false},
		{"nobody says", true, []float64{-1}, true},
		{"nobody asks", false, []float64{2, 2}, true},
	} {
		r := &Recorder{cfg: Config{Price: Price{Share: 0.75, Measured: tc.measured}}}
		for i, busy := range tc.busy {
			from := begin.Add(time.Duration(i) * time.Second)
			r.stolen.add(spell{from: from, to: from.Add(time.Second), busy: busy})
		}
		if got := r.room(Scenario{Cost: 0.3}, 1.5, begin); got != tc.want {
			t.Errorf("%s: %t", tc.name, got)
		}
	}
}

// What comes up counts for what it will take, until it stands.
func TestLanes(t *testing.T) {
	now := time.Now()
	l := lanes{cores: 1.6, free: 1.6}
	quick, heavy := lane{goesUp: 0.2, stands: 0.1}, lane{goesUp: 0.7, stands: 0.6}
	for _, step := range []struct {
		name         string
		do           func()
		free, loaded float64
		running      int
	}{
		{"the first comes up", func() { l.begin(heavy, now) }, 0.9, 1, 1},
		{"the second too", func() { l.begin(quick, now) }, 0.7, 0.9, 2},
		{"the first stands", func() { l.up(heavy) }, 0.8, 1.5, 2},
		{"and ends", func() { l.end(heavy, now) }, 1.4, 1.5, 1},
		{"the second stands and ends", func() { l.up(quick); l.end(quick, now.Add(time.Second)) }, 1.6, 1.6, 0},
	} {
		step.do()
		if math.Abs(l.free-step.free)+math.Abs(l.loaded()-step.loaded) > 1e-9 || l.running != step.running {
			t.Errorf("%s: %v cores free, %v of those that stand, %d run", step.name, l.free, l.loaded(), l.running)
		}
	}
	if !l.changed.Equal(now.Add(time.Second)) {
		t.Errorf("changed at %v", l.changed)
	}
}

func TestOrder(t *testing.T) {
	plan := []Scenario{
		{Name: "control", Disrupt: KillEach, Control: true},
		{Name: "short", Disrupt: disrupt.Nothing(10 * time.Second)},
		{Name: "alone", Disrupt: ShutNode},
		{Name: "long", Disrupt: disrupt.Nothing(60 * time.Second)},
	}
	names := func() (out []string) {
		for _, s := range plan {
			out = append(out, s.Name)
		}
		return out
	}
	was := names()
	if OnCluster.order(plan); !slices.Equal(names(), was) {
		t.Errorf("a stage that is not measured: %q", names())
	}
	OnHost.order(plan)
	if want := []string{"control", "long", "short", "alone"}; !slices.Equal(names(), want) {
		t.Errorf("got %q", names())
	}
}
