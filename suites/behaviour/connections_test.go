// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/reports/v1alpha1"
)

func TestConnections(t *testing.T) {
	const uid = "victim"
	at := func(stream string, conn uint64, start time.Duration, o timeline.Outcome, server string) timeline.Sample {
		return timeline.Sample{Stream: flow.Named(stream), Conn: conn, Start: start, End: start + 10*time.Millisecond, Outcome: o, Reached: server}
	}
	const reused = "service/http1/reused/get"
	tl := &timeline.Timeline{Samples: []timeline.Sample{
		// Is answered when new ones come no more.
		at(reused, 1, 1*time.Second, timeline.OK, uid), at(reused, 1, 3*time.Second, timeline.OK, uid), at(reused, 1, 7*time.Second, timeline.OK, uid),
		// Is reset.
		at(reused, 2, 1*time.Second, timeline.OK, uid), at(reused, 2, 3*time.Second, timeline.Reset, ""),
		// Is answered still, and then closed under a request.
		at(reused, 3, 1*time.Second, timeline.OK, uid), at(reused, 3, 6*time.Second, timeline.OK, uid), at(reused, 3, 7*time.Second, timeline.Closed, ""),
		// Was never used again.
		at(reused, 4, 1*time.Second, timeline.OK, uid),
		// Is asked to leave before new ones go elsewhere, and does.
		at(reused, 5, 1*time.Second, timeline.OK, uid), at(reused, 5, 3*time.Second, timeline.OK, uid),
		// Belongs to another instance.
		at(reused, 6, 1*time.Second, timeline.OK, "other"), at(reused, 6, 3*time.Second, timeline.Reset, ""),
		// Was opened after the endpoint was published.
		at(reused, 7, 3*time.Second, timeline.OK, uid), at(reused, 7, 7*time.Second, timeline.OK, uid),
		// Chose its instance itself.
		at("direct/http1/reused/get", 8, 1*time.Second, timeline.OK, uid), at("direct/http1/reused/get", 8, 3*time.Second, timeline.Reset, ""),
	}}
	// In flight at T_endpoint, and answered seconds later.
	slow := at("service/http1/reused/slow/5s", 1, 1*time.Second, timeline.OK, uid)
	slow.End = 6 * time.Second
	tl.Add(timeline.Record{Sample: &slow})
	ends := []v1alpha1.Termination{
		{UID: uid, Endpoint: &v1alpha1.Instant{At: v1alpha1.Duration(2 * time.Second)}, LastNew: &v1alpha1.Instant{At: v1alpha1.Duration(5 * time.Second)}},
		{UID: "unseen"},
	}
	got := connections(tl, ends)
	want := v1alpha1.Connections{Terminations: 1, Open: 5, Survived: 3, Reset: 1, Cut: 1}
	if got == nil || *got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := connections(tl, ends[1:]); got != nil {
		t.Errorf("of an endpoint that nobody saw: %+v", got)
	}
}
