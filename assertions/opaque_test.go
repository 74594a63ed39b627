// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// talks is one that began at an instant and took 3 s, until the server had
// ended its half too.
func (s *scene) talks(at time.Duration, changes ...func(*timeline.Sample)) *talk {
	return s.dial("tcp/new/talk/3s").talks(at, changes...)
}

// farTalks is one over a path of 20 ms.
func (s *scene) farTalks(at time.Duration, changes ...func(*timeline.Sample)) *talk {
	return s.dial("tcp/new/talk/3s/delay=20ms").talks(at, changes...)
}

func (t *talk) talks(at time.Duration, changes ...func(*timeline.Sample)) *talk {
	return t.ask(at, append([]func(*timeline.Sample){func(x *timeline.Sample) {
		x.Dial, x.First = at+2*t.way+time.Millisecond, at+2*t.way+2*time.Millisecond
		x.Sent, x.End = at+3*sec, at+3*sec+2*t.way+time.Millisecond
		x.Got, x.Want = 16384, 16384
	}}, changes...)...)
}

// breaks is a talk that came to an end of another kind, while the client spoke.
func breaks(o timeline.Outcome, end time.Duration) func(*timeline.Sample) {
	return func(x *timeline.Sample) {
		x.Outcome, x.Phase, x.Sent, x.End, x.Got = o, timeline.PhaseBody, 0, end, 8000
	}
}

// greeted is a talk whose server spoke.
func greeted(x *timeline.Sample) { x.Dial = x.Start + time.Millisecond }

// stranded is a talk that lost what came behind its client's FIN.
func stranded(o timeline.Outcome) func(*timeline.Sample) {
	return func(x *timeline.Sample) { x.Outcome, x.Phase = o, timeline.PhaseBody }
}

// stopped is a talk of which so many bytes had come back, and then no more.
func stopped(got int64) func(*timeline.Sample) {
	return func(x *timeline.Sample) { x.Got = got }
}

// unaware is a talk that was cut before its client's FIN had come, and whose
// client was told when it had sent it.
func unaware(o timeline.Outcome, end time.Duration) func(*timeline.Sample) {
	return func(x *timeline.Sample) {
		x.Outcome, x.Phase, x.Sent, x.End, x.Got = o, timeline.PhaseBody, end-10*time.Millisecond, end, 8000
	}
}

// unheard is a talk whose server never spoke.
func unheard(o timeline.Outcome, end time.Duration) func(*timeline.Sample) {
	return func(x *timeline.Sample) {
		x.Outcome, x.Phase, x.First, x.Sent, x.End, x.Got = o, timeline.PhaseFirstByte, 0, 0, end, 0
	}
}

// someTalks run at D, and some begin after it.
func someTalks(s *scene) {
	times(6, func(i time.Duration) { s.talks(8*sec + i) })
	times(6, func(i time.Duration) { s.talks(11*sec + i) })
}

func TestCarriesOpaque(t *testing.T) {
	and := func(build func(s *scene)) func(*scene) {
		return func(s *scene) {
			s.doors(wireShut)
			someTalks(s)
			build(s)
		}
	}
	judgeWire(t, []wireCase{
		{"all whole", CarriesOpaque(), and(func(*scene) {}), spec.Pass},
		{"reset at D", CarriesOpaque(), and(func(s *scene) { s.talks(8*sec, breaks(timeline.Reset, wireD+time.Millisecond)) }), spec.Fail},
		{"ended by FIN after D", CarriesOpaque(), and(func(s *scene) { s.talks(11*sec, breaks(timeline.Truncated, 13*sec)) }), spec.Fail},
		{"other bytes", CarriesOpaque(), and(func(s *scene) { s.talks(9*sec, stranded(timeline.Corrupt)) }), spec.Fail},
		{"other bytes instead of a greeting", CarriesOpaque(), and(func(s *scene) { s.talks(11*sec, unheard(timeline.Malformed, 12*sec)) }), spec.Fail},
		{"it stood still", CarriesOpaque(), and(func(s *scene) { s.talks(9*sec, breaks(timeline.Timeout, 21*sec)) }), spec.Fail},
		{"it stood still, and its client went on", CarriesOpaque(), and(func(s *scene) { s.talks(9*sec, stopped(5400), stranded(timeline.Timeout), until(22*sec)) }), spec.Fail},
		{"it stood still until the deadline", CarriesOpaque(), and(func(s *scene) { s.talks(9*sec, stopped(5400), stranded(timeline.Reset), until(wireDeadline)) }), spec.Fail},
		{"only those that were lost behind the half-close", CarriesOpaque(), func(s *scene) {
			s.doors(wireShut)
			times(20, func(i time.Duration) { s.talks(8*sec+i, stranded(timeline.Truncated)) })
		}, spec.Pass},
		{"all of them lost behind a half-close that came before D", CarriesOpaque(), func(s *scene) {
			s.doors(wireShut)
			times(20, func(i time.Duration) { s.talks(6*sec+i, stranded(timeline.Truncated)) })
		}, spec.Inconclusive},
		{"lost behind the half-close, with the last piece of a long one", CarriesOpaque(), and(func(s *scene) {
			s.dial("tcp/new/talk/30s").ask(-19*sec, greeted, func(x *timeline.Sample) {
				x.First, x.Sent, x.End, x.Got, x.Want = -18*sec, 11*sec, 11*sec+time.Millisecond, 15603, 16384
				x.Outcome, x.Phase = timeline.Truncated, timeline.PhaseBody
			})
		}), spec.Pass},
		{"cut in the middle of a long one, just when its client ended", CarriesOpaque(), and(func(s *scene) {
			s.dial("tcp/new/talk/30s").ask(-19*sec, greeted, func(x *timeline.Sample) {
				x.First, x.Sent, x.End, x.Got, x.Want = -18*sec, 11*sec, 11*sec+time.Millisecond, 14000, 16384
				x.Outcome, x.Phase = timeline.Truncated, timeline.PhaseBody
			})
		}), spec.Fail},
		{"cut before D", CarriesOpaque(), and(func(s *scene) { s.talks(7*sec, breaks(timeline.Reset, 9*sec)) }), spec.Pass},
		{"lost behind the half-close", CarriesOpaque(), and(func(s *scene) { s.talks(8*sec, stranded(timeline.Truncated)) }), spec.Pass},
		{"never greeted", CarriesOpaque(), and(func(s *scene) { s.talks(11*sec, unheard(timeline.Closed, 12*sec)) }), spec.Pass},
		{"at the door", CarriesOpaque(), and(func(s *scene) { s.talks(wireShut-10*time.Millisecond, breaks(timeline.Reset, wireShut)) }), spec.Pass},
		{"longer than the instance had", CarriesOpaque(), and(func(s *scene) {
			s.dial("tcp/new/talk/30s").ask(9*sec, breaks(timeline.Reset, wireExit-time.Millisecond))
		}), spec.Pass},
		{"longer than the instance had, and cut at D", CarriesOpaque(), and(func(s *scene) {
			s.dial("tcp/new/talk/30s").ask(9*sec, breaks(timeline.Reset, wireD+time.Millisecond))
		}), spec.Fail},
		{"begun late, and cut at the deadline", CarriesOpaque(), and(func(s *scene) {
			s.dial("tcp/new/talk/8s").ask(wireShut-sec, greeted, breaks(timeline.Reset, wireDeadline))
		}), spec.Pass},
		{"begun late, and cut a second before the deadline", CarriesOpaque(), and(func(s *scene) {
			s.dial("tcp/new/talk/8s").ask(wireShut-sec, greeted, breaks(timeline.Reset, wireDeadline-sec))
		}), spec.Fail},
		{"other bytes at the deadline", CarriesOpaque(), and(func(s *scene) {
			s.dial("tcp/new/talk/8s").ask(wireShut-sec, greeted, stranded(timeline.Corrupt), until(wireDeadline))
		}), spec.Fail},
		{"none in flight at D", CarriesOpaque(), func(s *scene) {
			s.doors(wireShut)
			times(20, func(i time.Duration) { s.talks(11*sec + i) })
		}, spec.Inconclusive},
		{"only saturated ones", CarriesOpaque(), func(s *scene) {
			s.doors(wireShut)
			times(20, func(i time.Duration) { s.talks(8*sec+i, func(x *timeline.Sample) { x.Saturated = true }) })
		}, spec.Inconclusive},
		{"no ledger has the end", CarriesOpaque(), and(func(s *scene) { s.tl.Ledger = nil }), spec.Inconclusive},
		{"reset within the uncertainty of D", CarriesOpaque(), and(func(s *scene) {
			s.blurD(sec)
			s.talks(8*sec, breaks(timeline.Reset, wireD+time.Millisecond))
		}), spec.Inconclusive},
		{"reset at D, on a longer path", CarriesOpaque(), and(func(s *scene) { s.farTalks(8*sec, breaks(timeline.Reset, wireD+21*time.Millisecond)) }), spec.Fail},
		{"reset before D, and told after it", CarriesOpaque(), and(func(s *scene) { s.farTalks(8*sec, breaks(timeline.Reset, wireD+19*time.Millisecond)) }), spec.Pass},
		{"reset while the client's FIN was on its way", CarriesOpaque(), and(func(s *scene) { s.farTalks(9*sec, unaware(timeline.Reset, 12*sec)) }), spec.Fail},
		{"slow replies are no opaque streams", CarriesOpaque(), and(func(s *scene) {
			s.dial("http1/reused/slow/3s").ask(9*sec, cut(timeline.Reset, wireD+time.Millisecond))
		}), spec.Pass},
	})
}

func TestPassesHalfClose(t *testing.T) {
	and := func(build func(s *scene)) func(*scene) {
		return func(s *scene) { someTalks(s); build(s) }
	}
	judgeWire(t, []wireCase{
		{"all whole", PassesHalfClose(), and(func(*scene) {}), spec.Pass},
		{"both ways were closed", PassesHalfClose(), and(func(s *scene) { s.talks(9*sec, stranded(timeline.Truncated)) }), spec.Fail},
		{"both ways were reset", PassesHalfClose(), and(func(s *scene) { s.talks(9*sec, stranded(timeline.Reset)) }), spec.Fail},
		{"the FIN was swallowed", PassesHalfClose(), and(func(s *scene) {
			s.talks(9*sec, stranded(timeline.Timeout), until(22*sec))
			s.tl.Events = append(s.tl.Events[:0:0], s.tl.Events...)
			for i := range s.tl.Events {
				if s.tl.Events[i].Kind == timeline.ProcExit {
					s.tl.Events[i].At = 23 * sec
				}
			}
		}), spec.Fail},
		{"before D", PassesHalfClose(), and(func(s *scene) { s.talks(6*sec, stranded(timeline.Truncated)) }), spec.Pass},
		{"cut at D, when it was just half-closed", PassesHalfClose(), and(func(s *scene) {
			s.talks(wireD-3*sec+time.Millisecond, stranded(timeline.Reset))
		}), spec.Pass},
		{"both ways were reset, on a longer path", PassesHalfClose(), and(func(s *scene) { s.farTalks(9*sec, stranded(timeline.Reset)) }), spec.Fail},
		{"cut at D, on a longer path", PassesHalfClose(), and(func(s *scene) {
			s.farTalks(wireD-3*sec+60*time.Millisecond, stranded(timeline.Reset))
		}), spec.Pass},
		{"cut while its client's FIN was on its way", PassesHalfClose(), and(func(s *scene) { s.farTalks(9*sec, unaware(timeline.Reset, 12*sec)) }), spec.Pass},
		{"the process went just then, on a longer path", PassesHalfClose(), and(func(s *scene) {
			s.farTalks(wireExit-3*sec-60*time.Millisecond, stranded(timeline.Reset))
		}), spec.Pass},
		{"cut before its client's end", PassesHalfClose(), and(func(s *scene) { s.talks(9*sec, breaks(timeline.Reset, 11*sec)) }), spec.Pass},
		{"other bytes", PassesHalfClose(), and(func(s *scene) { s.talks(9*sec, stranded(timeline.Corrupt)) }), spec.Pass},
		{"the process went just then", PassesHalfClose(), and(func(s *scene) {
			s.talks(wireExit-3*sec-2*time.Millisecond, stranded(timeline.Reset))
		}), spec.Pass},
		{"cut at the deadline", PassesHalfClose(), and(func(s *scene) {
			s.talks(wireDeadline-3*sec-2*time.Millisecond, stranded(timeline.Reset), until(wireDeadline))
		}), spec.Pass},
		{"the FIN was swallowed, and the deadline ended it", PassesHalfClose(), and(func(s *scene) {
			s.talks(wireDeadline-6*sec, stranded(timeline.Reset), until(wireDeadline))
		}), spec.Fail},
		{"the FIN was swallowed, and the exit ended it", PassesHalfClose(), and(func(s *scene) {
			s.talks(11*sec, stranded(timeline.Reset), until(wireExit))
		}), spec.Fail},
		{"it had stood still just before", PassesHalfClose(), and(func(s *scene) { s.talks(9*sec, stopped(16000), stranded(timeline.Timeout), until(22*sec)) }), spec.Pass},
		{"both ways were closed, and its last piece went with them", PassesHalfClose(), and(func(s *scene) { s.talks(9*sec, stopped(16000), stranded(timeline.Reset)) }), spec.Fail},
		{"it had stood still before", PassesHalfClose(), and(func(s *scene) { s.talks(9*sec, stopped(5400), stranded(timeline.Timeout), until(22*sec)) }), spec.Pass},
		{"too few", PassesHalfClose(), func(s *scene) { times(4, func(i time.Duration) { s.talks(9*sec + i) }) }, spec.Inconclusive},
		{"all before D", PassesHalfClose(), func(s *scene) { times(20, func(i time.Duration) { s.talks(6*sec + i) }) }, spec.Inconclusive},
		{"within the uncertainty of D", PassesHalfClose(), func(s *scene) {
			s.blurD(3 * sec)
			times(20, func(i time.Duration) { s.talks(9*sec+i, stranded(timeline.Truncated)) })
		}, spec.Inconclusive},
	})
}

func TestPassesServersEnd(t *testing.T) {
	const flow = "tcp/new/hear/2s"
	// heard are streams that begin at an instant, whose server ends its half 2 ms later,
	// and whose client does so when it has said all.
	heard := func(s *scene, n int, at time.Duration, changes ...func(*timeline.Sample)) {
		times(n, func(i time.Duration) {
			k := s.dial(flow).ask(at+i, append([]func(*timeline.Sample){func(x *timeline.Sample) {
				x.Dial, x.First, x.Sent = at+i, at+i+time.Millisecond, at+i+2*sec
				x.End, x.Got, x.Want = x.Sent+time.Millisecond, 16384, 16384
			}}, changes...)...)
			k.hear(at+i+2*time.Millisecond, timeline.FrameFIN)
		})
	}
	cutAt := func(o timeline.Outcome, end time.Duration) func(*timeline.Sample) {
		return func(x *timeline.Sample) { x.Outcome, x.Phase, x.Sent, x.End = o, timeline.PhaseBody, 0, end }
	}
	check := PassesServersEnd()
	with := func(build func(s *scene)) func(*scene) {
		return func(s *scene) { heard(s, 6, 11*sec); build(s) }
	}
	judgeWire(t, []wireCase{
		{"heard", check, with(func(*scene) {}), spec.Pass},
		{"both ways were closed", check, with(func(s *scene) { heard(s, 1, 11*sec, cutAt(timeline.Reset, 11*sec+300*time.Millisecond)) }), spec.Fail},
		{"thrown away without a word", check, with(func(s *scene) {
			heard(s, 1, 11*sec)
			e := &s.tl.Ledger[len(s.tl.Ledger)-1]
			e.Whole, e.Bytes = false, 100
		}), spec.Fail},
		{"the server's FIN held back", check, with(func(s *scene) {
			heard(s, 1, 11*sec)
			s.tl.Frames[len(s.tl.Frames)-1].At = 13*sec + 2*time.Millisecond
		}), spec.Fail},
		{"the server's FIN held back, on a starved machine", check, with(func(s *scene) {
			heard(s, 1, 11*sec)
			s.tl.Frames[len(s.tl.Frames)-1].At = 13*sec + 2*time.Millisecond
			s.each(func(x *timeline.Sample) { x.Saturated = true })
		}), spec.Inconclusive},
		{"all within the uncertainty of D", check, func(s *scene) {
			s.blurD(2 * sec)
			heard(s, 6, 9*sec+500*time.Millisecond)
		}, spec.Inconclusive},
		{"all begun within the uncertainty of D, and gone on behind it", check, func(s *scene) {
			s.blurD(2 * sec)
			heard(s, 6, 11*sec)
		}, spec.Pass},
		{"no ledger has the end", check, with(func(s *scene) {
			heard(s, 1, 11*sec)
			s.tl.Ledger = s.tl.Ledger[:len(s.tl.Ledger)-1]
		}), spec.Inconclusive},
		{"never greeted", check, with(func(s *scene) { heard(s, 1, 11*sec, unheard(timeline.Closed, 12*sec)) }), spec.Pass},
		{"before D", check, with(func(s *scene) { heard(s, 1, 7*sec, cutAt(timeline.Reset, 8*sec)) }), spec.Pass},
		{"cut at the deadline", check, with(func(s *scene) { heard(s, 1, 18*sec, cutAt(timeline.Reset, wireDeadline)) }), spec.Pass},
		{"overdue, and cut at the deadline", check, with(func(s *scene) { heard(s, 1, 11*sec, cutAt(timeline.Reset, wireDeadline)) }), spec.Fail},
		{"overdue, and cut at the deadline, on a starved machine", check, with(func(s *scene) {
			heard(s, 1, 11*sec, cutAt(timeline.Reset, wireDeadline))
			s.each(func(x *timeline.Sample) { x.Saturated = true })
		}), spec.Inconclusive},
		{"both ways were closed, on a starved machine", check, with(func(s *scene) {
			heard(s, 1, 11*sec, cutAt(timeline.Reset, 11*sec+300*time.Millisecond))
			s.each(func(x *timeline.Sample) { x.Saturated = true })
		}), spec.Fail},
		{"its last words were on their way at the deadline", check, with(func(s *scene) {
			heard(s, 1, wireDeadline-2*sec)
			e := &s.tl.Ledger[len(s.tl.Ledger)-1]
			e.Whole, e.Bytes = false, 15603
		}), spec.Pass},
		{"too few", check, func(s *scene) { heard(s, 4, 11*sec) }, spec.Inconclusive},
		{"all before D", check, func(s *scene) { heard(s, 6, 6*sec) }, spec.Inconclusive},
		{"all across D", check, func(s *scene) { heard(s, 6, wireD-sec) }, spec.Pass},
		{"one that crossed D was cut behind it", check, with(func(s *scene) {
			s.talks(9 * sec)
			heard(s, 1, wireD-sec, cutAt(timeline.Reset, wireD+300*time.Millisecond))
		}), spec.Fail},
		{"all that crossed D was cut behind it", check, with(func(s *scene) { heard(s, 1, wireD-sec, cutAt(timeline.Reset, wireD+300*time.Millisecond)) }), spec.Pass},
		{"one that crossed D was cut at it", check, with(func(s *scene) { heard(s, 1, wireD-sec, cutAt(timeline.Reset, wireD+time.Millisecond)) }), spec.Pass},
	})
}

func TestCutIsVisible(t *testing.T) {
	const flow = "tcp/new/talk/30s"
	const deadline = wireExit - 100*time.Millisecond
	long := func(s *scene, n int, o timeline.Outcome, kinds ...timeline.FrameKind) {
		times(n, func(i time.Duration) {
			k := s.dial(flow).ask(9*sec+i, cut(o, deadline), func(x *timeline.Sample) { x.Sent = 0 })
			for _, kind := range kinds {
				k.hear(deadline, kind)
			}
		})
	}
	good := func(s *scene) { long(s, 4, timeline.Reset, timeline.FrameRST) }
	// atK is what SIGKILL makes of them.
	atK := func(s *scene) {
		times(4, func(i time.Duration) {
			s.dial(flow).ask(9*sec+i, cut(timeline.Truncated, wireK), func(x *timeline.Sample) { x.Sent = 0 }).hear(wireK, timeline.FrameFIN)
		})
	}
	// backends is what the ledger of a backend says of them, where the instance stands before it: begun, and over so much behind the cut;
	// 0: never.
	backends := func(pod, ended string, after time.Duration) func(*scene) {
		return func(s *scene) {
			good(s)
			for _, x := range s.tl.Samples {
				if x.Stream.Flow().Op != "talk" || x.Outcome != timeline.Reset {
					continue
				}
				s.tl.Ledger = append(s.tl.Ledger, timeline.Entry{At: x.Dial, ID: x.ID, Step: timeline.Begin, Pod: pod})
				if after > 0 {
					s.tl.Ledger = append(s.tl.Ledger, timeline.Entry{At: x.End + after, ID: x.ID, Step: timeline.Done, Pod: pod, Bytes: 10, Ended: ended})
				}
			}
		}
	}
	const soon = time.Millisecond
	judgeWire(t, []wireCase{
		{"RST, to backends too", CutIsVisible(), backends("backend", timeline.EndedByRST, soon), spec.Pass},
		{"FIN to backends", CutIsVisible(), backends("backend", timeline.EndedByFIN, soon), spec.Fail},
		{"nothing to backends", CutIsVisible(), backends("backend", "", 0), spec.Fail},
		{"by those that ended it themselves, or told no end when this was recorded", CutIsVisible(), backends("backend", "", soon), spec.Pass},
		{"FIN to itself", CutIsVisible(), backends(uid, timeline.EndedByFIN, soon), spec.Pass},
		{"RST", CutIsVisible(), good, spec.Pass},
		{"FIN", CutIsVisible(), func(s *scene) { good(s); long(s, 1, timeline.Truncated, timeline.FrameFIN) }, spec.Fail},
		{"FIN, then RST", CutIsVisible(), func(s *scene) { long(s, 4, timeline.Truncated, timeline.FrameFIN, timeline.FrameRST) }, spec.Fail},
		{"short ones that were cut", CutIsVisible(), func(s *scene) {
			good(s)
			s.talks(9*sec, breaks(timeline.Truncated, 10*sec+time.Millisecond)).hear(10*sec+time.Millisecond, timeline.FrameFIN)
		}, spec.Pass},
		{"all ended by themselves", CutIsVisible(), func(s *scene) {
			someTalks(s)
			times(6, func(i time.Duration) { s.dial(flow).ask(9*sec+i, until(deadline)).hear(deadline, timeline.FrameFIN) })
		}, spec.Inconclusive},
		{"the client gave up", CutIsVisible(), func(s *scene) { long(s, 4, timeline.Timeout) }, spec.Inconclusive},
		{"never greeted", CutIsVisible(), func(s *scene) {
			times(4, func(i time.Duration) {
				s.dial(flow).ask(9*sec+i, lost(timeline.Closed, deadline)).hear(deadline, timeline.FrameFIN)
			})
		}, spec.Inconclusive},
		{"behind the client's own end", CutIsVisible(), func(s *scene) {
			times(4, func(i time.Duration) {
				s.dial(flow).ask(9*sec+i, cut(timeline.Truncated, deadline)).hear(deadline, timeline.FrameFIN)
			})
		}, spec.Inconclusive},
		{"cut in HTTP", CutIsVisible(), func(s *scene) {
			good(s)
			s.dial("http1/new/slow/30s").ask(9*sec, cut(timeline.Truncated, deadline)).hear(deadline, timeline.FrameFIN)
		}, spec.Pass},
		{"FIN, within the uncertainty of D", CutIsVisible(), func(s *scene) {
			s.blurD(wireExit - wireD)
			long(s, 4, timeline.Truncated, timeline.FrameFIN)
		}, spec.Inconclusive},
		{"SIGKILL cuts, and no timeout was promised", CutIsVisible(), func(s *scene) {
			s.killed()
			atK(s)
		}, spec.Skipped},
		{"SIGKILL cuts, and a timeout was promised", CutIsVisible(), func(s *scene) {
			s.killed()
			atK(s)
			s.untilKilled = false
		}, spec.Fail},
		{"no timeout was promised, and it cuts by FIN before K", CutIsVisible(), func(s *scene) {
			s.killed()
			atK(s)
			long(s, 1, timeline.Truncated, timeline.FrameFIN)
		}, spec.Fail},
		{"no timeout was promised, and it cuts by RST before K", CutIsVisible(), func(s *scene) {
			s.killed()
			atK(s)
			good(s)
		}, spec.Pass},
		{"nobody saw the exit", CutIsVisible(), func(s *scene) {
			long(s, 4, timeline.Truncated, timeline.FrameFIN)
			s.drop(func(e timeline.Event) bool { return e.Kind == timeline.ProcExit })
		}, spec.Inconclusive},
	})
}

func TestServerSpeaksFirst(t *testing.T) {
	and := func(build func(s *scene)) func(*scene) {
		return func(s *scene) {
			s.doors(wireShut)
			someTalks(s)
			build(s)
		}
	}
	after := func(d time.Duration) func(*timeline.Sample) {
		return func(x *timeline.Sample) { x.First = x.Dial + d }
	}
	judgeWire(t, []wireCase{
		{"at once", ServerSpeaksFirst(), and(func(*scene) {}), spec.Pass},
		{"late", ServerSpeaksFirst(), and(func(s *scene) { s.talks(11*sec, after(3*sec)) }), spec.Fail},
		{"never", ServerSpeaksFirst(), and(func(s *scene) { s.talks(11*sec, unheard(timeline.Timeout, 24*sec)) }), spec.Fail},
		{"closed before a word", ServerSpeaksFirst(), and(func(s *scene) { s.talks(11*sec, unheard(timeline.Closed, 12*sec)) }), spec.Fail},
		{"late, on a machine that was starved", ServerSpeaksFirst(), and(func(s *scene) {
			s.talks(11*sec, after(3*sec))
			s.each(func(x *timeline.Sample) { x.Saturated = x.Start > 13*sec })
		}), spec.Inconclusive},
		{"late before D", ServerSpeaksFirst(), and(func(s *scene) { s.talks(7*sec, after(2*sec)) }), spec.Pass},
		{"refused", ServerSpeaksFirst(), and(func(s *scene) {
			s.talks(14*sec, func(x *timeline.Sample) { fail(x, timeline.Refused); x.First = 0 })
		}), spec.Pass},
		{"at the door", ServerSpeaksFirst(), and(func(s *scene) {
			s.talks(wireShut-10*time.Millisecond, unheard(timeline.Reset, wireShut))
		}), spec.Pass},
		{"cut later", ServerSpeaksFirst(), and(func(s *scene) { s.talks(11*sec, breaks(timeline.Reset, 12*sec)) }), spec.Pass},
		{"all before D", ServerSpeaksFirst(), func(s *scene) {
			s.doors(wireShut)
			times(20, func(i time.Duration) { s.talks(8*sec + i) })
		}, spec.Inconclusive},
	})
}
