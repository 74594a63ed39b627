// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	built "github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

const sec = time.Second

// scene builds the timeline of one healthy termination: steady at 5 s, deleted
// at 10 s, drains from 10 s, unready at 19.5 s, listener closed at 22 s, gone
// at 22.2 s; with load on all paths. Tests then break it.
type scene struct {
	tl timeline.Timeline
	p  time.Duration
	// untilKilled: the system promises no drain timeout.
	untilKilled bool
}

const (
	uid  = "uid-a"
	del  = 10 * sec
	shut = 22 * sec
)

func healthy() *scene {
	s := &scene{p: 3 * sec}
	ev := func(at time.Duration, kind timeline.EventKind, attrs map[string]string) {
		s.tl.Events = append(s.tl.Events, timeline.Event{At: at, Source: "test", Kind: kind, Subject: uid, Name: "pod-a", Node: "n1", Attrs: attrs})
	}
	conds := func(r, sv, t bool) map[string]string {
		return map[string]string{"service": "echo", "ready": fmt.Sprint(r), "serving": fmt.Sprint(sv), "terminating": fmt.Sprint(t)}
	}
	ev(sec, timeline.Endpoint, conds(true, true, false))
	for at, what := range map[time.Duration]string{5 * sec: MarkSteady, 26*sec + 500*time.Millisecond: MarkTail} {
		s.tl.Events = append(s.tl.Events, timeline.Event{At: at, Source: "runner", Kind: timeline.Marker, Attrs: map[string]string{"what": what}})
	}
	// Another endpoint stays ready all the time.
	s.tl.Events = append(s.tl.Events, timeline.Event{At: sec, Source: "test", Kind: timeline.Endpoint, Subject: "uid-b", Name: "pod-b", Attrs: conds(true, true, false)})
	ev(del, timeline.Disruption, map[string]string{"what": "delete"})
	ev(del, timeline.PodDeletion, map[string]string{"grace": "40"})
	ev(del+10*time.Millisecond, timeline.DrainStart, nil)
	ev(del+20*time.Millisecond, timeline.Endpoint, conds(false, true, true))
	ev(19*sec+500*time.Millisecond, timeline.Endpoint, conds(false, false, true))
	ev(shut+200*time.Millisecond, timeline.ProcExit, nil)
	ev(shut+400*time.Millisecond, timeline.EndpointGone, map[string]string{"service": "echo"})
	ev(shut+500*time.Millisecond, timeline.PodGone, nil)

	s.stream("direct/http1/new/get@"+uid, 50, func(x *timeline.Sample) {
		x.Server = uid
		if x.Start >= shut {
			x.Outcome, x.Phase, x.Server = timeline.Refused, timeline.PhaseDial, ""
		}
	})
	s.stream("direct/http1/reused/get@"+uid, 25, func(x *timeline.Sample) {
		x.Nth, x.Server = 2, uid
		if x.Start >= shut {
			x.Outcome, x.Phase = timeline.Refused, timeline.PhaseDial
		}
	})
	s.stream("service/http1/new/get", 60, func(x *timeline.Sample) {
		x.Server = "uid-b"
		if x.Start < del+100*time.Millisecond {
			x.Server = uid
		}
	})
	s.stream("service/http1/reused/get", 60, func(x *timeline.Sample) { x.Nth, x.Server = 2, "uid-b" })
	s.slow("direct/http1/reused/slow/2s@"+uid, 6)
	return s
}

func (s *scene) stream(name string, rate int, set func(*timeline.Sample)) {
	step := sec / time.Duration(rate)
	for at := 2 * sec; at < 27*sec; at += step {
		x := timeline.Sample{
			Stream: flow.Named(name), ID: fmt.Sprintf("%s#%d", name, at), Nth: 1, Due: at, Start: at, Dial: at + 1, End: at + 2*time.Millisecond,
			Outcome: timeline.OK, Phase: timeline.PhaseDone,
		}
		set(&x)
		s.add(x)
	}
}

func (s *scene) slow(name string, rate int) {
	step := sec / time.Duration(rate)
	for at := 2 * sec; at < 15*sec; at += step {
		s.add(timeline.Sample{
			Stream: flow.Named(name), ID: fmt.Sprintf("%s#%d", name, at), Nth: 2, Due: at, Start: at, End: at + 2*sec,
			Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: uid,
		})
	}
}

func (s *scene) add(x timeline.Sample) { s.built().Add(x) }

// each changes the samples that a test picks.
func (s *scene) each(set func(*timeline.Sample)) {
	for i := range s.tl.Samples {
		set(&s.tl.Samples[i])
	}
}

func (s *scene) drop(out func(timeline.Event) bool) { s.built().Drop(out) }

// farAway adds a dial 20 ms long, begun at an instant.
func (s *scene) farAway(at time.Duration, o timeline.Outcome) {
	s.add(timeline.Sample{Stream: flow.Named("direct/http1/new/get/delay=20ms@" + uid), ID: "far", Due: at, Start: at, End: at + 40*time.Millisecond, Outcome: o, Phase: timeline.PhaseDial})
}

// blurD makes the instance's own word on D uncertain.
func (s *scene) blurD(by time.Duration) {
	for i := range s.tl.Events {
		if s.tl.Events[i].Kind == timeline.DrainStart {
			s.tl.Events[i].Err = by
		}
	}
}

// alsoIn says of some endpoints' events that they happened in another address
// family too.
func (s *scene) alsoIn(family string, which func(timeline.Event) bool) {
	for _, e := range slices.Clone(s.tl.Events) {
		if which(e) {
			e.Attrs = maps.Clone(e.Attrs)
			e.Attrs["family"] = family
			s.tl.Events = append(s.tl.Events, e)
		}
	}
}

// turnAway has the first sample that is asked for refused as not processed, and no backend
// heard of it.
func (s *scene) turnAway(which func(timeline.Sample) bool, at timeline.Phase) {
	id := s.disown(which, at)
	s.tl.Ledger = slices.DeleteFunc(s.tl.Ledger, func(e timeline.Entry) bool { return e.ID == id })
}

// disown has the first sample that is asked for refused as not processed, whatever a backend
// says of it.
func (s *scene) disown(which func(timeline.Sample) bool, at timeline.Phase) (id string) {
	for i := range s.tl.Samples {
		if x := &s.tl.Samples[i]; which(*x) {
			x.Outcome, x.Phase = timeline.RefusedStream, at
			return x.ID
		}
	}
	panic("nobody to turn away")
}

// lostUnread has a slow GET end with its connection, which was written at an instant and that no backend began.
func lostUnread(sent time.Duration) func(*scene) {
	return func(s *scene) {
		slow := func(x timeline.Sample) bool {
			return x.Stream.Flow().Op == flow.Slow && x.Start > 9*sec && x.Start < 9900*time.Millisecond
		}
		s.turnAway(slow, timeline.PhaseFirstByte)
		for i := range s.tl.Samples {
			if x := &s.tl.Samples[i]; slow(*x) {
				x.Outcome, x.First, x.Sent, x.End = timeline.Closed, 0, sent, del+20*time.Millisecond
				return
			}
		}
	}
}

// once builds a scene once, and gives each caller a copy of its own to spoil.
func once(build func() *scene) func() *scene {
	built := sync.OnceValue(func() *scene {
		s := build()
		// What is in order is soon sorted again.
		s.tl.Sort()
		return s
	})
	return func() *scene { return built().clone() }
}

func (s *scene) clone() *scene {
	c := *s
	c.tl.Samples, c.tl.Events, c.tl.Ledger = slices.Clone(s.tl.Samples), slices.Clone(s.tl.Events), slices.Clone(s.tl.Ledger)
	for i := range c.tl.Events {
		c.tl.Events[i].Attrs = maps.Clone(c.tl.Events[i].Attrs)
	}
	return &c
}

// minDrain is the minimum that a scene's instances are given.
const minDrain = 3 * sec

func (s *scene) run(k Check) spec.Finding {
	s.tl.Sort()
	c := NewCase(&s.tl, s.p)
	c.MinDrain, c.Deadline = minDrain, wireLasts
	if s.untilKilled {
		c.Deadline, c.UntilKilled = wireK-wireD, true
	}
	return k.Run(c)
}

func fail(x *timeline.Sample, o timeline.Outcome) {
	x.Outcome, x.Phase, x.Server = o, timeline.PhaseDial, ""
}

func TestChecks(t *testing.T) {
	between := func(x *timeline.Sample, from, to time.Duration) bool { return x.Start >= from && x.Start < to }
	setEndpoint := func(s *scene, at time.Duration, r, sv, term bool) {
		s.tl.Events = append(s.tl.Events, timeline.Event{At: at, Source: "test", Kind: timeline.Endpoint, Subject: uid, Name: "pod-a",
			Attrs: map[string]string{"service": "echo", "ready": fmt.Sprint(r), "serving": fmt.Sprint(sv), "terminating": fmt.Sprint(term)}})
	}
	// What a watch told of endpoints at an instant, it told when it had been away.
	awayBefore := func(s *scene, at, away time.Duration) {
		for i := range s.tl.Events {
			if e := &s.tl.Events[i]; e.At == at && (e.Kind == timeline.Endpoint || e.Kind == timeline.EndpointGone) {
				e.Err = away
			}
		}
	}
	closesAt := func(at time.Duration) func(*scene) {
		return func(s *scene) {
			s.each(func(x *timeline.Sample) {
				if directTo(*x, uid) && between(x, at, 30*sec) {
					fail(x, timeline.Refused)
				}
			})
		}
	}
	neverUnready := func(s *scene) {
		s.drop(func(e timeline.Event) bool {
			return e.Kind == timeline.EndpointGone || e.Kind == timeline.Endpoint && e.Attrs["serving"] == "false"
		})
	}
	oneFamilyStays := func(s *scene) {
		s.alsoIn("IPv6", func(e timeline.Event) bool { return e.Kind == timeline.Endpoint && e.Attrs["serving"] == "true" })
	}
	noSlice := func(s *scene) {
		s.drop(func(e timeline.Event) bool { return e.Kind == timeline.EndpointGone || e.Kind == timeline.Endpoint })
	}
	gap := func(s *scene) {
		s.tl.Events = append(s.tl.Events, timeline.Event{At: 11 * sec, Source: "test", Kind: timeline.WatchGap, Subject: "endpointslices", Attrs: map[string]string{"why": "410"}})
	}
	says := func(s *scene) { s.event(shut, timeline.DrainListenerClosed, uid, nil) }
	refuse := func(s *scene, from, to time.Duration) {
		s.each(func(x *timeline.Sample) {
			if onNewConns(*x) && directTo(*x, uid) && between(x, from, to) {
				fail(x, timeline.Refused)
			}
		})
	}
	tests := []struct {
		name  string
		check Check
		spoil func(*scene)
		want  spec.Verdict
	}{
		{"accept: healthy", AcceptsAfterDrain(), nil, spec.Pass},
		{"accept: one refused inside P", AcceptsAfterDrain(), func(s *scene) {
			done := false
			s.each(func(x *timeline.Sample) {
				if !done && onNewConns(*x) && directTo(*x, uid) && between(x, 12*sec, 13*sec) {
					fail(x, timeline.Refused)
					done = true
				}
			})
		}, spec.Fail},
		{"accept: refused after P is not this rule's", AcceptsAfterDrain(), func(s *scene) {
			s.each(func(x *timeline.Sample) {
				if onNewConns(*x) && directTo(*x, uid) && between(x, 14*sec, 20*sec) {
					fail(x, timeline.Refused)
				}
			})
		}, spec.Pass},
		{"accept: too little was sent", AcceptsAfterDrain(), func(s *scene) {
			n := 0
			s.tl.Samples = slices.DeleteFunc(s.tl.Samples, func(x timeline.Sample) bool {
				n++
				return onNewConns(x) && directTo(x, uid) && n%10 != 0
			})
		}, spec.Inconclusive},
		{"accept: saturated samples are no evidence", AcceptsAfterDrain(), func(s *scene) {
			s.each(func(x *timeline.Sample) { x.Saturated = true })
		}, spec.Inconclusive},
		{"accept: a saturated failure still counts", AcceptsAfterDrain(), func(s *scene) {
			s.each(func(x *timeline.Sample) {
				if onNewConns(*x) && directTo(*x, uid) && between(x, 11*sec, 12*sec) {
					x.Saturated = true
					fail(x, timeline.Timeout)
				}
			})
		}, spec.Fail},
		{"accept: nothing terminated", AcceptsAfterDrain(), func(s *scene) {
			s.drop(func(e timeline.Event) bool { return e.Kind == timeline.PodDeletion })
		}, spec.Inconclusive},
		{"accept: D is not known well", AcceptsAfterDrain(), func(s *scene) {
			s.drop(func(e timeline.Event) bool { return e.Kind == timeline.DrainStart })
		}, spec.Inconclusive},

		{"accept: a far client's dial that arrives at D", AcceptsAfterDrain(), func(s *scene) {
			s.farAway(del, timeline.Refused) // 10 ms before D, and it takes 20
		}, spec.Fail},
		{"accept: a far client's dial that arrives after P", AcceptsAfterDrain(), func(s *scene) {
			s.farAway(del+s.p, timeline.Refused)
		}, spec.Pass},
		{"accept: sent as D + P comes, and refused behind it", AcceptsAfterDrain(), func(s *scene) {
			refuse(s, del+s.p-30*time.Millisecond, 30*sec)
			s.each(func(x *timeline.Sample) {
				if x.Failed() {
					x.End = max(x.End, del+s.p+20*time.Millisecond)
				}
			})
		}, spec.Pass},
		{"accept: refused shortly before D + P", AcceptsAfterDrain(), func(s *scene) {
			refuse(s, del+s.p-30*time.Millisecond, 30*sec)
			s.each(func(x *timeline.Sample) {
				if x.Failed() {
					x.End = x.Start
				}
			})
		}, spec.Fail},
		{"accept: refused where D's uncertainty ends the window", AcceptsAfterDrain(), func(s *scene) {
			s.blurD(100 * time.Millisecond)
			s.each(func(x *timeline.Sample) {
				if onNewConns(*x) && directTo(*x, uid) && between(x, 12950*time.Millisecond, 14*sec) {
					fail(x, timeline.Refused)
				}
			})
		}, spec.Inconclusive},
		{"accept: what came behind D + P is no evidence", AcceptsAfterDrain(), func(s *scene) {
			s.blurD(500 * time.Millisecond)
			s.tl.Samples = slices.DeleteFunc(s.tl.Samples, func(x timeline.Sample) bool {
				in := between(&x, 10600*time.Millisecond, 11500*time.Millisecond) || between(&x, 13020*time.Millisecond, 13500*time.Millisecond)
				return onNewConns(x) && directTo(x, uid) && !in
			})
		}, spec.Inconclusive},
		{"accept: refused wherever D is", AcceptsAfterDrain(), func(s *scene) {
			s.drop(func(e timeline.Event) bool { return e.Kind == timeline.DrainStart })
			s.each(func(x *timeline.Sample) {
				if onNewConns(*x) && directTo(*x, uid) && between(x, 10200*time.Millisecond, 30*sec) {
					fail(x, timeline.Refused)
				}
			})
		}, spec.Fail},
		{"accept: refused later than an early D + P", AcceptsAfterDrain(), func(s *scene) {
			s.drop(func(e timeline.Event) bool { return e.Kind == timeline.DrainStart })
			s.each(func(x *timeline.Sample) {
				if onNewConns(*x) && directTo(*x, uid) && between(x, 12*sec, 30*sec) {
					fail(x, timeline.Refused)
				}
			})
		}, spec.Inconclusive},

		{"while the app does: healthy", AcceptsWhileAppDoes(), says, spec.Pass},
		{"while the app does: one refused inside P", AcceptsWhileAppDoes(), func(s *scene) { says(s); refuse(s, 12*sec, 12100*time.Millisecond) }, spec.Fail},
		{"while the app does: refused after P", AcceptsWhileAppDoes(), func(s *scene) { says(s); refuse(s, 14*sec, 30*sec) }, spec.Fail},
		{"while the app does: refused as the app's listener closes", AcceptsWhileAppDoes(), func(s *scene) {
			says(s)
			refuse(s, shut-atTheDoor+time.Millisecond, 30*sec)
		}, spec.Pass},
		{"while the app does: refused after P, and nobody says when the app closes", AcceptsWhileAppDoes(), func(s *scene) { refuse(s, 14*sec, 30*sec) }, spec.Pass},
		{"while the app does: one refused between the deletion and D", AcceptsWhileAppDoes(), func(s *scene) {
			says(s)
			s.shift(timeline.DrainStart, uid, del+500*time.Millisecond)
			refuse(s, del+100*time.Millisecond, del+110*time.Millisecond)
		}, spec.Fail},
		{"while the app does: one refused before the deletion", AcceptsWhileAppDoes(), func(s *scene) {
			says(s)
			refuse(s, del-100*time.Millisecond, del-90*time.Millisecond)
		}, spec.Pass},
		{"accept: one refused between the deletion and D", AcceptsAfterDrain(), func(s *scene) {
			s.shift(timeline.DrainStart, uid, del+500*time.Millisecond)
			refuse(s, del+100*time.Millisecond, del+110*time.Millisecond)
		}, spec.Pass},
		{"while the app does: nothing terminated", AcceptsWhileAppDoes(), func(s *scene) { s.drop(ofKind(timeline.PodDeletion)) }, spec.Inconclusive},
		{"while the app does: too little was sent", AcceptsWhileAppDoes(), func(s *scene) {
			says(s)
			s.tl.Samples = slices.DeleteFunc(s.tl.Samples, func(x timeline.Sample) bool {
				return onNewConns(x) && directTo(x, uid) && between(&x, del, 30*sec)
			})
		}, spec.Inconclusive},

		{"serving: healthy", ServesWhileAccepting(), nil, spec.Pass},
		{"serving: D is not known well", ServesWhileAccepting(), func(s *scene) {
			s.drop(func(e timeline.Event) bool { return e.Kind == timeline.DrainStart })
		}, spec.Inconclusive},
		{"serving: cut at D", ServesWhileAccepting(), func(s *scene) { setEndpoint(s, del+900*time.Millisecond, false, false, true) }, spec.Fail},
		{"serving: cut at D in one address family", ServesWhileAccepting(), func(s *scene) {
			s.alsoIn("IPv6", func(e timeline.Event) bool { return e.Kind == timeline.Endpoint })
			setEndpoint(s, del+900*time.Millisecond, false, false, true)
		}, spec.Fail},
		{"serving: cut behind D + P, says a watch that had been away", ServesWhileAccepting(), func(s *scene) {
			setEndpoint(s, del+s.p+200*time.Millisecond, false, false, true)
			awayBefore(s, del+s.p+200*time.Millisecond, 2*sec)
		}, spec.Inconclusive},
		{"serving: cut at D, says a watch that had been away", ServesWhileAccepting(), func(s *scene) {
			setEndpoint(s, del+900*time.Millisecond, false, false, true)
			awayBefore(s, del+900*time.Millisecond, 600*time.Millisecond)
		}, spec.Fail},
		{"serving: cut for a second only", ServesWhileAccepting(), func(s *scene) {
			setEndpoint(s, del+900*time.Millisecond, false, false, true)
			setEndpoint(s, del+1900*time.Millisecond, false, true, true)
		}, spec.Fail},
		{"serving: cut within the uncertainty of D", ServesWhileAccepting(), func(s *scene) {
			s.blurD(200 * time.Millisecond)
			setEndpoint(s, del-100*time.Millisecond, false, false, true)
		}, spec.Fail},
		{"serving: cut within the uncertainty of D + P", ServesWhileAccepting(), func(s *scene) {
			s.blurD(200 * time.Millisecond)
			setEndpoint(s, del+s.p+100*time.Millisecond, false, false, true)
		}, spec.Inconclusive},
		{"serving: the endpoint is gone while the pod accepts", ServesWhileAccepting(), func(s *scene) {
			for i := range s.tl.Events {
				if e := &s.tl.Events[i]; e.Kind == timeline.EndpointGone {
					e.At = del + sec
				}
			}
		}, spec.Fail},
		// What a pod says after D + P, or when it accepts no more, is not this rule's.
		{"serving: cut after P", ServesWhileAccepting(), func(s *scene) { setEndpoint(s, del+4*sec, false, false, true) }, spec.Pass},
		{"serving: the listener goes first", ServesWhileAccepting(), closesAt(18 * sec), spec.Pass},
		{"serving: both go within P, the listener first", ServesWhileAccepting(), func(s *scene) {
			closesAt(del + 2*sec)(s)
			setEndpoint(s, del+2500*time.Millisecond, false, false, true)
		}, spec.Pass},
		{"serving: never seen false", ServesWhileAccepting(), neverUnready, spec.Pass},
		{"serving: one address family never stops", ServesWhileAccepting(), oneFamilyStays, spec.Pass},
		{"serving: of a listener that goes at D nothing is shown", ServesWhileAccepting(), func(s *scene) {
			closesAt(del)(s)
			setEndpoint(s, del+900*time.Millisecond, false, false, true)
		}, spec.Inconclusive},
		{"serving: no slice seen", ServesWhileAccepting(), noSlice, spec.Inconclusive},
		{"serving: a gap in the watch", ServesWhileAccepting(), gap, spec.Inconclusive},

		{"unready: healthy", UnreadyBeforeClosed(), nil, spec.Pass},
		{"unready: cut at D", UnreadyBeforeClosed(), func(s *scene) { setEndpoint(s, del+900*time.Millisecond, false, false, true) }, spec.Pass},
		{"unready: the listener goes first", UnreadyBeforeClosed(), closesAt(18 * sec), spec.Fail},
		{"unready: the listener goes first, says a watch that had been away", UnreadyBeforeClosed(), func(s *scene) {
			closesAt(18 * sec)(s)
			for _, e := range s.tl.Events {
				awayBefore(s, e.At, 5*sec)
			}
		}, spec.Inconclusive},
		{"unready: turns all away by 503, behind a listener that stands", UnreadyBeforeClosed(), func(s *scene) {
			turnsAway(s, del, shut)
			setEndpoint(s, del+900*time.Millisecond, false, false, true)
		}, spec.Pass},
		{"unready: the listener goes at D", UnreadyBeforeClosed(), closesAt(del), spec.Fail},
		{"unready: never seen false", UnreadyBeforeClosed(), neverUnready, spec.Fail},
		{"unready: true again when the listener goes", UnreadyBeforeClosed(), func(s *scene) { setEndpoint(s, shut-sec, false, true, true) }, spec.Fail},
		{"unready: one address family never stops", UnreadyBeforeClosed(), oneFamilyStays, spec.Fail},
		{"unready: both address families", UnreadyBeforeClosed(), func(s *scene) {
			s.alsoIn("IPv6", func(e timeline.Event) bool {
				return e.Kind == timeline.Endpoint || e.Kind == timeline.EndpointGone
			})
		}, spec.Pass},
		{"unready: one refusal is not the listener's end", UnreadyBeforeClosed(), func(s *scene) {
			s.each(func(x *timeline.Sample) {
				if onNewConns(*x) && directTo(*x, uid) && between(x, 12*sec, 12*sec+30*time.Millisecond) {
					fail(x, timeline.Refused)
				}
			})
		}, spec.Pass},
		{"unready: too few dials", UnreadyBeforeClosed(), func(s *scene) {
			s.each(func(x *timeline.Sample) { x.Saturated = true })
		}, spec.Inconclusive},
		{"unready: nobody saw the listener go", UnreadyBeforeClosed(), func(s *scene) {
			s.each(func(x *timeline.Sample) {
				if directTo(*x, uid) && x.Failed() {
					x.Outcome, x.Phase, x.Server = timeline.OK, "", uid
				}
			})
			s.drop(func(e timeline.Event) bool { return e.Kind == timeline.ProcExit || e.Kind == timeline.PodGone })
		}, spec.Inconclusive},
		{"unready: no slice seen", UnreadyBeforeClosed(), noSlice, spec.Inconclusive},
		{"unready: a gap in the watch", UnreadyBeforeClosed(), gap, spec.Inconclusive},
		{"unready: the listener goes first, as far as a watch with a gap shows", UnreadyBeforeClosed(), func(s *scene) {
			closesAt(18 * sec)(s)
			gap(s)
		}, spec.Inconclusive},

		{"inflight: healthy", CompletesInflight(), nil, spec.Pass},
		{"inflight: one cut", CompletesInflight(), func(s *scene) {
			done := false
			s.each(func(x *timeline.Sample) {
				if !done && slowOp(*x) && between(x, 9*sec, 10*sec) {
					x.Outcome, x.Phase = timeline.Truncated, timeline.PhaseBody
					done = true
				}
			})
		}, spec.Fail},
		{"inflight: one turned away", CompletesInflight(), func(s *scene) {
			s.turnAway(func(x timeline.Sample) bool { return slowOp(x) && between(&x, 9*sec, 10*sec) }, timeline.PhaseFirstByte)
		}, spec.Pass},
		{"inflight: one turned away, and begun", CompletesInflight(), func(s *scene) {
			s.disown(func(x timeline.Sample) bool { return slowOp(x) && between(&x, 9*sec, 10*sec) }, timeline.PhaseWrite)
		}, spec.Fail},
		{"inflight: one turned away, and the ledger has a hole", CompletesInflight(), func(s *scene) {
			s.turnAway(func(x timeline.Sample) bool { return slowOp(x) && between(&x, 9*sec, 10*sec) }, timeline.PhaseFirstByte)
			s.tl.Ledger = s.tl.Ledger[10:]
		}, spec.Inconclusive},
		{"inflight: one turned away in the middle of its answer", CompletesInflight(), func(s *scene) {
			s.turnAway(func(x timeline.Sample) bool { return slowOp(x) && between(&x, 9*sec, 10*sec) }, timeline.PhaseBody)
		}, spec.Fail},
		{"inflight: one that was begun before D, and written behind it", CompletesInflight(), lostUnread(del + 12*time.Millisecond), spec.Pass},
		{"inflight: one that was written just before D, and nobody says that it was begun", CompletesInflight(), lostUnread(del - 5*time.Millisecond), spec.Inconclusive},
		{"inflight: one that was written long before D, and nobody says that it was begun", CompletesInflight(), lostUnread(del - 100*time.Millisecond), spec.Fail},
		{"inflight: all went with the process, at a D that is known no better", CompletesInflight(), func(s *scene) {
			const went = del + 300*time.Millisecond
			s.blurD(sec / 2)
			for i, e := range s.tl.Events {
				if e.Kind == timeline.ProcExit {
					s.tl.Events[i].At = went
				}
			}
			s.each(func(x *timeline.Sample) {
				if slowOp(*x) && x.Start < went && x.End > went {
					x.Outcome, x.Phase, x.End = timeline.Reset, timeline.PhaseBody, went
				}
			})
		}, spec.Fail},
		{"inflight: one broke within what is known of D, and the process stayed", CompletesInflight(), func(s *scene) {
			s.blurD(sec / 2)
			done := false
			s.each(func(x *timeline.Sample) {
				if !done && slowOp(*x) && between(x, 8500*time.Millisecond, 9*sec) {
					x.Outcome, x.Phase, x.End = timeline.Reset, timeline.PhaseBody, del+300*time.Millisecond
					done = true
				}
			})
		}, spec.Inconclusive},
		{"inflight: cut after it was over", CompletesInflight(), func(s *scene) {
			s.each(func(x *timeline.Sample) {
				if slowOp(*x) && between(x, 11*sec, 15*sec) {
					x.Outcome = timeline.Truncated
				}
			})
		}, spec.Pass},
		{"inflight: the ledger's end is missing", CompletesInflight(), func(s *scene) { s.tl.Ledger = nil }, spec.Inconclusive},
		{"inflight: nothing slow", CompletesInflight(), func(s *scene) {
			s.tl.Samples = slices.DeleteFunc(s.tl.Samples, slowOp)
		}, spec.Inconclusive},

		{"conditions: healthy", LegalConditions(), nil, spec.Pass},
		{"conditions: ready while terminating", LegalConditions(), func(s *scene) { setEndpoint(s, 12*sec, true, true, true) }, spec.Fail},
		{"conditions: terminating goes back", LegalConditions(), func(s *scene) { setEndpoint(s, 12*sec, false, true, false) }, spec.Fail},
		{"conditions: serving flips while terminating", LegalConditions(), func(s *scene) {
			setEndpoint(s, 12*sec, false, false, true)
			setEndpoint(s, 13*sec, false, true, true)
		}, spec.Pass},
		{"conditions: never terminating", LegalConditions(), func(s *scene) {
			s.drop(func(e timeline.Event) bool { return e.Kind == timeline.Endpoint && e.Attrs["terminating"] == "true" })
		}, spec.Fail},
		{"conditions: a gap in the watch", LegalConditions(), func(s *scene) {
			s.tl.Events = append(s.tl.Events, timeline.Event{At: 11 * sec, Source: "test", Kind: timeline.WatchGap, Subject: "endpointslices", Attrs: map[string]string{"why": "410"}})
		}, spec.Inconclusive},

		{"prefers: healthy", PrefersReady(), nil, spec.Pass},
		{"prefers: one new connection after P", PrefersReady(), func(s *scene) {
			done := false
			s.each(func(x *timeline.Sample) {
				if !done && x.Stream == flow.Named("service/http1/new/get") && between(x, 14*sec, 15*sec) {
					x.Server = uid
					done = true
				}
			})
		}, spec.Fail},
		{"prefers: reused connections may stay", PrefersReady(), func(s *scene) {
			s.each(func(x *timeline.Sample) {
				if x.Stream == flow.Named("service/http1/reused/get") {
					x.Server = uid
				}
			})
		}, spec.Pass},
		{"prefers: a lost new connection after P", PrefersReady(), func(s *scene) {
			s.tl.Ledger = nil // no backend had it
			s.each(func(x *timeline.Sample) {
				if x.Stream == flow.Named("service/http1/new/get") && between(x, 15*sec, 15*sec+50*time.Millisecond) {
					fail(x, timeline.Timeout)
				}
			})
		}, spec.Fail},
		{"prefers: what another pod broke after P", PrefersReady(), func(s *scene) {
			s.each(func(x *timeline.Sample) {
				if throughService(*x) && between(x, 15*sec, 15*sec+30*time.Millisecond) {
					x.Outcome, x.Phase, x.Server = timeline.Truncated, timeline.PhaseBody, "uid-b"
				}
			})
		}, spec.Pass},
		{"inflight: a client that stood still itself", CompletesInflight(), func(s *scene) {
			s.each(func(x *timeline.Sample) {
				x.Saturated = between(x, 9*sec, 14*sec)
				if slowOp(*x) && between(x, 9*sec, 10*sec) {
					x.Outcome, x.Phase = timeline.Timeout, timeline.PhaseFirstByte
				}
			})
		}, spec.Inconclusive},
		{"prefers: the target died too soon", PrefersReady(), func(s *scene) {
			s.each(func(x *timeline.Sample) {
				if directTo(*x, uid) && between(x, 16*sec, 30*sec) {
					fail(x, timeline.Refused)
				}
			})
		}, spec.Inconclusive},
		{"prefers: a liar that says ready to the end", PrefersReady(), func(s *scene) {
			s.drop(func(e timeline.Event) bool { return e.Kind == timeline.Endpoint && e.Attrs["terminating"] == "true" })
			s.each(func(x *timeline.Sample) {
				if x.Stream == flow.Named("service/http1/new/get") {
					x.Server = uid
				}
			})
		}, spec.Fail},

		{"abrupt: nobody was killed", SeesAbruptDeath(), nil, spec.Fail},
		{"abrupt: all saw it", SeesAbruptDeath(), func(s *scene) { killAll(s, nil) }, spec.Pass},
		{"abrupt: the slow requests of the same client saw it", SeesAbruptDeath(), func(s *scene) {
			s.slow("service/http1/reused/slow/2s", 6)
			killAll(s, func(x *timeline.Sample) bool { return x.Stream == flow.Named("service/http1/reused/get") })
		}, spec.Pass},
		{"abrupt: neither saw it", SeesAbruptDeath(), func(s *scene) {
			s.slow("service/http1/reused/slow/2s", 6)
			killAll(s, func(x *timeline.Sample) bool { return strings.HasPrefix(x.Stream.String(), "service/http1/reused") })
		}, spec.Fail},
		{"abrupt: one stream is blind", SeesAbruptDeath(), func(s *scene) {
			killAll(s, func(x *timeline.Sample) bool { return x.Stream == flow.Named("service/http1/reused/get") })
		}, spec.Fail},
	}
	build := once(healthy)
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := build()
			if tc.spoil != nil {
				tc.spoil(s)
			}
			built.Holds(t, s.run(tc.check), tc.want)
		})
	}
}

// killAll makes a kill of the pod at 10 s that every stream sees, but for
// those that are blind.
func killAll(s *scene, blind func(*timeline.Sample) bool) {
	s.tl.Events = append(s.tl.Events, timeline.Event{At: del, Source: "runner", Kind: timeline.Disruption, Subject: uid, Attrs: map[string]string{"what": "kill", "signal": "KILL"}})
	s.tl.Events = append(s.tl.Events, timeline.Event{At: del + 50*time.Millisecond, Source: "witness", Kind: timeline.ProcExit, Subject: uid})
	s.each(func(x *timeline.Sample) {
		if x.End >= del && x.End <= del+200*time.Millisecond && (blind == nil || !blind(x)) {
			fail(x, timeline.Reset)
		}
	})
}

func TestZeroFailedNeedsThirtyThousand(t *testing.T) {
	if f := healthy().run(ZeroFailed()); f.Verdict != spec.Inconclusive {
		t.Fatalf("verdict %v with too few attempts", f.Verdict)
	}
	s := healthy()
	s.stream("service/h2c/new/get", 2000, func(x *timeline.Sample) { x.Server = "uid-b" })
	if f := s.run(ZeroFailed()); f.Verdict != spec.Pass {
		t.Fatalf("verdict %v: %s", f.Verdict, f.Actual)
	}
	s.each(func(x *timeline.Sample) {
		if x.Stream == flow.Named("service/http1/new/get") && x.Start > 24*sec && x.Start < 24*sec+20*time.Millisecond {
			fail(x, timeline.NoRoute)
		}
	})
	f := s.run(ZeroFailed())
	if f.Verdict != spec.Fail || f.Bounds.Affected != 1 || f.Bounds.Lost == 0 {
		t.Fatalf("verdict %v, bounds %+v", f.Verdict, f.Bounds)
	}
}

// What was in flight when the disruption began and is lost then is lost, before D too;
// what had ended by then is another rule's.
func TestZeroFailedCountsWhatWasInFlight(t *testing.T) {
	for _, tc := range []struct {
		start, end time.Duration
		want       spec.Verdict
	}{
		{del - 100*time.Millisecond, del + 300*time.Millisecond, spec.Fail},
		{del - 100*time.Millisecond, del + 5*time.Millisecond, spec.Fail},
		{del + time.Millisecond, del + 5*time.Millisecond, spec.Fail},
		{del - 100*time.Millisecond, del - time.Millisecond, spec.Pass},
	} {
		s := healthy()
		s.stream("service/h2c/new/get", 2000, func(x *timeline.Sample) { x.Server = "uid-b" })
		lost := timeline.Sample{Stream: flow.Named("service/http1/new/get"), ID: "lost", Nth: 1, Due: tc.start, Start: tc.start, End: tc.end}
		fail(&lost, timeline.Reset)
		s.add(lost)
		if f := s.run(ZeroFailed()); f.Verdict != tc.want {
			t.Errorf("from %s to %s: %v (%s), want %v", tc.start, tc.end, f.Verdict, f.Actual, tc.want)
		}
	}
}

func TestNothingTwice(t *testing.T) {
	big := once(crowded)
	if f := big().run(NothingTwice()); f.Verdict != spec.Pass {
		t.Fatalf("verdict %v: %s", f.Verdict, f.Actual)
	}
	s := big()
	s.tl.Ledger = append(s.tl.Ledger, s.tl.Ledger[0])
	if f := s.run(NothingTwice()); f.Verdict != spec.Fail {
		t.Fatalf("a request begun twice: %v", f.Verdict)
	}
	s = big()
	s.tl.Ledger = s.tl.Ledger[:len(s.tl.Ledger)-3]
	if f := s.run(NothingTwice()); f.Verdict != spec.Inconclusive {
		t.Fatalf("a missing tail: %v", f.Verdict)
	}
	s = big()
	s.tl.Ledger = append(s.tl.Ledger, timeline.Entry{ID: "nobody", Step: timeline.Begin})
	if f := s.run(NothingTwice()); f.Verdict != spec.Inconclusive {
		t.Fatalf("an ID that nobody sent: %v", f.Verdict)
	}
}
