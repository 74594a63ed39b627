// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"net"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestEvictsTunnels(t *testing.T) {
	// The clients' network is looked at each quarter of a second: two tunnels to one of the pod's addresses, until an
	// instant.
	lookAt := func(ip string, until time.Duration) func(scene.Scene) {
		return func(s scene.Scene) {
			s.Event(4*time.Second, timeline.PodSeen, scene.UID, map[string]string{"ip": "10.0.0.1", "ips": "10.0.0.1 fd00::1"})
			for at := 6 * time.Second; at < 30*time.Second; at += time.Second / 4 {
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
	const (
		left  = scene.Exit + 5*time.Second // the sidecar
		never = time.Minute
	)
	look := func(ip string, until time.Duration, exits ...time.Duration) func(scene.Scene) {
		return func(s scene.Scene) {
			beside(exits...)(s)
			lookAt(ip, until)(s)
		}
	}
	check := EvictsTunnels()
	scene.Judge(t, func(tl *timeline.Timeline) spec.Finding { return check.Run(assertions.NewCase(tl, scene.P)) }, []scene.Row{
		{Name: "closed with the app", Build: look("10.0.0.1", scene.Exit, left), Want: spec.Pass},
		{Name: "kept as long as the sidecar stands", Build: look("10.0.0.1", left, left), Want: spec.Pass},
		{Name: "within a second of its exit", Build: look("10.0.0.1", left+time.Second, left), Want: spec.Pass},
		{Name: "two seconds after it", Build: look("10.0.0.1", left+2*time.Second, left), Want: spec.Fail},
		{Name: "two seconds after it, on a starved machine", Build: func(s scene.Scene) {
			look("10.0.0.1", left+2*time.Second, left)(s)
			starved(s, left+2*time.Second)
		}, Want: spec.Inconclusive},
		{Name: "never", Build: look("10.0.0.1", never, left), Want: spec.Fail},
		{Name: "never, of one that left before its app", Build: look("10.0.0.1", never, scene.Exit-time.Second), Want: spec.Fail},
		{Name: "until it had left for good", Build: look("10.0.0.1", left, scene.Exit, left), Want: spec.Pass},
		{Name: "at its other address, closed with the app", Build: look("fd00::1", scene.Exit, left), Want: spec.Pass},
		{Name: "at its other address, never", Build: look("fd00::1", never, left), Want: spec.Fail},
		{Name: "another one's", Build: look("fd00::2", never, left), Want: spec.Inconclusive},
		{Name: "there were none", Build: look("10.0.0.1", 0, left), Want: spec.Inconclusive},
		{Name: "nobody looked", Build: beside(left), Want: spec.Inconclusive},
		{Name: "nobody saw it exit, but its app", Build: look("10.0.0.1", scene.Exit), Want: spec.Inconclusive},
	})
}
