// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions"
	"github.com/lastcall-dev/lastcall/assertions/scene"
	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

// The instance has ended its calls a moment before its exit.
const ended = scene.Exit - 100*time.Millisecond

// alone is how long before that all but what is deferred has ended.
const alone = silentFor + 700*time.Millisecond

// calling has an instance call from before D to its end, as the behaviours have it, and one that
// stays. set changes what the first one sees.
func calling(s scene.Scene, set func(*timeline.Sample)) {
	for _, uid := range []string{scene.UID, scene.OtherUID} {
		for _, p := range Calls {
			callingOf(s, uid, p, func(x *timeline.Sample) {
				if set != nil && uid == scene.UID {
					set(x)
				}
			})
		}
	}
	s.Event(ended, timeline.DrainEnd, scene.UID, map[string]string{"cut": "0"})
}

func callingOf(s scene.Scene, uid string, p load.Profile, set func(*timeline.Sample)) {
	const pool = 16
	step := time.Duration(float64(time.Second) / p.Rate)
	nth, takes, last := 0, p.Takes, ended-alone-p.Takes
	if p.Op == flow.Deferred {
		takes, last = 0, ended
	}
	for at := 6 * time.Second; at < last; at += step {
		x := timeline.Sample{
			Stream: flow.To(p.Flow, uid), ID: fmt.Sprintf("%s#%d", flow.To(p.Flow, uid), nth), Conn: uint64(nth + 1), Nth: 1,
			Due: at, Start: at, Sent: at, First: at + takes + 1, End: at + takes + time.Millisecond,
			Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: "uid-peer", Status: 200,
		}
		if p.Conns == flow.Reused {
			x.Conn, x.Nth = uint64(nth%pool+1), nth/pool+1
		}
		nth++
		set(&x)
		s.Add(x)
	}
}

// away has who is called be no endpoint of its Service for a moment.
func away(s scene.Scene, from time.Duration) {
	for at, ready := range map[time.Duration]string{time.Second: "true", from: "false", from + 200*time.Millisecond: "true"} {
		s.Event(at, timeline.Endpoint, "uid-peer", map[string]string{"service": "peer", "ready": ready})
	}
}

// refused is what a call sees that nobody takes.
func refused(x *timeline.Sample) {
	x.Outcome, x.Phase, x.Status, x.Server, x.First, x.Err = timeline.Refused, timeline.PhaseDial, 0, "", 0, "connection refused"
}

func judged(k assertions.Check) func(*timeline.Timeline) spec.Finding {
	return func(tl *timeline.Timeline) spec.Finding { return k.Run(assertions.NewCase(tl, scene.P)) }
}

func isNew(x *timeline.Sample) bool { return x.Stream.Flow().Conns == flow.New }

// deletedEarly has the deletion be there a second before D.
func deletedEarly(s scene.Scene) {
	s.Event(scene.D-time.Second, timeline.PodDeletion, scene.UID, map[string]string{"grace": "15"})
}

// early is between the deletion and D then.
func early(x *timeline.Sample) bool {
	return x.Start > scene.D-800*time.Millisecond && x.Start < scene.D-500*time.Millisecond
}

// repeated has the first call of an operation that begins after D be done twice by who is called.
func repeated(s scene.Scene, op flow.Op, method string) {
	for _, x := range s.Samples {
		if x.Stream.Flow().Op != op || x.Stream.Target() != scene.UID || x.Start < scene.D {
			continue
		}
		for _, step := range []timeline.Step{timeline.Begin, timeline.Done} {
			s.Ledger = append(s.Ledger, timeline.Entry{At: x.End, ID: x.ID, Step: step, Pod: x.Server, Method: method, Whole: step == timeline.Done})
		}
		for i := range s.Ledger {
			if s.Ledger[i].ID == x.ID {
				s.Ledger[i].Method = method
			}
		}
		return
	}
}

func TestCallsServed(t *testing.T) {
	const after = scene.D + 3*time.Second
	scene.Judge(t, judged(CallsServed()), []scene.Row{
		{Name: "all are served", Build: func(s scene.Scene) { calling(s, nil) }, Want: spec.Pass},
		{Name: "new ones are refused", Build: func(s scene.Scene) {
			calling(s, func(x *timeline.Sample) {
				if isNew(x) && x.Start > after {
					refused(x)
				}
			})
		}, Want: spec.Fail},
		{Name: "new ones are refused while who is called is away", Build: func(s scene.Scene) {
			calling(s, func(x *timeline.Sample) {
				if isNew(x) && x.Start > after && x.Start < after+200*time.Millisecond {
					refused(x)
				}
			})
			away(s, after)
		}, Want: spec.Inconclusive},
		{Name: "the last one is refused", Build: func(s scene.Scene) {
			calling(s, func(x *timeline.Sample) {
				if x.Start > ended-200*time.Millisecond && isNew(x) {
					refused(x)
				}
			})
		}, Want: spec.Fail},
		{Name: "who had no connection for a while is refused", Build: func(s scene.Scene) {
			calling(s, func(x *timeline.Sample) {
				if x.Start > ended-alone+time.Second {
					refused(x)
				}
			})
		}, Want: spec.Fail},
		{Name: "it had a connection all the time", Build: func(s scene.Scene) {
			calling(s, nil)
			for at := ended - alone; at < ended; at += 100 * time.Millisecond {
				s.Add(timeline.Sample{
					Stream: flow.Named("service/http1/new/get"), ID: fmt.Sprint(at), Conn: 1, Nth: 1, Due: at, Start: at, Sent: at, First: at + 1, End: at + 2,
					Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: scene.UID, Status: 200,
				})
			}
		}, Want: spec.Inconclusive},
		{Name: "an upload is cut that began before D", Build: func(s scene.Scene) {
			calling(s, func(x *timeline.Sample) {
				if x.Stream.Flow().Op == flow.Upload && x.Start < scene.D && x.End > scene.D {
					x.Outcome, x.Phase, x.Err = timeline.Reset, timeline.PhaseWrite, "reset"
				}
			})
		}, Want: spec.Fail},
		{Name: "what failed before D is nobody's", Build: func(s scene.Scene) {
			calling(s, func(x *timeline.Sample) {
				if x.End < scene.D-time.Second {
					refused(x)
				}
			})
		}, Want: spec.Pass},
		{Name: "some are refused between the deletion and D", Build: func(s scene.Scene) {
			deletedEarly(s)
			calling(s, func(x *timeline.Sample) {
				if isNew(x) && early(x) {
					refused(x)
				}
			})
		}, Want: spec.Fail},
		{Name: "an upload is done twice", Build: func(s scene.Scene) { calling(s, nil); repeated(s, flow.Upload, "POST") }, Want: spec.Fail},
		{Name: "a GET is done twice", Build: func(s scene.Scene) { calling(s, nil); repeated(s, flow.Get, "GET") }, Want: spec.Pass},
		{Name: "who served it does not know", Build: func(s scene.Scene) {
			calling(s, nil)
			s.Ledger = nil
		}, Want: spec.Inconclusive},
		{Name: "it never said that it had ended", Build: func(s scene.Scene) {
			calling(s, nil)
			s.Drop(func(e timeline.Event) bool { return e.Kind == timeline.DrainEnd })
		}, Want: spec.Inconclusive},
		{Name: "it called too seldom over new connections", Build: func(s scene.Scene) {
			calling(s, func(x *timeline.Sample) { x.Saturated = isNew(x) })
		}, Want: spec.Inconclusive},
		{Name: "it kept none", Build: func(s scene.Scene) {
			calling(s, func(x *timeline.Sample) { x.Nth = 1 })
		}, Want: spec.Inconclusive},
		{Name: "another one called", Build: func(s scene.Scene) {
			calling(s, func(x *timeline.Sample) { x.Stream = flow.To(x.Stream.Flow(), "uid-c") })
		}, Want: spec.Inconclusive},
	})
}

// The finding says that it was the sidecar, where the recording shows that, and nothing else.
func TestLikelySidecar(t *testing.T) {
	const after = scene.D + 3*time.Second
	refuses := func(s scene.Scene) {
		calling(s, func(x *timeline.Sample) {
			if isNew(x) && x.Start > after {
				refused(x)
			}
		})
	}
	for name, tc := range map[string]struct {
		build func(scene.Scene)
		want  string
	}{
		"refused": {refuses, "The sidecar takes no connection of its app any more"},
		"nobody else was served": {func(s scene.Scene) {
			refuses(s)
			for i := range s.Samples {
				if s.Samples[i].Stream.Target() == scene.OtherUID && s.Samples[i].Start > scene.D {
					refused(&s.Samples[i])
				}
			}
		}, ""},
		"gone": {func(s scene.Scene) {
			refuses(s)
			s.Event(0, timeline.Marker, "", map[string]string{"what": assertions.MarkSubject, "container": "echo"})
			s.Event(after, timeline.ProcExit, scene.UID, map[string]string{"container": "proxy"})
			s.Event(scene.Exit, timeline.ProcExit, scene.UID, map[string]string{"container": "echo"})
		}, "The sidecar is gone before its app: the process of the container proxy"},
		"gone between the deletion and D": {func(s scene.Scene) {
			refuses(s)
			deletedEarly(s)
			s.Event(0, timeline.Marker, "", map[string]string{"what": assertions.MarkSubject, "container": "echo"})
			s.Event(scene.D-500*time.Millisecond, timeline.ProcExit, scene.UID, map[string]string{"container": "proxy"})
			s.Event(scene.Exit, timeline.ProcExit, scene.UID, map[string]string{"container": "echo"})
		}, "The sidecar is gone before its app: the process of the container proxy"},
		"gone, who was there for a vendor's drain": {func(s scene.Scene) {
			refuses(s)
			vendors(s)
			s.Event(after, timeline.ProcExit, scene.UID, map[string]string{"container": "hook"})
			s.Event(scene.Exit, timeline.ProcExit, scene.UID, map[string]string{"container": "echo"})
		}, "The sidecar takes no connection of its app any more"},
		"gone, a vendor's": {func(s scene.Scene) {
			refuses(s)
			vendors(s)
			s.Event(after, timeline.ProcExit, scene.UID, map[string]string{"container": "proxy"})
			s.Event(scene.Exit, timeline.ProcExit, scene.UID, map[string]string{"container": "echo"})
		}, "The sidecar is gone before its app: the process of the container proxy"},
		"cut": {func(s scene.Scene) {
			calling(s, func(x *timeline.Sample) {
				if x.Start <= scene.D && x.End > scene.D {
					x.Outcome, x.Phase = timeline.Reset, timeline.PhaseFirstByte
				}
			})
		}, "The sidecar ends connections of its app"},
		"no answer": {func(s scene.Scene) {
			calling(s, func(x *timeline.Sample) {
				if x.Start > after {
					x.Outcome, x.Phase = timeline.Status, timeline.PhaseDone
				}
			})
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := scene.Quiet()
			tc.build(s)
			s.Sort()
			f := judged(CallsServed())(s.Timeline)
			scene.Holds(t, f, spec.Fail)
			if tc.want == "" && f.Cause != "" || !strings.HasPrefix(f.Cause, tc.want) {
				t.Errorf("the cause is %q, want %q", f.Cause, tc.want)
			}
		})
	}
}

func TestCallsNotDrained(t *testing.T) {
	kept := flow.To(Calls[1].Flow, scene.UID)
	kept2 := flow.To(Calls[2].Flow, scene.UID)
	frame := func(at time.Duration, of flow.Stream, kind timeline.FrameKind) func(scene.Scene) {
		return func(s scene.Scene) {
			calling(s, nil)
			s.Frames = append(s.Frames, timeline.Frame{At: at, Stream: of, Conn: 3, Kind: kind})
		}
	}
	const after = scene.D + 3*time.Second
	scene.Judge(t, judged(CallsNotDrained()), []scene.Row{
		{Name: "they are left alone", Build: func(s scene.Scene) { calling(s, nil) }, Want: spec.Pass},
		{Name: "a FIN", Build: frame(after, kept, timeline.FrameFIN), Want: spec.Fail},
		{Name: "a FIN, and who is called is away", Build: func(s scene.Scene) {
			frame(after, kept, timeline.FrameFIN)(s)
			away(s, after)
		}, Want: spec.Inconclusive},
		{Name: "an RST", Build: frame(after, kept2, timeline.FrameRST), Want: spec.Fail},
		{Name: "a GOAWAY", Build: frame(after, kept2, timeline.FrameGoAway), Want: spec.Fail},
		{Name: "its own end", Build: frame(after, kept, timeline.FrameClose), Want: spec.Pass},
		{Name: "when it had ended its calls", Build: frame(ended+1, kept, timeline.FrameFIN), Want: spec.Pass},
		{Name: "before D", Build: frame(scene.D-time.Second, kept, timeline.FrameFIN), Want: spec.Pass},
		{Name: "between the deletion and D", Build: func(s scene.Scene) {
			deletedEarly(s)
			frame(scene.D-500*time.Millisecond, kept, timeline.FrameRST)(s)
		}, Want: spec.Fail},
		{Name: "another's", Build: frame(after, flow.To(Calls[1].Flow, scene.OtherUID), timeline.FrameFIN), Want: spec.Pass},
		{Name: "one for one call", Build: frame(after, flow.To(Calls[0].Flow, scene.UID), timeline.FrameFIN), Want: spec.Pass},
		{Name: "Connection: close", Build: func(s scene.Scene) {
			calling(s, func(x *timeline.Sample) { x.LastOnConn = x.Stream == kept && x.Start > after })
		}, Want: spec.Fail},
		{Name: "none was kept in HTTP/2", Build: func(s scene.Scene) {
			calling(s, func(x *timeline.Sample) {
				if x.Stream == kept2 && x.Start < scene.D {
					x.Stream = flow.Stream{}
				}
			})
		}, Want: spec.Inconclusive},
		{Name: "it never said that it had ended", Build: func(s scene.Scene) {
			calling(s, nil)
			s.Drop(func(e timeline.Event) bool { return e.Kind == timeline.DrainEnd })
		}, Want: spec.Inconclusive},
	})
}

func TestCallsThroughProxy(t *testing.T) {
	look := func(pod, peer, sockets string) func(scene.Scene) {
		return func(s scene.Scene) {
			s.Event(0, timeline.PodSeen, scene.UID, map[string]string{"ip": "10.1.2.3"})
			for at := scene.D - before; at < scene.D; at += 250 * time.Millisecond {
				s.Event(at, timeline.Sockets, pod, map[string]string{"peer": peer, "sockets": sockets})
			}
		}
	}
	const open = "7/established/10.1.2.3:4001"
	check := CallsThroughProxy(assertions.Check{Name: "a rule", Expected: "it is kept", Judge: func(assertions.Case) spec.Finding {
		return spec.Finding{Verdict: spec.Pass, Actual: "it was kept"}
	}})
	scene.Judge(t, judged(check), []scene.Row{
		{Name: "a tunnel", Build: look(scene.UID, "10.1.2.9:15008", open), Want: spec.Pass},
		{Name: "none", Build: look(scene.UID, "10.1.2.9:15008", ""), Want: spec.Inconclusive},
		{Name: "another's", Build: look(scene.OtherUID, "10.1.2.9:15008", open), Want: spec.Inconclusive},
		{Name: "to the app itself", Build: look(scene.UID, "10.1.2.9:8080", open), Want: spec.Inconclusive},
		{Name: "its clients'", Build: look("uid-probe", "10.1.2.3:15008", open), Want: spec.Inconclusive},
	})
}
