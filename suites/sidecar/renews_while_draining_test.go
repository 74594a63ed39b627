// SPDX-License-Identifier: Apache-2.0

package sidecar

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
)

// The app accepts no more at shutAt, and the certificate runs out at firstEnds that was shown before D.
const (
	shutAt    = 18 * time.Second
	firstEnds = 12 * time.Second
)

// dialling has clients open tunnels to the instance from before D until it accepts no more, in each of which it shows a
// certificate that is good for 4 s at most. set changes an attempt; one that has no handshake shows none.
func dialling(s scene.Scene, set func(*timeline.Sample)) {
	s.Event(shutAt, timeline.DrainListenerClosed, scene.UID, nil)
	of := flow.To(flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.New, Op: flow.Get}, scene.UID)
	conn := uint64(0)
	for at := 6 * time.Second; at < shutAt; at += 50 * time.Millisecond {
		conn++
		x := timeline.Sample{
			Stream: of, ID: fmt.Sprint(of, at), Conn: conn, Nth: 1, Due: at, Start: at, Sent: at, First: at + 1, End: at + 5*time.Millisecond,
			Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: scene.UID, Status: 200,
		}
		if set != nil {
			set(&x)
		}
		s.Add(x)
		if x.Phase == timeline.PhaseDone {
			good := 4*time.Second - at%(4*time.Second)
			s.Frames = append(s.Frames, timeline.Frame{At: at, Stream: of, Conn: conn, Kind: timeline.FrameCertificate, Attrs: map[string]string{"for": good.String()}})
		}
	}
}

// broken has those that begin from an instant on end in the handshake.
func broken(from time.Duration, o timeline.Outcome) func(*timeline.Sample) {
	return func(x *timeline.Sample) {
		if x.Start >= from {
			x.Outcome, x.Phase, x.Status, x.Server = o, timeline.PhaseTLS, 0, ""
		}
	}
}

func TestShowsGoodCertificates(t *testing.T) {
	check := ShowsGoodCertificates()
	scene.Judge(t, func(tl *timeline.Timeline) spec.Finding { return check.Run(assertions.NewCase(tl, scene.P)) }, []scene.Row{
		{Name: "renewed", Build: func(s scene.Scene) { dialling(s, nil) }, Want: spec.Pass},
		{Name: "run out", Build: func(s scene.Scene) { dialling(s, broken(firstEnds, timeline.Malformed)) }, Want: spec.Fail},
		{Name: "run out in the end", Build: func(s scene.Scene) { dialling(s, broken(17*time.Second, timeline.Malformed)) }, Want: spec.Fail},
		{Name: "run out when the app accepts no more", Build: func(s scene.Scene) { dialling(s, broken(shutAt-250*time.Millisecond, timeline.Malformed)) }, Want: spec.Pass},
		{Name: "nobody has a handshake any more", Build: func(s scene.Scene) { dialling(s, broken(firstEnds, timeline.Reset)) }, Want: spec.Fail},
		{Name: "the client's is refused behind its handshake", Build: func(s scene.Scene) {
			dialling(s, nil)
			for i := range s.Samples {
				if x := &s.Samples[i]; x.Start >= firstEnds {
					x.Outcome, x.Phase, x.Status, x.Server = timeline.Reset, timeline.PhaseFirstByte, 0, ""
				}
			}
		}, Want: spec.Fail},
		{Name: "all are turned away behind their handshakes", Build: func(s scene.Scene) {
			dialling(s, nil)
			for i := range s.Samples {
				if x := &s.Samples[i]; x.Start >= firstEnds {
					x.Outcome, x.Phase, x.Status, x.Server = timeline.RefusedStream, timeline.PhaseFirstByte, 0, ""
				}
			}
		}, Want: spec.Inconclusive},
		{Name: "run out on a starved machine", Build: func(s scene.Scene) {
			dialling(s, broken(17*time.Second, timeline.Malformed))
			starved(s, 17*time.Second)
		}, Want: spec.Inconclusive},
		{Name: "nobody is let in any more", Build: func(s scene.Scene) {
			dialling(s, func(x *timeline.Sample) {
				if broken(firstEnds, timeline.Refused)(x); x.Failed() {
					x.Phase = timeline.PhaseDial
				}
			})
		}, Want: spec.Inconclusive},
		{Name: "what was shown before D never runs out", Build: func(s scene.Scene) {
			dialling(s, nil)
			for i := range s.Frames {
				s.Frames[i].Attrs["for"] = "1h"
			}
		}, Want: spec.Inconclusive},
		{Name: "nobody saw a certificate", Build: func(s scene.Scene) {
			dialling(s, nil)
			s.Frames = nil
		}, Want: spec.Inconclusive},
	})
}

func TestOutlastsCertificates(t *testing.T) {
	check := OutlastsCertificates()
	// lasting has the instance answer and call, at length and briefly. set changes an attempt.
	lasting := func(set func(*timeline.Sample)) func(scene.Scene) {
		return func(s scene.Scene) {
			s.Event(shutAt, timeline.DrainListenerClosed, scene.UID, nil)
			s.Event(ended, timeline.DrainEnd, scene.UID, map[string]string{"cut": "0"})
			for _, p := range []load.Profile{
				{Flow: flow.Flow{Path: flow.Direct, Protocol: flow.HBONE, Conns: flow.Reused, Op: flow.Slow, Takes: 3 * time.Second}, Rate: 3},
				{Flow: flow.Flow{Path: flow.Outbound, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Upload, Takes: 3 * time.Second}, Rate: 3},
				{Flow: flow.Flow{Path: flow.Outbound, Protocol: flow.HTTP1, Conns: flow.New, Op: flow.Get}, Rate: 20},
			} {
				callingOf(s, scene.UID, p, func(x *timeline.Sample) {
					if set != nil {
						set(x)
					}
				})
			}
		}
	}
	cut := func(of func(flow.Flow) bool) func(*timeline.Sample) {
		return func(x *timeline.Sample) {
			if of(x.Stream.Flow()) && x.Start < firstEnds && x.End > firstEnds {
				x.End, x.Outcome, x.Phase = firstEnds, timeline.Reset, timeline.PhaseBody
			}
		}
	}
	scene.Judge(t, func(tl *timeline.Timeline) spec.Finding { return check.Run(assertions.NewCase(tl, scene.P)) }, []scene.Row{
		{Name: "all come to their end", Build: lasting(nil), Want: spec.Pass},
		{Name: "answers are cut with a certificate", Build: lasting(cut(func(f flow.Flow) bool { return f.Op == flow.Slow })), Want: spec.Fail},
		{Name: "uploads are", Build: lasting(cut(func(f flow.Flow) bool { return f.Op == flow.Upload })), Want: spec.Fail},
		{Name: "a call is refused behind it", Build: lasting(func(x *timeline.Sample) {
			if x.Stream.Flow().Op == flow.Get && x.Start > firstEnds {
				x.Outcome, x.Phase = timeline.Reset, timeline.PhaseWrite
			}
		}), Want: spec.Fail},
		{Name: "an answer is turned away as not processed", Build: lasting(func(x *timeline.Sample) {
			if x.Stream.Flow().Op == flow.Slow && x.Start > 13*time.Second {
				x.Outcome, x.Phase = timeline.GoAway, timeline.PhaseFirstByte
			}
		}), Want: spec.Pass},
		{Name: "nothing long came out", Build: func(s scene.Scene) {
			lasting(nil)(s)
			for i := range s.Samples {
				if s.Samples[i].Stream.Flow().Op == flow.Upload {
					s.Samples[i].Saturated = true
				}
			}
		}, Want: spec.Inconclusive},
		{Name: "the app never said that it had ended", Build: func(s scene.Scene) {
			lasting(nil)(s)
			s.Drop(func(e timeline.Event) bool { return e.Kind == timeline.DrainEnd })
		}, Want: spec.Inconclusive},
	})
}
