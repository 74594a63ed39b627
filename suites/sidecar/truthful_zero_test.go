// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/fixtures/disrupt"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/behaviour"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// The instances of a recording, in the order of BesideAtZero.
var zeroed = []string{scene.UID, "uid-out", "uid-in", "uid-uncounted"}

// zeroScene has four instances end, each with another reason for its sidecar to leave or to stay.
// early is when that of the first is gone. set changes what clients see.
func zeroScene(early time.Duration, set func(uid string, x *timeline.Sample)) func(scene.Scene) {
	return func(s scene.Scene) {
		s.Event(0, timeline.Marker, "", map[string]string{"what": assertions.MarkSubject, "container": "echo"})
		s.Event(9*time.Second, timeline.Disruption, zeroed[3], map[string]string{"what": string(disrupt.DeleteUncounted)})
		for nth, uid := range zeroed {
			if nth > 0 {
				s.Event(scene.D, timeline.PodDeletion, uid, map[string]string{"grace": "15"})
				s.Event(scene.D, timeline.DrainStart, uid, map[string]string{"trigger": "SIGTERM"})
				s.Event(scene.Exit, timeline.ProcExit, uid, nil)
			}
			at := early
			if nth > 0 {
				at = scene.Exit + time.Second
			}
			s.Event(at, timeline.ProcExit, uid, map[string]string{"container": "proxy"})
			for _, p := range zeroTraffic() {
				if behaviour.BesideAtZero.Carries(nth, p) {
					lasting(s, uid, p, func(x *timeline.Sample) {
						if set != nil {
							set(uid, x)
						}
					})
				}
			}
		}
	}
}

func zeroTraffic() []load.Profile {
	all := behaviour.Catalogue()
	return all[slices.IndexFunc(all, func(b behaviour.Behaviour) bool { return b.ID == "sidecar.truthful-zero" })].Traffic
}

// lasting has a flow be served at an instance until a second before it exits.
func lasting(s scene.Scene, uid string, p load.Profile, set func(*timeline.Sample)) {
	step := time.Duration(float64(time.Second) / p.Rate)
	for at := 6 * time.Second; at < scene.Exit-time.Second-p.Takes; at += step {
		x := timeline.Sample{
			Stream: flow.To(p.Flow, uid), ID: fmt.Sprintf("%s#%d", flow.To(p.Flow, uid), at), Conn: 1, Nth: 1,
			Due: at, Start: at, Sent: at, First: at + 1, End: at + p.Takes + time.Millisecond,
			Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: uid, Status: 200,
		}
		set(&x)
		s.Add(x)
	}
}

func TestTruthfulZero(t *testing.T) {
	soon := scene.D + time.Second
	refusedAt := func(nth int) func(string, *timeline.Sample) {
		return func(uid string, x *timeline.Sample) {
			if uid == zeroed[nth] && x.Start > soon && x.Start < scene.D+staysFor {
				refused(x)
			}
		}
	}
	without := func(out func(timeline.Event) bool) func(scene.Scene) {
		return func(s scene.Scene) { zeroScene(soon, nil)(s); s.Drop(out) }
	}
	scene.Judge(t, judged(TruthfulZero()), []scene.Row{
		{Name: "as it should be", Build: zeroScene(soon, nil), Want: spec.Pass},
		{Name: "idle, and it refuses once it has left", Build: zeroScene(soon, refusedAt(0)), Want: spec.Pass},
		{Name: "idle, and it stays as long as its app", Build: zeroScene(scene.Exit+time.Second, nil), Want: spec.Fail},
		{Name: "idle, and it stays, and the machine is starved as the app goes", Build: func(s scene.Scene) {
			zeroScene(scene.Exit+time.Second, nil)(s)
			for range 30 { // more than all that is sent then
				starved(s, scene.Exit+time.Second)
			}
		}, Want: spec.Fail},
		{Name: "it leaves while its app has connections", Build: zeroScene(soon, refusedAt(1)), Want: spec.Fail},
		{Name: "it leaves while its app is asked", Build: zeroScene(soon, refusedAt(2)), Want: spec.Fail},
		{Name: "it leaves when it can't tell", Build: zeroScene(soon, refusedAt(3)), Want: spec.Fail},
		{Name: "what is in hand is cut", Build: zeroScene(soon, func(uid string, x *timeline.Sample) {
			if uid == zeroed[1] && x.Stream.Flow().Path == flow.Outbound && x.Start < scene.D && x.End > scene.D {
				x.Outcome, x.Phase = timeline.Reset, timeline.PhaseBody
			}
		}), Want: spec.Fail},
		{Name: "what is in hand is cut between the deletion and D", Build: func(s scene.Scene) {
			s.Event(scene.D-time.Second, timeline.PodDeletion, zeroed[1], map[string]string{"grace": "15"})
			zeroScene(soon, func(uid string, x *timeline.Sample) {
				if at := scene.D - 500*time.Millisecond; uid == zeroed[1] && x.Stream.Flow().Path == flow.Outbound && x.Start < at && x.End > at {
					x.End, x.Outcome, x.Phase = at, timeline.Reset, timeline.PhaseBody
				}
			})(s)
		}, Want: spec.Fail},
		{Name: "its process is gone while its app is asked", Build: func(s scene.Scene) {
			zeroScene(soon, nil)(s)
			s.Event(soon, timeline.ProcExit, zeroed[2], map[string]string{"container": "proxy"})
		}, Want: spec.Fail},
		{Name: "none was idle", Build: zeroScene(scene.Exit+time.Second, func(uid string, x *timeline.Sample) {
			if uid == zeroed[0] {
				x.Stream = flow.To(zeroTraffic()[1].Flow, uid)
				x.End = x.Start + 2*time.Second
			}
		}), Want: spec.Inconclusive},
		{Name: "each could tell", Build: func(s scene.Scene) {
			zeroScene(soon, nil)(s)
			s.Drop(func(e timeline.Event) bool { return e.Subject == zeroed[3] })
		}, Want: spec.Inconclusive},
		{Name: "nobody saw the idle one's sidecar go", Build: without(func(e timeline.Event) bool {
			return e.Kind == timeline.ProcExit && e.Subject == zeroed[0] && e.Attrs["container"] != ""
		}), Want: spec.Inconclusive},
		{Name: "the app is gone at once", Build: func(s scene.Scene) {
			zeroScene(soon, nil)(s)
			for i, e := range s.Events {
				if e.Kind == timeline.ProcExit && e.Subject == zeroed[0] && e.Attrs["container"] == "" {
					s.Events[i].At = soon
				}
			}
		}, Want: spec.Inconclusive},
		{Name: "too few ask", Build: zeroScene(soon, func(uid string, x *timeline.Sample) {
			x.Saturated = uid == zeroed[3] && x.Start > scene.D
		}), Want: spec.Inconclusive},
	})
}
