// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"testing"
	"time"

	built "github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// The clock of the wire scenes: the instance drains from D on, stops accepting
// 3 s later and is gone 10 s after D, within a grace of 15 s.
const (
	wireD    = built.D
	wireShut = 13 * sec
	wireExit = built.Exit
	// wireDeadline is when it cuts what is left.
	wireDeadline = wireD + wireLasts
	wireLasts    = 9900 * time.Millisecond
	far          = 20 * time.Millisecond
	// wireK is when SIGKILL would come.
	wireK = wireD + 15*sec
)

// quiet is one termination that nobody talks to.
func quiet() *scene { return &scene{p: built.P, tl: *built.Quiet().Timeline} }

// killed has the instance stay until SIGKILL ends it, of a system that promises no drain
// timeout.
func (s *scene) killed() {
	s.untilKilled = true
	s.shift(timeline.ProcExit, uid, wireK+10*time.Millisecond)
	s.drop(func(e timeline.Event) bool { return e.Kind == timeline.Marker && e.Attrs["what"] == MarkTail })
	s.event(wireK+4*sec, timeline.Marker, "", map[string]string{"what": MarkTail})
}

// doors dials the instance 50 times a second, until its exit and beyond, and is
// refused from an instant on.
func (s *scene) doors(shut time.Duration) {
	s.streamTo("direct/http1/new/get@"+uid, 50, 22*sec, func(x *timeline.Sample) {
		x.Server = uid
		if x.Start >= shut {
			fail(x, timeline.Refused)
		}
	})
}

// talk is one connection, as its client tells it.
type talk struct {
	s      *scene
	stream flow.Stream
	conn   uint64
	nth    int
	way    time.Duration
}

// dial opens a connection of a flow: its key without the path and the target.
func (s *scene) dial(key string) *talk {
	t := &talk{s: s, stream: flow.Named("direct/" + key + "@" + uid)}
	t.way = delay(timeline.Sample{Stream: t.stream})
	for _, x := range s.tl.Samples {
		if x.Stream == t.stream {
			t.conn = max(t.conn, x.Conn)
		}
	}
	t.conn++
	return t
}

// ask is a request that is answered 2 ms later, and the way there and back.
func (t *talk) ask(at time.Duration, changes ...func(*timeline.Sample)) *talk {
	t.nth++
	x := timeline.Sample{
		Stream: t.stream, ID: fmt.Sprintf("%s:%d:%d", t.stream, t.conn, t.nth), Conn: t.conn, Nth: t.nth,
		Due: at, Start: at, Sent: at, First: at + time.Millisecond + 2*t.way, End: at + 2*time.Millisecond + 2*t.way,
		Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: uid,
	}
	for _, change := range changes {
		change(&x)
	}
	t.s.add(x)
	return t
}

// hear is a frame; attrs are names and values.
func (t *talk) hear(at time.Duration, kind timeline.FrameKind, attrs ...string) *talk {
	f := timeline.Frame{At: at, Stream: t.stream, Conn: t.conn, Kind: kind, Attrs: map[string]string{}}
	for i := 0; i < len(attrs); i += 2 {
		f.Attrs[attrs[i]] = attrs[i+1]
	}
	t.s.tl.Frames = append(t.s.tl.Frames, f)
	return t
}

// goAway is a GOAWAY; max stands for 2^31-1.
func (t *talk) goAway(at time.Duration, last string) *talk {
	if last == "max" {
		last = fmt.Sprint(maxStreamID)
	}
	return t.hear(at, timeline.FrameGoAway, "last", last, "code", "NO_ERROR")
}

// begun is a ledger's line: the backend began the connection's last request.
func (t *talk) begun(at time.Duration) *talk {
	id := fmt.Sprintf("%s:%d:%d", t.stream, t.conn, t.nth)
	t.s.tl.Ledger = append(t.s.tl.Ledger, timeline.Entry{At: at, ID: id, Step: timeline.Begin, Pod: uid})
	return t
}

// saysClose: the answer said that the connection ends.
func saysClose(x *timeline.Sample) { x.LastOnConn = true }

// until is a request that takes until an instant.
func until(end time.Duration) func(*timeline.Sample) {
	return func(x *timeline.Sample) { x.End = end }
}

// lost is a request that came to nothing.
func lost(o timeline.Outcome, end time.Duration) func(*timeline.Sample) {
	return func(x *timeline.Sample) {
		x.Outcome, x.Phase, x.First, x.End, x.Server = o, timeline.PhaseFirstByte, 0, end, ""
	}
}

// cut is a request whose answer was cut short.
func cut(o timeline.Outcome, end time.Duration) func(*timeline.Sample) {
	return func(x *timeline.Sample) { x.Outcome, x.Phase, x.End = o, timeline.PhaseBody, end }
}

// times builds n of something, at instants 30 ms apart.
func times(n int, build func(at time.Duration)) {
	for i := range n {
		build(time.Duration(i) * 30 * time.Millisecond)
	}
}

// wireCase is one scene and what a check must say of it.
type wireCase struct {
	name  string
	check Check
	build func(*scene)
	want  spec.Verdict
}

func judgeWire(t *testing.T, cases []wireCase) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			s := quiet()
			tc.build(s)
			built.Holds(t, s.run(tc.check), tc.want)
		})
	}
}

// All wire checks are Inconclusive of a recording in which nothing terminated,
// and of one in which nobody talked.
func TestWireChecksNeedEvidence(t *testing.T) {
	for _, k := range []Check{
		SaysClose(), ClosesAfterSaying(), Lingers(), ClosesIdleFirst(), SendsGoAway(), IdleGetsGoAway(), FirstGoAwayMax(), FinalGoAway(),
		GoAwayNeverRises(), AboveLastUnprocessed(), BelowLastCompletes(), RacingStreams(), DeadlineTellsFirst(), CloseNotifyFirst(),
		HoldsMinimum(), HealthFailsFirst(), DeregistersFirst(sec, 2), WebSocketsSurvive(), AnswersHalfHeaders(), CallsSayTheirEnd(),
		CarriesOpaque(), PassesHalfClose(), PassesServersEnd(), CutIsVisible(), ServerSpeaksFirst(), ClosesSilent(), AdminClosed(), TimersInOrder(),
		ObeysGoAway(), ReplaysSafely(), NothingLostAtGoAway(),
	} {
		judgeWire(t, []wireCase{
			{k.Name + ": nobody talked", k, func(*scene) {}, spec.Inconclusive},
			{k.Name + ": nothing terminated", k, func(s *scene) { s.tl.Events = nil }, spec.Inconclusive},
		})
	}
}
