// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// In the scenes two controllers go one after the other, and then both, from orphanedAt to heardAt.
const (
	relievedAt = scene.D
	orphanedAt = scene.D + 12*time.Second
	heardAt    = scene.D + 17*time.Second
)

// relieve has controllers go and come.
func relieve(s scene.Scene) {
	crash(s)
	turn := func(who string, from, to time.Duration) {
		s.Event(from, timeline.Outage, who, map[string]string{"up": "false"})
		s.Event(to, timeline.Outage, who, map[string]string{"up": "true"})
	}
	turn("controller a", relievedAt, relievedAt+3*time.Second)
	turn("controller b", relievedAt+6*time.Second, relievedAt+9*time.Second)
	turn("controller a", orphanedAt-time.Millisecond, heardAt)
	turn("controller b", orphanedAt, heardAt+time.Millisecond)
}

// answered has requests be answered, each 20 ms. set may change each.
func answered(s scene.Scene, of flow.Flow, uid string, set func(*timeline.Sample)) {
	dials(s, of, uid, func(x *timeline.Sample) {
		x.Outcome, x.Phase = timeline.OK, timeline.PhaseDone
		if set != nil {
			set(x)
		}
	})
}

// lasts has requests take a second, and failsAt one that is under way at an instant fail.
func lasts(x *timeline.Sample) { x.End = x.Start + time.Second }

func failsAt(at time.Duration) func(*timeline.Sample) {
	return func(x *timeline.Sample) {
		if x.Start <= at && at < x.Start+20*time.Millisecond {
			x.Outcome, x.Phase = timeline.Reset, timeline.PhaseFirstByte
		}
	}
}

func TestAbsences(t *testing.T) {
	s := scene.Quiet()
	relieve(s)
	slices.SortStableFunc(s.Events, func(a, b timeline.Event) int { return cmp.Compare(a.At, b.At) })
	each, all, first := absences(assertions.NewCase(s.Timeline, scene.P))
	if len(each) != 4 || first != relievedAt || !slices.Equal(all, []absence{{orphanedAt, heardAt}}) {
		t.Errorf("each %v, all %v, first %v", each, all, first)
	}
}

func TestServedWithoutControllers(t *testing.T) {
	with := func(set func(*timeline.Sample), more ...func(scene.Scene)) func(scene.Scene) {
		return func(s scene.Scene) {
			relieve(s)
			answered(s, throughService, "", set)
			answered(s, sendsOut, stays, nil)
			answered(s, serviceLong, "", lasts)
			for _, m := range more {
				m(s)
			}
		}
	}
	deletes := func(s scene.Scene) {
		s.Event(orphanedAt+time.Second, timeline.PodDeletion, stays, map[string]string{"grace": "15"})
	}
	scene.Judge(t, judging(ServedWithoutControllers()), []scene.Row{
		{Name: "all are served", Build: with(nil), Want: spec.Pass},
		{Name: "before anybody goes", Build: with(failsAt(relievedAt - 100*time.Millisecond)), Want: spec.Pass},
		{Name: "while one is replaced", Build: with(failsAt(relievedAt + 2*time.Second)), Want: spec.Fail},
		{Name: "between two of them", Build: with(failsAt(relievedAt + 5*time.Second)), Want: spec.Fail},
		{Name: "while there is none", Build: with(failsAt(orphanedAt + time.Second)), Want: spec.Fail},
		{Name: "when the next one has come", Build: with(failsAt(heardAt + time.Second)), Want: spec.Fail},
		{Name: "to a pod that was deleted", Build: with(nil, deletes, func(s scene.Scene) { answered(s, throughMesh, stays, failsAt(orphanedAt+3*time.Second)) }), Want: spec.Pass},
		{Name: "to a pod that is deleted later", Build: with(nil, deletes, func(s scene.Scene) { answered(s, throughMesh, stays, failsAt(orphanedAt+500*time.Millisecond)) }), Want: spec.Fail},
		{Name: "nobody was away", Build: with(nil, func(s scene.Scene) {
			s.Drop(func(e timeline.Event) bool { return e.Kind == timeline.Outage })
		}), Want: spec.Inconclusive},
		{Name: "one always served", Build: with(nil, func(s scene.Scene) {
			s.Drop(func(e timeline.Event) bool {
				return e.Kind == timeline.Outage && e.Subject == "controller a" && e.At >= orphanedAt-time.Second
			})
		}), Want: spec.Inconclusive},
		{Name: "they never came again", Build: with(nil, func(s scene.Scene) {
			s.Drop(func(e timeline.Event) bool { return e.Kind == timeline.Outage && e.At >= heardAt })
		}), Want: spec.Inconclusive},
		{Name: "nothing was under way", Build: func(s scene.Scene) {
			relieve(s)
			answered(s, throughService, "", nil)
		}, Want: spec.Inconclusive},
		{Name: "nothing was new but in our own client's tunnels", Build: func(s scene.Scene) {
			relieve(s)
			answered(s, ownTunnel, stays, nil)
			answered(s, serviceLong, "", lasts)
		}, Want: spec.Inconclusive},
	})
}

func TestNothingBypassesWithoutControllers(t *testing.T) {
	const app, peer, plain = "10.0.0.1:40000", "10.0.0.2:15008", "10.0.0.2:8080"
	with := func(more ...func(scene.Scene)) func(scene.Scene) {
		return func(s scene.Scene) {
			relieve(s)
			// It was stopped before its tail, which scenes have earlier.
			s.Drop(func(e timeline.Event) bool {
				return e.Kind == timeline.Marker && e.Attrs["what"] == assertions.MarkTail
			})
			answered(s, throughService, "", nil)
			dialled(s, relievedAt+time.Second, app, peer)
			dialled(s, orphanedAt+time.Second, app, peer)
			for _, m := range more {
				m(s)
			}
		}
	}
	at := func(when time.Duration) func(scene.Scene) {
		return func(s scene.Scene) { dialled(s, when, app, plain) }
	}
	scene.Judge(t, judging(NothingBypassesWithoutControllers()), []scene.Row{
		{Name: "tunnels alone", Build: with(), Want: spec.Pass},
		{Name: "before anybody goes", Build: with(at(relievedAt - time.Second)), Want: spec.Pass},
		{Name: "while one is replaced", Build: with(at(relievedAt + time.Second)), Want: spec.Fail},
		{Name: "while there is none", Build: with(at(orphanedAt + time.Second)), Want: spec.Fail},
		{Name: "when the next one has come", Build: with(at(heardAt + time.Second)), Want: spec.Fail},
		{Name: "the wire was not seen whole", Build: with(func(s scene.Scene) {
			s.Event(orphanedAt, timeline.WatchGap, "wire", map[string]string{"why": "the buffer was full"})
		}), Want: spec.Inconclusive},
		{Name: "nothing was served meanwhile", Build: with(func(s scene.Scene) {
			for i := range s.Samples {
				s.Samples[i].Outcome, s.Samples[i].Phase = timeline.Refused, timeline.PhaseDial
			}
		}), Want: spec.Inconclusive},
		{Name: "the wire had no tunnel", Build: with(func(s scene.Scene) {
			s.Drop(func(e timeline.Event) bool { return e.Kind == timeline.Wire })
		}), Want: spec.Inconclusive},
	})
}
