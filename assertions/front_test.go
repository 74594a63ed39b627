// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
)

// Who was reached of what stands in front is what the recording says of the connection, of the
// address that the request came from, or of the one that was dialled.
func TestAttribute(t *testing.T) {
	const sec = time.Second
	mark := func(attrs map[string]string) timeline.Event {
		attrs["what"] = MarkFront
		return timeline.Event{Kind: timeline.Marker, Source: "runner", Attrs: attrs}
	}
	chosen := func(at time.Duration, by, client, uid string) timeline.Event {
		return timeline.Event{At: at, Kind: timeline.Chosen, Subject: uid, Attrs: map[string]string{"by": by, "client": client}}
	}
	pod := func(at time.Duration, uid, owner, ip string) timeline.Event {
		return timeline.Event{At: at, Kind: timeline.PodSeen, Subject: uid, Attrs: map[string]string{"owner": owner, "ip": ip, "ips": ip + " fd00::" + uid[1:]}}
	}
	host := []timeline.Event{
		mark(map[string]string{}),
		chosen(1*sec, timeline.ByService, "127.0.0.1:5", "g1"), chosen(9*sec, timeline.ByService, "127.0.0.1:5", "g2"),
		chosen(1*sec, timeline.ByBalancer, "127.0.0.1:5", "g3"),
	}
	cluster := []timeline.Event{
		mark(map[string]string{"deployment": "gateway"}),
		pod(1*sec, "b", "ReplicaSet/backend-1", "10.0.0.1"),
		pod(1*sec, "g1", "ReplicaSet/gateway-1", "10.0.0.2"), pod(9*sec, "g2", "ReplicaSet/gateway-1", "10.0.0.2"),
	}
	sample := func(stream, server string, end time.Duration) timeline.Sample {
		return timeline.Sample{Stream: flow.Named(stream), Server: server, End: end, Local: "127.0.0.1:5"}
	}
	via := func(ip string, s timeline.Sample) timeline.Sample {
		s.Via = ip
		return s
	}
	for name, tc := range map[string]struct {
		events []timeline.Event
		of     timeline.Sample
		want   string
	}{
		"no front: who answered":           {nil, sample("service/http1/new/get", "b", 2*sec), "b"},
		"given by the service network":     {host, sample("service/http1/new/get", "b", 2*sec), "g1"},
		"the same address later":           {host, sample("service/http1/new/get", "b", 9*sec), "g2"},
		"given by the balancer":            {host, sample("balanced/http1/new/get", "b", 9*sec), "g3"},
		"dialled":                          {host, sample("direct/http1/new/get@g9", "b", 9*sec), "g9"},
		"nobody answered":                  {host, sample("direct/http1/new/get@g9", "", 9*sec), ""},
		"its address":                      {cluster, via("10.0.0.2", sample("service/http1/new/get", "b", 2*sec)), "g1"},
		"its address, told a moment late":  {cluster, via("10.0.0.2", sample("service/http1/new/get", "b", 0)), "g1"},
		"an address that came back":        {cluster, via("10.0.0.2", sample("service/http1/new/get", "b", 9*sec)), "g2"},
		"its other address":                {cluster, via("fd00::1", sample("service/http1/new/get", "b", 2*sec)), "g1"},
		"somebody else's address":          {cluster, via("10.0.0.1", sample("service/http1/new/get", "b", 2*sec)), ""},
		"out by another address, dialled":  {cluster, via("10.0.0.7", sample("direct/http1/new/get@g1", "b", 2*sec)), "g1"},
		"the dialled address is another's": {cluster, via("10.0.0.2", sample("direct/http1/new/get@g2", "b", 2*sec)), "g1"},
		"a node's name is nobody's":        {cluster, sample("nodeport-local/http1/new/get@node-1", "b", 2*sec), ""},
	} {
		c := NewCase(&timeline.Timeline{Events: tc.events, Samples: []timeline.Sample{tc.of}}, sec)
		if got := c.Timeline.Samples[0].Reached; got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
