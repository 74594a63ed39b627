// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// judged is one row of a table: a recording that was spoiled, and its verdict.
type judged struct {
	name  string
	spoil func(*scene)
	want  spec.Verdict
	// says must stand in a culprit of a failure.
	says string
}

func table(t *testing.T, build func() *scene, check Check, rows []judged) {
	t.Helper()
	rows = append(rows, judged{name: "nothing was recorded", want: spec.Inconclusive, spoil: func(s *scene) {
		s.tl = timeline.Timeline{}
	}})
	build = once(build)
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			s := build()
			if row.spoil != nil {
				row.spoil(s)
			}
			f := s.run(check)
			if f.Verdict != row.want {
				t.Fatalf("verdict %v, want %v\nactual: %s\nculprits: %v\nevidence: %v", f.Verdict, row.want, f.Actual, f.Culprits, f.Evidence)
			}
			if f.Expected == "" || f.Actual == "" {
				t.Error("a finding must say what was expected and what was seen")
			}
			if f.Verdict != spec.Fail {
				return
			}
			if len(f.Culprits) == 0 {
				t.Fatal("a failure without a culprit")
			}
			said := ""
			for _, c := range f.Culprits {
				said += c.Text + "\n"
				if !f.Window.Contains(c.At) {
					t.Errorf("culprit at %s outside of %v: %s", c.At, f.Window, c.Text)
				}
			}
			if !strings.Contains(said, row.says) {
				t.Errorf("culprits %q, want one that says %q", said, row.says)
			}
		})
	}
}

// rolling is a rolling update of three pods at 10 s, a surge of one and none
// unavailable, eight seconds of minReadySeconds: the new pods are ready at
// 12, 23 and 34 s, the old ones deleted 8 s after that.
func rolling() *scene {
	s := &scene{p: 3 * sec}
	for at, what := range map[time.Duration]string{5 * sec: MarkSteady, 52 * sec: MarkTail} {
		s.saw(at, timeline.Marker, "", map[string]string{"what": what})
	}
	s.saw(sec, timeline.Deployment, "dep", says(3, 0, 8))
	for _, n := range []string{"1", "2", "3"} {
		s.pod("old-"+n, sec)
		s.ready("old-"+n, 2*sec, true)
	}
	s.saw(10*sec, timeline.Disruption, "dep", map[string]string{"what": "rollout"})
	s.tl.Events[len(s.tl.Events)-1].Name = "echo"
	for i, n := range []string{"1", "2", "3"} {
		ready := time.Duration(12+11*i) * sec
		s.pod("new-"+n, ready-sec)
		s.ready("new-"+n, ready, true)
		s.saw(ready+10*time.Millisecond, timeline.Endpoint, "new-"+n, map[string]string{"service": "echo", "ready": "true"})
		// The timestamps of the API have a grain of a second.
		s.saw(ready+7500*time.Millisecond, timeline.PodDeletion, "old-"+n, map[string]string{"grace": "30"})
		s.ready("old-"+n, ready+12*sec, false)
		s.saw(ready+14*sec, timeline.PodGone, "old-"+n, nil)
	}
	i := 0
	s.streamTo("service/http1/new/get", 100, 52*sec, func(x *timeline.Sample) {
		i++
		up := []string{"old-1", "old-2", "old-3"}
		for n, p := range []string{"new-1", "new-2", "new-3"} {
			if x.Start > time.Duration(12+11*n)*sec+500*time.Millisecond {
				up = append(up, p)
			}
			if x.Start > time.Duration(20+11*n)*sec {
				up = slices.DeleteFunc(up, func(p string) bool { return p == fmt.Sprintf("old-%d", n+1) })
			}
		}
		x.Server = up[i%len(up)]
	})
	return s
}

func says(replicas, unavailable, minReady int) map[string]string {
	return map[string]string{
		"replicas": fmt.Sprint(replicas), "maxUnavailable": fmt.Sprint(unavailable), "maxSurge": "1", "minReadySeconds": fmt.Sprint(minReady),
	}
}

func (s *scene) saw(at time.Duration, kind timeline.EventKind, subject string, attrs map[string]string) {
	s.built().Event(at, kind, subject, attrs)
}

func (s *scene) pod(uid string, at time.Duration) {
	s.saw(at, timeline.PodSeen, uid, map[string]string{"owner": "ReplicaSet/echo-" + uid[:3]})
}

func (s *scene) ready(uid string, at time.Duration, is bool) {
	s.saw(at, timeline.PodReady, uid, map[string]string{"ready": fmt.Sprint(is)})
}

// streamTo is stream up to an instant.
func (s *scene) streamTo(name string, rate int, to time.Duration, set func(*timeline.Sample)) {
	for at := 2 * sec; at < to; at += sec / time.Duration(rate) {
		x := timeline.Sample{
			Stream: flow.Named(name), ID: fmt.Sprintf("%s#%d", name, at), Nth: 1, Due: at, Start: at, Dial: at + 1, End: at + 2*time.Millisecond,
			Outcome: timeline.OK, Phase: timeline.PhaseDone,
		}
		set(&x)
		s.add(x)
	}
}

// shift changes when something of a pod was seen.
func (s *scene) shift(kind timeline.EventKind, subject string, at time.Duration) {
	for i := range s.tl.Events {
		if e := &s.tl.Events[i]; e.Kind == kind && e.Subject == subject {
			e.At = at
			return
		}
	}
}

func of(kind timeline.EventKind, subject string) func(timeline.Event) bool {
	return func(e timeline.Event) bool { return e.Kind == kind && (subject == "" || e.Subject == subject) }
}

// hasty makes the Deployment say that two pods may be unavailable, and do it.
func hasty(s *scene) {
	s.drop(of(timeline.Deployment, ""))
	s.saw(sec, timeline.Deployment, "dep", says(3, 2, 8))
	s.shift(timeline.PodDeletion, "old-1", 10*sec+50*time.Millisecond)
	s.shift(timeline.PodDeletion, "old-2", 10*sec+60*time.Millisecond)
}

// starve makes the generator miss its schedule for a while.
func starve(s *scene, from, to time.Duration) {
	s.each(func(x *timeline.Sample) { x.Saturated = x.Saturated || x.Start >= from && x.Start < to })
}

func gapIn(resource string) func(*scene) {
	return func(s *scene) {
		s.saw(15*sec, timeline.WatchGap, resource, map[string]string{"why": "410"})
	}
}

func TestNeverBelow(t *testing.T) {
	table(t, rolling, NeverBelow(0), []judged{
		{name: "as promised", want: spec.Pass},
		{name: "a hasty strategy", spoil: hasty, want: spec.Fail, says: "down to 1"},
		{name: "a hasty strategy that took nothing", spoil: func(s *scene) {
			s.saw(9*sec, timeline.Deployment, "dep", says(3, 2, 8))
		}, want: spec.Fail, says: "lets 2 pods be unavailable, and the promise is 0 at most"},
		{name: "one instant is enough", spoil: func(s *scene) { s.shift(timeline.PodDeletion, "old-1", 12*sec-time.Millisecond) }, want: spec.Fail, says: "for 1ms: down to 2"},
		{name: "deleted in the very update that told of the new one", spoil: func(s *scene) { s.shift(timeline.PodDeletion, "old-1", 12*sec) }, want: spec.Pass},
		{name: "a pod that is not deleted ceases to be ready", spoil: func(s *scene) {
			s.ready("new-1", 21*sec, false)
			s.ready("new-1", 22*sec, true)
		}, want: spec.Fail, says: "for 1s: down to 2"},
		{name: "a pod ceases to be ready on a starved machine", spoil: func(s *scene) {
			s.ready("new-1", 21*sec, false)
			s.ready("new-1", 22*sec, true)
			starve(s, 20*sec, 22*sec)
		}, want: spec.Inconclusive},
		{name: "a deletion is a deletion on a starved machine too", spoil: func(s *scene) {
			hasty(s)
			starve(s, 8*sec, 14*sec)
		}, want: spec.Fail, says: "down to 1"},
		{name: "a pod of somebody else does not count", spoil: func(s *scene) {
			s.saw(sec, timeline.PodSeen, "probe", map[string]string{"owner": ""})
			s.ready("probe", 2*sec, true)
			s.shift(timeline.PodDeletion, "old-1", 11*sec)
		}, want: spec.Fail},
		{name: "what the suite removes afterwards is its own affair", spoil: func(s *scene) {
			s.saw(53*sec, timeline.PodDeletion, "new-1", nil)
		}, want: spec.Pass},
		{name: "a gap in the watch of pods", spoil: gapIn("pods"), want: spec.Inconclusive},
		{name: "a watch of pods that was away", spoil: func(s *scene) {
			for i := range s.tl.Events {
				if e := &s.tl.Events[i]; e.Kind == timeline.PodReady && e.Subject == "new-2" {
					e.Err = 2 * sec
				}
			}
		}, want: spec.Inconclusive, says: "had been away for 2.000s"},
		{name: "nobody saw the Deployment", spoil: func(s *scene) { s.drop(of(timeline.Deployment, "")) }, want: spec.Inconclusive},
		{name: "too few before it began", spoil: func(s *scene) { s.drop(of(timeline.PodReady, "old-3")) }, want: spec.Inconclusive},
		{name: "a pod that stays", spoil: func(s *scene) {
			s.drop(of(timeline.PodDeletion, "old-3"))
			s.drop(of(timeline.PodGone, "old-3"))
		}, want: spec.Inconclusive},
		{name: "no rolling update", spoil: func(s *scene) { s.drop(of(timeline.Disruption, "")) }, want: spec.Inconclusive},
		{name: "no end", spoil: func(s *scene) {
			s.drop(func(e timeline.Event) bool { return e.Attrs["what"] == MarkTail })
		}, want: spec.Inconclusive},
	})
	s := rolling()
	s.saw(9*sec, timeline.Deployment, "dep", says(3, 2, 8))
	if f := s.run(NeverBelow(0)); !strings.Contains(f.Actual, "as it went, never fewer than 3 pods were ready") {
		t.Errorf("a hasty strategy that took nothing: %s", f.Actual)
	}
	s = rolling()
	hasty(s)
	if f := s.run(NeverBelow(0)); !strings.Contains(f.Actual, "only 1 pod was ready, and 3 were promised") {
		t.Errorf("a hasty strategy: %s", f.Actual)
	}
	if f := rolling().run(NeverBelow(1)); f.Verdict != spec.Pass {
		t.Errorf("a Deployment that promises more than is asked: %v", f.Verdict)
	}
}

func TestServesOnceReady(t *testing.T) {
	table(t, rolling, ServesOnceReady(), []judged{
		{name: "as soon as it is ready", want: spec.Pass},
		{name: "only when it is available", spoil: func(s *scene) {
			s.shift(timeline.Endpoint, "new-2", 31*sec)
			s.each(func(x *timeline.Sample) {
				if x.Server == "new-2" && x.Start < 31*sec {
					x.Server = "old-3"
				}
			})
		}, want: spec.Fail, says: "its EndpointSlice said ready at Ready + 8s"},
		{name: "never", spoil: func(s *scene) {
			s.drop(of(timeline.Endpoint, "new-3"))
			s.each(func(x *timeline.Sample) {
				if x.Server == "new-3" {
					x.Server = "new-1"
				}
			})
		}, want: spec.Fail, says: "none ever came"},
		{name: "a kept connection is no new one", spoil: func(s *scene) {
			s.each(func(x *timeline.Sample) {
				if x.Server == "new-1" && x.Start < 20*sec {
					x.Nth = 2
				}
			})
		}, want: spec.Fail},
		{name: "too few were offered", spoil: func(s *scene) {
			n := 0
			s.tl.Samples = slices.DeleteFunc(s.tl.Samples, func(timeline.Sample) bool { n++; return n%2 == 0 })
		}, want: spec.Inconclusive},
		{name: "available as soon as ready", spoil: func(s *scene) {
			s.drop(of(timeline.Deployment, ""))
			s.saw(sec, timeline.Deployment, "dep", says(3, 0, 3))
		}, want: spec.Inconclusive},
		{name: "it did not stay ready", spoil: func(s *scene) { s.ready("new-1", 14*sec, false) }, want: spec.Inconclusive},
		{name: "never seen ready", spoil: func(s *scene) { s.drop(of(timeline.PodReady, "new-3")) }, want: spec.Inconclusive},
		{name: "a gap in the watch of pods", spoil: gapIn("pods"), want: spec.Inconclusive},
	})
	if f := func() spec.Finding { s := rolling(); hasty(s); return s.run(ServesOnceReady()) }(); f.Verdict != spec.Pass {
		t.Errorf("a hasty strategy is not this rule's: %v: %s", f.Verdict, f.Actual)
	}
}

func TestWaitsForAvailable(t *testing.T) {
	table(t, rolling, WaitsForAvailable(), []judged{
		{name: "it waits", want: spec.Pass},
		{name: "a second of grain and a second of delivery", spoil: func(s *scene) { s.shift(timeline.PodDeletion, "old-2", 29*sec+100*time.Millisecond) }, want: spec.Pass},
		{name: "ready was enough", spoil: func(s *scene) { s.shift(timeline.PodDeletion, "old-2", 23*sec+200*time.Millisecond) }, want: spec.Fail, says: "new-2, had been ready for 200ms of 8s"},
		{name: "not even ready", spoil: func(s *scene) { s.shift(timeline.PodDeletion, "old-1", 11*sec) }, want: spec.Fail},
		{name: "readiness that was lost counts anew", spoil: func(s *scene) {
			s.ready("new-1", 16*sec, false)
			s.ready("new-1", 17*sec, true)
		}, want: spec.Fail, says: "new-1, had been ready for 2.5s of 8s"},
		{name: "a controller that lags on a starved machine", spoil: func(s *scene) {
			s.shift(timeline.PodDeletion, "old-2", 23*sec+200*time.Millisecond)
			starve(s, 22*sec, 24*sec)
		}, want: spec.Inconclusive},
		{name: "what the Deployment itself allows", spoil: hasty, want: spec.Pass},
		{name: "minReadySeconds within the grain", spoil: func(s *scene) {
			s.drop(of(timeline.Deployment, ""))
			s.saw(sec, timeline.Deployment, "dep", says(3, 0, 2))
		}, want: spec.Inconclusive},
		{name: "a gap in the watch of pods", spoil: gapIn("pods"), want: spec.Inconclusive},
		{name: "nobody saw the Deployment", spoil: func(s *scene) { s.drop(of(timeline.Deployment, "")) }, want: spec.Inconclusive},
	})
}

// outageScene is healthy with the API server away from 14.2 to 20 s, asked
// for at 14 s.
func outageScene() *scene {
	s := healthy()
	s.saw(14*sec, timeline.Disruption, apiServer, map[string]string{"what": "control-plane-outage"})
	s.saw(14*sec+200*time.Millisecond, timeline.Outage, apiServer, map[string]string{"up": "false"})
	s.saw(20*sec, timeline.Outage, apiServer, map[string]string{"up": "true"})
	s.saw(20*sec+500*time.Millisecond, timeline.PodContainer, uid, map[string]string{"state": "terminated", "exitCode": "0"})
	return s
}

func TestDrainsThroughOutage(t *testing.T) {
	at := func(stream string, from, to time.Duration, o timeline.Outcome) func(*scene) {
		return func(s *scene) {
			s.each(func(x *timeline.Sample) {
				if strings.HasPrefix(x.Stream.String(), stream) && x.Start >= from && x.Start < to {
					fail(x, o)
				}
			})
		}
	}
	exited := func(code string) func(*scene) {
		return func(s *scene) {
			s.saw(20*sec+600*time.Millisecond, timeline.PodContainer, uid, map[string]string{"state": "terminated", "exitCode": code})
		}
	}
	up := func(up string) func(timeline.Event) bool {
		return func(e timeline.Event) bool { return e.Kind == timeline.Outage && e.Attrs["up"] == up }
	}
	table(t, outageScene, DrainsThroughOutage(12*sec), []judged{
		{name: "untouched", want: spec.Pass},
		{name: "the listener goes with the API server", spoil: at("direct/http1/new", 15*sec, 22*sec, timeline.Refused), want: spec.Fail, says: "outage +0.8s, D +5.0s: direct/http1/new/get: connection refused"},
		{name: "it had gone before", spoil: func(s *scene) {
			at("direct/http1", 10*sec+100*time.Millisecond, 27*sec, timeline.Refused)(s)
			s.shift(timeline.ProcExit, uid, 10*sec+100*time.Millisecond)
		}, want: spec.Fail, says: "refused"},
		{name: "what was in flight is cut", spoil: at("direct/http1/reused/slow", 13*sec, 14*sec, timeline.Truncated), want: spec.Fail, says: "body cut short"},
		{name: "what was cut before the outage is another rule's", spoil: func(s *scene) {
			s.each(func(x *timeline.Sample) {
				if slowOp(*x) && x.Start >= 9*sec && x.Start < 10*sec {
					fail(x, timeline.Truncated)
					x.End = 10*sec + 100*time.Millisecond
				}
			})
		}, want: spec.Pass},
		{name: "what is in flight is cut at the kill, before anybody saw the API server away", spoil: func(s *scene) {
			s.each(func(x *timeline.Sample) {
				if slowOp(*x) && x.Start >= 13*sec && x.Start < 14*sec {
					fail(x, timeline.Truncated)
					x.End = 14*sec + 100*time.Millisecond
				}
			})
		}, want: spec.Fail, says: "body cut short"},
		{name: "a failure through the Service at the kill, before anybody saw the API server away", spoil: at("service/http1/new", 14*sec+100*time.Millisecond, 14*sec+150*time.Millisecond, timeline.Reset), want: spec.Fail, says: "through the Service"},
		{name: "a failure through the Service", spoil: at("service/http1/new", 16*sec, 16*sec+20*time.Millisecond, timeline.Timeout), want: spec.Fail, says: "through the Service"},
		{name: "a failure through the Service when it comes back", spoil: at("service/http1/new", 24*sec, 24*sec+20*time.Millisecond, timeline.Timeout), want: spec.Fail},
		{name: "it leaves early", spoil: func(s *scene) { s.shift(timeline.ProcExit, uid, 19*sec) }, want: spec.Fail, says: "left at D + 8.99s"},
		{name: "it is killed", spoil: func(s *scene) {
			s.saw(20*sec+600*time.Millisecond, timeline.PodContainer, uid, map[string]string{"state": "terminated", "exitCode": "137"})
		}, want: spec.Fail, says: "killed at D + 12.19s (exit code 137)"},
		{name: "it says that SIGTERM ended it, with all done", spoil: exited("143"), want: spec.Pass},
		{name: "it says that SIGTERM ended it, and leaves early", spoil: func(s *scene) {
			exited("143")(s)
			s.shift(timeline.ProcExit, uid, 19*sec)
		}, want: spec.Fail, says: "left at D + 8.99s"},
		{name: "it ends with an error", spoil: exited("1"), want: spec.Fail, says: "left with exit code 1"},
		{name: "nobody saw how it ended", spoil: func(s *scene) { s.drop(of(timeline.PodContainer, "")) }, want: spec.Inconclusive},
		{name: "it stays beyond K", spoil: func(s *scene) {
			s.drop(of(timeline.PodDeletion, ""))
			s.saw(del, timeline.PodDeletion, uid, map[string]string{"grace": "12"})
		}, want: spec.Fail, says: "after K"},
		{name: "the API server was never away", spoil: func(s *scene) { s.drop(up("false")) }, want: spec.Inconclusive},
		{name: "it never came back", spoil: func(s *scene) { s.drop(up("true")) }, want: spec.Inconclusive},
		{name: "it was away for an instant", spoil: func(s *scene) {
			s.drop(up("true"))
			s.saw(14*sec+300*time.Millisecond, timeline.Outage, apiServer, map[string]string{"up": "true"})
		}, want: spec.Inconclusive},
		{name: "it began before every node had heard", spoil: func(s *scene) {
			s.drop(func(e timeline.Event) bool { return e.Attrs["what"] == "control-plane-outage" })
			s.saw(12*sec, timeline.Disruption, apiServer, map[string]string{"what": "control-plane-outage"})
		}, want: spec.Inconclusive},
		{name: "it began when the target had done its time", spoil: func(s *scene) {
			s.drop(up("false"))
			s.saw(21*sec, timeline.Outage, apiServer, map[string]string{"up": "false"})
			s.drop(up("true"))
			s.saw(23*sec, timeline.Outage, apiServer, map[string]string{"up": "true"})
		}, want: spec.Inconclusive},
		{name: "nobody but the API server saw it leave", spoil: func(s *scene) { s.drop(of(timeline.ProcExit, "")) }, want: spec.Inconclusive},
		{name: "too little was sent", spoil: func(s *scene) {
			n := 0
			s.tl.Samples = slices.DeleteFunc(s.tl.Samples, func(x timeline.Sample) bool {
				n++
				return strings.HasPrefix(x.Stream.String(), "direct/http1/new") && n%10 != 0
			})
		}, want: spec.Inconclusive},
		{name: "nothing was deleted", spoil: func(s *scene) { s.drop(of(timeline.PodDeletion, "")) }, want: spec.Inconclusive},
	})
}

// pushed is three pushes between 10 and 10.4 s, with 16 kept connections.
func pushed() *scene {
	s := &scene{p: 3 * sec}
	for at, what := range map[time.Duration]string{5 * sec: MarkSteady, 16 * sec: MarkTail} {
		s.saw(at, timeline.Marker, "", map[string]string{"what": what})
	}
	for _, n := range []string{"1", "2", "3"} {
		s.pod("old-"+n, sec)
		s.ready("old-"+n, 2*sec, true)
	}
	for i := range 3 {
		s.saw(10*sec+time.Duration(i)*200*time.Millisecond, timeline.Disruption, "dep", map[string]string{"what": "push"})
	}
	s.streamTo("service/http1/new/get", 100, 16*sec, func(x *timeline.Sample) { x.Server = "old-1" })
	i := 0
	s.streamTo("service/http1/reused/get", 80, 16*sec, func(x *timeline.Sample) {
		x.Conn, x.Nth, x.Server = uint64(i%16+1), i/16+1, "old-2"
		i++
	})
	return s
}

func TestPushDrainsNothing(t *testing.T) {
	table(t, pushed, PushDrainsNothing(), []judged{
		{name: "untouched", want: spec.Pass},
		{name: "a pod was deleted", spoil: func(s *scene) { s.saw(12*sec, timeline.PodDeletion, "old-1", nil) }, want: spec.Fail, says: "deleted"},
		{name: "longer than P after the last push", spoil: func(s *scene) { s.saw(15*sec, timeline.PodDeletion, "old-1", nil) }, want: spec.Fail},
		{name: "a pod drains", spoil: func(s *scene) { s.saw(12*sec, timeline.DrainStart, "old-1", nil) }, want: spec.Fail, says: "drain"},
		{name: "a pod comes", spoil: func(s *scene) { s.pod("new-1", 11*sec) }, want: spec.Fail, says: "new pod"},
		{name: "a pod is not ready for a moment", spoil: func(s *scene) { s.ready("old-3", 11*sec, false) }, want: spec.Fail, says: "ceased to be ready"},
		{name: "a pod is not ready for a moment on a starved machine", spoil: func(s *scene) {
			s.ready("old-3", 11*sec, false)
			starve(s, 10*sec, 12*sec)
		}, want: spec.Inconclusive},
		{name: "a pod is deleted on a starved machine", spoil: func(s *scene) {
			s.saw(12*sec, timeline.PodDeletion, "old-1", nil)
			starve(s, 11*sec, 13*sec)
		}, want: spec.Fail, says: "deleted"},
		{name: "an app without requests that last, which is asked over new connections alone", spoil: func(s *scene) {
			s.event(sec, timeline.Marker, "", map[string]string{"what": MarkPlain})
			s.tl.Samples = slices.DeleteFunc(s.tl.Samples, func(x timeline.Sample) bool { return x.Stream.Flow().Conns == flow.Reused })
		}, want: spec.Pass},
		{name: "no kept connection of an app that has such requests", spoil: func(s *scene) {
			s.tl.Samples = slices.DeleteFunc(s.tl.Samples, func(x timeline.Sample) bool { return x.Stream.Flow().Conns == flow.Reused })
		}, want: spec.Inconclusive},
		{name: "a request fails", spoil: func(s *scene) {
			s.each(func(x *timeline.Sample) {
				if x.Start == 11*sec {
					fail(x, timeline.Reset)
				}
			})
		}, want: spec.Fail, says: "reset"},
		{name: "a reply says that it was the last", spoil: func(s *scene) {
			s.each(func(x *timeline.Sample) { x.LastOnConn = x.LastOnConn || x.Conn == 7 && x.Start > 10*sec })
		}, want: spec.Fail, says: "the last"},
		{name: "a connection ends without a word", spoil: func(s *scene) {
			s.each(func(x *timeline.Sample) {
				if x.Conn == 7 && x.Start > 10*sec+100*time.Millisecond {
					x.Conn = 17
				}
			})
		}, want: spec.Fail, says: "connection 7"},
		{name: "it was stopped behind the last push, before all connections had their turn", spoil: func(s *scene) {
			s.drop(func(e timeline.Event) bool { return e.Attrs["what"] == MarkTail })
			s.tl.Samples = slices.DeleteFunc(s.tl.Samples, func(x timeline.Sample) bool { return x.Start > 10500*time.Millisecond })
		}, want: spec.Inconclusive},
		{name: "the pool grows beside it", spoil: func(s *scene) {
			s.streamTo("service/http1/reused/get", 5, 16*sec, func(x *timeline.Sample) {
				x.Conn, x.Nth, x.Server, x.ID = 17, 1, "old-3", x.ID+"+"
				if x.Start < 11*sec {
					x.Conn = 1
				}
			})
		}, want: spec.Pass},
		{name: "the suite's own scout", spoil: func(s *scene) {
			i := uint64(0)
			s.streamTo("scout/service/http1/new/get", 4, 15*sec, func(x *timeline.Sample) {
				i++
				x.Conn = i
				fail(x, timeline.Refused)
			})
		}, want: spec.Pass},
		{name: "before the first push", spoil: func(s *scene) { s.saw(9*sec, timeline.PodDeletion, "old-1", nil) }, want: spec.Pass},
		{name: "a pod of the suite's own", spoil: func(s *scene) {
			s.saw(sec, timeline.PodSeen, "scout/service/http1/new/get", map[string]string{"owner": ""})
			s.saw(11*sec, timeline.PodDeletion, "scout/service/http1/new/get", nil)
		}, want: spec.Pass},
		{name: "two pushes were refused", spoil: func(s *scene) {
			n := 0
			for i := range s.tl.Events {
				if e := &s.tl.Events[i]; e.Kind == timeline.Disruption && n < 2 {
					e.Attrs["error"] = "conflict"
					n++
				}
			}
		}, want: spec.Inconclusive},
		{name: "few kept connections", spoil: func(s *scene) {
			s.each(func(x *timeline.Sample) { x.Conn = min(x.Conn, 2) })
		}, want: spec.Inconclusive},
		{name: "few requests", spoil: func(s *scene) {
			s.each(func(x *timeline.Sample) { x.Saturated = x.Conn == 0 })
		}, want: spec.Inconclusive},
		{name: "the recording ends too soon", spoil: func(s *scene) {
			s.drop(func(e timeline.Event) bool { return e.Attrs["what"] == MarkTail })
			s.saw(12*sec, timeline.Marker, "", map[string]string{"what": MarkTail})
		}, want: spec.Inconclusive},
		{name: "a gap in the watch of pods", spoil: gapIn("pods"), want: spec.Inconclusive},
	})
}

// behindBalancer is healthy, seen through a load balancer: the node's health
// check port fails from 10.5 s on, and the node is taken out at 12.2 s.
func behindBalancer() *scene {
	s := healthy()
	for _, conns := range []string{"new", "reused"} {
		i := 0
		s.stream("balanced/http1/"+conns+"/get", 40, func(x *timeline.Sample) {
			i++
			x.Server = "uid-b"
			if x.Start < 12*sec+200*time.Millisecond && i%2 == 0 {
				x.Server = uid
			}
			if conns == "reused" {
				x.Nth = 2
			}
		})
	}
	s.stream("health/http1/new/check@n1", 5, func(x *timeline.Sample) {
		if x.Start > 10*sec+500*time.Millisecond {
			x.Outcome, x.Status = timeline.Status, 503
		}
	})
	s.stream("health/http1/new/check@n2", 5, func(*timeline.Sample) {})
	s.balance(2*sec, "n1", "")
	s.balance(2*sec, "n2", "")
	s.balance(12*sec+200*time.Millisecond, "n1", "status 503 Service Unavailable")
	return s
}

// balance makes the balancer take a node in, or out for a reason.
func (s *scene) balance(at time.Duration, node, why string) {
	attrs := map[string]string{"in": fmt.Sprint(why == "")}
	if why != "" {
		attrs["why"] = why
	}
	s.saw(at, timeline.Balancer, node, attrs)
}

func TestLocalRollout(t *testing.T) {
	// Resets of new connections, as the balancer itself answers without a node.
	lost := func(s *scene, at time.Duration) {
		s.from(flow.Balanced, at, at+50*time.Millisecond, func(x *timeline.Sample) {
			if onNewConns(*x) {
				fail(x, timeline.Reset)
				x.End = x.Start + 30*time.Millisecond
			}
		})
	}
	table(t, behindBalancer, LocalRollout(sec, 2), []judged{
		{name: "the node port falls back", want: spec.Pass},
		{name: "it drops instead", spoil: func(s *scene) {
			s.each(func(x *timeline.Sample) {
				if strings.HasPrefix(x.Stream.String(), "balanced/http1/new") && x.Server == uid && x.Start > 10*sec+300*time.Millisecond {
					fail(x, timeline.Timeout)
				}
			})
		}, want: spec.Fail, says: "no answer in time"},
		{name: "it drops the first SYN, and a new pod takes the next", spoil: func(s *scene) {
			s.each(func(x *timeline.Sample) {
				if strings.HasPrefix(x.Stream.String(), "balanced/http1/new") && x.Server == uid && x.Start > 10*sec+300*time.Millisecond {
					x.Server, x.First, x.End = "uid-b", x.Start+sec+sec/20, x.Start+sec+sec/10
				}
			})
		}, want: spec.Fail, says: "nobody answered a new connection for 1.05s"},
		{name: "one connection was slow", spoil: func(s *scene) {
			once := false
			s.each(func(x *timeline.Sample) {
				if strings.HasPrefix(x.Stream.String(), "balanced/http1/new") && x.Server == "uid-b" && x.Start > 11*sec && !once {
					once = true
					x.First, x.End = x.Start+sec+sec/20, x.Start+sec+sec/10
				}
			})
		}, want: spec.Pass},
		{name: "the balancer had lost both nodes for want of CPU", spoil: func(s *scene) {
			s.balance(15*sec, "n2", "context deadline exceeded")
			lost(s, 15*sec+500*time.Millisecond)
			s.balance(16*sec, "n2", "")
		}, want: spec.Inconclusive},
		{name: "it lost the last one just after the connection came", spoil: func(s *scene) {
			s.balance(15*sec+520*time.Millisecond, "n2", "context deadline exceeded")
			lost(s, 15*sec+500*time.Millisecond)
		}, want: spec.Inconclusive},
		{name: "both nodes had said that they have nobody", spoil: func(s *scene) {
			s.balance(15*sec, "n2", "status 503 Service Unavailable")
			lost(s, 15*sec+500*time.Millisecond)
		}, want: spec.Fail, says: "reset"},
		{name: "one node was in again", spoil: func(s *scene) {
			s.balance(15*sec, "n2", "context deadline exceeded")
			s.balance(15*sec+200*time.Millisecond, "n1", "")
			lost(s, 15*sec+500*time.Millisecond)
		}, want: spec.Fail, says: "reset"},
		{name: "a kept connection had its node long since", spoil: func(s *scene) {
			s.balance(15*sec, "n2", "context deadline exceeded")
			s.each(func(x *timeline.Sample) {
				if strings.HasPrefix(x.Stream.String(), "balanced/http1/reused") && x.Start >= 15*sec+500*time.Millisecond && x.Start < 15*sec+600*time.Millisecond {
					fail(x, timeline.Reset)
				}
			})
		}, want: spec.Fail, says: "reset"},
		{name: "another path's failures are not this rule's", spoil: func(s *scene) {
			s.each(func(x *timeline.Sample) {
				if throughService(*x) && x.Start > 12*sec {
					fail(x, timeline.Timeout)
				}
			})
		}, want: spec.Pass},
		{name: "the node was never without a ready pod", spoil: func(s *scene) {
			s.each(func(x *timeline.Sample) {
				if x.Status == 503 {
					x.Outcome, x.Status = timeline.OK, 200
				}
			})
		}, want: spec.Inconclusive},
		{name: "nothing reached the pod after that", spoil: func(s *scene) {
			s.each(func(x *timeline.Sample) {
				if strings.HasPrefix(x.Stream.String(), "balanced/") && x.Start > 10*sec+400*time.Millisecond {
					x.Server = "uid-b"
				}
			})
		}, want: spec.Inconclusive},
		{name: "a grace period that is too short", spoil: func(s *scene) {
			s.drop(of(timeline.PodDeletion, ""))
			s.saw(del, timeline.PodDeletion, uid, map[string]string{"grace": "5"})
		}, want: spec.Inconclusive},
		{name: "too little was offered", spoil: func(s *scene) {
			s.each(func(x *timeline.Sample) { x.Saturated = strings.HasPrefix(x.Stream.String(), "balanced/http1/new") })
		}, want: spec.Inconclusive},
	})
}

func TestDelayedStreams(t *testing.T) {
	for _, row := range []struct {
		stream   string
		patience time.Duration
		standIn  string
	}{
		{"service/http1/new/get", sec, "service/http1/new/get"},
		{"service/http1/reused/get", sec, "service/http1/reused/slow/2s"},
		{"service/http1/reused/get/delay=20ms", 1040 * time.Millisecond, "service/http1/reused/slow/2s/delay=20ms"},
		{"direct/tcp/new/talk/12s", 13 * sec, "direct/tcp/new/talk/2s"},
		{"direct/h2c/reused/slow/2s", 3 * sec, "direct/h2c/reused/slow/2s"},
		{"direct/http1/new/websocket/4s", 5 * sec, "direct/http1/new/websocket/2s"},
		{"direct/http1/new/half-header/4s", 5 * sec, "direct/http1/new/half-header/2s"},
		{"direct/h2c/reused/grpc-unary", sec, "direct/h2c/reused/grpc-server/2s"},
		{"direct/h2c/shared/get/delay=20ms", 1040 * time.Millisecond, "direct/h2c/shared/slow/2s/delay=20ms"},
		{"direct/h2c/shared/mixed/5s", 6 * sec, "direct/h2c/shared/slow/2s"},
		{"direct/h2c/shared/grpc-unary", sec, "direct/h2c/shared/grpc-server/2s"},
		{"direct/h2c/new/grpc-unary", sec, "direct/h2c/new/grpc-unary"},
		{"direct/h2c/reused/grpc-server/3s", 4 * sec, "direct/h2c/reused/grpc-server/2s"},
		{"direct/h2/reused/grpc-bidi/3s/delay=20ms", 4040 * time.Millisecond, "direct/h2/reused/grpc-bidi/2s/delay=20ms"},
		{"direct/h2c/reused/slow/2s/delay=20ms", 3040 * time.Millisecond, "direct/h2c/reused/slow/2s/delay=20ms"},
	} {
		if got := Patience(timeline.Sample{Stream: flow.Named(row.stream + "@x")}); got != row.patience {
			t.Errorf("patience with %s: %s, want %s", row.stream, got, row.patience)
		}
		if got := StandIn(flow.Parse(row.stream)); got.String() != row.standIn {
			t.Errorf("stand-in of %s: %s, want %s", row.stream, got, row.standIn)
		}
	}
	if x := (timeline.Sample{Stream: flow.Named("direct/h2c/shared/mixed/5s@x"), Brief: true}); Patience(x) != sec || !Short(x) {
		t.Error("a short request among long ones is read as a long one")
	}
	if x := (timeline.Sample{Stream: flow.Named("service/http1/reused/get/delay=20ms")}); onNewConns(x) || slowOp(x) || !throughService(x) {
		t.Error("a delayed stream is read as another kind")
	}
}

func TestStreamsOfNodesAreNotSilent(t *testing.T) {
	s := behindBalancer()
	s.tl.Sort()
	c := NewCase(&s.tl, s.p)
	if why := Silence(c, flow.Parse("health/http1/new/check"), 5); why != "" {
		t.Error(why)
	}
	s.tl.Samples = slices.DeleteFunc(s.tl.Samples, func(x timeline.Sample) bool {
		return strings.HasSuffix(x.Stream.String(), "@n1") && x.Start > 15*sec
	})
	if Silence(c, flow.Parse("health/http1/new/check"), 5) == "" {
		t.Error("the stream to the target's node ends, and nobody says so")
	}
}
