// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"slices"
	"testing"
)

// A behaviour's area says which profile it counts for; a new area is a gateway's.
func TestProfileOf(t *testing.T) {
	for id, want := range map[string]Profile{
		"pod.inflight-completes": App, "rollout.zero-failed": App, "endpoints.conditions": ServiceNetwork,
		"gateway.min-drain": Gateway, "h2.goaway": Gateway, "pods.x": Gateway, "": Gateway,
	} {
		if got := ProfileOf(id); got != want {
			t.Errorf("%q: %s, want %s", id, got, want)
		}
	}
	if got, want := Profiles(), []Profile{App, ServiceNetwork, Mesh, Gateway}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := App.Covers(), "pod.*, rollout.*"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
