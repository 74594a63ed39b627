// SPDX-License-Identifier: Apache-2.0

package hbone

import (
	"fmt"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
	"github.com/lastcall-dev/lastcall/suites/tunnel"
)

// judge puts a check to scenes of one termination.
func judge(t *testing.T, check assertions.Check, rows []scene.Row) {
	t.Helper()
	scene.Judge(t, func(tl *timeline.Timeline) spec.Finding { return check.Run(assertions.NewCase(tl, scene.P)) }, rows)
}

// in adds a connection in a tunnel to the instance.
func in(s scene.Scene, p load.Profile, tunnel uint64, from, to time.Duration, set func(*timeline.Sample)) {
	x := timeline.Sample{
		Stream: flow.To(p.Flow, scene.UID), ID: fmt.Sprintf("%s-%d-%d", p, tunnel, from), Conn: tunnel, Nth: 1, StreamID: 1,
		Due: from, Start: from, Sent: from, First: from + 1, End: to,
		Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: scene.UID, Status: 200,
	}
	if set != nil {
		set(&x)
	}
	s.Add(x)
}

// says adds what the tunnel's server says.
func says(s scene.Scene, p load.Profile, tunnel uint64, at time.Duration, kind timeline.FrameKind, attrs ...string) {
	f := timeline.Frame{At: at, Stream: flow.To(p.Flow, scene.UID), Conn: tunnel, Kind: kind, Attrs: map[string]string{}}
	for i := 0; i < len(attrs); i += 2 {
		f.Attrs[attrs[i]] = attrs[i+1]
	}
	s.Frames = append(s.Frames, f)
}

const (
	told = scene.D + 5*time.Second // by a GOAWAY
	last = told + 3*time.Second    // connection's end
)

func TestEndsWithTheLast(t *testing.T) {
	// many are tunnels with a connection that is open when a GOAWAY comes, and one that names the last.
	many := func(goAway, named, end time.Duration, by timeline.FrameKind) func(scene.Scene) {
		return func(s scene.Scene) {
			for n := range uint64(6) {
				in(s, streaming, n+1, told-time.Second, last, nil)
				if goAway > 0 {
					says(s, streaming, n+1, goAway, timeline.FrameGoAway, "last", tunnel.LeftOpen, "code", "NO_ERROR")
				}
				if named > 0 {
					says(s, streaming, n+1, named, timeline.FrameGoAway, "last", "1", "code", "NO_ERROR")
				}
				if by != "" {
					says(s, streaming, n+1, end, by)
				}
			}
		}
	}
	const (
		soon = 20 * time.Millisecond
		late = tunnel.EndsWithin + time.Millisecond
		then = told + 500*time.Millisecond // the GOAWAY that names the last
		long = last + 2*time.Second        // another
	)
	// behind are tunnels with a connection that was open at D, and is over when the only GOAWAY comes.
	behind := func(end time.Duration, by timeline.FrameKind) func(scene.Scene) {
		return func(s scene.Scene) {
			for n := range uint64(6) {
				in(s, streaming, n+1, scene.D-time.Second, told-soon, nil)
				says(s, streaming, n+1, told, timeline.FrameGoAway, "last", "1", "code", "NO_ERROR")
				says(s, streaming, n+1, end, by)
			}
		}
	}
	judge(t, tunnel.EndsWithTheLast(), []scene.Row{
		{Name: "with the last", Build: many(told, then, last+soon, timeline.FrameCloseNotify), Want: spec.Pass},
		{Name: "by a reset", Build: many(told, then, last+soon, timeline.FrameRST), Want: spec.Pass},
		{Name: "long after the last", Build: many(told, then, last+late, timeline.FrameFIN), Want: spec.Fail},
		{Name: "when it is known to be the last", Build: many(told, long, long+soon, timeline.FrameFIN), Want: spec.Pass},
		{Name: "long after it is known to be the last", Build: many(told, long, long+late, timeline.FrameFIN), Want: spec.Fail},
		{Name: "never named, and ended", Build: many(told, 0, last+soon, timeline.FrameFIN), Want: spec.Pass},
		{Name: "never named, and never ended", Build: many(told, 0, told+tunnel.NamesWithin+late, timeline.FrameFIN), Want: spec.Fail},
		{Name: "never", Build: many(told, then, 0, ""), Want: spec.Fail},
		{Name: "never, as far as it was recorded", Build: func(s scene.Scene) {
			s.Drop(func(e timeline.Event) bool { return e.Attrs["what"] == assertions.MarkTail })
			s.Event(last+time.Second, timeline.Marker, "", map[string]string{"what": assertions.MarkTail})
			many(told, then, 0, "")(s)
		}, Want: spec.Inconclusive},
		{Name: "never, as far as it was recorded until it was stopped", Build: func(s scene.Scene) {
			s.Drop(func(e timeline.Event) bool { return e.Attrs["what"] == assertions.MarkTail })
			many(told, then, 0, "")(s)
		}, Want: spec.Inconclusive},
		{Name: "by the client", Build: many(told, then, last+5*time.Second, timeline.FrameClose), Want: spec.Fail},
		{Name: "by a client that does not wait", Build: many(told, then, last+time.Second, timeline.FrameClose), Want: spec.Inconclusive},
		{Name: "for one connection each", Build: func(s scene.Scene) {
			for n := range uint64(6) {
				in(s, opened, n+1, told-time.Second, last, nil)
				says(s, opened, n+1, told, timeline.FrameGoAway, "last", tunnel.LeftOpen, "code", "NO_ERROR")
			}
		}, Want: spec.Inconclusive},
		{Name: "no GOAWAY", Build: many(0, 0, last+soon, timeline.FrameCloseNotify), Want: spec.Inconclusive},
		{Name: "told before D", Build: many(scene.D-time.Second, 0, last+soon, timeline.FrameCloseNotify), Want: spec.Inconclusive},
		{Name: "said when nothing was left of what was open at D, and it ends", Build: behind(told+soon, timeline.FrameCloseNotify), Want: spec.Pass},
		{Name: "said when nothing was left of what was open at D, and it stands", Build: behind(told+late, timeline.FrameFIN), Want: spec.Fail},
		{Name: "nothing was open", Build: many(last+time.Second, 0, last+20*time.Second, timeline.FrameCloseNotify), Want: spec.Inconclusive},
	})
}

func TestKeepsInHand(t *testing.T) {
	// six are connections that were open at D, and end then.
	six := func(end time.Duration, set func(*timeline.Sample)) func(scene.Scene) {
		return func(s scene.Scene) {
			for n := range uint64(6) {
				in(s, streaming, n+1, scene.D-2*time.Second, end, set)
			}
		}
	}
	ended := func(o timeline.Outcome) func(*timeline.Sample) {
		return func(s *timeline.Sample) { s.Outcome, s.Phase = o, timeline.PhaseBody }
	}
	both := func(all ...func(scene.Scene)) func(scene.Scene) {
		return func(s scene.Scene) {
			for _, one := range all {
				one(s)
			}
		}
	}
	const whole, soon = scene.D + 4*time.Second, scene.D + 10*time.Millisecond
	cut := ended(timeline.StreamReset)
	judge(t, KeepsInHand(), []scene.Row{
		{Name: "whole", Build: six(whole, nil), Want: spec.Pass},
		{Name: "cut at D, and no tunnel was told to go", Build: six(soon, cut), Want: spec.Fail},
		{Name: "cut between the deletion and D", Build: func(s scene.Scene) {
			s.Event(scene.D-500*time.Millisecond, timeline.PodDeletion, scene.UID, map[string]string{"grace": "15"})
			six(scene.D-100*time.Millisecond, cut)(s)
		}, Want: spec.Fail},
		{Name: "one of them cut", Build: func(s scene.Scene) {
			six(whole, nil)(s)
			in(s, streaming, 7, scene.D-time.Second, soon, ended(timeline.Truncated))
		}, Want: spec.Fail},
		{Name: "cut before anything had begun", Build: both(six(whole, nil), func(s scene.Scene) {
			in(s, streaming, 7, scene.D-2*time.Second, scene.D-time.Second, cut)
		}), Want: spec.Pass},
		{Name: "cut when it was begun after D", Build: both(six(whole, nil), func(s scene.Scene) {
			in(s, streaming, 7, soon, soon+time.Second, cut)
		}), Want: spec.Pass}, // it is another check's
		{Name: "cut before it was answered", Build: both(six(whole, nil), func(s scene.Scene) {
			in(s, streaming, 7, scene.D-time.Second, soon, func(x *timeline.Sample) { x.First, x.Outcome, x.Phase = 0, timeline.Refused, timeline.PhaseFirstByte })
		}), Want: spec.Pass},
		{Name: "short ones", Build: func(s scene.Scene) {
			for n := range uint64(6) {
				in(s, used, n+1, scene.D-2*time.Millisecond, soon, nil)
			}
		}, Want: spec.Inconclusive},
		{Name: "too few", Build: func(s scene.Scene) { in(s, streaming, 1, scene.D-2*time.Second, whole, nil) }, Want: spec.Inconclusive},
		{Name: "late ones, on a machine without time", Build: six(whole, func(x *timeline.Sample) { x.Saturated = true }), Want: spec.Inconclusive},
	})
	// What would have run beyond the declared deadline is cut there, and not before.
	const deadline = 3 * time.Second
	for at, want := range map[time.Duration]spec.Verdict{scene.D + deadline: spec.Pass, scene.D + time.Second: spec.Fail} {
		s := scene.Quiet()
		six(scene.D+2*time.Second, nil)(s)
		in(s, streaming, 7, scene.D-time.Second, at, cut)
		s.Sort()
		c := assertions.NewCase(s.Timeline, scene.P)
		c.Deadline = deadline
		scene.Holds(t, KeepsInHand().Run(c), want)
	}
}

func TestConnectsWhileAccepted(t *testing.T) {
	// both are connections in tunnels of their own and in one that is kept, until an instant.
	both := func(until time.Duration, set func(*timeline.Sample)) func(scene.Scene) {
		return func(s scene.Scene) {
			n := uint64(1)
			for at := 6 * time.Second; at < until; at += 50 * time.Millisecond {
				n++
				in(s, opened, n, at, at+5*time.Millisecond, set)
				in(s, used, 1, at, at+5*time.Millisecond, set)
			}
		}
	}
	failing := func(of flow.Conns, from, to time.Duration, o timeline.Outcome) func(*timeline.Sample) {
		return func(s *timeline.Sample) {
			if s.Stream.Flow().Conns == of && s.Start >= from && s.Start < to {
				s.Outcome, s.Phase = o, timeline.PhaseFirstByte
			}
		}
	}
	closing := func(then func(scene.Scene)) func(scene.Scene) {
		return func(s scene.Scene) {
			s.Event(scene.D+8*time.Second, timeline.DrainListenerClosed, scene.UID, nil)
			then(s)
		}
	}
	const end = 24 * time.Second
	early := func(s scene.Scene) {
		const shut = scene.D + scene.P - 100*time.Millisecond
		s.Event(shut, timeline.DrainListenerClosed, scene.UID, nil)
		for n, p := range []load.Profile{opened, used} {
			for at := scene.D; at < end; at += 20 * time.Millisecond {
				in(s, p, uint64(n+1), at, at+5*time.Millisecond, failing(flow.New, shut, end, timeline.Refused))
			}
		}
	}
	in := scene.D + 100*time.Millisecond
	// overdue are connections that only failed when the app's listener was gone.
	overdue := func(s *timeline.Sample) {
		if s.Start >= scene.D+5*time.Second && s.Start < scene.D+6*time.Second {
			s.Outcome, s.Status, s.Phase, s.End = timeline.Status, 503, timeline.PhaseDone, scene.D+9*time.Second
		}
	}
	starved := func(then func(*timeline.Sample)) func(*timeline.Sample) {
		return func(s *timeline.Sample) {
			s.Saturated = true
			then(s)
		}
	}
	judge(t, ConnectsWhileAccepted(), []scene.Row{
		{Name: "served", Build: closing(both(end, nil)), Want: spec.Pass},
		{Name: "refused when the app is", Build: closing(both(end, failing(flow.New, scene.D+8*time.Second, end, timeline.Refused))), Want: spec.Pass},
		{Name: "refused from D on", Build: closing(both(end, failing(flow.New, in, end, timeline.Refused))), Want: spec.Fail},
		{Name: "refused before the app is", Build: closing(both(end, failing(flow.New, scene.D+5*time.Second, end, timeline.Refused))), Want: spec.Fail},
		{Name: "refused when the app is, before P is over", Build: early, Want: spec.Pass},
		{Name: "refused behind P, and nobody says when the app is", Build: both(end, failing(flow.New, scene.D+5*time.Second, end, timeline.Refused)), Want: spec.Pass},
		{Name: "cut in a kept tunnel", Build: closing(both(end, failing(flow.Reused, in, in+time.Second, timeline.StreamReset))), Want: spec.Fail},
		{Name: "a few turned away in a kept tunnel", Build: closing(both(end, failing(flow.Reused, in, in+time.Second, timeline.RefusedStream))), Want: spec.Pass},
		{Name: "turned away in a new tunnel", Build: closing(both(end, failing(flow.New, in, in+time.Second, timeline.RefusedStream))), Want: spec.Fail},
		{Name: "in plain HTTP", Build: func(s scene.Scene) { s.Through("direct/http1/new/get@"+scene.UID, 50, nil) }, Want: spec.Inconclusive},
		{Name: "too few", Build: closing(both(scene.D+time.Second, nil)), Want: spec.Inconclusive},
		{Name: "denied long after, when the app is gone", Build: closing(both(end, overdue)), Want: spec.Fail},
		{Name: "denied long after, when the app is gone, on a starved machine", Build: closing(both(end, starved(overdue))), Want: spec.Inconclusive},
		{Name: "refused from D on, on a starved machine", Build: closing(both(end, starved(failing(flow.New, in, end, timeline.Refused)))), Want: spec.Fail},
	})
}

func TestDeniedWhereNobodyListens(t *testing.T) {
	answers := func(until time.Duration, set func(*timeline.Sample)) func(scene.Scene) {
		return func(s scene.Scene) {
			for at := 5 * time.Second; at < until; at += 200 * time.Millisecond {
				in(s, vacant, 1, at, at+5*time.Millisecond, func(s *timeline.Sample) {
					s.Status = 503
					set(s)
				})
			}
		}
	}
	none := func(*timeline.Sample) {}
	one := func(at time.Duration) func(*timeline.Sample) {
		return func(s *timeline.Sample) {
			if s.Start == at {
				s.Status = 200
			}
		}
	}
	// unanswered has those that begin in a stretch get no status.
	unanswered := func(from, to time.Duration, o timeline.Outcome, p timeline.Phase) func(*timeline.Sample) {
		return func(s *timeline.Sample) {
			if s.Start >= from && s.Start < to {
				s.Status, s.Outcome, s.Phase = 0, o, p
			}
		}
	}
	promising := func(accepts time.Duration, rows []scene.Row) {
		scene.Judge(t, func(tl *timeline.Timeline) spec.Finding {
			c := assertions.NewCase(tl, scene.P)
			c.MinDrain = accepts
			return DeniedWhereNobodyListens().Run(c)
		}, rows)
	}
	promising(0, []scene.Row{
		{Name: "of one that promises to accept no more, and does not", Build: answers(scene.D, none), Want: spec.Pass},
		{Name: "200 after D, of one that promises nothing", Build: answers(scene.Exit, one(scene.D+time.Second)), Want: spec.Fail},
	})
	promising(2*time.Second, []scene.Row{
		{Name: "denied", Build: answers(scene.Exit, none), Want: spec.Pass},
		{Name: "200 before D", Build: answers(scene.Exit, one(scene.D-time.Second)), Want: spec.Fail},
		{Name: "200 after D", Build: answers(scene.Exit, one(scene.D+time.Second)), Want: spec.Fail},
		{Name: "nobody was asked after D", Build: answers(scene.D, none), Want: spec.Inconclusive},
		{Name: "nobody answered", Build: answers(scene.Exit, unanswered(0, scene.Exit, timeline.Timeout, timeline.PhaseFirstByte)), Want: spec.Fail},
		{Name: "one was never answered before D", Build: answers(scene.Exit, unanswered(scene.D-time.Second, scene.D-800*time.Millisecond, timeline.Timeout, timeline.PhaseFirstByte)), Want: spec.Fail},
		{Name: "one was never answered after D", Build: answers(scene.Exit, unanswered(scene.D+time.Second, scene.D+1200*time.Millisecond, timeline.Reset, timeline.PhaseFirstByte)), Want: spec.Fail},
		{Name: "denied by RST_STREAM", Build: answers(scene.Exit, unanswered(0, scene.Exit, timeline.OK, timeline.PhaseDone)), Want: spec.Pass},
		{Name: "denied by RST_STREAM, as older recordings tell it", Build: answers(scene.Exit, unanswered(0, scene.Exit, timeline.StreamReset, timeline.PhaseFirstByte)), Want: spec.Pass},
		{Name: "of one that accepts for P alone", Build: answers(scene.D+scene.P, none), Want: spec.Pass},
		{Name: "one was reset after D", Build: answers(scene.Exit, unanswered(scene.D+time.Second, scene.D+1200*time.Millisecond, timeline.StreamReset, timeline.PhaseFirstByte)), Want: spec.Pass},
		{Name: "none was behind P, and nobody says when the app is gone", Build: answers(scene.Exit, unanswered(scene.D+5*time.Second, scene.Exit, timeline.Closed, timeline.PhaseFirstByte)), Want: spec.Pass},
		{Name: "none was, while the app accepts", Build: func(s scene.Scene) {
			s.Event(scene.D+8*time.Second, timeline.DrainListenerClosed, scene.UID, nil)
			answers(scene.Exit, unanswered(scene.D+5*time.Second, scene.Exit, timeline.Closed, timeline.PhaseFirstByte))(s)
		}, Want: spec.Fail},
		{Name: "a few were turned away", Build: answers(scene.Exit, unanswered(scene.D, scene.D+time.Second, timeline.RefusedStream, timeline.PhaseFirstByte)), Want: spec.Pass},
		{Name: "a few had no tunnel", Build: answers(scene.Exit, unanswered(scene.D, scene.D+time.Second, timeline.Refused, timeline.PhaseDial)), Want: spec.Pass},
	})
}

func TestCutUploads(t *testing.T) {
	const ended, fin = timeline.EndedByRST, timeline.EndedByFIN
	ways := []string{timeline.PeerByRST, timeline.PeerByFIN, timeline.PeerByCloseNotify}
	n := uint64(0)
	// cut adds an upload that its client cuts, and what the app wrote of it; "-": no end.
	cut := func(s scene.Scene, p load.Profile, way string, at time.Duration, how string, after time.Duration) {
		n++
		in(s, p, n, at-p.Takes, at, func(x *timeline.Sample) { x.Server = "" })
		if way != "" {
			says(s, p, n, at, timeline.FrameClose, "why", "cut", "by", way)
		}
		s.Ledger[len(s.Ledger)-2].Pod = scene.UID
		last := &s.Ledger[len(s.Ledger)-1]
		*last = timeline.Entry{At: at + after, ID: last.ID, Step: timeline.Done, Pod: scene.UID, Bytes: 4, Ended: how}
		if how == "-" {
			s.Ledger = s.Ledger[:len(s.Ledger)-1]
		}
	}
	const before, soon = scene.D - 2*time.Second, time.Millisecond
	// many are some of each kind, which end as they are to.
	many := func(streams, tunnels int) func(scene.Scene) {
		return func(s scene.Scene) {
			for range streams {
				cut(s, cutStreams, "", before, ended, soon)
			}
			for range tunnels {
				for _, way := range ways {
					cut(s, cutTunnels, way, before, ended, soon)
				}
			}
		}
	}
	// but are many, and one more.
	but := func(p load.Profile, way string, at time.Duration, how string, after time.Duration) func(scene.Scene) {
		return func(s scene.Scene) {
			many(50, 20)(s)
			cut(s, p, way, at, how, after)
		}
	}
	judge(t, CutUploads(), []scene.Row{
		{Name: "by RST", Build: many(50, 20), Want: spec.Pass},
		{Name: "few streams", Build: many(49, 20), Want: spec.Inconclusive},
		{Name: "few tunnels", Build: many(50, 19), Want: spec.Inconclusive},
		{Name: "a stream by a FIN", Build: but(cutStreams, "", before, fin, soon), Want: spec.Fail},
		{Name: "a tunnel's by a FIN", Build: but(cutTunnels, timeline.PeerByCloseNotify, before, fin, soon), Want: spec.Fail},
		{Name: "a stream by a FIN, long after", Build: but(cutStreams, "", before, fin, heardWithin+1), Want: spec.Fail},
		{Name: "late", Build: but(cutStreams, "", before, ended, heardWithin+1), Want: spec.Fail},
		{Name: "by the app itself", Build: but(cutStreams, "", before, "", soon), Want: spec.Pass},
		{Name: "by the app itself, long after", Build: but(cutStreams, "", before, "", heardWithin+1), Want: spec.Fail},
		{Name: "never heard", Build: but(cutStreams, "", before, "-", 0), Want: spec.Fail},
		{Name: "never heard by one that was gone soon", Build: but(cutStreams, "", scene.Exit-soon, "-", 0), Want: spec.Pass},
		{Name: "one that failed before", Build: func(s scene.Scene) {
			many(50, 20)(s)
			in(s, cutStreams, 1, before, before+soon, func(x *timeline.Sample) { x.Outcome, x.Server = timeline.StreamReset, "" })
			id := s.Samples[len(s.Samples)-1].ID
			s.Ledger = append(s.Ledger, timeline.Entry{At: before + soon, ID: id, Step: timeline.Done, Pod: scene.UID, Ended: fin})
		}, Want: spec.Pass},
	})
}
