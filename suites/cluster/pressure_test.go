// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
)

// An endpoint stops serving when it terminates and is not ready: one that comes up
// does not serve either, and one that terminates may serve on.
func TestUnserved(t *testing.T) {
	for _, c := range []struct {
		name                 string
		kind                 timeline.EventKind
		serving, terminating string
		want                 bool
	}{
		{"it serves", timeline.Endpoint, "true", "false", false},
		{"it comes up", timeline.Endpoint, "false", "false", false},
		{"it terminates and serves", timeline.Endpoint, "true", "true", false},
		{"it stopped serving", timeline.Endpoint, "false", "true", true},
		{"another kind", timeline.PodReady, "false", "true", false},
		{"it says nothing", timeline.Endpoint, "", "", false},
	} {
		e := timeline.Event{Kind: c.kind, Attrs: map[string]string{"serving": c.serving, "terminating": c.terminating}}
		if got := unserved(e); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}
