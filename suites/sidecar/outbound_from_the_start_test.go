// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestCallsServedOnceServed(t *testing.T) {
	const listens = 7 * time.Second
	// late has none served before the sidecar listens.
	late := func(more func(*timeline.Sample)) func(scene.Scene) {
		return func(s scene.Scene) {
			s.Event(scene.D-4*time.Second, timeline.PodSeen, scene.UID, map[string]string{"ip": "10.1.0.1", "ips": "10.1.0.1 fd00::1"})
			calling(s, func(x *timeline.Sample) {
				if x.Start < listens {
					refused(x)
				}
				if more != nil {
					more(x)
				}
			})
		}
	}
	wireFrom := func(from, what, to string) func(scene.Scene) {
		return func(s scene.Scene) {
			late(nil)(s)
			s.Event(6*time.Second, timeline.Wire, "", map[string]string{"what": what, "from": from, "to": to})
		}
	}
	wire := func(what, to string) func(scene.Scene) { return wireFrom("10.1.0.1:40000", what, to) }
	at := func(from time.Duration) func(*timeline.Sample) {
		return func(x *timeline.Sample) {
			if isNew(x) && x.Start >= from && x.Start < from+100*time.Millisecond {
				refused(x)
			}
		}
	}
	scene.Judge(t, judged(CallsServedOnceServed()), []scene.Row{
		{Name: "refused until it listens", Build: late(nil), Want: spec.Pass},
		{Name: "one is lost soon after it listens", Build: late(at(listens + time.Second)), Want: spec.Fail},
		{Name: "one is lost when it drains", Build: late(at(scene.D + time.Second)), Want: spec.Fail},
		{Name: "one is lost while the peer is away", Build: func(s scene.Scene) {
			late(at(listens + time.Second))(s)
			away(s, listens+900*time.Millisecond)
		}, Want: spec.Inconclusive},
		{Name: "one is lost long after the peer was away", Build: func(s scene.Scene) {
			late(at(scene.D + 5*time.Second))(s)
			away(s, listens+900*time.Millisecond)
		}, Want: spec.Fail},
		{Name: "it listened at once", Build: func(s scene.Scene) { calling(s, nil) }, Want: spec.Inconclusive},
		{Name: "none was ever served", Build: func(s scene.Scene) { calling(s, refused) }, Want: spec.Inconclusive},
		{Name: "a tunnel", Build: wire(timeline.WireDialled, "10.1.0.2:15008"), Want: spec.Pass},
		{Name: "the wire had no tunnel", Build: func(s scene.Scene) {
			late(nil)(s)
			s.Event(time.Second, timeline.Marker, "", map[string]string{"what": assertions.MarkWire})
		}, Want: spec.Inconclusive},
		{Name: "the wire had a tunnel to the pod alone", Build: func(s scene.Scene) {
			late(nil)(s)
			s.Event(6*time.Second, timeline.Wire, "", map[string]string{"what": timeline.WireDialled, "from": "10.1.0.2:40000", "to": "10.1.0.1:15008"})
		}, Want: spec.Inconclusive},
		{Name: "plain text to a Service", Build: wire(timeline.WireDialled, "10.2.0.1:8080"), Want: spec.Fail},
		{Name: "plain text", Build: wire(timeline.WireDialled, "10.1.0.2:8080"), Want: spec.Fail},
		{Name: "plain text from its other address", Build: wireFrom("[fd00::1]:40000", timeline.WireDialled, "[fd00::2]:8080"), Want: spec.Fail},
		{Name: "the wire was not seen whole", Build: func(s scene.Scene) {
			late(nil)(s)
			s.Event(6*time.Second, timeline.WatchGap, "wire", map[string]string{"why": "x"})
		}, Want: spec.Inconclusive},
	})
}
