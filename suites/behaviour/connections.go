// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
)

// connections says what became of those that a recording's clients kept open to
// the instances that terminated in it. It is nil where none was.
func connections(t *timeline.Timeline, ends []v1alpha1.Termination) *v1alpha1.Connections {
	kept := map[timeline.Connection][]*timeline.Sample{}
	for i := range t.Samples {
		if x := &t.Samples[i]; x.Conn != 0 && v1alpha1.ThroughService(x.Stream.Kind()) {
			kept[x.On()] = append(kept[x.On()], x)
		}
	}
	var out v1alpha1.Connections
	for i := range ends {
		before := out.Open
		for _, samples := range kept {
			count(&out, samples, &ends[i])
		}
		if out.Open > before {
			out.Terminations++
		}
	}
	if out.Open == 0 {
		return nil
	}
	return &out
}

// count adds one connection, if it was the terminated instance's.
func count(c *v1alpha1.Connections, samples []*timeline.Sample, end *v1alpha1.Termination) {
	if end.Endpoint == nil {
		return
	}
	at := end.Endpoint.At.D()
	moved := at
	if end.LastNew != nil {
		moved = max(moved, end.LastNew.At.D())
	}
	before, after, survived, last := false, false, false, timeline.OK
	for _, x := range samples {
		mine := x.Outcome == timeline.OK && x.Reached == end.UID
		before = before || mine && x.Start < at
		// What failed has no name of a server: it is the connection's.
		if x.End <= at || !mine && !x.Failed() {
			continue
		}
		after = true
		survived = survived || mine && x.End > moved
		if x.Failed() {
			last = x.Outcome
		}
	}
	if !before || !after {
		return
	}
	c.Open++
	if survived {
		c.Survived++
	}
	switch last {
	case timeline.Reset:
		c.Reset++
	case timeline.Closed, timeline.Truncated, timeline.Timeout:
		c.Cut++
	}
}
