// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
)

// Connections says what became of connections that a client kept open to an
// instance through a Service, when that instance's endpoint was published as
// terminating. Established connections are conntrack's business, and not only
// the rules': a kube-proxy may cut them, or leave them alone.
type Connections struct {
	// Terminations is how many had such connections.
	Terminations int `json:"terminations"`
	// Open had been answered by the instance before its T_endpoint, and were
	// asked again after it.
	Open int `json:"open"`
	// Survived were answered by the same instance still, on a request that
	// began later than T_endpoint + P.
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
func ConnectionsOf(t *timeline.Timeline, s *v1alpha1.Scenario, p time.Duration) Connections {
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
		end := &s.Terminations[i]
		if end.Endpoint == nil {
			continue
		}
		at := end.Endpoint.At.D()
		had := false
		for _, samples := range kept {
			before, after, survived, last := false, false, false, timeline.OK
			for _, x := range samples {
				mine := x.Outcome == timeline.OK && x.Server == end.UID
				before = before || mine && x.End < at
				// A sample that failed names nobody: it is the connection's.
				if x.Start <= at || x.Outcome == timeline.OK && !mine {
					continue
				}
				after = true
				survived = survived || mine && x.Start > at+p
				if x.Failed() {
					last = x.Outcome
				}
			}
			if !before || !after {
				continue
			}
			had = true
			out.Open++
			if survived {
				out.Survived++
			}
			switch last {
			case timeline.Reset:
				out.Reset++
			case timeline.Closed, timeline.Truncated, timeline.Timeout:
				out.Cut++
			}
		}
		if had {
			out.Terminations++
		}
	}
	return out
}
