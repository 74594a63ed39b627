// SPDX-License-Identifier: Apache-2.0

package node

import (
	"net"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestEvictsTunnels(t *testing.T) {
	const went = scene.Exit + 300*time.Millisecond
	// The clients' network is looked at each quarter of a second: two tunnels to one of the workload's
	// addresses, until an instant.
	lookAt := func(ip string, until time.Duration) func(scene.Scene) {
		return func(s scene.Scene) {
			s.Event(4*time.Second, timeline.PodSeen, scene.UID, map[string]string{"ip": "10.0.0.1", "ips": "10.0.0.1 fd00::1"})
			s.Event(went, timeline.NetGone, scene.UID, nil)
			for at := 6 * time.Second; at < 25*time.Second; at += time.Second / 4 {
				list := ""
				if at < until {
					list = "100/established/10.0.0.9:1000 101/established/10.0.0.9:1001"
				}
				for _, peer := range []string{"10.0.0.1", "fd00::1", "fd00::2"} {
					sockets := ""
					if peer == ip {
						sockets = list
					}
					s.Event(at, timeline.Sockets, "probe", map[string]string{"peer": net.JoinHostPort(peer, "15008"), "sockets": sockets})
				}
			}
		}
	}
	look := func(until time.Duration) func(scene.Scene) { return lookAt("10.0.0.1", until) }
	without := func(kind timeline.EventKind) func(scene.Scene) {
		return func(s scene.Scene) {
			look(scene.Exit)(s)
			s.Drop(func(e timeline.Event) bool { return e.Kind == kind })
		}
	}
	scene.Judge(t, judging(EvictsTunnels()), []scene.Row{
		{Name: "closed when they were told", Build: look(scene.Exit), Want: spec.Pass},
		{Name: "within a second of the interface", Build: look(went + time.Second), Want: spec.Pass},
		{Name: "two seconds after it", Build: look(went + 2*time.Second), Want: spec.Fail},
		{Name: "never", Build: look(30 * time.Second), Want: spec.Fail},
		{Name: "at its other address, closed when they were told", Build: lookAt("fd00::1", scene.Exit), Want: spec.Pass},
		{Name: "at its other address, never", Build: lookAt("fd00::1", 30*time.Second), Want: spec.Fail},
		{Name: "another one's", Build: lookAt("fd00::2", 30*time.Second), Want: spec.Inconclusive},
		{Name: "there were none", Build: look(0), Want: spec.Inconclusive},
		{Name: "nobody looked", Build: without(timeline.Sockets), Want: spec.Inconclusive},
		{Name: "nobody saw the interface", Build: without(timeline.NetGone), Want: spec.Inconclusive},
	})
}
