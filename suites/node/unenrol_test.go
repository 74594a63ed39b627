// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// A workload of the scenes leaves, has left, is to come back, and is back.
const (
	leavingAt = scene.D
	leftAt    = scene.D + 6*time.Second
	joiningAt = scene.D + 11*time.Second
	backAt    = scene.D + 11*time.Second + 100*time.Millisecond
)

// leave has two workloads do so.
func leave(s scene.Scene, held string) {
	s.Drop(func(e timeline.Event) bool { return e.Subject == scene.UID }) // nothing ends
	for n, uid := range []string{scene.UID, scene.OtherUID} {
		s.Event(time.Second, timeline.PodSeen, uid, map[string]string{"ip": fmt.Sprintf("10.0.0.%d", n+1), "ips": fmt.Sprintf("10.0.0.%d fd00::%[1]d", n+1), "node": "a"})
		s.Event(leavingAt, timeline.MeshLeaving, uid, nil)
		s.Event(leftAt, timeline.MeshLeft, uid, map[string]string{"held": held})
		s.Event(joiningAt, timeline.MeshJoining, uid, nil)
		s.Event(backAt, timeline.MeshJoined, uid, nil)
	}
}

// asks adds what both are asked, each 20 ms, and in tunnels until P; set may change each.
func asks(s scene.Scene, set func(*timeline.Sample)) {
	for n, uid := range []string{scene.UID, scene.OtherUID} {
		for k := range 900 {
			at := scene.D - time.Second + time.Duration(k)*20*time.Millisecond
			x := timeline.Sample{
				Stream: flow.To(passing[1].Flow, uid), ID: fmt.Sprint(n, "_", k), Conn: uint64(k + 1), Nth: 1, Due: at, Start: at, Dial: at + 1, Sent: at + 1, First: at + 2, End: at + 3,
				Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: uid, Status: 200,
			}
			if at < leavingAt { // it lasts
				x.Stream, x.End = flow.To(passing[2].Flow, uid), leavingAt+5*time.Second
			} else if k%4 == 0 {
				x.Stream = flow.To(passing[5].Flow, uid)
			}
			if set != nil {
				set(&x)
			}
			s.Add(x)
		}
	}
}

func judging(check assertions.Check) func(*timeline.Timeline) spec.Finding {
	return func(tl *timeline.Timeline) spec.Finding { return check.Run(assertions.NewCase(tl, scene.P)) }
}

func TestNoneFailsOnLeaving(t *testing.T) {
	with := func(set func(*timeline.Sample)) func(scene.Scene) {
		return func(s scene.Scene) {
			leave(s, "")
			asks(s, set)
		}
	}
	failing := func(from, to time.Duration, inTunnel bool) func(*timeline.Sample) {
		return func(x *timeline.Sample) {
			if x.Start >= from && x.Start < to && x.Stream.Flow().Protocol.Tunnels() == inTunnel {
				x.Outcome, x.Phase = timeline.Reset, timeline.PhaseFirstByte
			}
		}
	}
	scene.Judge(t, judging(NoneFailsOnLeaving()), []scene.Row{
		{Name: "none", Build: with(nil), Want: spec.Pass},
		{Name: "what was under way", Build: with(failing(leavingAt-time.Second, leavingAt, false)), Want: spec.Fail},
		{Name: "while out", Build: with(failing(leftAt, leftAt+time.Second, false)), Want: spec.Fail},
		{Name: "on the way back", Build: with(failing(backAt, backAt+100*time.Millisecond, false)), Want: spec.Fail},
		{Name: "in tunnels, within P", Build: with(failing(leavingAt+2*time.Second, leavingAt+scene.P, true)), Want: spec.Fail},
		{Name: "in tunnels, later", Build: with(failing(leavingAt+scene.P+time.Second, backAt, true)), Want: spec.Pass},
		{Name: "nobody left", Build: func(s scene.Scene) { asks(s, nil) }, Want: spec.Inconclusive},
		{Name: "nobody asked", Build: func(s scene.Scene) { leave(s, "") }, Want: spec.Inconclusive},
	})
}

func TestGivenUpInTime(t *testing.T) {
	const within = 17 * time.Second
	with := func(left, ended time.Duration) func(scene.Scene) {
		return func(s scene.Scene) {
			leave(s, "")
			for i, e := range s.Events {
				if e.Kind != timeline.MeshLeaving && e.At > leavingAt && e.Subject == scene.UID {
					s.Events[i].At += left - leftAt
				}
				if e.Kind == timeline.MeshLeaving {
					s.Events[i].Attrs = map[string]string{"within": within.String()}
				}
			}
			for k := range 4 {
				at := leavingAt - time.Duration(k+1)*100*time.Millisecond
				x := timeline.Sample{
					Stream: flow.To(lingering.Flow, scene.UID), ID: fmt.Sprint("held", k), Conn: uint64(k + 1), Nth: 1, Due: at, Start: at, Dial: at + 1, Sent: at + 1, First: at + 2, End: at + 3,
					Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: scene.UID, Status: 200,
				}
				s.Add(x)
				if ended > 0 {
					s.Frames = append(s.Frames, timeline.Frame{At: ended, Stream: x.Stream, Conn: x.Conn, Kind: timeline.FrameRST})
				}
			}
		}
	}
	const until = leavingAt + within
	scene.Judge(t, judging(GivenUpInTime()), []scene.Row{
		{Name: "in time", Build: with(until+2*time.Second, until+time.Second), Want: spec.Pass},
		{Name: "it left, and they are the app's", Build: with(until+time.Second, 0), Want: spec.Pass},
		{Name: "too late", Build: with(until+removedWithin+time.Second, until+removedWithin), Want: spec.Fail},
		{Name: "too early", Build: with(until+2*time.Second, until-time.Second), Want: spec.Fail},
		{Name: "they were gone before", Build: with(until, leavingAt-50*time.Millisecond), Want: spec.Inconclusive},
		{Name: "nobody says how long", Build: func(s scene.Scene) {
			with(until+2*time.Second, until+time.Second)(s)
			for i := range s.Events {
				if s.Events[i].Kind == timeline.MeshLeaving {
					s.Events[i].Attrs = nil
				}
			}
		}, Want: spec.Inconclusive},
		{Name: "nobody left", Build: func(scene.Scene) {}, Want: spec.Inconclusive},
	})
}

func TestToldOnLeaving(t *testing.T) {
	reused := passing[6]
	with := func(says ...timeline.Frame) func(scene.Scene) {
		return func(s scene.Scene) {
			leave(s, "")
			stand(s, reused, 4, says...)
			for _, x := range s.Samples {
				x.Stream, x.Server = flow.To(reused.Flow, scene.OtherUID), scene.OtherUID
				s.Add(x)
			}
			for _, f := range s.Frames {
				f.Stream = flow.To(reused.Flow, scene.OtherUID)
				s.Frames = append(s.Frames, f)
			}
		}
	}
	const then = leftAt - 100*time.Millisecond
	scene.Judge(t, judging(ToldOnLeaving()), []scene.Row{
		{Name: "told", Build: with(frame(then, timeline.FrameGoAway), frame(then, timeline.FrameCloseNotify)), Want: spec.Pass},
		{Name: "never", Build: with(), Want: spec.Fail},
		{Name: "no close_notify", Build: with(frame(then, timeline.FrameGoAway), frame(then, timeline.FrameFIN)), Want: spec.Fail},
		{Name: "told for its age before that", Build: func(s scene.Scene) {
			with(frame(then, timeline.FrameGoAway), frame(then, timeline.FrameCloseNotify))(s)
			for i := range s.Frames {
				if f := &s.Frames[i]; f.Conn == 1 {
					f.At = leavingAt - 2*time.Second
					if f.Kind == timeline.FrameCloseNotify {
						f.At = leavingAt + 50*time.Millisecond
					}
				}
			}
		}, Want: spec.Pass},
		{Name: "never, on a node without CPU", Build: func(s scene.Scene) { with()(s); s.Starve("a", leftAt) }, Want: spec.Inconclusive},
		{Name: "cut, on a node without CPU", Build: func(s scene.Scene) { with(frame(then, timeline.FrameRST))(s); s.Starve("a", leftAt) }, Want: spec.Fail},
		{Name: "cut", Build: with(frame(then, timeline.FrameRST)), Want: spec.Fail},
		{Name: "ended behind it", Build: with(frame(then, timeline.FrameGoAway), frame(leftAt+time.Second, timeline.FrameCloseNotify)), Want: spec.Fail},
		{Name: "none stood", Build: func(s scene.Scene) { leave(s, "") }, Want: spec.Inconclusive},
	})
}

func TestNothingIsLeft(t *testing.T) {
	scene.Judge(t, judging(NothingIsLeft()), []scene.Row{
		{Name: "none", Build: func(s scene.Scene) { leave(s, "") }, Want: spec.Pass},
		{Name: "a listener", Build: func(s scene.Scene) { leave(s, "listening@[::]:15008") }, Want: spec.Fail},
		{Name: "nobody left", Build: func(scene.Scene) {}, Want: spec.Inconclusive},
		{Name: "nobody looked", Build: func(s scene.Scene) {
			leave(s, "")
			for _, e := range s.EventsOf(timeline.MeshLeft, scene.UID) {
				delete(e.Attrs, "held")
			}
		}, Want: spec.Inconclusive},
	})
}

func TestOutAndBack(t *testing.T) {
	dialled := func(s scene.Scene, at time.Duration, to string) {
		s.Event(at, timeline.Wire, "", map[string]string{"what": timeline.WireDialled, "from": "10.0.0.9:40000", "to": to})
	}
	with := func(also func(scene.Scene)) func(scene.Scene) {
		return func(s scene.Scene) {
			leave(s, "")
			asks(s, nil)
			for n := range 50 {
				dialled(s, leftAt+time.Duration(n)*50*time.Millisecond, "10.0.0.1:8080")
				dialled(s, leftAt+time.Duration(n)*50*time.Millisecond, "10.0.0.2:8080")
			}
			if also != nil {
				also(s)
			}
		}
	}
	// The requests of the scene begin before backAt + P.
	long := func(s scene.Scene) {
		for n, uid := range []string{scene.UID, scene.OtherUID} {
			for k := range 30 {
				at := backAt + scene.P + time.Duration(k+1)*20*time.Millisecond
				s.Add(timeline.Sample{
					Stream: flow.To(passing[1].Flow, uid), ID: fmt.Sprint("late", n, "-", k), Conn: uint64(k + 2000), Nth: 1, Due: at, Start: at, Dial: at + 1, Sent: at + 1, First: at + 2, End: at + 3,
					Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: uid, Status: 200,
				})
			}
		}
	}
	and := func(at time.Duration, to string) func(scene.Scene) {
		return func(s scene.Scene) { long(s); dialled(s, at, to) }
	}
	// In a cluster: both call, and are looked at.
	in := func(also func(scene.Scene)) func(scene.Scene) {
		return func(s scene.Scene) {
			leave(s, "")
			asks(s, func(x *timeline.Sample) {
				if x.Start > leftAt && x.Start < joiningAt {
					x.Stream = flow.To(passing[3].Flow, x.Server)
				}
			})
			long(s)
			also(s)
		}
	}
	looked := func(s scene.Scene, at time.Duration, state string) {
		for _, uid := range []string{scene.UID, scene.OtherUID} {
			s.Event(at, timeline.Sockets, uid, map[string]string{"peer": "10.0.0.9:15008", "sockets": "7/" + state + "/10.0.0.1:41000"})
		}
	}
	back := func(s scene.Scene) {
		for n := range 6 {
			looked(s, backAt+scene.P+time.Duration(n+1)*250*time.Millisecond, "established")
		}
	}
	scene.Judge(t, judging(OutAndBack()), []scene.Row{
		{Name: "without a tunnel while out", Build: with(long), Want: spec.Pass},
		{Name: "without a tunnel while out, at the other address", Build: with(and(leftAt+time.Second, "[fd00::1]:8080")), Want: spec.Pass},
		{Name: "without one before, at the other address", Build: with(and(leavingAt-time.Second, "[fd00::1]:8080")), Want: spec.Fail},
		{Name: "a tunnel whenever", Build: with(and(time.Second, "10.0.0.1:15008")), Want: spec.Pass},
		{Name: "without one before", Build: with(and(leavingAt-time.Second, "10.0.0.1:8080")), Want: spec.Fail},
		{Name: "without one long after", Build: with(and(backAt+scene.P+time.Second, "10.0.0.1:8080")), Want: spec.Fail},
		{Name: "without one long after, on a machine that was starved", Build: with(func(s scene.Scene) {
			and(backAt+scene.P+time.Second, "10.0.0.1:8080")(s)
			for i, x := range s.Samples {
				s.Samples[i].Saturated = x.Start > backAt+scene.P/2
			}
			for k := range 60 {
				at := backAt + scene.P + time.Duration(k)*20*time.Millisecond
				s.Add(timeline.Sample{Stream: flow.To(passing[0].Flow, ""), ID: fmt.Sprint("starved", k), Conn: uint64(k + 9000), Nth: 1, Due: at, Start: at, Dial: at + 1, Sent: at + 1, First: at + 2, End: at + 3,
					Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: scene.UID, Status: 200, Saturated: true})
			}
		}), Want: spec.Inconclusive},
		{Name: "without one to who never left", Build: with(and(leftAt+time.Second, "10.0.0.7:8080")), Want: spec.Fail},
		{Name: "nobody looked", Build: func(s scene.Scene) { leave(s, ""); asks(s, nil) }, Want: spec.Inconclusive},
		{Name: "in a cluster", Build: in(func(s scene.Scene) { back(s); looked(s, leavingAt, "established") }), Want: spec.Pass},
		{Name: "in a cluster, one that is closing", Build: in(func(s scene.Scene) { back(s); looked(s, leftAt+time.Second, "close-wait") }), Want: spec.Pass},
		{Name: "in a cluster, with a tunnel while out", Build: in(func(s scene.Scene) { back(s); looked(s, leftAt+time.Second, "established") }), Want: spec.Fail},
		{Name: "in a cluster, without one after", Build: in(func(s scene.Scene) { looked(s, leavingAt, "established") }), Want: spec.Inconclusive},
		{Name: "in a cluster, with calls and without a tunnel after", Build: in(func(s scene.Scene) {
			for n := range 6 {
				looked(s, backAt+scene.P+time.Duration(n+1)*250*time.Millisecond, "close-wait")
			}
			for n, uid := range []string{scene.UID, scene.OtherUID} {
				for k := range 30 {
					at := backAt + scene.P + time.Duration(k+1)*20*time.Millisecond
					s.Add(timeline.Sample{
						Stream: flow.To(passing[3].Flow, uid), ID: fmt.Sprint("own", n, "-", k), Conn: uint64(k + 3000), Nth: 1, Due: at, Start: at, Dial: at + 1, Sent: at + 1, First: at + 2, End: at + 3,
						Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: uid, Status: 200,
					})
				}
			}
		}), Want: spec.Fail},
		{Name: "in a cluster, and never back", Build: in(func(s scene.Scene) {
			back(s)
			for i, e := range s.Events {
				if e.Kind == timeline.MeshJoined {
					s.Events[i].Attrs = map[string]string{"lacks": "nobody listens"}
				}
			}
		}), Want: spec.Fail},
		{Name: "in a cluster, with no calls", Build: func(s scene.Scene) {
			leave(s, "")
			asks(s, nil)
			long(s)
			back(s)
		}, Want: spec.Inconclusive},
	})
}

// The second of the workloads that leave has nothing that lasts.
func TestLeavingCarries(t *testing.T) {
	for nth, want := range []bool{true, false, true, true} {
		if got := behaviour.Leaving.Carries(nth, passing[2]); got != want {
			t.Errorf("workload %d has what lasts: %v, want %v", nth, got, want)
		}
	}
}
