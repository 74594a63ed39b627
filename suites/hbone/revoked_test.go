// SPDX-License-Identifier: Apache-2.0

package hbone

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// outAt is when the certificates run out here.
const outAt = 14 * time.Second

// heldOpen are tunnels of a client's with connections in them, from 6 s to 20 s; set changes each that is under way when the
// certificates run out.
func heldOpen(s scene.Scene, p load.Profile, set func(*timeline.Sample)) {
	for n := range uint64(2) {
		for at := 6 * time.Second; at < 20*time.Second; at += time.Second {
			in(s, p, n+1, at, at+p.Takes, func(x *timeline.Sample) {
				if set != nil && x.Start < outAt && x.End > outAt {
					set(x)
				}
			})
		}
	}
}

// endsAt has one end at an instant, in a way that is no good end.
func endsAt(at time.Duration, o timeline.Outcome) func(*timeline.Sample) {
	return func(x *timeline.Sample) { x.End, x.Outcome, x.Phase = at, o, timeline.PhaseBody }
}

// heard is what the app says of requests that it could not answer to the end.
func heard(s scene.Scene, at time.Duration) {
	for _, x := range s.Samples {
		if x.Failed() {
			s.Ledger = append(s.Ledger, timeline.Entry{At: x.Start, ID: x.ID, Step: timeline.Begin, Pod: scene.UID}, timeline.Entry{At: at, ID: x.ID, Step: timeline.Done, Pod: scene.UID})
		}
	}
}

func ranOut(s scene.Scene, flows ...load.Profile) {
	for _, p := range flows {
		s.Event(outAt, timeline.CertificateEnds, "spiffe://cluster.local/ns/n/sa/one", map[string]string{"flow": p.Flow.String()})
	}
}

func TestCutsWithCertificate(t *testing.T) {
	const (
		soon = outAt + 20*time.Millisecond
		late = outAt + revokedWithin + 500*time.Millisecond
	)
	// some is a client whose connections end in a way, and of whose tunnels something is said then.
	some := func(set func(*timeline.Sample), at time.Duration, kinds ...timeline.FrameKind) func(scene.Scene) {
		return func(s scene.Scene) {
			ranOut(s, behaviour.RunningOut)
			heldOpen(s, behaviour.RunningOut, set)
			for n := range uint64(2) {
				for _, k := range kinds {
					says(s, behaviour.RunningOut, n+1, at, k, "last", "9", "code", "NO_ERROR")
				}
			}
			heard(s, at+10*time.Millisecond)
		}
	}
	told := []timeline.FrameKind{timeline.FrameReset, timeline.FrameGoAway, timeline.FrameCloseNotify, timeline.FrameFIN}
	judge(t, CutsWithCertificate(), []scene.Row{
		{Name: "cut", Build: some(endsAt(soon, timeline.StreamReset), soon, told...), Want: spec.Pass},
		{Name: "our own client was first to close", Build: some(endsAt(soon, timeline.StreamReset), soon, timeline.FrameGoAway, timeline.FrameClose), Want: spec.Pass},
		{Name: "cut with the tunnel", Build: some(endsAt(soon, timeline.Truncated), soon, told[1:]...), Want: spec.Pass},
		{Name: "by an RST", Build: some(endsAt(soon, timeline.Reset), soon, timeline.FrameRST), Want: spec.Pass},
		{Name: "nothing happens", Build: some(nil, outAt), Want: spec.Fail},
		{Name: "nothing happens, on a node without CPU", Build: func(s scene.Scene) { some(nil, outAt)(s); s.Starve("a", outAt+revokedWithin) }, Want: spec.Inconclusive},
		{Name: "late", Build: some(endsAt(late, timeline.StreamReset), late, told...), Want: spec.Fail},
		{Name: "by END_STREAM", Build: some(endsAt(soon, timeline.Truncated), soon+revokedWithin/2, told...), Want: spec.Fail},
		{Name: "by END_STREAM, and with the tunnel", Build: some(func(x *timeline.Sample) {
			endsAt(soon, timeline.Truncated)(x)
			x.EndStream = true
		}, soon, told[1:]...), Want: spec.Fail},
		{Name: "they hang", Build: some(endsAt(late, timeline.Timeout), late), Want: spec.Fail},
		{Name: "before its end", Build: some(endsAt(outAt-time.Second, timeline.StreamReset), outAt-time.Second, told...), Want: spec.Fail},
		{Name: "the tunnels stand", Build: some(endsAt(soon, timeline.StreamReset), soon, timeline.FrameReset), Want: spec.Fail},
		{Name: "the app hears nothing", Build: func(s scene.Scene) {
			some(endsAt(soon, timeline.StreamReset), soon, told...)(s)
			s.Ledger = nil
		}, Want: spec.Fail},
		{Name: "nothing was in them", Build: func(s scene.Scene) {
			ranOut(s, behaviour.RunningOut)
			for n := range uint64(2) {
				in(s, behaviour.RunningOut, n+1, 6*time.Second, 12*time.Second, nil)
				says(s, behaviour.RunningOut, n+1, soon, timeline.FrameCloseNotify)
			}
		}, Want: spec.Inconclusive},
		{Name: "nothing says when", Build: func(s scene.Scene) { heldOpen(s, behaviour.RunningOut, nil) }, Want: spec.Inconclusive},
	})
}

func TestKeepsOthers(t *testing.T) {
	// some are a neighbour and a client that renews, and what becomes of what they have under way.
	some := func(neighbour, renewing func(*timeline.Sample), shows bool) func(scene.Scene) {
		return func(s scene.Scene) {
			ranOut(s, behaviour.RunningOut, behaviour.Renewing)
			heldOpen(s, lasting, neighbour)
			heldOpen(s, behaviour.Renewing, renewing)
			if shows {
				heldOpen(s, behaviour.Renewed, nil)
			}
		}
	}
	// with is that all live, but for one more connection, which is cut.
	with := func(p load.Profile, from, to time.Duration) func(scene.Scene) {
		return func(s scene.Scene) {
			some(nil, nil, true)(s)
			in(s, p, 9, from, to, endsAt(to, timeline.Reset))
		}
	}
	cut := endsAt(outAt+200*time.Millisecond, timeline.Reset)
	judge(t, KeepsOthers(), []scene.Row{
		{Name: "they live", Build: some(nil, nil, true), Want: spec.Pass},
		{Name: "the neighbour is cut", Build: some(cut, nil, true), Want: spec.Fail},
		{Name: "the neighbour's next is", Build: func(s scene.Scene) {
			some(nil, nil, true)(s)
			in(s, lasting, 9, outAt+time.Second, outAt+2*time.Second, func(x *timeline.Sample) { x.Outcome, x.Phase = timeline.Refused, timeline.PhaseDial })
		}, Want: spec.Fail},
		{Name: "who has renewed is cut", Build: some(nil, cut, true), Want: spec.Fail},
		{Name: "who has renewed is cut as soon as it has", Build: with(behaviour.Renewing, 8*time.Second, outAt-3*time.Second), Want: spec.Fail},
		{Name: "who renews was cut before", Build: with(behaviour.Renewing, 4*time.Second, 5*time.Second), Want: spec.Pass},
		{Name: "who has renewed begins another one with the older certificate", Build: with(behaviour.Renewing, outAt+time.Second, outAt+2*time.Second), Want: spec.Pass},
		{Name: "the neighbour is cut as soon as somebody renews", Build: with(lasting, 8*time.Second, outAt-3*time.Second), Want: spec.Fail},
		{Name: "who has not is", Build: some(nil, cut, false), Want: spec.Inconclusive},
		{Name: "without a neighbour", Build: func(s scene.Scene) {
			ranOut(s, behaviour.RunningOut, behaviour.Renewing)
			heldOpen(s, behaviour.Renewing, nil)
			heldOpen(s, behaviour.Renewed, nil)
		}, Want: spec.Inconclusive},
		{Name: "nothing says when", Build: func(s scene.Scene) {
			for _, p := range []load.Profile{lasting, behaviour.Renewing, behaviour.Renewed} {
				heldOpen(s, p, nil)
			}
		}, Want: spec.Inconclusive},
	})
}
