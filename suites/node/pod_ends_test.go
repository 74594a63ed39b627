// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
	"github.com/lastcall-dev/lastcall/suites/tunnel"
)

// The app has gone at scene.Exit.
const (
	gone = scene.Exit + 300*time.Millisecond // its interface
	soon = scene.Exit + 50*time.Millisecond
)

var (
	kept   = behaviour.NodeTraffic[1]
	silent = behaviour.NodeTraffic[3]
)

// stand adds tunnels of a kind that stand from before D on, with what their server says.
func stand(s scene.Scene, p load.Profile, n int, says ...timeline.Frame) {
	standTo(s, scene.UID, p, n, says...)
}

// standTo is stand, to another instance.
func standTo(s scene.Scene, uid string, p load.Profile, n int, says ...timeline.Frame) {
	for k := range n {
		of, conn := flow.To(p.Flow, uid), uint64(k+1)
		s.Add(timeline.Sample{
			Stream: of, ID: fmt.Sprintf("%s-%d", of, conn), Conn: conn, Nth: 1, StreamID: 1, Due: scene.D - time.Second, Start: scene.D - time.Second, Sent: scene.D - time.Second,
			First: scene.D - time.Second + 1, End: scene.D - time.Second + 2, Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: uid, Status: 200,
		})
		for _, f := range says {
			f.Stream, f.Conn = of, conn
			s.Frames = append(s.Frames, f)
		}
	}
}

func frame(at time.Duration, kind timeline.FrameKind) timeline.Frame {
	f := timeline.Frame{At: at, Kind: kind, Attrs: map[string]string{}}
	if kind == timeline.FrameGoAway {
		f.Attrs = map[string]string{"last": tunnel.LeftOpen, "code": "NO_ERROR"}
	}
	return f
}

// seenOnWire has the wire have the end of each tunnel of a scene at an instant.
func seenOnWire(build func(scene.Scene), at time.Duration) func(scene.Scene) {
	return func(s scene.Scene) {
		build(s)
		const own = "10.1.0.1:15008"
		for n := range s.Samples {
			x := &s.Samples[n]
			x.Addr, x.Local = own, fmt.Sprintf("10.1.0.9:%d", 1024+n)
			s.Event(at, timeline.Wire, "", map[string]string{"what": timeline.WireEnded, "from": own, "to": x.Local})
		}
	}
}

func TestToldBeforeItGoes(t *testing.T) {
	check := ToldBeforeItGoes()
	with := func(at time.Duration, says ...timeline.Frame) func(scene.Scene) {
		return func(s scene.Scene) {
			s.Event(at, timeline.NetGone, scene.UID, nil)
			stand(s, kept, 6, frame(soon, timeline.FrameGoAway), frame(soon, timeline.FrameClose))
			stand(s, silent, 6, says...)
		}
	}
	// early has no tunnel stand that was not told, or left, before the exit.
	early := func(says ...timeline.Frame) func(scene.Scene) {
		return func(s scene.Scene) {
			s.Event(gone, timeline.NetGone, scene.UID, nil)
			stand(s, kept, 6, says...)
			stand(s, silent, 6, says...)
		}
	}
	// What the wire has, of a tunnel that a peer has dialled and of others.
	const own, peer, client, other, plain = "10.1.0.1:15008", "10.1.0.2:40000", "10.1.0.1:40001", "10.1.0.3:15008", "10.1.0.1:8080"
	on := func(what string) func(at time.Duration, from, to string) func(scene.Scene) {
		return func(at time.Duration, from, to string) func(scene.Scene) {
			return func(s scene.Scene) {
				s.Event(at, timeline.Wire, "", map[string]string{"what": what, "from": from, "to": to})
			}
		}
	}
	dialled, ended, reset := on(timeline.WireDialled), on(timeline.WireEnded), on(timeline.WireReset)
	wire := func(all ...func(scene.Scene)) func(scene.Scene) {
		return func(s scene.Scene) {
			s.Event(scene.D-4*time.Second, timeline.PodSeen, scene.UID, map[string]string{"ip": "10.1.0.1", "ips": "10.1.0.1 fd00::1"})
			with(gone, frame(soon, timeline.FrameGoAway), frame(soon, timeline.FrameCloseNotify))(s)
			dialled(scene.D-time.Second, peer, own)(s)
			for _, more := range all {
				more(s)
			}
		}
	}
	starved := func(build func(scene.Scene)) func(scene.Scene) {
		return func(s scene.Scene) {
			build(s)
			s.Starve("a", gone)
		}
	}
	// late has the tunnels with nothing in them be told long after the interface, when the wire had the end of each at an instant.
	late := func(at time.Duration) func(scene.Scene) {
		return seenOnWire(func(s scene.Scene) {
			wire(ended(soon, own, peer))(s)
			for n := range s.Frames {
				if f := &s.Frames[n]; f.Stream.Flow() == silent.Flow {
					f.At = gone + time.Second
				}
			}
		}, at)
	}
	scene.Judge(t, func(tl *timeline.Timeline) spec.Finding { return check.Run(assertions.NewCase(tl, scene.P)) }, []scene.Row{
		{Name: "never told, on a node without CPU", Build: starved(with(gone)), Want: spec.Inconclusive},
		{Name: "no close_notify and a FIN, on a node without CPU", Build: starved(with(gone, frame(soon, timeline.FrameGoAway), frame(soon, timeline.FrameFIN))), Want: spec.Fail},
		{Name: "the wire has no end, on a node without CPU", Build: starved(wire()), Want: spec.Inconclusive},
		{Name: "told", Build: with(gone, frame(soon, timeline.FrameGoAway), frame(soon, timeline.FrameCloseNotify)), Want: spec.Pass},
		{Name: "told at D", Build: with(gone, frame(scene.D, timeline.FrameGoAway), frame(soon, timeline.FrameCloseNotify)), Want: spec.Pass},
		{Name: "ended by the client that was told", Build: with(gone, frame(soon, timeline.FrameGoAway), frame(soon+1, timeline.FrameClose)), Want: spec.Pass},
		{Name: "never told", Build: with(gone), Want: spec.Fail},
		{Name: "no close_notify", Build: with(gone, frame(soon, timeline.FrameGoAway), frame(soon, timeline.FrameFIN)), Want: spec.Fail},
		{Name: "no end", Build: with(gone, frame(soon, timeline.FrameGoAway)), Want: spec.Fail},
		{Name: "no GOAWAY", Build: with(gone, frame(soon, timeline.FrameCloseNotify)), Want: spec.Fail},
		{Name: "some that the client closed by itself just then", Build: func(s scene.Scene) {
			with(gone, frame(soon, timeline.FrameGoAway), frame(soon, timeline.FrameCloseNotify))(s)
			for n := range s.Frames {
				if f := &s.Frames[n]; f.Conn == 1 && f.Stream.Flow() == silent.Flow {
					f.Kind = timeline.FrameClose
				}
			}
		}, Want: spec.Pass},
		{Name: "given up by the client long after", Build: with(gone, frame(gone+10*time.Second, timeline.FrameClose)), Want: spec.Fail},
		{Name: "read a moment after the interface", Build: with(gone, frame(soon, timeline.FrameGoAway), frame(gone+readWithin, timeline.FrameCloseNotify)), Want: spec.Pass},
		{Name: "read long after the interface", Build: with(gone, frame(soon, timeline.FrameGoAway), frame(gone+readWithin+1, timeline.FrameCloseNotify)), Want: spec.Fail},
		{Name: "told afterwards", Build: with(gone, frame(gone+time.Second, timeline.FrameGoAway), frame(gone+time.Second, timeline.FrameCloseNotify)), Want: spec.Fail},
		{Name: "read afterwards, and on the wire before the interface went", Build: late(gone), Want: spec.Pass},
		{Name: "read afterwards, and on the wire behind the interface", Build: late(gone + 1), Want: spec.Fail},
		{Name: "read afterwards, and on the wire before it was dialled", Build: late(scene.D - time.Second - 1), Want: spec.Fail},
		{Name: "its end came afterwards", Build: with(gone, frame(soon, timeline.FrameGoAway), frame(gone+time.Second, timeline.FrameCloseNotify)), Want: spec.Fail},
		{Name: "told all when discovery said that it ends", Build: early(frame(scene.D+time.Second, timeline.FrameGoAway), frame(scene.D+2*time.Second, timeline.FrameCloseNotify)), Want: spec.Pass},
		{Name: "told when discovery said that it ends, and closed by the client", Build: early(frame(scene.D+time.Second, timeline.FrameGoAway), frame(scene.D+2*time.Second, timeline.FrameClose)), Want: spec.Pass},
		{Name: "closed by the client, which nobody had told", Build: early(frame(scene.D+time.Second, timeline.FrameClose)), Want: spec.Inconclusive},
		{Name: "told by half when discovery said that it ends", Build: early(frame(scene.D+time.Second, timeline.FrameGoAway), frame(scene.D+2*time.Second, timeline.FrameFIN)), Want: spec.Fail},
		{Name: "ended without a word when discovery said that it ends", Build: early(frame(scene.D+time.Second, timeline.FrameFIN)), Want: spec.Fail},
		{Name: "told for their age before its end began, and ended behind that", Build: func(s scene.Scene) {
			with(gone, frame(soon, timeline.FrameGoAway), frame(soon, timeline.FrameCloseNotify))(s)
			for n := range s.Frames {
				if f := &s.Frames[n]; f.Conn == 1 && f.Stream.Flow() == silent.Flow {
					f.At = scene.D - time.Second
					if f.Kind == timeline.FrameCloseNotify {
						f.At = scene.D + time.Second
					}
				}
			}
		}, Want: spec.Pass},
		{Name: "told all before its end began", Build: early(frame(scene.D-500*time.Millisecond, timeline.FrameGoAway), frame(scene.D-500*time.Millisecond, timeline.FrameCloseNotify)), Want: spec.Inconclusive},
		{Name: "told by half when discovery said that it ends, and no more", Build: early(frame(scene.D+time.Second, timeline.FrameGoAway)), Want: spec.Fail},
		{Name: "nobody saw the interface", Build: func(s scene.Scene) {
			stand(s, silent, 12, frame(soon, timeline.FrameGoAway), frame(soon, timeline.FrameCloseNotify))
		}, Want: spec.Inconclusive},
		{Name: "the wire has its FIN", Build: wire(ended(soon, own, peer), ended(gone+time.Second, peer, own)), Want: spec.Pass},
		{Name: "the wire has its RST", Build: wire(reset(soon, own, peer)), Want: spec.Pass},
		{Name: "the wire has its FIN, and a client of the workload's", Build: wire(dialled(scene.D, client, other), ended(soon, client, other), ended(soon, own, peer)), Want: spec.Pass},
		{Name: "the wire has no end", Build: wire(), Want: spec.Fail},
		{Name: "the wire has no end of one that it dialled", Build: wire(dialled(scene.D, client, other), ended(soon, own, peer)), Want: spec.Fail},
		{Name: "the wire has a FIN of the peer alone", Build: wire(ended(soon, peer, own)), Want: spec.Fail},
		{Name: "the wire has an RST of the peer", Build: wire(reset(soon, peer, own)), Want: spec.Pass},
		{Name: "the wire has its FIN as the interface goes", Build: wire(ended(gone, own, peer)), Want: spec.Pass},
		{Name: "the wire has its FIN behind the interface", Build: wire(ended(gone+1, own, peer)), Want: spec.Fail},
		{Name: "the wire had its end when discovery said that it ends", Build: wire(ended(scene.D, own, peer)), Want: spec.Pass},
		{Name: "the wire had its end before the workload's began", Build: wire(ended(scene.D-1, own, peer)), Want: spec.Inconclusive},
		{Name: "the wire had the end of one that was dialled later", Build: wire(ended(scene.D-1, own, peer), dialled(scene.D+1, client, other), ended(scene.D+2, client, other)), Want: spec.Inconclusive},
		{Name: "the wire has tunnels of others", Build: wire(dialled(scene.D, peer, other), ended(soon, own, peer)), Want: spec.Pass},
		{Name: "the wire has what is no tunnel", Build: wire(dialled(scene.D, peer, plain), ended(soon, own, peer)), Want: spec.Pass},
		{Name: "the wire was not seen whole", Build: wire(ended(soon, own, peer), func(s scene.Scene) {
			s.Event(soon, timeline.WatchGap, "wire", map[string]string{"why": "x"})
		}), Want: spec.Inconclusive},
	})
}

func TestEndedWhenAcknowledged(t *testing.T) {
	check := EndedWhenAcknowledged()
	const done = gone - 10*time.Millisecond
	with := func(says ...timeline.Frame) func(scene.Scene) {
		return func(s scene.Scene) {
			s.Event(done, timeline.CNIDel, scene.UID, map[string]string{"took": "100ms"})
			stand(s, kept, 6, frame(soon, timeline.FrameGoAway), frame(soon, timeline.FrameClose))
			stand(s, silent, 6, says...)
		}
	}
	// busy has what is sent around the removal be late.
	busy := func(s scene.Scene) {
		s.Through("busy", 20, func(x *timeline.Sample) { x.Saturated = true })
	}
	untold := func(build func(scene.Scene)) func(scene.Scene) {
		return func(s scene.Scene) {
			build(s)
			for _, e := range s.EventsOf(timeline.CNIDel, scene.UID) {
				e.Attrs["untold"] = "del: the agent says: no acknowledgement in time"
			}
		}
	}
	scene.Judge(t, func(tl *timeline.Timeline) spec.Finding { return check.Run(assertions.NewCase(tl, scene.P)) }, []scene.Row{
		{Name: "ended", Build: with(frame(soon, timeline.FrameCloseNotify)), Want: spec.Pass},
		{Name: "cut", Build: with(frame(soon, timeline.FrameRST)), Want: spec.Pass},
		{Name: "read a moment later", Build: with(frame(done+readWithin, timeline.FrameFIN)), Want: spec.Pass},
		{Name: "ended behind it", Build: with(frame(done+readWithin+1, timeline.FrameFIN)), Want: spec.Fail},
		{Name: "read behind it, and on the wire before", Build: seenOnWire(with(frame(done+time.Second, timeline.FrameFIN)), done), Want: spec.Pass},
		{Name: "read behind it, and on the wire then", Build: seenOnWire(with(frame(done+time.Second, timeline.FrameFIN)), done+1), Want: spec.Fail},
		{Name: "told, and not ended", Build: with(frame(soon, timeline.FrameGoAway)), Want: spec.Fail},
		{Name: "told all when discovery said that it ends", Build: func(s scene.Scene) {
			s.Event(done, timeline.CNIDel, scene.UID, map[string]string{"took": "100ms"})
			stand(s, silent, 12, frame(scene.D, timeline.FrameGoAway), frame(scene.D+1, timeline.FrameCloseNotify))
		}, Want: spec.Pass},
		{Name: "ended, and never acknowledged", Build: untold(with(frame(soon, timeline.FrameCloseNotify))), Want: spec.Fail},
		{Name: "ended, and refused on a busy machine", Build: func(s scene.Scene) {
			untold(with(frame(soon, timeline.FrameCloseNotify)))(s)
			busy(s)
		}, Want: spec.Fail},
		{Name: "ended, and never acknowledged on a busy machine", Build: func(s scene.Scene) {
			untold(with(frame(soon, timeline.FrameCloseNotify)))(s)
			s.EventsOf(timeline.CNIDel, scene.UID)[0].Attrs["took"] = "3.1s"
			busy(s)
		}, Want: spec.Inconclusive},
		{Name: "told, not ended, and never acknowledged", Build: untold(with(frame(soon, timeline.FrameGoAway))), Want: spec.Fail},
		{Name: "nobody asked", Build: func(s scene.Scene) { stand(s, silent, 12, frame(soon, timeline.FrameCloseNotify)) }, Want: spec.Inconclusive},
	})
}

func TestHoldsNothing(t *testing.T) {
	check := HoldsNothing()
	silent := func(s scene.Scene) { // begun a second before
		at := gone - time.Second
		s.Add(timeline.Sample{
			Stream: flow.To(mute.Flow, scene.UID), ID: "mute", Conn: 1, Nth: 1, Due: at, Start: at, Sent: at, End: at + 1,
			Outcome: timeline.OK, Phase: timeline.PhaseDone,
		})
	}
	del := func(attrs map[string]string) func(scene.Scene) {
		return func(s scene.Scene) {
			attrs["took"] = "50ms"
			s.Event(gone, timeline.CNIDel, scene.UID, attrs)
			silent(s)
		}
	}
	scene.Judge(t, func(tl *timeline.Timeline) spec.Finding { return check.Run(assertions.NewCase(tl, scene.P)) }, []scene.Row{
		{Name: "none", Build: del(map[string]string{"held": ""}), Want: spec.Pass},
		{Name: "none, and there was none on which nothing came", Build: func(s scene.Scene) {
			s.Event(gone, timeline.CNIDel, scene.UID, map[string]string{"held": "", "took": "50ms"})
		}, Want: spec.Inconclusive},
		{Name: "a listener", Build: del(map[string]string{"held": "listening@[::]:15008"}), Want: spec.Fail},
		{Name: "a listener, of a removal that nobody acknowledged", Build: del(map[string]string{"held": "listening@[::]:15008", "untold": "5s are over"}), Want: spec.Fail},
		{Name: "a listener, of a removal that nobody acknowledged on a node without CPU", Build: func(s scene.Scene) {
			s.On("a")
			del(map[string]string{"held": "listening@[::]:15008", "untold": "5s are over"})(s)
			s.Starve("a", gone)
		}, Want: spec.Inconclusive},
		{Name: "nobody looked", Build: del(map[string]string{}), Want: spec.Inconclusive},
	})
}

func TestLetsGo(t *testing.T) {
	check := LetsGo()
	holds := func(keeps string) func(scene.Scene) {
		return func(s scene.Scene) {
			s.Event(gone+time.Second, timeline.NodeHolds, scene.UID, map[string]string{"held": "", "keeps": keeps})
		}
	}
	scene.Judge(t, func(tl *timeline.Timeline) spec.Finding { return check.Run(assertions.NewCase(tl, scene.P)) }, []scene.Row{
		{Name: "nobody", Build: holds(""), Want: spec.Pass},
		{Name: "the proxy", Build: holds("node-proxy-a-1"), Want: spec.Fail},
		{Name: "nobody looked", Build: func(scene.Scene) {}, Want: spec.Inconclusive},
	})
}
