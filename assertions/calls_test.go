// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"strings"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

func TestCallsSayTheirEnd(t *testing.T) {
	const server, bidi, unary = "h2c/reused/grpc-server/3s", "h2c/reused/grpc-bidi/3s", "h2c/reused/grpc-unary"
	const end = 12 * sec
	// run has streaming calls of both kinds that run at D: the last one as the
	// changes say, and told of it by then.
	run := func(s *scene, then func(*talk), changes ...func(*timeline.Sample)) {
		for _, flow := range []string{server, bidi} {
			times(6, func(i time.Duration) { s.dial(flow).ask(9*sec+i, until(end+i)).goAway(wireD+1, "max") })
		}
		k := s.dial(server).ask(9*sec, append([]func(*timeline.Sample){until(end)}, changes...)...)
		if then != nil {
			then(k.goAway(wireD+1, "max"))
		}
	}
	// ended is a call whose stream came to its end, with a grpc-status.
	ended := func(o timeline.Outcome, grpc string) func(*timeline.Sample) {
		return func(x *timeline.Sample) {
			x.Outcome, x.GRPC, x.Status, x.Got, x.Want = o, grpc, 200, 3, 16
		}
	}
	reset := func(code string) func(*talk) {
		return func(k *talk) { k.hear(end, timeline.FrameReset, "id", "1", "code", code) }
	}
	closed := func(kind timeline.FrameKind) func(*talk) {
		return func(k *talk) { k.hear(end-1, kind) }
	}
	one := func(name string, want spec.Verdict, then func(*talk), changes ...func(*timeline.Sample)) wireCase {
		return wireCase{name, CallsSayTheirEnd(), func(s *scene) { run(s, then, changes...) }, want}
	}
	nothing := func(*talk) {}
	judgeWire(t, []wireCase{
		one("all end whole", spec.Pass, nothing),
		one("UNAVAILABLE", spec.Pass, nothing, ended(timeline.Status, "14")),
		one("CANCELLED", spec.Pass, nothing, ended(timeline.Status, "1")),
		one("UNKNOWN", spec.Fail, nothing, ended(timeline.Status, "2")),
		one("DEADLINE_EXCEEDED before it was over", spec.Fail, nothing, ended(timeline.Status, "4")),
		one("no grpc-status", spec.Fail, nothing, ended(timeline.Truncated, "")),
		one("no grpc-status, and then GOAWAY and FIN", spec.Fail, func(k *talk) {
			k.goAway(end, "1").hear(end, timeline.FrameFIN)
		}, ended(timeline.Truncated, "")),
		one("a gap behind which the status is OK", spec.Fail, nothing, ended(timeline.Corrupt, "0")),
		one("OK with messages missing", spec.Fail, nothing, ended(timeline.OK, "0")),
		one("HTTP says 503", spec.Pass, nothing, cut(timeline.Status, end), func(x *timeline.Sample) { x.Status = 503 }),
		one("HTTP says 500", spec.Fail, nothing, cut(timeline.Status, end), func(x *timeline.Sample) { x.Status = 500 }),
		one("REFUSED_STREAM", spec.Pass, reset("REFUSED_STREAM"), lost(timeline.RefusedStream, end)),
		one("REFUSED_STREAM, and a backend had begun it", spec.Fail, func(k *talk) {
			reset("REFUSED_STREAM")(k)
			k.begun(9 * sec)
		}, lost(timeline.RefusedStream, end)),
		one("REFUSED_STREAM in the middle of its answer", spec.Fail, reset("REFUSED_STREAM"), cut(timeline.RefusedStream, end)),
		one("above the last stream ID", spec.Pass, nothing, lost(timeline.GoAway, end)),
		one("above the last stream ID, and begun", spec.Fail, func(k *talk) {
			k.goAway(end, "0").begun(9 * sec)
		}, lost(timeline.GoAway, end)),
		one("above the last stream ID, in the middle of its answer", spec.Fail, func(k *talk) { k.goAway(end, "0") }, cut(timeline.GoAway, end)),
		one("reset with CANCEL", spec.Pass, reset("CANCEL"), cut(timeline.StreamReset, end)),
		one("reset with NO_ERROR", spec.Pass, reset("NO_ERROR"), cut(timeline.StreamReset, end)),
		one("reset with STREAM_CLOSED", spec.Fail, reset("STREAM_CLOSED"), cut(timeline.StreamReset, end)),
		one("FIN, long after the first GOAWAY", spec.Fail, closed(timeline.FrameFIN), cut(timeline.Truncated, end)),
		one("RST, long after the first GOAWAY", spec.Fail, closed(timeline.FrameRST), cut(timeline.Reset, end)),
		one("FIN, and a GOAWAY just before it", spec.Pass, func(k *talk) {
			k.goAway(end-sec/10, "1").hear(end-1, timeline.FrameFIN)
		}, cut(timeline.Truncated, end)),
		one("RST, and just before it a GOAWAY that leaves all open", spec.Fail, func(k *talk) {
			k.goAway(end-sec/10, "max").hear(end-1, timeline.FrameRST)
		}, cut(timeline.Reset, end)),
		one("FIN, and it was above the last stream ID", spec.Pass, func(k *talk) {
			k.goAway(wireD+sec/10, "0").hear(end-1, timeline.FrameFIN)
		}, lost(timeline.Closed, end)),
		one("FIN, and it was above the last stream ID, and begun", spec.Fail, func(k *talk) {
			k.goAway(wireD+sec/10, "0").hear(end-1, timeline.FrameFIN).begun(9 * sec)
		}, lost(timeline.Closed, end)),
		one("FIN in the middle of its answer, and it was above the last stream ID", spec.Fail, func(k *talk) {
			k.goAway(end-sec/10, "0").hear(end-1, timeline.FrameFIN)
		}, cut(timeline.Truncated, end)),
		one("no end", spec.Fail, nothing, lost(timeline.Timeout, end+10*sec)),
		one("protocol broken", spec.Fail, nothing, cut(timeline.Malformed, end)),
		one("broken before D", spec.Pass, nil, cut(timeline.Truncated, wireD-sec/2)),
		{"no end, on a starved machine", CallsSayTheirEnd(), func(s *scene) {
			run(s, nothing, lost(timeline.Timeout, end+10*sec))
			s.each(func(x *timeline.Sample) { x.Saturated = true })
		}, spec.Inconclusive},
		{"done twice", CallsSayTheirEnd(), func(s *scene) {
			run(s, func(k *talk) { k.begun(11 * sec) })
			for i := range s.tl.Ledger {
				s.tl.Ledger[i].Method = "POST"
			}
		}, spec.Fail},
		{"no end in the ledger", CallsSayTheirEnd(), func(s *scene) {
			run(s, nothing)
			s.tl.Ledger = s.tl.Ledger[:len(s.tl.Ledger)-1]
		}, spec.Inconclusive},
		{"REFUSED_STREAM, and the ledger has a hole", CallsSayTheirEnd(), func(s *scene) {
			run(s, reset("REFUSED_STREAM"), lost(timeline.RefusedStream, end))
			s.tl.Ledger = s.tl.Ledger[1:] // another call's begin
		}, spec.Inconclusive},
		{"REFUSED_STREAM at the deadline", CallsSayTheirEnd(), func(s *scene) {
			run(s, nothing)
			s.dial(bidi).ask(18*sec, lost(timeline.RefusedStream, wireDeadline))
		}, spec.Pass},
		{"REFUSED_STREAM at the deadline, and begun", CallsSayTheirEnd(), func(s *scene) {
			run(s, nothing)
			s.dial(bidi).ask(18*sec, lost(timeline.RefusedStream, wireDeadline)).begun(18 * sec)
		}, spec.Fail},
		{"longer than the instance had, and cut without a word", CallsSayTheirEnd(), func(s *scene) {
			run(s, nothing)
			s.dial("h2c/reused/grpc-server/30s").ask(9*sec, cut(timeline.Truncated, wireExit)).hear(wireExit, timeline.FrameFIN)
		}, spec.Inconclusive}, // of that kind there is too little
		{"longer than the instance had, and enough of them", CallsSayTheirEnd(), func(s *scene) {
			run(s, nothing)
			times(6, func(i time.Duration) { s.dial("h2c/reused/grpc-server/30s").ask(9*sec+i, until(wireExit-sec)) })
			s.dial("h2c/reused/grpc-server/30s").ask(9*sec, cut(timeline.Truncated, wireExit)).hear(wireExit, timeline.FrameFIN)
		}, spec.Pass},
		{"a gap, and then cut at the deadline", CallsSayTheirEnd(), func(s *scene) {
			run(s, nothing)
			s.dial(bidi).ask(18*sec, cut(timeline.Corrupt, wireDeadline)).goAway(wireD+1, "max")
		}, spec.Fail},
		{"ended at the deadline without a status", CallsSayTheirEnd(), func(s *scene) {
			run(s, nothing)
			s.dial(bidi).ask(18*sec, ended(timeline.Truncated, ""), until(wireDeadline)).goAway(wireD+1, "max")
		}, spec.Fail},
		{"ended at the deadline with a status that says nothing", CallsSayTheirEnd(), func(s *scene) {
			run(s, nothing)
			s.dial(bidi).ask(18*sec, ended(timeline.Status, "2"), until(wireDeadline)).goAway(wireD+1, "max")
		}, spec.Fail},
		{"ended at the deadline with UNAVAILABLE", CallsSayTheirEnd(), func(s *scene) {
			run(s, nothing)
			s.dial(bidi).ask(18*sec, ended(timeline.Status, "14"), until(wireDeadline)).goAway(wireD+1, "max")
		}, spec.Pass},
		{"begun after D, and cut", CallsSayTheirEnd(), func(s *scene) {
			run(s, nothing)
			s.dial(unary).ask(11*sec).ask(end, lost(timeline.Closed, end+1)).hear(end+1, timeline.FrameFIN)
		}, spec.Fail},
		{"nobody had accepted it", CallsSayTheirEnd(), func(s *scene) {
			run(s, nothing)
			s.doors(wireShut)
			s.dial(unary).ask(wireShut-1, lost(timeline.Reset, wireShut)).hear(wireShut, timeline.FrameRST)
		}, spec.Pass},
		{"refused at the door, and begun", CallsSayTheirEnd(), func(s *scene) {
			run(s, nothing)
			s.doors(wireShut)
			s.dial(unary).ask(wireShut-1, lost(timeline.RefusedStream, wireShut)).begun(wireShut - 1)
		}, spec.Fail},
		{"broken within D's uncertainty", CallsSayTheirEnd(), func(s *scene) {
			run(s, nothing)
			s.blurD(100 * time.Millisecond)
			s.dial(unary).ask(9*sec).ask(wireD, lost(timeline.Closed, wireD+1)).hear(wireD+1, timeline.FrameFIN)
		}, spec.Inconclusive},
		{"only unary ones", CallsSayTheirEnd(), func(s *scene) {
			times(50, func(i time.Duration) { s.dial(unary).ask(11*sec + i) })
		}, spec.Inconclusive},
		{"few of a kind", CallsSayTheirEnd(), func(s *scene) {
			run(s, nothing)
			s.dial("h2/reused/grpc-bidi/3s").ask(9*sec, until(end))
		}, spec.Inconclusive},
		{"other requests", CallsSayTheirEnd(), func(s *scene) {
			run(s, nothing)
			s.dial("h2c/reused/slow/3s").ask(9*sec, cut(timeline.Truncated, end)).hear(end, timeline.FrameFIN)
		}, spec.Pass},
	})
}

// Who reads of a lie must see that it is one: REFUSED_STREAM alone is in order.
func TestLiesAreNamed(t *testing.T) {
	const told = "its client was told that it was not processed"
	const flow = "h2c/reused/grpc-bidi/3s"
	for _, row := range []struct {
		name   string
		change func(*timeline.Sample)
		begun  bool
		says   string
	}{
		{"begun", lost(timeline.RefusedStream, 12*sec), true, told + ", and a backend had begun it"},
		{"answered", cut(timeline.RefusedStream, 12*sec), false, told + ", and its answer had begun"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := quiet()
			k := s.dial(flow).ask(9*sec, row.change).hear(12*sec, timeline.FrameReset, "id", "1", "code", "REFUSED_STREAM")
			if row.begun {
				k.begun(9 * sec)
			}
			f := s.run(CallsSayTheirEnd())
			if len(f.Culprits) != 1 || !strings.Contains(f.Culprits[0].Text, row.says) {
				t.Errorf("%v does not say %q", f.Culprits, row.says)
			}
		})
	}
}

// A call that failed and came to its stream's end is whole to HTTP/2.
func TestCallsAreStreamsToo(t *testing.T) {
	const flow = "h2c/reused/grpc-server/3s"
	calls := func(s *scene, changes ...func(*timeline.Sample)) {
		times(6, func(i time.Duration) {
			s.dial(flow).ask(9*sec+i, append([]func(*timeline.Sample){until(12 * sec)}, changes...)...).goAway(wireD+1, "max")
		})
	}
	judgeWire(t, []wireCase{
		{"without a grpc-status", BelowLastCompletes(), func(s *scene) {
			calls(s, func(x *timeline.Sample) { x.Outcome = timeline.Truncated })
		}, spec.Pass},
		{"cut", BelowLastCompletes(), func(s *scene) { calls(s, cut(timeline.Truncated, 12*sec)) }, spec.Fail},
	})
}
