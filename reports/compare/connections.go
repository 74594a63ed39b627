// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
)

// Connections says what became of connections that a client kept open to an
// instance through a Service, when that instance's endpoint was published as
// terminating. What is established is conntrack's business, and not only that
// of kube-proxy's rules: it may be cut, or left alone.
type Connections struct {
	// Terminations is how many had such connections.
	Terminations int `json:"terminations"`
	// Open were used before T_endpoint, and again or still after it.
	Open int `json:"open"`
	// Survived were answered whole by the same instance when it got no new
	// connections any more: after T_endpoint and after T_lastnew. An app that
	// asks its clients to leave ends the others before that, in good order.
	Survived int `json:"survived"`
	// Reset ended in an RST.
	Reset int `json:"reset"`
	// Cut ended without one, under a request that had begun: closed,
	// truncated or timed out.
	Cut int `json:"cut"`
}

// Add adds what another recording says.
func (c *Connections) Add(o Connections) {
	c.Terminations += o.Terminations
	c.Open += o.Open
	c.Survived += o.Survived
	c.Reset += o.Reset
	c.Cut += o.Cut
}

// ConnectionsOf counts them in one recording.
func ConnectionsOf(t *timeline.Timeline, s *v1alpha1.Scenario) Connections {
	type key struct {
		stream string
		conn   uint64
	}
	kept := map[key][]*timeline.Sample{}
	for i := range t.Samples {
		if x := &t.Samples[i]; x.Conn != 0 && throughService(x.Stream) {
			k := key{x.Stream, x.Conn}
			kept[k] = append(kept[k], x)
		}
	}
	var out Connections
	for i := range s.Terminations {
		before := out.Open
		for _, samples := range kept {
			out.count(samples, &s.Terminations[i])
		}
		if out.Open > before {
			out.Terminations++
		}
	}
	return out
}

// count adds one connection, if it was the terminated instance's.
func (c *Connections) count(samples []*timeline.Sample, end *v1alpha1.Termination) {
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
		mine := x.Outcome == timeline.OK && x.Server == end.UID
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
