// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"testing"
)

func TestBounds(t *testing.T) {
	tests := []struct {
		x, n        int
		want, least float64
	}{
		{0, 0, 1, 0},
		{0, 2, 1, 0},
		{0, 8, 0.375, 0},
		{0, 30000, 0.0001, 0},
		{8, 8, 1, 0.625},
		{1, 8, 0.5265, 0.00316}, // Clopper-Pearson, two-sided 95%: R binom.test(1, 8)
		{5, 20, 0.4910, 0.08657},
		{168, 11952, 0.01633, 0.01202},
	}
	for _, tc := range tests {
		if got := upper(tc.x, tc.n); got < tc.want*0.999 || got > tc.want*1.001 {
			t.Errorf("upper(%d, %d) = %.5f, want %.5f", tc.x, tc.n, got, tc.want)
		}
		if got := lower(tc.x, tc.n); got < tc.least*0.998 || got > tc.least*1.002 {
			t.Errorf("lower(%d, %d) = %.5f, want %.5f", tc.x, tc.n, got, tc.least)
		}
	}
}
