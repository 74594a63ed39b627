// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestDeathIsTold(t *testing.T) {
	const death = scene.D + 3*time.Second
	asked := flow.To(flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, scene.UID)
	// killed has the sidecar die, and each request take so long: those that end after its death fail.
	killed := func(what string, takes time.Duration, set func(*timeline.Sample)) func(scene.Scene) {
		return func(s scene.Scene) {
			beside(death + 10*time.Millisecond)(s)
			s.Event(death, timeline.Disruption, scene.UID, map[string]string{"what": what})
			for at := scene.D - time.Second; at < scene.Exit; at += 50 * time.Millisecond {
				x := timeline.Sample{
					Stream: asked, ID: fmt.Sprint(at), Conn: 1, Nth: 1, Due: at, Start: at, End: at + 2*time.Millisecond,
					Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: scene.UID, Status: 200,
				}
				if at > death {
					x.End, x.Outcome, x.Phase, x.Server, x.Status = at+takes, timeline.Reset, timeline.PhaseDial, "", 0
				}
				if set != nil {
					set(&x)
				}
				s.Add(x)
			}
		}
	}
	const kill = string(disrupt.KillSidecar)
	// calling has calls of the app's own fail, that begin when its sidecar is dead and take so long.
	calling := func(s scene.Scene, takes time.Duration) {
		of := flow.To(flow.Flow{Path: flow.Outbound, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, scene.UID)
		for at := death + time.Second; at < scene.Exit-2*time.Second; at += 200 * time.Millisecond {
			s.Add(timeline.Sample{Stream: of, ID: fmt.Sprint(of, at), Conn: 1, Nth: 1, Due: at, Start: at, End: at + takes, Outcome: timeline.Timeout, Phase: timeline.PhaseDial})
		}
	}
	check := DeathIsTold()
	scene.Judge(t, func(tl *timeline.Timeline) spec.Finding { return check.Run(assertions.NewCase(tl, scene.P)) }, []scene.Row{
		{Name: "refused at once", Build: killed(kill, time.Millisecond, nil), Want: spec.Pass},
		{Name: "hangs", Build: killed(kill, 2*time.Second, nil), Want: spec.Fail},
		{Name: "the app's own calls are refused at once", Build: func(s scene.Scene) {
			killed(kill, time.Millisecond, nil)(s)
			calling(s, 2*time.Millisecond)
		}, Want: spec.Pass},
		{Name: "the app's own calls hang", Build: func(s scene.Scene) {
			killed(kill, time.Millisecond, nil)(s)
			calling(s, 2*time.Second)
		}, Want: spec.Fail},
		{Name: "given up before its death, on a starved machine", Build: func(s scene.Scene) {
			killed(kill, time.Millisecond, func(x *timeline.Sample) {
				if x.Start == scene.D-500*time.Millisecond {
					x.End, x.Outcome, x.Phase = scene.D+2*time.Second, timeline.Timeout, timeline.PhaseFirstByte
				}
			})(s)
			starved(s, scene.D-500*time.Millisecond)
		}, Want: spec.Inconclusive},
		{Name: "nothing is lost", Build: killed(kill, time.Millisecond, func(x *timeline.Sample) {
			x.Outcome, x.Phase, x.Server, x.Status = timeline.OK, timeline.PhaseDone, scene.UID, 200
		}), Want: spec.Inconclusive},
		{Name: "lost before its death", Build: killed(kill, time.Millisecond, func(x *timeline.Sample) {
			if x.Start == scene.D+time.Second {
				x.Outcome = timeline.Reset
			}
		}), Want: spec.Fail},
		{Name: "lost before D", Build: killed(kill, time.Millisecond, func(x *timeline.Sample) {
			if x.Start < scene.D-500*time.Millisecond {
				x.Outcome = timeline.Reset
			}
		}), Want: spec.Pass},
		{Name: "lost between the deletion and D", Build: func(s scene.Scene) {
			deletedEarly(s)
			killed(kill, time.Millisecond, func(x *timeline.Sample) {
				if early(x) {
					x.Outcome = timeline.Reset
				}
			})(s)
		}, Want: spec.Fail},
		{Name: "stood at its death, and was told", Build: killed(kill, time.Millisecond, func(x *timeline.Sample) {
			if x.Start == scene.D+time.Second {
				x.End, x.Outcome = death+500*time.Millisecond, timeline.Reset
			}
		}), Want: spec.Pass},
		{Name: "cut before it was seen to be gone", Build: killed(kill, time.Millisecond, func(x *timeline.Sample) {
			if x.Start == scene.D+time.Second {
				x.End, x.Outcome = death+5*time.Millisecond, timeline.Reset
			}
		}), Want: spec.Pass},
		{Name: "stood at its death, and hangs", Build: killed(kill, time.Millisecond, func(x *timeline.Sample) {
			if x.Start == scene.D+time.Second {
				x.End, x.Outcome = death+1500*time.Millisecond, timeline.Timeout
			}
		}), Want: spec.Fail},
		{Name: "a vendor's was never seen to go, and what was there for its drain was", Build: func(s scene.Scene) {
			killed(kill, 2*time.Second, nil)(s)
			s.Drop(func(e timeline.Event) bool { return e.Kind == timeline.ProcExit && e.Attrs["container"] != "" })
			vendors(s)
			s.Event(scene.Exit-time.Second, timeline.ProcExit, scene.UID, map[string]string{"container": "hook"})
		}, Want: spec.Inconclusive},
		{Name: "nobody killed it", Build: killed("other", time.Millisecond, nil), Want: spec.Inconclusive},
	})
}

func TestDeathIsVisible(t *testing.T) {
	const death = scene.D + 3*time.Second
	calls := flow.To(flow.Flow{Path: flow.Outbound, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Slow, Takes: 2 * time.Second}, scene.UID)
	asked := flow.To(flow.Flow{Path: flow.Direct, Protocol: flow.HTTP1, Conns: flow.Reused, Op: flow.Slow, Takes: 2 * time.Second}, scene.UID)
	// cut has some requests of a stream be under way when the sidecar is killed.
	cut := func(s scene.Scene, of flow.Stream, as timeline.Outcome, first time.Duration) {
		for k := range 6 {
			at := death - time.Second + time.Duration(k)*100*time.Millisecond
			s.Add(timeline.Sample{
				Stream: of, ID: fmt.Sprint(of, k), Conn: uint64(k + 1), Nth: 1, Due: at, Start: at, Sent: at, First: first,
				End: death + 5*time.Millisecond, Outcome: as, Phase: timeline.PhaseBody, Server: "uid-peer", Status: 200,
			})
		}
	}
	with := func(calling, asking timeline.Outcome, first time.Duration) func(scene.Scene) {
		return func(s scene.Scene) {
			beside(death + 10*time.Millisecond)(s)
			s.Event(death, timeline.Disruption, scene.UID, map[string]string{"what": string(disrupt.KillSidecar)})
			cut(s, calls, calling, first)
			cut(s, asked, asking, first)
		}
	}
	const begun = death - 300*time.Millisecond
	check := DeathIsVisible()
	scene.Judge(t, func(tl *timeline.Timeline) spec.Finding { return check.Run(assertions.NewCase(tl, scene.P)) }, []scene.Row{
		{Name: "by RST", Build: with(timeline.Reset, timeline.Reset, begun), Want: spec.Pass},
		{Name: "the app's own by a FIN", Build: with(timeline.Truncated, timeline.Reset, begun), Want: spec.Fail},
		{Name: "its clients' by a FIN", Build: with(timeline.Reset, timeline.Truncated, begun), Want: spec.Fail},
		{Name: "nothing had been answered", Build: with(timeline.Closed, timeline.Closed, 0), Want: spec.Inconclusive},
		{Name: "all came to their ends", Build: with(timeline.OK, timeline.OK, begun), Want: spec.Inconclusive},
		{Name: "hung", Build: with(timeline.Timeout, timeline.Timeout, begun), Want: spec.Inconclusive},
		{Name: "nobody killed it", Build: func(s scene.Scene) { cut(s, calls, timeline.Reset, begun) }, Want: spec.Inconclusive},
	})
}
