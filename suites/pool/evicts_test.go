// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

const pooledIP = "127.1.2.3"

func TestEvicts(t *testing.T) {
	// look has the gateway looked at each quarter of a second: six sockets, until
	// an instant, and one of the successor's.
	look := func(s scene.Scene, until, from time.Duration) {
		s.Event(4*sec, timeline.PodSeen, scene.UID, map[string]string{"ip": pooledIP})
		for at := 6 * sec; at < 25*sec; at += sec / 4 {
			list := ""
			for i := range 6 {
				if at < until {
					list += fmt.Sprintf(" %d/established/127.0.0.1:%d", 100+i, 1000+i)
				}
			}
			if at > from {
				list += " 200/established/127.0.0.1:1000"
			}
			s.Event(at, timeline.Sockets, "uid-g", map[string]string{"peer": pooledIP + ":18080", "sockets": list})
		}
	}
	stays := func(state string) func(scene.Scene) {
		return func(s scene.Scene) {
			look(s, scene.Exit, scene.Exit+sec)
			s.Event(scene.Exit-sec/8, timeline.Sockets, "uid-g", map[string]string{"peer": pooledIP + ":18080", "sockets": "100/established/127.0.0.1:1000"})
			s.Event(scene.Exit+evictWithin+sec/8, timeline.Sockets, "uid-g", map[string]string{"peer": pooledIP + ":18080", "sockets": "100/" + state + "/127.0.0.1:1000"})
		}
	}
	check := Evicts()
	scene.Judge(t, judge(check), []scene.Row{
		{Name: "closed with the exit", Build: func(s scene.Scene) { look(s, scene.Exit, scene.Exit+sec) }, Want: spec.Pass},
		{Name: "closed within the time", Build: func(s scene.Scene) { look(s, scene.Exit+evictWithin, scene.Exit+sec) }, Want: spec.Pass},
		{Name: "never closed", Build: func(s scene.Scene) { look(s, 30*sec, scene.Exit+sec) }, Want: spec.Fail},
		{Name: "one is left in CLOSE_WAIT", Build: stays("close-wait"), Want: spec.Fail},
		{Name: "one is left, established", Build: stays("established"), Want: spec.Fail},
		{Name: "one is left, on a starved machine", Build: func(s scene.Scene) {
			stays("close-wait")(s)
			s.Through("service/http1/reused/get", 20, func(x *timeline.Sample) { x.Saturated = true })
		}, Want: spec.Inconclusive},
		{Name: "the successor's at the old address", Build: func(s scene.Scene) { look(s, scene.Exit, scene.Exit) }, Want: spec.Pass},
		{Name: "another backend's", Build: func(s scene.Scene) {
			look(s, scene.Exit, 30*sec)
			for _, at := range []time.Duration{9 * sec, 24 * sec} {
				s.Event(at, timeline.Sockets, "uid-g", map[string]string{"peer": "127.1.2.4:18080", "sockets": "1/established/127.0.0.1:9"})
			}
		}, Want: spec.Pass},
		{Name: "a socket to another port of it stays", Build: func(s scene.Scene) {
			look(s, scene.Exit, 30*sec)
			for at := 6 * sec; at < 25*sec; at += sec / 4 {
				s.Event(at, timeline.Sockets, "uid-g", map[string]string{"peer": pooledIP + ":18443", "sockets": "9/close-wait/127.0.0.1:9"})
			}
		}, Want: spec.Fail},
		{Name: "most of those that stood were to another port of it", Build: func(s scene.Scene) {
			look(s, 6*sec, 30*sec)
			for at := 6 * sec; at < 25*sec; at += sec / 4 {
				list := ""
				if at < scene.Exit {
					list = "1/established/a 2/established/b 3/established/c 4/established/d 5/established/e"
				}
				s.Event(at, timeline.Sockets, "uid-g", map[string]string{"peer": pooledIP + ":18443", "sockets": list})
			}
		}, Want: spec.Pass},
		{Name: "dialled at a Service's address", Build: func(s scene.Scene) {
			s.Event(sec, timeline.PodAddress, scene.UID, map[string]string{"address": "10.96.0.7"})
			look(s, 6*sec, 30*sec) // what goes to its own address is another's
			for at := 6 * sec; at < 25*sec; at += sec / 4 {
				s.Event(at, timeline.Sockets, "uid-g", map[string]string{"peer": "10.96.0.7:8080", "sockets": "1/established/a 2/established/b 3/established/c 4/established/d 5/established/e"})
			}
		}, Want: spec.Fail},
		{Name: "there were none", Build: func(s scene.Scene) { look(s, 6*sec, 30*sec) }, Want: spec.Inconclusive},
		{Name: "nobody looked afterwards", Build: func(s scene.Scene) {
			look(s, 30*sec, 30*sec)
			s.Drop(func(e timeline.Event) bool { return e.Kind == timeline.Sockets && e.At > scene.Exit })
		}, Want: spec.Inconclusive},
		{Name: "nobody saw the exit", Build: func(s scene.Scene) {
			look(s, scene.Exit, 30*sec)
			s.Drop(func(e timeline.Event) bool { return e.Kind == timeline.ProcExit })
		}, Want: spec.Inconclusive},
	})
}

// What the gateway's own gauge said stands beside what was counted at the same look.
func TestOwnCount(t *testing.T) {
	look := func(s scene.Scene, at time.Duration, value string) {
		for _, peer := range []string{"127.1.2.3:80", "127.1.2.4:80"} {
			s.Event(at, timeline.Sockets, "gw", map[string]string{"peer": peer, "sockets": "1/established/a 2/close-wait/b"})
		}
		s.Event(at+1, timeline.Gauge, "gw", map[string]string{"gauge": "upstreamPool", "value": value})
	}
	s := scene.Scene{Timeline: &timeline.Timeline{}}
	if got := ownCount(s.Timeline); got != "" {
		t.Errorf("without a gauge: %q", got)
	}
	look(s, sec, "9")
	look(s, 2*sec, "4")
	s.Event(3*sec, timeline.Sockets, "gw", map[string]string{"peer": "127.1.2.3:80", "sockets": ""})
	if got, want := ownCount(s.Timeline), "had 4 sockets to all of its backends, and its own gauge said 4"; !strings.Contains(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	s.Event(4*sec, timeline.Gauge, "gw", map[string]string{"gauge": "upstreamPool", "error": "status 503"})
	if got := ownCount(s.Timeline); !strings.Contains(got, "status 503") {
		t.Errorf("unread: %q", got)
	}
}

// Who sets a floor has the evidence held against it.
func TestEvictsFloorsOfACaller(t *testing.T) {
	for i, f := range Evicts().Floors {
		f.N = 987_654
		k := Evicts(f)
		if k.Floors[i].N != f.N {
			t.Errorf("declares %d for %q", k.Floors[i].N, f.Name)
		}
		counted := slices.ContainsFunc(judge(k)(scene.Quiet().Timeline).Evidence, func(c spec.Count) bool {
			return c.Name == f.Name && c.Floor == f.N
		})
		if !counted {
			t.Errorf("counts into another floor for %q", f.Name)
		}
	}
}
