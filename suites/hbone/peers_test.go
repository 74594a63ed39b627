// SPDX-License-Identifier: Apache-2.0

package hbone

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// bad is when the peers of the scenes begin to misbehave, and over is the end of the load there.
const (
	bad  = scene.D
	over = bad + 40*time.Second
)

// peerSaw says what a peer did or saw; attrs are in pairs.
func peerSaw(s scene.Scene, path flow.Path, at time.Duration, what string, attrs ...string) {
	all := map[string]string{"what": what}
	for i := 0; i < len(attrs); i += 2 {
		all[attrs[i]] = attrs[i+1]
	}
	s.Event(at, timeline.PeerSaw, string(path), all)
}

// begun is a scene in which a peer has begun to misbehave, and the load goes on for long enough.
func begun(s scene.Scene, path flow.Path) {
	s.Drop(func(e timeline.Event) bool { return e.Attrs["what"] == "tail" })
	s.Event(over, timeline.Marker, "", map[string]string{"what": "tail"})
	peerSaw(s, path, bad, timeline.PeerBegan)
}

// stopped has a scene end at an instant, as a recording that is stopped does.
func stopped(s scene.Scene, at time.Duration) {
	s.Drop(func(e timeline.Event) bool { return e.At > at })
	s.Samples = slices.DeleteFunc(s.Samples, func(x timeline.Sample) bool { return x.End > at })
}

// calls adds an app's connections to a peer.
func calls(s scene.Scene, p load.Profile, from, to time.Duration, set func(*timeline.Sample)) {
	every := time.Duration(float64(time.Second) / p.Rate)
	for at := from; at < to; at += every {
		x := timeline.Sample{
			Stream: flow.To(p.Flow, scene.UID), ID: fmt.Sprintf("%s-%d", p.Flow, at), Conn: uint64(at), Nth: 1,
			Due: at, Start: at, Sent: at, First: at + 1, End: at + p.Takes + 2*time.Millisecond,
			Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: "peer", Status: 200,
		}
		if set != nil {
			set(&x)
		}
		s.Add(x)
	}
}

// endingAs has those that begin in a stretch end otherwise.
func endingAs(from, to time.Duration, o timeline.Outcome) func(*timeline.Sample) {
	return func(s *timeline.Sample) {
		if s.Start >= from && s.Start < to {
			s.Outcome, s.Phase = o, timeline.PhaseBody
		}
	}
}

func TestServedThoughRefused(t *testing.T) {
	refusing := func(resets, goAways int, set func(*timeline.Sample)) func(scene.Scene) {
		return func(s scene.Scene) {
			begun(s, flow.PeerRefuses)
			for n := range resets {
				peerSaw(s, flow.PeerRefuses, bad+time.Duration(n)*time.Second/3, timeline.PeerRefused, "by", timeline.PeerByReset)
			}
			for n := range goAways {
				peerSaw(s, flow.PeerRefuses, bad+time.Duration(n)*time.Second/3, timeline.PeerRefused, "by", timeline.PeerByGoAway)
			}
			calls(s, toRefusing, bad-5*time.Second, over, set)
		}
	}
	judge(t, ServedThoughRefused(), []scene.Row{
		{Name: "served", Build: refusing(50, 50, nil), Want: spec.Pass},
		{Name: "one was cut", Build: refusing(50, 50, endingAs(bad+time.Second, bad+time.Second+60*time.Millisecond, timeline.Reset)), Want: spec.Fail},
		{Name: "one failed before", Build: refusing(50, 50, endingAs(bad-time.Second, bad-time.Second+60*time.Millisecond, timeline.Reset)), Want: spec.Pass},
		{Name: "none was refused by GOAWAY", Build: refusing(50, 0, nil), Want: spec.Inconclusive},
		{Name: "none was refused by RST_STREAM", Build: refusing(0, 50, nil), Want: spec.Inconclusive},
		{Name: "it never began", Build: func(s scene.Scene) { calls(s, toRefusing, bad, over, nil) }, Want: spec.Inconclusive},
	})
}

func TestDoesNotQueue(t *testing.T) {
	limiting := func(streams int, set func(*timeline.Sample)) func(scene.Scene) {
		return func(s scene.Scene) {
			begun(s, flow.PeerLimits)
			peerSaw(s, flow.PeerLimits, bad, timeline.PeerSettings, "conn", "1", "streams", "4")
			for n := range streams {
				peerSaw(s, flow.PeerLimits, bad+time.Second, timeline.PeerConnect, "conn", "1", "stream", fmt.Sprint(2*n+1))
			}
			peerSaw(s, flow.PeerLimits, bad+21*time.Second, timeline.PeerDone, "conn", "1", "stream", "1")
			peerSaw(s, flow.PeerLimits, bad+30*time.Second, timeline.PeerConnect, "conn", "1", "stream", "99")
			calls(s, shortToLimiting, bad-5*time.Second, over, set)
			calls(s, longToLimiting, bad-5*time.Second, over, nil)
		}
	}
	queued := func(s *timeline.Sample) {
		if s.Start > bad+2*time.Second && s.Start < bad+3*time.Second {
			s.End = s.Start + 3*time.Second
		}
	}
	// opens opens so many streams more, in the same tunnel.
	opens := func(s scene.Scene, at time.Duration, n int) {
		for i := range n {
			peerSaw(s, flow.PeerLimits, at, timeline.PeerConnect, "conn", "1", "stream", fmt.Sprintf("%d-%d", at, i))
		}
	}
	starved := func(s *timeline.Sample) { s.Saturated = true }
	// only are these, and no others.
	only := func(at time.Duration, n int, set func(*timeline.Sample)) func(scene.Scene) {
		return func(s scene.Scene) {
			limiting(0, set)(s)
			s.Drop(func(e timeline.Event) bool { return e.Attrs["what"] == timeline.PeerConnect })
			opens(s, at, n)
		}
	}
	judge(t, DoesNotQueue(), []scene.Row{
		{Name: "served at once", Build: limiting(4, nil), Want: spec.Pass},
		{Name: "queued", Build: limiting(4, queued), Want: spec.Fail},
		{Name: "given up", Build: limiting(4, endingAs(bad+2*time.Second, bad+3*time.Second, timeline.Reset)), Want: spec.Fail},
		{Name: "one more than it takes", Build: limiting(5, nil), Want: spec.Fail},
		{Name: "more than it takes, before that could be read", Build: only(bad+50*time.Millisecond, 5, nil), Want: spec.Pass},
		{Name: "one more, to those from before the limit", Build: func(s scene.Scene) {
			limiting(0, nil)(s)
			opens(s, bad-time.Second, 6)
			opens(s, bad+2*time.Second, 1)
		}, Want: spec.Fail},
		{Name: "more from before the limit than it takes, and no other one", Build: func(s scene.Scene) {
			limiting(4, nil)(s)
			opens(s, bad-time.Second, 6)
			s.Drop(func(e timeline.Event) bool { return e.At > bad && e.Attrs["what"] == timeline.PeerConnect })
		}, Want: spec.Pass},
		{Name: "one more, where one is over but for the peer", Build: func(s scene.Scene) {
			limiting(4, nil)(s)
			peerSaw(s, flow.PeerLimits, bad+2*time.Second, timeline.PeerEndStream, "conn", "1", "stream", "3")
			opens(s, bad+2*time.Second+1, 1)
		}, Want: spec.Pass},
		{Name: "one more soon", Build: only(bad+500*time.Millisecond, 5, nil), Want: spec.Fail},
		{Name: "one more soon, on a starved machine", Build: only(bad+500*time.Millisecond, 5, starved), Want: spec.Inconclusive},
		{Name: "one more later, on a starved machine", Build: limiting(5, starved), Want: spec.Fail},
		{Name: "never at the limit", Build: limiting(2, nil), Want: spec.Inconclusive},
		{Name: "no long ones", Build: func(s scene.Scene) {
			limiting(4, nil)(s)
			s.Samples = s.Samples[:len(s.Samples)/6]
		}, Want: spec.Inconclusive},
	})
}

// turning is a scene of a peer that takes no tunnels for a while, and of so many dials in each phase.
func turning(resets, away int, set func(*timeline.Sample)) func(scene.Scene) {
	return func(s scene.Scene) {
		begun(s, flow.PeerTurnsAway)
		for n, phase := range []string{"resets", "goes-away", ""} {
			peerSaw(s, flow.PeerTurnsAway, bad+time.Duration(n)*8*time.Second, timeline.PeerPhase, "phase", phase)
		}
		for n := range resets {
			peerSaw(s, flow.PeerTurnsAway, bad+time.Duration(n+1)*10*time.Millisecond, timeline.PeerDialled)
		}
		for n := range away {
			peerSaw(s, flow.PeerTurnsAway, bad+8*time.Second+time.Duration(n+1)*10*time.Millisecond, timeline.PeerDialled)
		}
		calls(s, toTurningAway, bad-5*time.Second, over, func(x *timeline.Sample) {
			endingAs(bad, bad+20*time.Second, timeline.Reset)(x)
			if set != nil {
				set(x)
			}
		})
	}
}

func TestBacksOff(t *testing.T) {
	judge(t, BacksOff(), []scene.Row{
		{Name: "a few dials", Build: turning(6, 2, nil), Want: spec.Pass},
		{Name: "a dial for each while they are reset", Build: turning(160, 2, nil), Want: spec.Fail},
		{Name: "a dial for each while they are told to go", Build: turning(6, 160, nil), Want: spec.Fail},
		{Name: "none was told to go", Build: turning(6, 0, nil), Want: spec.Inconclusive},
		{Name: "stopped at its begin", Build: func(s scene.Scene) {
			turning(6, 0, nil)(s)
			stopped(s, bad+200*time.Millisecond)
		}, Want: spec.Inconclusive},
		{Name: "a dial for each, and stopped in the next phase", Build: func(s scene.Scene) {
			turning(160, 2, nil)(s)
			stopped(s, bad+8*time.Second+200*time.Millisecond)
		}, Want: spec.Fail},
		{Name: "nobody wanted anything", Build: func(s scene.Scene) {
			turning(6, 2, nil)(s)
			s.Samples = nil
		}, Want: spec.Fail}, // dials for nothing are more than any share
	})
}

func TestComesBack(t *testing.T) {
	judge(t, ComesBack(), []scene.Row{
		{Name: "served again", Build: turning(6, 2, nil), Want: spec.Pass},
		{Name: "served again, later than it should", Build: turning(6, 2, endingAs(bad, bad+35*time.Second, timeline.Reset)), Want: spec.Fail},
		{Name: "never again", Build: turning(6, 2, endingAs(bad, over, timeline.Reset)), Want: spec.Fail},
		{Name: "the load was over before", Build: func(s scene.Scene) {
			turning(6, 2, nil)(s)
			s.Samples = s.Samples[:len(s.Samples)/2]
		}, Want: spec.Inconclusive},
	})
}

func TestNoticesSilence(t *testing.T) {
	// silent is a peer whose tunnel is given up at an instant; 0: never.
	silent := func(gone, served time.Duration) func(scene.Scene) {
		return func(s scene.Scene) {
			begun(s, flow.PeerSilent)
			peerSaw(s, flow.PeerSilent, bad, timeline.PeerSilent, "conn", "1")
			if gone > 0 {
				peerSaw(s, flow.PeerSilent, gone, timeline.PeerEnded, "conn", "1", "by", timeline.PeerByRST)
			}
			calls(s, toSilent, bad-5*time.Second, over, func(x *timeline.Sample) {
				if x.Start >= bad && x.Start < served {
					x.Outcome, x.Phase, x.End = timeline.Reset, timeline.PhaseFirstByte, x.Start+10*time.Second
				}
			})
		}
	}
	late := bad + 36*time.Second
	judge(t, NoticesSilence(), []scene.Row{
		{Name: "given up", Build: silent(bad+29*time.Second, bad+29*time.Second), Want: spec.Pass},
		{Name: "never given up", Build: silent(0, over), Want: spec.Fail},
		{Name: "given up late", Build: silent(late, bad+29*time.Second), Want: spec.Fail},
		{Name: "given up, and connections fail", Build: silent(bad+29*time.Second, late), Want: spec.Fail},
		{Name: "given up at once", Build: silent(bad+300*time.Millisecond, bad+150*time.Millisecond), Want: spec.Pass},
		{Name: "nothing hung", Build: silent(bad+29*time.Second, bad), Want: spec.Inconclusive},
		{Name: "over too soon", Build: func(s scene.Scene) {
			silent(0, over)(s)
			s.Drop(func(e timeline.Event) bool { return e.Attrs["what"] == "tail" })
			s.Event(bad+20*time.Second, timeline.Marker, "", map[string]string{"what": "tail"})
			s.Samples = s.Samples[:len(s.Samples)/2]
		}, Want: spec.Inconclusive},
	})
}

func TestLeavesToldTunnels(t *testing.T) {
	// Each tunnel is told to go, stands for a while, and gets a CONNECT so long after its GOAWAY; others get them all the time.
	telling := func(tunnels int, stands, connects time.Duration) func(scene.Scene) {
		return func(s scene.Scene) {
			begun(s, flow.PeerRefuses)
			for n := range tunnels {
				at, conn := bad+time.Duration(n)*200*time.Millisecond, fmt.Sprint(n)
				peerSaw(s, flow.PeerRefuses, at, timeline.PeerConnect, "conn", conn, "stream", "1")
				peerSaw(s, flow.PeerRefuses, at, timeline.PeerGoAway, "conn", conn)
				if connects > 0 {
					peerSaw(s, flow.PeerRefuses, at+connects, timeline.PeerConnect, "conn", conn, "stream", "3")
				}
				peerSaw(s, flow.PeerRefuses, at+stands, timeline.PeerEnded, "conn", conn)
			}
		}
	}
	judge(t, LeavesToldTunnels(), []scene.Row{
		{Name: "left", Build: telling(40, 3*time.Second, 0), Want: spec.Pass},
		{Name: "a CONNECT was on its way", Build: telling(40, 3*time.Second, 900*time.Millisecond), Want: spec.Pass},
		{Name: "CONNECTs long after", Build: telling(40, 3*time.Second, 1100*time.Millisecond), Want: spec.Fail},
		{Name: "one CONNECT long after, on a node without CPU", Build: func(s scene.Scene) {
			telling(1, 3*time.Second, 2*time.Second)(s)
			s.Starve("a", bad+2*time.Second)
		}, Want: spec.Inconclusive},
		{Name: "one CONNECT long after", Build: telling(1, 3*time.Second, 2*time.Second), Want: spec.Fail},
		{Name: "none stood", Build: telling(40, 900*time.Millisecond, 0), Want: spec.Inconclusive},
		{Name: "few were told", Build: telling(20, 3*time.Second, 0), Want: spec.Inconclusive},
	})
}

func TestPoolsThroughGoAways(t *testing.T) {
	moving := func(told, tunnels int, set func(*timeline.Sample)) func(scene.Scene) {
		return func(s scene.Scene) {
			begun(s, flow.PeerMoves)
			for n := range told {
				peerSaw(s, flow.PeerMoves, bad+time.Duration(n)*time.Second, timeline.PeerGoAway, "conn", fmt.Sprint(n))
			}
			for n := range tunnels {
				peerSaw(s, flow.PeerMoves, bad+time.Duration(n)*40*time.Millisecond, timeline.PeerDialled, "conn", fmt.Sprint(n))
			}
			calls(s, toMoving, bad-5*time.Second, over, set)
		}
	}
	judge(t, PoolsThroughGoAways(), []scene.Row{
		{Name: "one for each that went", Build: moving(10, 10, nil), Want: spec.Pass},
		{Name: "one for each connection", Build: moving(10, 800, nil), Want: spec.Fail},
		{Name: "a little more than 5 for 100", Build: moving(10, 42, nil), Want: spec.Fail},
		{Name: "a connection failed", Build: moving(10, 10, endingAs(bad+time.Second, bad+time.Second+60*time.Millisecond, timeline.Reset)), Want: spec.Fail},
		{Name: "nobody was told", Build: moving(0, 1, nil), Want: spec.Inconclusive},
		{Name: "stopped at its begin", Build: func(s scene.Scene) {
			moving(10, 10, nil)(s)
			stopped(s, bad+300*time.Millisecond)
		}, Want: spec.Inconclusive},
		{Name: "few wanted anything", Build: func(s scene.Scene) {
			moving(10, 3, nil)(s)
			s.Samples = s.Samples[:len(s.Samples)/4]
		}, Want: spec.Inconclusive},
	})
}

func TestCutReachesApp(t *testing.T) {
	cutting := func(streams, tunnels int, as timeline.Outcome) func(scene.Scene) {
		return func(s scene.Scene) {
			begun(s, flow.PeerCuts)
			for n := range streams {
				peerSaw(s, flow.PeerCuts, bad+time.Duration(n)*time.Second/3, timeline.PeerCut, "by", timeline.PeerByReset, "stream", "1")
			}
			for n := range tunnels {
				for _, by := range []string{timeline.PeerByRST, timeline.PeerByFIN, timeline.PeerByCloseNotify} {
					peerSaw(s, flow.PeerCuts, bad+time.Duration(n)*time.Second, timeline.PeerCut, "by", by)
				}
			}
			calls(s, toCutting, bad-5*time.Second, over, func(x *timeline.Sample) {
				endingAs(bad, over, timeline.Reset)(x)
				endingAs(bad+5*time.Second, bad+6*time.Second, as)(x)
			})
		}
	}
	judge(t, CutReachesApp(), []scene.Row{
		{Name: "reset", Build: cutting(80, 6, timeline.Reset), Want: spec.Pass},
		{Name: "a FIN in the middle", Build: cutting(80, 6, timeline.Truncated), Want: spec.Fail},
		{Name: "a FIN before the answer", Build: cutting(80, 6, timeline.Closed), Want: spec.Fail},
		{Name: "as if whole", Build: cutting(80, 6, timeline.OK), Want: spec.Fail},
		{Name: "hung", Build: cutting(80, 6, timeline.Timeout), Want: spec.Fail},
		{Name: "no tunnel was cut", Build: cutting(80, 0, timeline.Reset), Want: spec.Inconclusive},
		{Name: "no stream was cut", Build: cutting(0, 6, timeline.Reset), Want: spec.Inconclusive},
	})
}

func TestCutReachesPeer(t *testing.T) {
	hearing := func(resets, ends int) func(scene.Scene) {
		return func(s scene.Scene) {
			begun(s, flow.PeerHears)
			for n := range resets {
				peerSaw(s, flow.PeerHears, bad+time.Duration(n)*time.Second/5-toHearing.Takes, timeline.PeerConnect, "conn", "1", "stream", fmt.Sprint(2*n+1))
			}
			for n := range resets {
				peerSaw(s, flow.PeerHears, bad+time.Duration(n)*time.Second/5, timeline.PeerReset, "conn", "1", "stream", fmt.Sprint(2*n+1))
			}
			for n := range ends {
				peerSaw(s, flow.PeerHears, bad+time.Duration(n)*time.Second, timeline.PeerEndStream, "conn", "1", "stream", fmt.Sprint(2*n+1001))
			}
			calls(s, toHearing, bad-5*time.Second, over, nil)
		}
	}
	judge(t, CutReachesPeer(), []scene.Row{
		{Name: "reset", Build: hearing(200, 0), Want: spec.Pass},
		{Name: "one ended", Build: hearing(200, 1), Want: spec.Fail},
		{Name: "all ended", Build: hearing(0, 200), Want: spec.Fail},
		{Name: "no tunnel came", Build: hearing(0, 0), Want: spec.Inconclusive},
		{Name: "nothing was heard", Build: func(s scene.Scene) {
			hearing(200, 0)(s)
			s.Drop(func(e timeline.Event) bool { return e.Attrs["what"] == timeline.PeerReset })
		}, Want: spec.Fail},
		{Name: "nothing was heard of one", Build: func(s scene.Scene) {
			hearing(200, 0)(s)
			s.Drop(func(e timeline.Event) bool { return e.Attrs["what"] == timeline.PeerReset && e.Attrs["stream"] == "11" })
		}, Want: spec.Fail},
		{Name: "one was heard late", Build: func(s scene.Scene) {
			hearing(200, 0)(s)
			s.Drop(func(e timeline.Event) bool { return e.Attrs["what"] == timeline.PeerReset && e.Attrs["stream"] == "11" })
			peerSaw(s, flow.PeerHears, bad+20*time.Second, timeline.PeerReset, "conn", "1", "stream", "11")
		}, Want: spec.Fail},
		{Name: "the last one had no time to be heard", Build: func(s scene.Scene) {
			hearing(200, 0)(s)
			peerSaw(s, flow.PeerHears, over-heardWithin, timeline.PeerConnect, "conn", "1", "stream", "1001")
		}, Want: spec.Pass},
		{Name: "one went with its tunnel", Build: func(s scene.Scene) {
			hearing(200, 0)(s)
			peerSaw(s, flow.PeerHears, bad, timeline.PeerConnect, "conn", "2", "stream", "1")
			peerSaw(s, flow.PeerHears, bad+time.Second, timeline.PeerEnded, "conn", "2", "by", timeline.PeerByRST)
		}, Want: spec.Pass},
		{Name: "two went with their tunnel", Build: func(s scene.Scene) {
			hearing(200, 0)(s)
			peerSaw(s, flow.PeerHears, bad+time.Second, timeline.PeerEnded, "conn", "2", "by", timeline.PeerByRST, "open", "2")
		}, Want: spec.Fail},
		{Name: "two went with their tunnel, when all was over", Build: func(s scene.Scene) {
			hearing(200, 0)(s)
			peerSaw(s, flow.PeerHears, over+time.Second, timeline.PeerEnded, "conn", "2", "by", timeline.PeerByRST, "open", "2")
		}, Want: spec.Pass},
		{Name: "one was cut for the app before it cut it", Build: func(s scene.Scene) {
			hearing(200, 0)(s)
			calls(s, toHearing, bad+time.Second, bad+1100*time.Millisecond, endingAs(0, over, timeline.Reset))
		}, Want: spec.Fail},
		{Name: "one was, before anything was steady", Build: func(s scene.Scene) {
			hearing(200, 0)(s)
			calls(s, toHearing, time.Second, 1100*time.Millisecond, endingAs(0, over, timeline.Reset))
		}, Want: spec.Pass},
		{Name: "one was reset, and nothing was wrong", Build: func(s scene.Scene) {
			hearing(200, 0)(s)
			peerSaw(s, flow.PeerHears, bad+time.Second, timeline.PeerReset, "conn", "1", "stream", "2001", "code", "NO_ERROR")
		}, Want: spec.Fail},
		{Name: "stopped, with some on their way", Build: func(s scene.Scene) {
			hearing(200, 0)(s)
			s.Drop(func(e timeline.Event) bool { return e.Attrs["what"] == timeline.PeerReset && e.At > bad+30*time.Second })
			stopped(s, bad+30*time.Second)
		}, Want: spec.Pass},
		{Name: "nothing was cut", Build: func(s scene.Scene) {
			hearing(200, 0)(s)
			s.Samples = nil
		}, Want: spec.Inconclusive},
	})
}

func TestNothingInPlainText(t *testing.T) {
	wire := func(s scene.Scene, at time.Duration, what, from, to string) {
		s.Event(at, timeline.Wire, "", map[string]string{"what": what, "from": from, "to": to})
	}
	passing := func(more func(scene.Scene)) func(scene.Scene) {
		return func(s scene.Scene) {
			turning(6, 2, nil)(s)
			for n := range 5 {
				wire(s, bad+time.Duration(n)*time.Second, timeline.WireDialled, "198.18.0.3:40000", "198.18.0.4:15008")
			}
			more(s)
		}
	}
	judge(t, NothingInPlainText(), []scene.Row{
		{Name: "tunnels only", Build: passing(func(scene.Scene) {}), Want: spec.Pass},
		{Name: "a dial in plain text", Build: passing(func(s scene.Scene) {
			wire(s, bad, timeline.WireDialled, "198.18.0.3:40001", "198.18.0.4:8080")
		}), Want: spec.Fail},
		{Name: "an answer in plain text", Build: passing(func(s scene.Scene) {
			wire(s, bad, timeline.WireSaid, "198.18.0.4:8080", "198.18.0.3:40001")
		}), Want: spec.Fail},
		{Name: "a dial in plain text before the load was steady", Build: passing(func(s scene.Scene) {
			wire(s, 4*time.Second, timeline.WireDialled, "198.18.0.3:40001", "198.18.0.4:8080")
		}), Want: spec.Pass},
		{Name: "all tunnels were dialled before that", Build: passing(func(s scene.Scene) {
			for i, e := range s.Events {
				if e.Kind == timeline.Wire {
					s.Events[i].At = time.Duration(i+1) * time.Millisecond
				}
			}
		}), Want: spec.Pass},
		{Name: "a gap", Build: passing(func(s scene.Scene) {
			s.Event(bad, timeline.WatchGap, "wire", map[string]string{"why": "5 of 9 packets were missed"})
		}), Want: spec.Inconclusive},
		{Name: "nobody watched", Build: turning(6, 2, nil), Want: spec.Inconclusive},
		{Name: "all peers took tunnels", Build: func(s scene.Scene) {
			passing(func(scene.Scene) {})(s)
			s.Drop(func(e timeline.Event) bool { return e.Attrs["what"] == timeline.PeerPhase })
		}, Want: spec.Inconclusive},
	})
}

func TestLeavesNotifiedTunnels(t *testing.T) {
	// A peer ends one tunnel a second in TLS, and is connected to in the next one, 300 ms behind that.
	notifying := func(n int, more func(scene.Scene)) func(scene.Scene) {
		return func(s scene.Scene) {
			begun(s, flow.PeerNotifies)
			for i := range n {
				at := bad + time.Duration(i)*time.Second
				peerSaw(s, flow.PeerNotifies, at, timeline.PeerNotified, "conn", fmt.Sprint(i))
				peerSaw(s, flow.PeerNotifies, at+300*time.Millisecond, timeline.PeerConnect, "conn", fmt.Sprint(i+1), "stream", "1")
			}
			if more != nil {
				more(s)
			}
		}
	}
	in := func(conn string, at time.Duration) func(scene.Scene) {
		return func(s scene.Scene) {
			peerSaw(s, flow.PeerNotifies, at, timeline.PeerConnect, "conn", conn, "stream", "3")
		}
	}
	judge(t, LeavesNotifiedTunnels(), []scene.Row{
		{Name: "each is replaced", Build: notifying(12, nil), Want: spec.Pass},
		{Name: "one comes later", Build: notifying(12, in("0", bad+2*time.Second)), Want: spec.Fail},
		{Name: "one comes later, on a node without CPU", Build: notifying(12, func(s scene.Scene) {
			in("0", bad+2*time.Second)(s)
			s.Starve("a", bad+2*time.Second)
		}), Want: spec.Inconclusive},
		{Name: "one was on its way", Build: notifying(12, in("0", bad+200*time.Millisecond)), Want: spec.Pass},
		{Name: "too few", Build: notifying(4, nil), Want: spec.Inconclusive},
		{Name: "nobody connects any more", Build: func(s scene.Scene) {
			notifying(12, nil)(s)
			s.Drop(func(e timeline.Event) bool { return e.Attrs["what"] == timeline.PeerConnect })
		}, Want: spec.Inconclusive},
	})
}
