// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"testing"
	"time"
)

func TestStolen(t *testing.T) {
	begin := time.Date(2026, 11, 22, 19, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return begin.Add(time.Duration(s * float64(time.Second))) }
	var s stolen
	for i, share := range []float64{0, 0.4, 0.1, 0.2} {
		s.add(spell{at(float64(i)), at(float64(i + 1)), share})
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
