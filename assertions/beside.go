// SPDX-License-Identifier: Apache-2.0

package assertions

import "github.com/lastcall-dev/lastcall/assertions/timeline"

// Beside is the container of the sidecar that its vendor put beside what is ended; "" where none did:
// the suite's own is known by its mesh.
func (c Case) Beside() string {
	for _, e := range c.Timeline.EventsOf(timeline.Marker, "") {
		if e.Attrs["what"] == MarkSubject && e.Attrs["sidecar"] != "" {
			return e.Attrs["sidecar"]
		}
	}
	return ""
}
