// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
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

func TestOrder(t *testing.T) {
	plan := []Scenario{
		{Name: "control", Disrupt: KillEach},
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
