// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"context"
	"net/http"
	"testing"
)

func TestSpeed(t *testing.T) {
	speed, err := Speed(t.Context())
	if err != nil || speed <= 0 || speed > 1 {
		t.Errorf("%v, %v", speed, err)
	}
	t.Logf("this machine: %.2f", speed)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if speed, err := Speed(stopped); err == nil || speed != 1 {
		t.Errorf("who can't measure changes nothing, and says why: %v, %v", speed, err)
	}
	took, err := askedFor(t.Context(), &http.Client{}, "http://127.0.0.1:1")
	if err == nil {
		t.Errorf("nobody answers, and it took %v", took)
	}
}

// A slow machine has room for less, and for as much as one core has at least.
func TestSlowCores(t *testing.T) {
	full := OnCluster
	slow, slowest := full, full
	slow.Speed, slowest.Speed = 0.75, 0.01
	if full.cores() <= slow.cores() || slow.cores() < leastCores-grain && full.cores() > leastCores {
		t.Errorf("cores: %.2f, and at three quarters of the speed %.2f", full.cores(), slow.cores())
	}
	if want := min(full.cores(), leastCores); slowest.cores() != want {
		t.Errorf("the slowest has %.2f, want %.2f", slowest.cores(), want)
	}
}
