// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// life is one pod that is dialled directly, drains at d, closes its listener
// at d + shut and is gone at d + exit, with the exit code.
type life struct {
	uid           string
	d, shut, exit time.Duration
	code          int
}

// dialled is how long before its D a life's address is dialled.
const dialled = 8 * sec

// newLives is a scene of some lives that ends 10 s after the last exit.
func newLives(lives ...life) *scene {
	s := &scene{p: 3 * sec}
	end := 20 * sec
	for _, l := range lives {
		end = max(end, l.d+l.exit+10*sec)
	}
	s.event(5*sec, timeline.Marker, "", map[string]string{"what": MarkSteady})
	s.event(end, timeline.Marker, "", map[string]string{"what": MarkTail})
	for _, l := range lives {
		gone := l.d + l.exit
		s.event(sec, timeline.Endpoint, l.uid, map[string]string{"service": "echo", "ready": "true", "serving": "true", "terminating": "false"})
		s.event(l.d, timeline.DrainStart, l.uid, map[string]string{"trigger": "SIGTERM"})
		s.event(l.d+20*time.Millisecond, timeline.Endpoint, l.uid, map[string]string{"service": "echo", "ready": "false", "serving": "true", "terminating": "true"})
		s.event(gone, timeline.ProcExit, l.uid, nil)
		s.event(gone+200*time.Millisecond, timeline.PodContainer, l.uid, map[string]string{"state": "terminated", "exitCode": fmt.Sprint(l.code)})
		s.event(gone+300*time.Millisecond, timeline.EndpointGone, l.uid, map[string]string{"service": "echo"})
		for name, rate := range map[string]int{"direct/http1/new/get": 25, "direct/http1/reused/slow/2s": 8, "direct/h2c/reused/slow/2s": 8} {
			s.flow(name+"@"+l.uid, l, rate, l.d-dialled, gone+7*sec)
		}
	}
	return s
}

// served adds a Service that loses nothing, from 10 s on.
func (s *scene) served(until time.Duration) *scene {
	for _, conns := range []string{"new", "reused"} {
		s.flow("service/http1/"+conns+"/get", life{uid: "uid-other", d: until, exit: sec}, 25, 10*sec, until)
	}
	return s
}

// deleted says of each life that it was deleted at its D, with a grace period.
func (s *scene) deleted(grace time.Duration, lives ...life) *scene {
	for _, l := range lives {
		s.event(l.d-10*time.Millisecond, timeline.Disruption, l.uid, map[string]string{"what": "delete"})
		s.event(l.d, timeline.PodDeletion, l.uid, map[string]string{"grace": fmt.Sprint(int(grace / sec))})
		s.event(l.d+l.exit+500*time.Millisecond, timeline.PodGone, l.uid, nil)
	}
	return s
}

// event is saw, under the name that the tables of other files know too.
func (s *scene) event(at time.Duration, kind timeline.EventKind, subject string, attrs map[string]string) {
	s.saw(at, kind, subject, attrs)
}

// flow is a stream to a life: what is sent after its listener went is refused,
// and what is in flight at its exit is reset.
func (s *scene) flow(name string, l life, rate int, from, to time.Duration) {
	step := sec / time.Duration(rate)
	for at := from; at < to; at += step {
		x := timeline.Sample{
			Stream: flow.Named(name), ID: fmt.Sprintf("%s#%d", name, at), Nth: 1, Due: at, Start: at, Dial: at + 1, End: at + 2*time.Millisecond,
			Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: l.uid,
		}
		if !onNewConns(x) {
			x.Nth = 2
		}
		x.End += takes(x)
		switch {
		case l.shut != 0 && at >= l.d+l.shut:
			x.Nth, x.End = 1, at+time.Millisecond
			fail(&x, timeline.Refused)
		case x.End > l.d+l.exit:
			x.End = l.d + l.exit + time.Millisecond
			x.Outcome, x.Phase = timeline.Reset, timeline.PhaseBody
		}
		s.add(x)
	}
}

// unbegun has a slow request of uid-b sent and broken at instants, and no backend say that it began it.
func unbegun(sent, broke time.Duration) func(*scene) {
	return func(s *scene) {
		slow := func(x timeline.Sample) bool {
			return x.Stream.String() == "direct/h2c/reused/slow/2s@uid-b" && x.Start >= 54800*time.Millisecond
		}
		s.turnAway(slow, timeline.PhaseFirstByte)
		for i := range s.tl.Samples {
			if x := &s.tl.Samples[i]; slow(*x) {
				x.Outcome, x.First, x.Due, x.Start, x.Sent, x.End = timeline.Closed, 0, sent, sent, sent, broke
				return
			}
		}
	}
}

func (s *scene) setAttr(kind timeline.EventKind, key, value string) {
	s.setAttrOf("", kind, key, value)
}

// setAttrOf is setAttr for the events about one subject.
func (s *scene) setAttrOf(subject string, kind timeline.EventKind, key, value string) {
	for _, e := range s.tl.Events {
		if e.Kind == kind && e.Attrs != nil && (subject == "" || e.Subject == subject) {
			e.Attrs[key] = value
		}
	}
}

// backAgain are the endpoints of inPlace's uid-b that are ready after its
// restart.
func backAgain(e timeline.Event) bool {
	return e.Kind == timeline.Endpoint && e.Subject == "uid-b" && e.Attrs["ready"] == "true" && e.At > 50*sec
}

func (s *scene) move(by time.Duration, which func(timeline.Event) bool) {
	for i := range s.tl.Events {
		if which(s.tl.Events[i]) {
			s.tl.Events[i].At += by
		}
	}
}

func ofKind(kinds ...timeline.EventKind) func(timeline.Event) bool {
	return func(e timeline.Event) bool { return slices.Contains(kinds, e.Kind) }
}

func disruptionOf(what string) func(timeline.Event) bool {
	return func(e timeline.Event) bool { return e.Kind == timeline.Disruption && e.Attrs["what"] == what }
}

// spoil breaks the first sample that is asked for.
func (s *scene) spoil(which func(timeline.Sample) bool, o timeline.Outcome, end time.Duration) {
	for i := range s.tl.Samples {
		x := &s.tl.Samples[i]
		if which(*x) {
			x.Outcome, x.Phase = o, timeline.PhaseBody
			if end != 0 {
				x.End = end
			}
			return
		}
	}
	panic("nothing to spoil")
}

func sent(stream, uid string, from, to time.Duration) func(timeline.Sample) bool {
	return func(x timeline.Sample) bool {
		return strings.HasPrefix(x.Stream.String(), stream) && (uid == "" || strings.HasSuffix(x.Stream.String(), "@"+uid)) && x.Start >= from && x.Start < to
	}
}

func (s *scene) thin(which func(timeline.Sample) bool) {
	n := 0
	s.tl.Samples = slices.DeleteFunc(s.tl.Samples, func(x timeline.Sample) bool {
		n++
		return which(x) && n%10 != 0
	})
}

func three(shut, exit time.Duration, code int) []life {
	return []life{{"uid-a", 20 * sec, shut, exit, code}, {"uid-b", 50 * sec, shut, exit, code}, {"uid-c", 80 * sec, shut, exit, code}}
}

// hooked are three pods whose hook takes 4 s and fails, and begins the drain.
func hooked(exit time.Duration, code int) *scene {
	lives := three(6*sec, exit, code)
	s := newLives(lives...).deleted(20*sec, lives...)
	s.setAttr(timeline.DrainStart, "trigger", "preStop")
	for _, l := range lives {
		s.event(l.d-time.Millisecond, timeline.DrainHook, l.uid, map[string]string{"takes": "4s", "fails": "true"})
		s.event(l.d+4*sec+5*time.Millisecond, timeline.ClusterEvent, l.uid, map[string]string{"reason": "FailedPreStopHook", "message": "PreStopHook failed"})
		s.event(l.d+4*sec+10*time.Millisecond, timeline.DrainAgain, l.uid, map[string]string{"trigger": "SIGTERM"})
	}
	return s
}

// exhausted is one pod of three that is killed at K, 12 s after its deletion,
// and stops accepting 6 s after it.
func exhausted(exit time.Duration) *scene { return exhaustedOf(6*sec, exit) }

func exhaustedOf(shut, exit time.Duration) *scene {
	l := life{"uid-a", 40 * sec, shut, exit, 137}
	other := life{uid: "uid-b", d: 100 * sec, exit: 100 * sec}
	s := newLives(l).deleted(12*sec, l).served(60 * sec)
	for _, proto := range []string{"http1", "h2c"} {
		for _, to := range []life{l, other} {
			s.flow("direct/"+proto+"/reused/slow/20s@"+to.uid, to, 1, 2*sec, 60*sec)
		}
	}
	return s
}

// twice is three pods that get a second SIGTERM 2 s after D.
func twice() *scene {
	lives := three(12*sec, 15*sec, 0)
	s := newLives(lives...).deleted(40*sec, lives...)
	for _, l := range lives {
		s.event(l.d+2*sec, timeline.Disruption, l.uid, map[string]string{"what": "sigterm-again", "took": "30ms"})
		s.event(l.d+2*sec+20*time.Millisecond, timeline.DrainAgain, l.uid, map[string]string{"trigger": "SIGTERM"})
	}
	return s
}

// twiceButLast is twice where the last pod gets one SIGTERM only, of a system that does by
// itself what it does some seconds after D: its listener closes then, and `serving` goes
// false, if at all.
func twiceButLast(shut time.Duration, unserving map[string]time.Duration) func() *scene {
	return func() *scene {
		lives := three(shut, 15*sec, 0)
		s := newLives(lives...).deleted(40*sec, lives...)
		for _, l := range lives {
			if l.uid != "uid-c" {
				s.event(l.d+2*sec, timeline.Disruption, l.uid, map[string]string{"what": "sigterm-again", "took": "30ms"})
			}
			if at := unserving[l.uid]; at > 0 {
				s.event(l.d+at, timeline.Endpoint, l.uid, map[string]string{"service": "echo", "ready": "false", "serving": "false", "terminating": "true"})
			}
		}
		return s
	}
}

// everyWay is five pods, each ended by another way.
func everyWay() *scene {
	var lives []life
	for i := range ways {
		lives = append(lives, life{fmt.Sprintf("uid-%d", i), 20*sec + time.Duration(i)*20*sec, 6 * sec, 8 * sec, 0})
	}
	s := newLives(lives...).deleted(20*sec, lives...).served(118 * sec)
	s.drop(func(e timeline.Event) bool { return e.Kind == timeline.Disruption })
	what := func(at time.Duration, subject string, attrs map[string]string) {
		s.event(at, timeline.Disruption, subject, attrs)
	}
	before := func(i int) time.Duration { return lives[i].d - 50*time.Millisecond }
	what(before(0), "uid-0", map[string]string{"what": "delete"})
	what(before(0)+100*time.Millisecond, "uid-1", map[string]string{"what": "evict", "allowed": "0", "refused": "true"})
	what(before(1), "uid-1", map[string]string{"what": "evict", "allowed": "1"})
	what(before(2), "n1", map[string]string{"what": "drain"})
	what(before(2)+10*time.Millisecond, "uid-2", map[string]string{"what": "evict", "allowed": "1"})
	what(before(3), "uid-deployment", map[string]string{"what": "scale-down"})
	what(before(4), "uid-deployment", map[string]string{"what": "rollout"})
	return s
}

// inPlace is three pods that are called to drain and come back in place, down
// for a second.
func inPlace() *scene {
	lives := three(7*sec, 9*sec, 0)
	s := newLives(lives...)
	s.drop(ofKind(timeline.Endpoint, timeline.EndpointGone))
	for _, l := range lives {
		gone := l.d + l.exit
		s.event(l.d-20*time.Millisecond, timeline.Disruption, l.uid, map[string]string{"what": "drain-call", "took": "15ms"})
		s.event(l.d+6*sec, timeline.PodReady, l.uid, map[string]string{"ready": "false"})
		s.event(gone+time.Second, timeline.PodContainer, l.uid, map[string]string{"state": "running"})
		s.event(gone+time.Second, timeline.ClusterEvent, l.uid, map[string]string{"reason": "Started", "message": "Container started"})
		s.event(gone+2*sec, timeline.PodReady, l.uid, map[string]string{"ready": "true"})
		for at, ready := range map[time.Duration]string{sec: "true", l.d + 6050*time.Millisecond: "false", gone + 2050*time.Millisecond: "true"} {
			s.event(at, timeline.Endpoint, l.uid, map[string]string{"service": "echo", "ready": ready, "serving": ready, "terminating": "false"})
		}
	}
	back := map[string]time.Duration{}
	for _, l := range lives {
		back["@"+l.uid] = l.d + l.exit + sec
	}
	s.each(func(x *timeline.Sample) {
		for suffix, at := range back {
			if strings.HasSuffix(x.Stream.String(), suffix) && x.Start >= at {
				x.Outcome, x.Phase, x.End = timeline.OK, timeline.PhaseDone, x.Start+takes(*x)+time.Millisecond
			}
		}
	})
	return s
}

// shutNode is two pods whose node shuts down, and which nobody deletes.
func shutNode() *scene { return shutNodeOf(12*sec, 15*sec, 0) }

func shutNodeOf(shut, exit time.Duration, code int) *scene {
	lives := []life{{"uid-a", 20 * sec, shut, exit, code}, {"uid-b", 20*sec + 100*time.Millisecond, shut, exit, code}}
	s := newLives(lives...)
	for i := range s.tl.Events {
		s.tl.Events[i].Node = "n1"
	}
	for _, l := range lives {
		s.event(20*sec-200*time.Millisecond, timeline.Disruption, l.uid, map[string]string{"what": "node-shutdown", "node": "n1"})
	}
	return s
}

func TestLifecycleChecks(t *testing.T) {
	const prestopD, lateD = 20 * sec, 40 * sec
	hooks := once(func() *scene { return hooked(8500*time.Millisecond, 0) })
	atK := once(func() *scene { return exhausted(12100 * time.Millisecond) })
	twice, everyWay, inPlace, shutNode := once(twice), once(everyWay), once(inPlace), once(shutNode)
	tests := []struct {
		name  string
		scene func() *scene
		check Check
		spoil func(*scene)
		want  spec.Verdict
	}{
		{"hook: healthy", hooks, HookEndsInSigterm(), nil, spec.Pass},
		{"hook: called late", hooks, HookEndsInSigterm(), func(s *scene) {
			s.move(2500*time.Millisecond, ofKind(timeline.DrainHook, timeline.DrainAgain))
		}, spec.Fail},
		{"hook: SIGTERM before its end", hooks, HookEndsInSigterm(), func(s *scene) {
			s.move(-sec, ofKind(timeline.DrainAgain))
		}, spec.Fail},
		{"hook: SIGTERM long after its end", hooks, HookEndsInSigterm(), func(s *scene) {
			s.move(3*sec, ofKind(timeline.DrainAgain))
		}, spec.Fail},
		{"hook: the kubelet does not call it a failure", hooks, HookEndsInSigterm(), func(s *scene) {
			s.drop(ofKind(timeline.ClusterEvent))
		}, spec.Inconclusive},
		{"hook: no SIGTERM behind one that failed", hooks, HookEndsInSigterm(), func(s *scene) {
			s.drop(ofKind(timeline.DrainAgain))
		}, spec.Fail},
		{"hook: SIGTERM is the drain's own trigger", hooks, HookEndsInSigterm(), func(s *scene) {
			s.drop(ofKind(timeline.DrainAgain))
			s.setAttr(timeline.DrainStart, "trigger", "SIGTERM")
			s.move(4*sec+10*time.Millisecond, ofKind(timeline.DrainStart))
		}, spec.Pass},
		{"hook: never called", hooks, HookEndsInSigterm(), func(s *scene) {
			s.drop(ofKind(timeline.DrainHook))
		}, spec.Fail},
		{"hook: it did not fail", hooks, HookEndsInSigterm(), func(s *scene) {
			s.setAttr(timeline.DrainHook, "fails", "false")
		}, spec.Inconclusive},
		{"hook: the app says nothing", hooks, HookEndsInSigterm(), func(s *scene) {
			s.drop(ofKind(timeline.DrainHook, timeline.DrainStart, timeline.DrainAgain))
		}, spec.Inconclusive},

		{"hook accepts: healthy", hooks, AcceptsThroughHook(), nil, spec.Pass},
		{"hook accepts: one refused before the hook's end", hooks, AcceptsThroughHook(), func(s *scene) {
			s.spoil(sent("direct/http1/new", "uid-b", 53500*time.Millisecond, 54*sec), timeline.Refused, 0)
		}, spec.Fail},
		{"hook accepts: left at the SIGTERM behind it", func() *scene { return hooked(4100*time.Millisecond, 0) }, AcceptsThroughHook(), func(s *scene) {
			s.drop(ofKind(timeline.DrainAgain))
			s.move(4*sec, ofKind(timeline.DrainStart))
			s.each(func(x *timeline.Sample) {
				if sent("direct/http1/new", "uid-a", prestopD+4100*time.Millisecond, 30*sec)(*x) {
					fail(x, timeline.Refused)
				}
			})
		}, spec.Fail},
		{"hook accepts: too little was sent", hooks, AcceptsThroughHook(), func(s *scene) {
			s.thin(sent("direct/http1/new", "uid-a", 0, 200*sec))
		}, spec.Inconclusive},
		{"hook accepts: no hook", hooks, AcceptsThroughHook(), func(s *scene) {
			s.drop(ofKind(timeline.DrainHook))
		}, spec.Inconclusive},

		{"before K: healthy", hooks, FinishesBeforeKill(), nil, spec.Pass},
		{"before K: killed", func() *scene { return hooked(20100*time.Millisecond, 137) }, FinishesBeforeKill(), nil, spec.Fail},
		{"before K: left at K by itself", func() *scene { return hooked(20100*time.Millisecond, 0) }, FinishesBeforeKill(), nil, spec.Fail},
		{"before K: left with an error", func() *scene { return hooked(8500*time.Millisecond, 1) }, FinishesBeforeKill(), nil, spec.Fail},
		{"before K: left as a JVM does", func() *scene { return hooked(8500*time.Millisecond, 143) }, FinishesBeforeKill(), nil, spec.Pass},
		{"before K: SIGTERM's end with work in hand", func() *scene { return hooked(6*sec, 143) }, FinishesBeforeKill(), nil, spec.Fail},
		{"before K: one was turned away", hooks, FinishesBeforeKill(), func(s *scene) {
			s.turnAway(sent("direct/h2c/reused/slow", "uid-c", 82*sec, 84*sec), timeline.PhaseFirstByte)
		}, spec.Pass},
		{"before K: one was turned away, and begun", hooks, FinishesBeforeKill(), func(s *scene) {
			s.disown(sent("direct/h2c/reused/slow", "uid-c", 82*sec, 84*sec), timeline.PhaseFirstByte)
		}, spec.Fail},
		{"before K: one was cut", hooks, FinishesBeforeKill(), func(s *scene) {
			s.spoil(sent("direct/h2c/reused/slow", "uid-c", 82*sec, 84*sec), timeline.StreamReset, 0)
		}, spec.Fail},
		{"before K: what stood at the door is no work", hooks, FinishesBeforeKill(), func(s *scene) {
			s.spoil(sent("direct/h2c/reused/slow", "uid-c", 85700*time.Millisecond, 86*sec), timeline.Reset, 0)
		}, spec.Pass},
		{"before K: the ledger lacks it", hooks, FinishesBeforeKill(), func(s *scene) { s.tl.Ledger = nil }, spec.Inconclusive},
		{"before K: nobody saw the exit code", hooks, FinishesBeforeKill(), func(s *scene) {
			s.drop(ofKind(timeline.PodContainer))
		}, spec.Inconclusive},
		{"before K: nothing slow", hooks, FinishesBeforeKill(), func(s *scene) {
			s.tl.Samples = slices.DeleteFunc(s.tl.Samples, slowOp)
		}, spec.Inconclusive},
		{"before K: no grace period", hooks, FinishesBeforeKill(), func(s *scene) {
			s.setAttr(timeline.PodDeletion, "grace", "")
		}, spec.Inconclusive},

		{"overlong: killed at K", atK, LosesOnlyOverlong(), nil, spec.Pass},
		{"overlong: left early", func() *scene { return exhausted(9 * sec) }, LosesOnlyOverlong(), nil, spec.Fail},
		{"overlong: left at D", func() *scene { return exhausted(10 * time.Millisecond) }, LosesOnlyOverlong(), nil, spec.Fail},
		{"overlong: the watch showed the deletion late", atK, LosesOnlyOverlong(), func(s *scene) {
			s.move(1500*time.Millisecond, ofKind(timeline.PodDeletion))
		}, spec.Pass},
		{"overlong: left early, and D is not known well", func() *scene { return exhausted(10500 * time.Millisecond) }, LosesOnlyOverlong(), func(s *scene) {
			s.drop(ofKind(timeline.DrainStart))
		}, spec.Inconclusive},
		{"overlong: it takes on what it can't finish", func() *scene { return exhaustedOf(12100*time.Millisecond, 12100*time.Millisecond) }, LosesOnlyOverlong(), nil, spec.Fail},
		{"overlong: there for too long", func() *scene { return exhausted(15 * sec) }, LosesOnlyOverlong(), nil, spec.Fail},
		{"overlong: cut at D", atK, LosesOnlyOverlong(), func(s *scene) {
			s.spoil(sent("direct/http1/reused/slow/20s", "uid-a", 38*sec, lateD), timeline.Truncated, lateD+10*time.Millisecond)
		}, spec.Fail},
		{"overlong: a short one was cut", atK, LosesOnlyOverlong(), func(s *scene) {
			s.spoil(sent("direct/http1/reused/slow/2s", "uid-a", 44*sec, 45*sec), timeline.Truncated, 0)
		}, spec.Fail},
		{"overlong: nothing overlong", atK, LosesOnlyOverlong(), func(s *scene) {
			s.tl.Samples = slices.DeleteFunc(s.tl.Samples, func(x timeline.Sample) bool { return takes(x) == 20*sec })
		}, spec.Inconclusive},
		{"overlong: too few of a kind", atK, LosesOnlyOverlong(), func(s *scene) {
			s.thin(func(x timeline.Sample) bool {
				return strings.HasPrefix(x.Stream.String(), "direct/h2c/reused/slow/20s")
			})
		}, spec.Inconclusive},
		{"overlong: nobody saw the exit", atK, LosesOnlyOverlong(), func(s *scene) {
			s.drop(ofKind(timeline.ProcExit, timeline.PodContainer, timeline.PodGone))
		}, spec.Inconclusive},
		{"overlong: no grace period", atK, LosesOnlyOverlong(), func(s *scene) {
			s.setAttr(timeline.PodDeletion, "grace", "")
		}, spec.Inconclusive},

		{"siblings: healthy", atK, SparesSiblings(), nil, spec.Pass},
		{"siblings: another pod lost one", atK, SparesSiblings(), func(s *scene) {
			s.spoil(sent("direct/h2c/reused/slow/20s", "uid-b", 38*sec, 50*sec), timeline.Reset, 53*sec)
		}, spec.Fail},
		{"siblings: the Service lost one after P", atK, SparesSiblings(), func(s *scene) {
			s.spoil(sent("service/", "", 52*sec, 54*sec), timeline.Timeout, 0)
		}, spec.Fail},
		{"siblings: the Service within P is not this rule's", atK, SparesSiblings(), func(s *scene) {
			s.spoil(sent("service/", "", 41*sec, 42*sec), timeline.Timeout, 0)
		}, spec.Pass},
		{"siblings: another fell silent", atK, SparesSiblings(), func(s *scene) {
			s.tl.Samples = slices.DeleteFunc(s.tl.Samples, sent("direct/", "uid-b", lateD, 100*sec))
		}, spec.Inconclusive},
		{"siblings: a replacement that was hardly dialled", atK, SparesSiblings(), func(s *scene) {
			s.flow("direct/http1/reused/slow/2s@uid-new", life{uid: "uid-new", d: 100 * sec, exit: 100 * sec}, 1, 53*sec, 55*sec)
		}, spec.Pass},
		{"siblings: nobody dialled another", atK, SparesSiblings(), func(s *scene) {
			s.tl.Samples = slices.DeleteFunc(s.tl.Samples, sent("direct/", "uid-b", 0, 100*sec))
		}, spec.Inconclusive},
		{"siblings: too little through the Service", atK, SparesSiblings(), func(s *scene) {
			s.thin(sent("service/http1/new", "", 0, 100*sec))
		}, spec.Inconclusive},

		{"endpoint goes: healthy", atK, EndpointGoes(), nil, spec.Pass},
		{"endpoint goes: it stays", atK, EndpointGoes(), func(s *scene) { s.drop(ofKind(timeline.EndpointGone)) }, spec.Fail},
		{"endpoint goes: it stays in one address family", atK, EndpointGoes(), func(s *scene) {
			s.alsoIn("IPv6", ofKind(timeline.Endpoint))
		}, spec.Fail},
		{"endpoint goes: it goes in both address families", atK, EndpointGoes(), func(s *scene) {
			s.alsoIn("IPv6", ofKind(timeline.Endpoint, timeline.EndpointGone))
		}, spec.Pass},
		{"endpoint goes: another Service's went", atK, EndpointGoes(), func(s *scene) {
			s.setAttr(timeline.EndpointGone, "service", "headless")
		}, spec.Fail},
		{"endpoint goes: a gap in the watch", atK, EndpointGoes(), func(s *scene) {
			s.drop(ofKind(timeline.EndpointGone))
			s.event(50*sec, timeline.WatchGap, "endpointslices", map[string]string{"why": "410"})
		}, spec.Inconclusive},
		{"endpoint goes: never seen", atK, EndpointGoes(), func(s *scene) {
			s.drop(ofKind(timeline.Endpoint, timeline.EndpointGone))
		}, spec.Inconclusive},

		{"second: healthy", twice, IgnoresSecondSignal(), nil, spec.Pass},
		{"second: the app does not say", twice, IgnoresSecondSignal(), func(s *scene) { s.drop(ofKind(timeline.DrainAgain)) }, spec.Pass},
		{"second: it leaves", twice, IgnoresSecondSignal(), func(s *scene) {
			s.move(-12950*time.Millisecond, ofKind(timeline.ProcExit))
		}, spec.Fail},
		{"second: a connection is refused", twice, IgnoresSecondSignal(), func(s *scene) {
			s.spoil(sent("direct/http1/new", "uid-b", 53*sec, 54*sec), timeline.Refused, 0)
		}, spec.Fail},
		{"second: work is cut", twice, IgnoresSecondSignal(), func(s *scene) {
			s.spoil(sent("direct/h2c/reused/slow", "uid-b", 51*sec, 52*sec), timeline.Reset, 52100*time.Millisecond)
		}, spec.Fail},
		{"second: none was sent", twice, IgnoresSecondSignal(), func(s *scene) { s.drop(disruptionOf("sigterm-again")) }, spec.Inconclusive},
		{"second: it failed to be sent", twice, IgnoresSecondSignal(), func(s *scene) {
			for _, e := range s.tl.Events {
				if disruptionOf("sigterm-again")(e) {
					e.Attrs["error"] = "no witness"
				}
			}
		}, spec.Inconclusive},
		{"second: one of three failed to be sent", twice, IgnoresSecondSignal(), func(s *scene) {
			for _, e := range s.tl.Events {
				if disruptionOf("sigterm-again")(e) && e.Subject == "uid-c" {
					e.Attrs["error"] = "no witness"
				}
			}
		}, spec.Inconclusive},
		{"second: readiness goes with it", twice, IgnoresSecondSignal(), func(s *scene) {
			s.event(52500*time.Millisecond, timeline.Endpoint, "uid-b", map[string]string{"service": "echo", "ready": "false", "serving": "false", "terminating": "true"})
		}, spec.Fail},
		{"second: readiness goes when it is time", twice, IgnoresSecondSignal(), func(s *scene) {
			s.event(59*sec, timeline.Endpoint, "uid-b", map[string]string{"service": "echo", "ready": "false", "serving": "false", "terminating": "true"})
		}, spec.Pass},
		{"second: the slices were not seen whole", twice, IgnoresSecondSignal(), func(s *scene) {
			s.event(52*sec, timeline.WatchGap, "endpointslices", map[string]string{"why": "410"})
		}, spec.Inconclusive},
		{"second: work begun after it is cut", twice, IgnoresSecondSignal(), func(s *scene) {
			s.spoil(sent("direct/h2c/reused/slow", "uid-b", 53*sec, 54*sec), timeline.Reset, 0)
		}, spec.Fail},
		{"second: work begun as P ends met what came behind it", twice, IgnoresSecondSignal(), unbegun(55*sec, 55040*time.Millisecond), spec.Pass},
		{"second: work begun before P ends met what came behind it", twice, IgnoresSecondSignal(), unbegun(54900*time.Millisecond, 55040*time.Millisecond), spec.Fail},
		{"second: the last pod gets one only", twiceButLast(12*sec, nil), IgnoresSecondSignal(), nil, spec.Pass},
		{"second: `serving` goes as it does by itself", twiceButLast(12*sec, map[string]time.Duration{"uid-a": 4*sec + 20*time.Millisecond, "uid-b": 4 * sec, "uid-c": 4 * sec}),
			IgnoresSecondSignal(), nil, spec.Pass},
		{"second: `serving` goes within a look of where it does by itself", twiceButLast(12*sec, map[string]time.Duration{"uid-a": 3700 * time.Millisecond, "uid-c": 4 * sec}),
			IgnoresSecondSignal(), func(s *scene) {
				s.event(sec, timeline.Timers, "", map[string]string{"probe": "500ms", "threshold": "2", "minDrain": "5s", "timeout": "10s", "grace": "40s"})
			}, spec.Pass},
		{"second: `serving` goes before it does by itself", twiceButLast(12*sec, map[string]time.Duration{"uid-a": 2800 * time.Millisecond, "uid-b": 4 * sec, "uid-c": 4 * sec}),
			IgnoresSecondSignal(), nil, spec.Fail},
		{"second: `serving` goes, and never does by itself", twiceButLast(12*sec, map[string]time.Duration{"uid-a": 4 * sec}),
			IgnoresSecondSignal(), nil, spec.Fail},
		{"second: the listener goes as it does by itself", twiceButLast(4700*time.Millisecond, nil), IgnoresSecondSignal(), nil, spec.Pass},
		{"second: by itself it accepts for a second more", twiceButLast(3*sec, nil), IgnoresSecondSignal(), nil, spec.Pass},
		{"second: by itself it accepts for a second more, and is not dialled", twiceButLast(3*sec, nil), IgnoresSecondSignal(), func(s *scene) {
			s.thin(sent("direct/http1/new", "uid-a", 0, 200*sec))
		}, spec.Inconclusive},
		{"second: by itself it accepts none by then", twiceButLast(1500*time.Millisecond, nil), IgnoresSecondSignal(), nil, spec.Pass},
		{"second: by itself it accepts none by then, and work is cut", twiceButLast(1500*time.Millisecond, nil), IgnoresSecondSignal(), func(s *scene) {
			s.spoil(sent("direct/http1/reused/slow", "uid-b", 51*sec, 51500*time.Millisecond), timeline.Reset, 52500*time.Millisecond)
		}, spec.Fail},
		{"second: the listener goes before it does by itself", twiceButLast(4700*time.Millisecond, nil), IgnoresSecondSignal(), func(s *scene) {
			s.spoil(sent("direct/http1/new", "uid-b", 53*sec, 55*sec), timeline.Refused, 0)
		}, spec.Fail},
		{"second: it leaves, and not by itself", twiceButLast(12*sec, nil), IgnoresSecondSignal(), func(s *scene) {
			s.drop(func(e timeline.Event) bool { return e.Kind == timeline.ProcExit && e.Subject == "uid-a" })
			s.event(22200*time.Millisecond, timeline.ProcExit, "uid-a", nil)
		}, spec.Fail},
		{"second: the listener goes, and each got two", twice, IgnoresSecondSignal(), func(s *scene) {
			for _, l := range three(0, 0, 0) {
				s.spoil(sent("direct/http1/new", l.uid, l.d+4700*time.Millisecond, l.d+20*sec), timeline.Refused, 0)
			}
		}, spec.Fail},
		{"second: it was gone by then", twice, IgnoresSecondSignal(), func(s *scene) {
			s.move(-13500*time.Millisecond, ofKind(timeline.ProcExit))
		}, spec.Inconclusive},
		{"second: too little was sent", twice, IgnoresSecondSignal(), func(s *scene) {
			s.thin(sent("direct/http1/new", "uid-c", 0, 200*sec))
		}, spec.Inconclusive},

		{"ways: healthy", everyWay, EveryWayDrains(), nil, spec.Pass},
		{"ways: the evicted one refuses", everyWay, EveryWayDrains(), func(s *scene) {
			s.spoil(sent("direct/http1/new", "uid-1", 41*sec, 42*sec), timeline.Refused, 0)
		}, spec.Fail},
		{"ways: the drained one cuts", everyWay, EveryWayDrains(), func(s *scene) {
			s.spoil(sent("direct/h2c/reused/slow", "uid-2", 59*sec, 60*sec), timeline.Truncated, 0)
		}, spec.Fail},
		{"ways: the eviction gives more time", everyWay, EveryWayDrains(), func(s *scene) {
			s.setAttrOf("uid-1", timeline.PodDeletion, "grace", "30")
		}, spec.Fail},
		{"ways: the drain gives less time than it takes", everyWay, EveryWayDrains(), func(s *scene) {
			s.setAttrOf("uid-2", timeline.PodDeletion, "grace", "5")
			s.setAttrOf("uid-2", timeline.PodContainer, "exitCode", "137")
		}, spec.Fail},
		{"ways: the one that was scaled away is killed", everyWay, EveryWayDrains(), func(s *scene) {
			s.setAttrOf("uid-3", timeline.PodContainer, "exitCode", "137")
		}, spec.Fail},
		{"ways: all leave as a JVM does", everyWay, EveryWayDrains(), func(s *scene) {
			s.setAttr(timeline.PodContainer, "exitCode", "143")
		}, spec.Pass},
		{"ways: no rollout", everyWay, EveryWayDrains(), func(s *scene) { s.drop(disruptionOf("rollout")) }, spec.Inconclusive},
		{"ways: the drain failed", everyWay, EveryWayDrains(), func(s *scene) { s.drop(disruptionOf("drain")) }, spec.Inconclusive},
		{"ways: one was never dialled", everyWay, EveryWayDrains(), func(s *scene) {
			s.tl.Samples = slices.DeleteFunc(s.tl.Samples, sent("direct/", "uid-3", 0, 200*sec))
		}, spec.Inconclusive},
		{"ways: one was hardly dialled", everyWay, EveryWayDrains(), func(s *scene) {
			s.thin(sent("direct/http1/new", "uid-4", 0, 200*sec))
		}, spec.Inconclusive},
		{"ways: a replacement that nobody dialled does no harm", everyWay, EveryWayDrains(), func(s *scene) {
			s.event(104*sec, timeline.PodDeletion, "uid-late", map[string]string{"grace": "20"})
			s.event(104*sec, timeline.DrainStart, "uid-late", nil)
		}, spec.Pass},

		{"budget: healthy", everyWay, HonoursBudget(), nil, spec.Pass},
		{"budget: ignored", everyWay, HonoursBudget(), func(s *scene) { s.setAttr(timeline.Disruption, "refused", "") }, spec.Fail},
		{"budget: a pod that was not ready may go", everyWay, HonoursBudget(), func(s *scene) {
			s.event(sec, timeline.PodReady, "uid-2", map[string]string{"ready": "false"})
			for i := range s.tl.Events {
				if e := &s.tl.Events[i]; e.Subject == "uid-2" && e.Attrs["what"] == "evict" {
					e.Attrs["allowed"] = "0"
				}
			}
		}, spec.Pass},
		{"budget: it may just have been allowed", everyWay, HonoursBudget(), func(s *scene) {
			s.setAttr(timeline.Disruption, "refused", "")
			s.event(19*sec, timeline.PodReady, "uid-late", map[string]string{"ready": "true"})
		}, spec.Inconclusive},
		{"budget: nothing was refused", everyWay, HonoursBudget(), func(s *scene) {
			s.drop(func(e timeline.Event) bool { return e.Attrs["refused"] == "true" })
		}, spec.Inconclusive},
		{"budget: nobody saw what it allowed", everyWay, HonoursBudget(), func(s *scene) { s.setAttr(timeline.Disruption, "allowed", "") }, spec.Inconclusive},
		{"budget: no eviction", everyWay, HonoursBudget(), func(s *scene) { s.drop(disruptionOf("evict")) }, spec.Inconclusive},

		{"service: healthy", everyWay, ServiceLosesNothing(), nil, spec.Pass},
		{"service: one lost", everyWay, ServiceLosesNothing(), func(s *scene) {
			s.spoil(sent("service/", "", 60*sec, 62*sec), timeline.NoRoute, 0)
		}, spec.Fail},
		{"service: too little", everyWay, ServiceLosesNothing(), func(s *scene) {
			s.thin(sent("service/http1/reused", "", 0, 200*sec))
		}, spec.Inconclusive},

		{"in place: healthy", inPlace, DrainsInPlace(), nil, spec.Pass},
		{"in place: refused in P", inPlace, DrainsInPlace(), func(s *scene) {
			s.spoil(sent("direct/http1/new", "uid-a", 21*sec, 22*sec), timeline.Refused, 0)
		}, spec.Fail},
		{"in place: cut", inPlace, DrainsInPlace(), func(s *scene) {
			s.spoil(sent("direct/http1/reused/slow", "uid-a", 19*sec, 20*sec), timeline.Reset, 0)
		}, spec.Fail},
		{"in place: the app does not say when", inPlace, DrainsInPlace(), func(s *scene) { s.drop(ofKind(timeline.DrainStart)) }, spec.Pass},
		{"in place: too little was sent", inPlace, DrainsInPlace(), func(s *scene) {
			s.thin(sent("direct/http1/new", "uid-b", 0, 200*sec))
		}, spec.Inconclusive},
		{"in place: nobody was called", inPlace, DrainsInPlace(), func(s *scene) { s.drop(disruptionOf("drain-call")) }, spec.Inconclusive},

		{"back: healthy", inPlace, ComesBack(), nil, spec.Pass},
		{"back: never ready again", inPlace, ComesBack(), func(s *scene) {
			s.drop(func(e timeline.Event) bool {
				return e.Kind == timeline.PodReady && e.Attrs["ready"] == "true" && e.Subject == "uid-a"
			})
		}, spec.Fail},
		{"back: its endpoint is not", inPlace, ComesBack(), func(s *scene) {
			s.drop(backAgain)
		}, spec.Fail},
		{"back: its endpoint never was", inPlace, ComesBack(), func(s *scene) {
			s.drop(func(e timeline.Event) bool { return e.Kind == timeline.Endpoint && e.Subject == "uid-b" })
		}, spec.Inconclusive},
		{"back: the slices were not seen whole", inPlace, ComesBack(), func(s *scene) {
			s.drop(backAgain)
			s.event(62*sec, timeline.WatchGap, "endpointslices", map[string]string{"why": "410"})
		}, spec.Inconclusive},
		{"back: the recording broke off when it was not ready for long", inPlace, ComesBack(), func(s *scene) {
			s.cutAt(47 * sec)
			s.drop(func(e timeline.Event) bool { return e.Kind == timeline.PodReady && e.Attrs["ready"] == "true" })
		}, spec.Fail},
		{"back: the recording broke off soon", inPlace, ComesBack(), func(s *scene) {
			s.cutAt(35 * sec)
			s.drop(func(e timeline.Event) bool { return e.Kind == timeline.PodReady && e.Attrs["ready"] == "true" })
		}, spec.Inconclusive},
		{"back: it says ready and does not serve", inPlace, ComesBack(), func(s *scene) {
			s.spoil(sent("direct/http1/new", "uid-b", 62*sec, 63*sec), timeline.Refused, 0)
		}, spec.Fail},
		{"back: two of three", inPlace, ComesBack(), func(s *scene) {
			s.drop(func(e timeline.Event) bool { return disruptionOf("drain-call")(e) && e.Subject == "uid-c" })
		}, spec.Inconclusive},
		{"back: deleted meanwhile", inPlace, ComesBack(), func(s *scene) {
			s.event(30*sec, timeline.PodDeletion, "uid-a", map[string]string{"grace": "30"})
		}, spec.Inconclusive},

		{"liveness: healthy", inPlace, LivenessHolds(), nil, spec.Pass},
		{"liveness: it fails with readiness", inPlace, LivenessHolds(), func(s *scene) {
			s.event(26*sec, timeline.ClusterEvent, "uid-a", map[string]string{"reason": "Unhealthy", "message": "Liveness probe failed: HTTP probe failed with statuscode: 503"})
		}, spec.Fail},
		{"liveness: no answer in its second", inPlace, LivenessHolds(), func(s *scene) {
			s.event(26*sec, timeline.ClusterEvent, "uid-a", map[string]string{"reason": "Unhealthy", "message": "Liveness probe failed: Get \"http://10.0.0.1:8080/livez\": context deadline exceeded"})
		}, spec.Fail},
		{"liveness: no answer in its second, on a starved machine", inPlace, LivenessHolds(), func(s *scene) {
			s.event(26*sec, timeline.ClusterEvent, "uid-a", map[string]string{"reason": "Unhealthy", "message": "Liveness probe failed: Get \"http://10.0.0.1:8080/livez\": context deadline exceeded"})
			s.each(func(x *timeline.Sample) { x.Saturated = x.Start > 24*sec && x.Start < 28*sec })
		}, spec.Inconclusive},
		{"liveness: it kills", inPlace, LivenessHolds(), func(s *scene) {
			s.event(26*sec, timeline.ClusterEvent, "uid-a", map[string]string{"reason": "Killing", "message": "Container echo failed liveness probe, will be restarted"})
		}, spec.Fail},
		{"liveness: refused when the listener is gone", inPlace, LivenessHolds(), func(s *scene) {
			s.event(28*sec, timeline.ClusterEvent, "uid-a", map[string]string{"reason": "Unhealthy", "message": "Liveness probe failed: Get \"http://10.0.0.1:8080/livez\": dial tcp 10.0.0.1:8080: connect: connection refused"})
		}, spec.Pass},
		{"liveness: readiness may fail", inPlace, LivenessHolds(), func(s *scene) {
			s.event(26*sec, timeline.ClusterEvent, "uid-a", map[string]string{"reason": "Unhealthy", "message": "Readiness probe failed: HTTP probe failed with statuscode: 503"})
		}, spec.Pass},
		{"liveness: before the drain", inPlace, LivenessHolds(), func(s *scene) {
			s.event(10*sec, timeline.ClusterEvent, "uid-a", map[string]string{"reason": "Unhealthy", "message": "Liveness probe failed: HTTP probe failed with statuscode: 503"})
		}, spec.Pass},
		{"liveness: events were missed", inPlace, LivenessHolds(), func(s *scene) {
			s.event(26*sec, timeline.WatchGap, "events", map[string]string{"why": "410"})
		}, spec.Inconclusive},
		{"liveness: no word of the kubelet's", inPlace, LivenessHolds(), func(s *scene) {
			s.drop(func(e timeline.Event) bool { return e.Kind == timeline.ClusterEvent && e.Subject == "uid-b" })
		}, spec.Inconclusive},
		{"liveness: it was hardly asked", inPlace, LivenessHolds(), func(s *scene) {
			s.move(-7*sec, ofKind(timeline.ProcExit))
		}, spec.Inconclusive},
		{"liveness: nobody saw the end", inPlace, LivenessHolds(), func(s *scene) {
			s.drop(ofKind(timeline.ProcExit, timeline.PodContainer))
		}, spec.Inconclusive},

		{"node: healthy", shutNode, LeavesWithItsNode(), nil, spec.Pass},
		{"node: accepts", shutNode, AcceptsAfterDrain(), nil, spec.Pass},
		{"node: completes", shutNode, CompletesInflight(), nil, spec.Pass},
		{"node: refuses", shutNode, AcceptsAfterDrain(), func(s *scene) {
			s.spoil(sent("direct/http1/new", "uid-b", 21*sec, 22*sec), timeline.Refused, 0)
		}, spec.Fail},
		{"node: killed when its time is over", shutNode, LeavesWithItsNode(), func(s *scene) {
			s.setAttr(timeline.PodContainer, "exitCode", "137")
		}, spec.Fail},
		{"node: killed without a word", shutNode, LeavesWithItsNode(), func(s *scene) {
			s.drop(func(e timeline.Event) bool { return e.Subject == "uid-a" && e.Kind == timeline.DrainStart })
			s.setAttrOf("uid-a", timeline.PodContainer, "exitCode", "137")
		}, spec.Fail},
		{"node: SIGTERM's end without a word", func() *scene { return shutNodeOf(50*time.Millisecond, 50*time.Millisecond, 143) }, LeavesWithItsNode(), func(s *scene) {
			s.drop(ofKind(timeline.DrainStart))
		}, spec.Fail},
		{"node: killed without a word, and not by the shutdown", shutNode, LeavesWithItsNode(), func(s *scene) {
			s.drop(func(e timeline.Event) bool { return e.Subject == "uid-a" && e.Kind == timeline.DrainStart })
			s.setAttrOf("uid-a", timeline.PodContainer, "exitCode", "137")
			s.event(30*sec, timeline.PodDeletion, "uid-a", map[string]string{"grace": "5"})
		}, spec.Inconclusive},
		{"node: left as a JVM does", func() *scene { return shutNodeOf(12*sec, 15*sec, 143) }, LeavesWithItsNode(), nil, spec.Pass},
		{"node: the failed pod is deleted later", shutNode, LeavesWithItsNode(), func(s *scene) {
			s.event(40*sec, timeline.PodDeletion, "uid-a", map[string]string{"grace": "40"})
		}, spec.Pass},
		{"node: it was a deletion", shutNode, LeavesWithItsNode(), func(s *scene) {
			s.event(20*sec, timeline.PodDeletion, "uid-a", map[string]string{"grace": "40"})
		}, spec.Inconclusive},
		{"node: the pod did not notice", shutNode, LeavesWithItsNode(), func(s *scene) {
			s.drop(func(e timeline.Event) bool { return e.Subject == "uid-a" && e.Kind == timeline.DrainStart })
		}, spec.Inconclusive},
		{"node: nobody saw the exit code", shutNode, LeavesWithItsNode(), func(s *scene) { s.drop(ofKind(timeline.PodContainer)) }, spec.Inconclusive},
		{"node: it was another node", shutNode, LeavesWithItsNode(), func(s *scene) { s.setAttr(timeline.Disruption, "node", "n2") }, spec.Inconclusive},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := tc.scene()
			if tc.spoil != nil {
				tc.spoil(s)
			}
			f := s.run(tc.check)
			if f.Verdict != tc.want {
				t.Fatalf("verdict %v, want %v\nactual: %s\nculprits: %v\nevidence: %v", f.Verdict, tc.want, f.Actual, f.Culprits, f.Evidence)
			}
			if f.Verdict == spec.Fail && (len(f.Culprits) == 0 || !slices.ContainsFunc(f.Culprits, func(c spec.Culprit) bool { return f.Window.Contains(c.At) })) {
				t.Errorf("a failure without a culprit in its window %v: %v", f.Window, f.Culprits)
			}
			if f.Expected == "" || f.Actual == "" {
				t.Error("a finding must say what was expected and what was seen")
			}
		})
	}
}

// A failure that is the exit's is told as one, and not as no request lost.
func TestLifecycleTexts(t *testing.T) {
	atK := func() *scene { return exhausted(12100 * time.Millisecond) }
	for _, tc := range []struct {
		scene *scene
		check Check
		want  string
	}{
		{hooked(20100*time.Millisecond, 0), FinishesBeforeKill(), "3 of 3 processes did not leave by themselves before K"},
		{exhausted(15 * sec), LosesOnlyOverlong(), "1 of 1 process outlived K by more than 2s"},
		{exhausted(9 * sec), LosesOnlyOverlong(), "requests failed that need not have, at 1 of 1 termination"},
		{atK(), EndpointGoes(), "1 endpoint was gone in the end"},
		{inPlace(), LivenessHolds(), "liveness held through 3 drains"},
	} {
		if f := tc.scene.run(tc.check); !strings.Contains(f.Actual, tc.want) || strings.Contains(f.Actual, "0 of") {
			t.Errorf("%s: %q, want %q", tc.check.Name, f.Actual, tc.want)
		}
	}
	s := inPlace()
	s.event(26*sec, timeline.ClusterEvent, "uid-a", map[string]string{"reason": "Unhealthy", "message": "Liveness probe failed: HTTP probe failed with statuscode: 503"})
	if f := s.run(LivenessHolds()); !strings.Contains(f.Actual, "during 1 of 3 drains") {
		t.Errorf("%q", f.Actual)
	}
}

// cutAt ends the recording at an instant, as an error does: with no tail.
func (s *scene) cutAt(at time.Duration) {
	s.drop(func(e timeline.Event) bool { return e.At > at })
	s.tl.Samples = slices.DeleteFunc(s.tl.Samples, func(x timeline.Sample) bool { return x.End > at })
}

// Nothing passes on nothing.
func TestLifecycleChecksOfAnEmptyRecording(t *testing.T) {
	for _, k := range []Check{
		HookEndsInSigterm(), AcceptsThroughHook(), FinishesBeforeKill(), LosesOnlyOverlong(), SparesSiblings(), EndpointGoes(), IgnoresSecondSignal(),
		EveryWayDrains(), HonoursBudget(), ServiceLosesNothing(), DrainsInPlace(), ComesBack(), LivenessHolds(), LeavesWithItsNode(),
	} {
		if f := (&scene{p: 3 * sec}).run(k); f.Verdict != spec.Inconclusive {
			t.Errorf("%s: %v on an empty recording", k.Name, f.Verdict)
		}
		if f := newLives().run(k); f.Verdict != spec.Inconclusive {
			t.Errorf("%s: %v on a recording in which nothing was disturbed", k.Name, f.Verdict)
		}
		for _, f := range k.Floors {
			if f.N != 50 && f.N != 200 && f.Reason == "" {
				t.Errorf("%s: the floor %q of %d has no reason", k.Name, f.Name, f.N)
			}
		}
	}
}

// A stream to a pod that came later begins when it begins, and must then go on.
func TestSilenceOfALatePod(t *testing.T) {
	l := life{"uid-late", 60 * sec, 6 * sec, 8 * sec, 0}
	// Another one was disturbed before it came.
	late := func() *scene {
		s := newLives(l).deleted(20*sec, l)
		s.event(10*sec, timeline.Disruption, "uid-other", map[string]string{"what": "delete"})
		return s
	}
	judge := func(s *scene) string {
		s.tl.Sort()
		return Silence(NewCase(&s.tl, s.p), flow.Parse("direct/http1/new/get"), 25)
	}
	if judge(late()) == "" {
		t.Error("a stream that begins late to a pod that was there must be noticed")
	}
	s := late()
	s.event(l.d-dialled-sec, timeline.PodSeen, l.uid, nil)
	if why := judge(s); why != "" {
		t.Error(why)
	}
	s = late()
	s.event(l.d-dialled-sec, timeline.PodSeen, l.uid, nil)
	s.tl.Samples = slices.DeleteFunc(s.tl.Samples, sent("direct/", "uid-late", 55*sec, 57*sec))
	if judge(s) == "" {
		t.Error("a gap in the stream to a late pod must be noticed")
	}
}

// What a stream leaves out long before anything is disturbed hides nothing; what it
// leaves out from just before on may.
func TestSilenceInTheBaseline(t *testing.T) {
	l := life{"uid-a", 20 * sec, 6 * sec, 8 * sec, 0}
	for gap, noticed := range map[time.Duration]bool{15 * sec: false, 18 * sec: true, 21 * sec: true} {
		s := newLives(l).deleted(20*sec, l)
		s.tl.Samples = slices.DeleteFunc(s.tl.Samples, sent("direct/", "uid-a", gap, gap+2*sec))
		s.tl.Sort()
		if why := Silence(NewCase(&s.tl, s.p), flow.Parse("direct/http1/new/get"), 25); (why != "") != noticed {
			t.Errorf("from %s on: %q", gap, why)
		}
	}
}
