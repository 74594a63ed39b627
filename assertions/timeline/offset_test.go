// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"testing"
	"time"
)

func TestOffset(t *testing.T) {
	ms := time.Millisecond
	if o := Compare("a", "a", ms, time.Hour, 3*ms); o.Add != 0 || o.Err(time.Hour) != 0 {
		t.Errorf("one boot has one clock: %+v", o)
	}
	quick := Compare("a", "b", 1000*ms, 5000*ms, 1002*ms)
	if quick.Add != -3999*ms || quick.Err(1002*ms) != ms {
		t.Errorf("%+v", quick)
	}
	if got := quick.Err(11002 * ms); got != 6*ms {
		t.Errorf("after ten seconds it may be wrong by %v, want 6ms", got)
	}
	slow := Compare("a", "b", 6000*ms, 10080*ms, 6100*ms)
	if got := quick.Or(slow); got != quick {
		t.Errorf("an answer that took 100 ms replaced one that took 2: %+v", got)
	}
	if got := slow.Or(Compare("a", "b", 11000*ms, 15000*ms, 11002*ms)); got.Err(11002*ms) != ms {
		t.Errorf("a better one was not taken: %+v", got)
	}
	aged := Compare("a", "b", 1500*time.Second, 1504*time.Second, 1500*time.Second+100*ms)
	if got := quick.Or(aged); got != aged {
		t.Errorf("what was compared 25 minutes ago is worth more than what was now: %+v", got)
	}
	if got := quick.Or(Compare("a", "c", 6000*ms, 80*ms, 6100*ms)); got.Boot != "c" {
		t.Errorf("the offset of another boot was kept: %+v", got)
	}
	if got := (Offset{}).Or(slow); got != slow {
		t.Errorf("%+v", got)
	}
}
