// SPDX-License-Identifier: Apache-2.0

package assertions

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lastcall-dev/lastcall/assertions/timeline"
	"github.com/lastcall-dev/lastcall/load/flow"
	"github.com/lastcall-dev/lastcall/suites/spec"
)

const pooledIP = "127.1.2.3"

// told is an instance's word that it told a connection's other side.
func (s *scene) told(at time.Duration, conn int, by string) *scene {
	return s.wire(at, timeline.ConnTold, conn, by)
}

func (s *scene) heard(at time.Duration, conn int, by string) *scene {
	return s.wire(at, timeline.ConnHeard, conn, by)
}

func (s *scene) asked(at time.Duration, conn int, by string) *scene {
	return s.wire(at, timeline.ConnAsked, conn, by)
}

func (s *scene) wire(at time.Duration, kind timeline.EventKind, conn int, by string) *scene {
	s.event(at, kind, uid, map[string]string{"conn": fmt.Sprint(conn), "by": by, "peer": "127.9.9.9:1"})
	return s
}

// through is a stream through the Service, from before D to beyond the exit.
func (s *scene) through(name string, rate int, set func(*timeline.Sample)) {
	step := sec / time.Duration(rate)
	for at := 6 * sec; at < 24*sec; at += step {
		x := timeline.Sample{
			Stream: flow.Named(name), ID: fmt.Sprintf("%s#%d", name, at), Conn: 1, Nth: 2, Due: at, Start: at, Sent: at, First: at + 1, End: at + 2*time.Millisecond,
			Outcome: timeline.OK, Phase: timeline.PhaseDone, Server: "uid-b", Status: 200,
		}
		if set != nil {
			set(&x)
		}
		s.add(x)
	}
}

func TestNoReuseAfterClose(t *testing.T) {
	// ended has six connections closed at 12 s.
	ended := func(s *scene) *scene {
		times(6, func(i time.Duration) {
			s.told(12*sec+i, int(i), timeline.ToldByFIN).heard(12*sec+i+1, int(i), timeline.ToldByFIN)
		})
		return s
	}
	check := NoReuseAfterClose()
	judgeWire(t, []wireCase{
		{"left alone", check, func(s *scene) { ended(s) }, spec.Pass},
		{"asked after its FIN", check, func(s *scene) {
			ended(s).told(12*sec, 99, timeline.ToldByFIN).asked(12*sec+noCrossing+1, 99, timeline.ToldByFIN)
		}, spec.Fail},
		{"asked soon after its FIN", check, func(s *scene) {
			ended(s).told(12*sec, 99, timeline.ToldByFIN).asked(12*sec+crossing+1, 99, timeline.ToldByFIN)
		}, spec.Inconclusive},
		{"asked as it was closed", check, func(s *scene) {
			ended(s).told(12*sec, 99, timeline.ToldByFIN).asked(12*sec+crossing, 99, timeline.ToldByFIN)
		}, spec.Pass},
		{"asked as it was closed, and again", check, func(s *scene) {
			ended(s).told(12*sec, 99, timeline.ToldByFIN).asked(12*sec+1, 99, timeline.ToldByFIN).asked(14*sec, 99, timeline.ToldByFIN)
		}, spec.Fail},
		{"asked after it had read a GOAWAY", check, func(s *scene) {
			ended(s).told(12*sec, 99, timeline.ToldByGoAway).heard(12*sec+1, 99, timeline.ToldByGoAway).asked(14*sec, 99, timeline.ToldByGoAway)
		}, spec.Fail},
		{"asked long after a GOAWAY that it then read", check, func(s *scene) {
			ended(s).told(10*sec, 99, timeline.ToldByGoAway).asked(14*sec, 99, timeline.ToldByGoAway).heard(14*sec+1, 99, timeline.ToldByGoAway)
		}, spec.Fail},
		{"asked soon after a GOAWAY that it never read", check, func(s *scene) {
			ended(s).told(12*sec, 99, timeline.ToldByGoAway).asked(12*sec+sec/2, 99, timeline.ToldByGoAway)
		}, spec.Inconclusive},
		{"few were closed", check, func(s *scene) { s.told(12*sec, 1, timeline.ToldByFIN) }, spec.Inconclusive},
		{"another instance's", check, func(s *scene) {
			ended(s)
			s.event(13*sec, timeline.ConnAsked, "uid-b", map[string]string{"conn": "0", "by": timeline.ToldByFIN})
		}, spec.Pass},
	})
}

func TestHeedsCloseNotify(t *testing.T) {
	ended := func(s *scene) *scene {
		times(6, func(i time.Duration) {
			s.told(12*sec+i, int(i), timeline.ToldByCloseNotify).heard(12*sec+i+1, int(i), timeline.ToldByCloseNotify)
		})
		return s
	}
	one := func(after time.Duration) func(*scene) {
		return func(s *scene) {
			ended(s).told(12*sec, 99, timeline.ToldByCloseNotify).asked(12*sec+after, 99, timeline.ToldByCloseNotify)
		}
	}
	check := HeedsCloseNotify()
	judgeWire(t, []wireCase{
		{"left alone", check, func(s *scene) { ended(s) }, spec.Pass},
		{"asked after it", check, one(noCrossing + 1), spec.Fail},
		{"asked soon after it", check, one(crossing + 1), spec.Inconclusive},
		{"asked as it was said", check, one(crossing), spec.Pass},
		{"asked after it, on a starved machine", check, func(s *scene) {
			one(noCrossing + 1)(s)
			s.through("service/http1/reused/get", 20, func(x *timeline.Sample) { x.Saturated = true })
		}, spec.Inconclusive},
		{"a FIN is another's", check, func(s *scene) {
			ended(s).told(12*sec, 99, timeline.ToldByFIN).asked(14*sec, 99, timeline.ToldByFIN)
		}, spec.Pass},
		{"few were ended", check, func(s *scene) { s.told(12*sec, 1, timeline.ToldByCloseNotify) }, spec.Inconclusive},
		{"only others were ended", check, func(s *scene) {
			times(6, func(i time.Duration) { s.told(12*sec+i, int(i), timeline.ToldByFIN) })
		}, spec.Inconclusive},
	})
}

func TestObeysGoAway(t *testing.T) {
	calls := func(s *scene) *scene {
		s.through("service/h2c/reused/grpc-unary", 25, nil)
		return s
	}
	away := func(s *scene) *scene {
		return calls(s).told(wireD+1, 1, timeline.ToldByGoAway).heard(wireD+2, 1, timeline.ToldByGoAway)
	}
	check := ObeysGoAway()
	judgeWire(t, []wireCase{
		{"moves on", check, func(s *scene) { away(s) }, spec.Pass},
		{"goes on", check, func(s *scene) { away(s).asked(wireD+2*sec, 1, timeline.ToldByGoAway) }, spec.Fail},
		{"one crossed it", check, func(s *scene) { away(s).asked(wireD+2+crossing, 1, timeline.ToldByGoAway) }, spec.Pass},
		{"one came before it was read", check, func(s *scene) {
			calls(s).told(wireD+1, 1, timeline.ToldByGoAway).asked(wireD+sec/2, 1, timeline.ToldByGoAway).heard(wireD+sec, 1, timeline.ToldByGoAway)
		}, spec.Pass},
		{"goes on, and never answers the PING", check, func(s *scene) {
			away(s).told(wireD+1, 2, timeline.ToldByGoAway).asked(wireD+sec, 2, timeline.ToldByGoAway)
		}, spec.Inconclusive},
		{"never answers the PING, and asks for nothing", check, func(s *scene) { away(s).told(wireD+1, 2, timeline.ToldByGoAway) }, spec.Pass},
		{"no GOAWAY was read", check, func(s *scene) { calls(s).told(wireD+1, 1, timeline.ToldByGoAway) }, spec.Inconclusive},
		{"no calls", check, func(s *scene) { s.told(wireD+1, 1, timeline.ToldByGoAway).heard(wireD+2, 1, timeline.ToldByGoAway) }, spec.Inconclusive},
		{"goes on for long, on a starved machine", check, func(s *scene) {
			away(s).asked(wireD+sec/2, 1, timeline.ToldByGoAway).asked(wireD+2*sec, 1, timeline.ToldByGoAway)
			s.through("service/h2c/reused/grpc-unary", 20, func(x *timeline.Sample) { x.Saturated = true })
		}, spec.Inconclusive},
		{"a FIN is another's", check, func(s *scene) { away(s).told(wireD+1, 2, timeline.ToldByFIN).asked(wireD+sec, 2, timeline.ToldByFIN) }, spec.Pass},
		{"goes on for a moment", check, func(s *scene) { away(s).asked(wireD+sec/2, 1, timeline.ToldByGoAway) }, spec.Inconclusive},
	})
}

func TestEvictsPool(t *testing.T) {
	// look has the gateway looked at each quarter of a second: six sockets, until
	// an instant, and one of the successor's.
	look := func(s *scene, until, from time.Duration) {
		s.event(4*sec, timeline.PodSeen, uid, map[string]string{"ip": pooledIP})
		for at := 6 * sec; at < 25*sec; at += sec / 4 {
			list := ""
			for i := range 6 {
				if at < until {
					list += fmt.Sprintf(" %d/established/127.0.0.1:%d", 100+i, 1000+i)
				}
			}
			if at > from {
				list += " 200/established/127.0.0.1:1000"
			}
			s.event(at, timeline.Sockets, "uid-g", map[string]string{"peer": pooledIP + ":18080", "sockets": list})
		}
	}
	stays := func(state string) func(*scene) {
		return func(s *scene) {
			look(s, wireExit, wireExit+sec)
			s.event(wireExit-sec/8, timeline.Sockets, "uid-g", map[string]string{"peer": pooledIP + ":18080", "sockets": "100/established/127.0.0.1:1000"})
			s.event(wireExit+evictWithin+sec/8, timeline.Sockets, "uid-g", map[string]string{"peer": pooledIP + ":18080", "sockets": "100/" + state + "/127.0.0.1:1000"})
		}
	}
	check := EvictsPool()
	judgeWire(t, []wireCase{
		{"closed with the exit", check, func(s *scene) { look(s, wireExit, wireExit+sec) }, spec.Pass},
		{"closed within the time", check, func(s *scene) { look(s, wireExit+evictWithin, wireExit+sec) }, spec.Pass},
		{"never closed", check, func(s *scene) { look(s, 30*sec, wireExit+sec) }, spec.Fail},
		{"one is left in CLOSE_WAIT", check, stays("close-wait"), spec.Fail},
		{"one is left, established", check, stays("established"), spec.Fail},
		{"one is left, on a starved machine", check, func(s *scene) {
			stays("close-wait")(s)
			s.through("service/http1/reused/get", 20, func(x *timeline.Sample) { x.Saturated = true })
		}, spec.Inconclusive},
		{"the successor's at the old address", check, func(s *scene) { look(s, wireExit, wireExit) }, spec.Pass},
		{"another backend's", check, func(s *scene) {
			look(s, wireExit, 30*sec)
			for _, at := range []time.Duration{9 * sec, 24 * sec} {
				s.event(at, timeline.Sockets, "uid-g", map[string]string{"peer": "127.1.2.4:18080", "sockets": "1/established/127.0.0.1:9"})
			}
		}, spec.Pass},
		{"a socket to another port of it stays", check, func(s *scene) {
			look(s, wireExit, 30*sec)
			for at := 6 * sec; at < 25*sec; at += sec / 4 {
				s.event(at, timeline.Sockets, "uid-g", map[string]string{"peer": pooledIP + ":18443", "sockets": "9/close-wait/127.0.0.1:9"})
			}
		}, spec.Fail},
		{"most of those that stood were to another port of it", check, func(s *scene) {
			look(s, 6*sec, 30*sec)
			for at := 6 * sec; at < 25*sec; at += sec / 4 {
				list := ""
				if at < wireExit {
					list = "1/established/a 2/established/b 3/established/c 4/established/d 5/established/e"
				}
				s.event(at, timeline.Sockets, "uid-g", map[string]string{"peer": pooledIP + ":18443", "sockets": list})
			}
		}, spec.Pass},
		{"dialled at a Service's address", check, func(s *scene) {
			s.event(sec, timeline.PodAddress, uid, map[string]string{"address": "10.96.0.7"})
			look(s, 6*sec, 30*sec) // what goes to its own address is another's
			for at := 6 * sec; at < 25*sec; at += sec / 4 {
				s.event(at, timeline.Sockets, "uid-g", map[string]string{"peer": "10.96.0.7:8080", "sockets": "1/established/a 2/established/b 3/established/c 4/established/d 5/established/e"})
			}
		}, spec.Fail},
		{"there were none", check, func(s *scene) { look(s, 6*sec, 30*sec) }, spec.Inconclusive},
		{"nobody looked afterwards", check, func(s *scene) {
			look(s, 30*sec, 30*sec)
			s.drop(func(e timeline.Event) bool { return e.Kind == timeline.Sockets && e.At > wireExit+sec })
		}, spec.Inconclusive},
		{"nobody saw the exit", check, func(s *scene) {
			look(s, wireExit, 30*sec)
			s.drop(func(e timeline.Event) bool { return e.Kind == timeline.ProcExit })
		}, spec.Inconclusive},
	})
}

func TestReplaysSafely(t *testing.T) {
	const stream = "service/http1/reused/post/11s"
	// good has three POSTs cut at the deadline, and many others.
	good := func(s *scene) {
		s.through("service/http1/reused/post/500ms", 20, nil)
		for i := range 3 {
			at := 9*sec + time.Duration(i)
			id := fmt.Sprintf("cut-%d", i)
			s.add(timeline.Sample{
				Stream: flow.Named(stream), ID: id, Conn: uint64(i), Nth: 2, Start: at, End: wireDeadline, Outcome: timeline.Status, Phase: timeline.PhaseDone, Status: 502,
			})
			s.tl.Ledger = append(s.tl.Ledger,
				timeline.Entry{At: at, ID: id, Step: timeline.Begin, Pod: uid, Method: "POST"},
				timeline.Entry{At: wireDeadline, ID: id, Step: timeline.Done, Pod: uid, Method: "POST"})
		}
	}
	again := func(s *scene, id, method string) {
		s.tl.Ledger = append(s.tl.Ledger, timeline.Entry{At: wireDeadline + 1, ID: id, Step: timeline.Begin, Pod: "uid-b", Method: method})
	}
	check := ReplaysSafely()
	judgeWire(t, []wireCase{
		{"once", check, good, spec.Pass},
		{"sent again", check, func(s *scene) { good(s); again(s, "cut-0", "POST") }, spec.Fail},
		{"sent again, and answered", check, func(s *scene) {
			good(s)
			again(s, "cut-0", "POST")
			s.each(func(x *timeline.Sample) {
				if x.ID == "cut-0" {
					x.Outcome, x.Status = timeline.OK, 200
				}
			})
			s.tl.Ledger = append(s.tl.Ledger, timeline.Entry{At: wireDeadline + 2, ID: "cut-0", Step: timeline.Done, Pod: "uid-b", Method: "POST", Whole: true})
		}, spec.Fail},
		{"a GET sent again", check, func(s *scene) {
			good(s)
			s.through("service/http1/reused/get", 5, nil)
			for i := range s.tl.Ledger {
				if x := &s.tl.Ledger[i]; x.Method == "" {
					x.Method = "GET"
				}
			}
			again(s, fmt.Sprintf("service/http1/reused/get#%d", 7*sec), "GET")
		}, spec.Pass},
		{"a call sent again is another's", check, func(s *scene) {
			good(s)
			s.through("service/h2c/reused/grpc-unary", 5, nil)
			again(s, fmt.Sprintf("service/h2c/reused/grpc-unary#%d", 7*sec), "POST")
		}, spec.Pass},
		{"none was cut", check, func(s *scene) { s.through("service/http1/reused/post/500ms", 20, nil) }, spec.Inconclusive},
		{"few were offered", check, func(s *scene) {
			good(s)
			s.each(func(x *timeline.Sample) { x.Nth = 1 })
		}, spec.Inconclusive},
		{"what goes on in TLS stands for no other", check, func(s *scene) {
			good(s)
			s.each(func(x *timeline.Sample) {
				x.Stream = flow.Named(strings.Replace(x.Stream.String(), "/http1/", "/http1-backendtls/", 1))
			})
		}, spec.Inconclusive},
		{"sent again to a backend in TLS", check, func(s *scene) {
			good(s)
			s.through("service/http1-backendtls/reused/post/500ms", 5, nil)
			again(s, fmt.Sprintf("service/http1-backendtls/reused/post/500ms#%d", 7*sec), "POST")
		}, spec.Fail},
		{"the ledger's tail is missing", check, func(s *scene) {
			good(s)
			s.tl.Ledger = s.tl.Ledger[10:]
		}, spec.Inconclusive},
	})
}

func TestNothingLostAtGoAway(t *testing.T) {
	const long = "service/h2c/reused/grpc-server/3s"
	good := func(s *scene, set func(*timeline.Sample)) {
		s.event(wireShut, timeline.DrainListenerClosed, uid, nil)
		s.told(wireD+1, 1, timeline.ToldByGoAway)
		s.through("service/h2c/reused/grpc-unary", 25, set)
		s.through(long, 2, func(x *timeline.Sample) {
			x.End = x.Start + 3*sec
			if set != nil {
				set(x)
			}
		})
	}
	one := func(stream string, at time.Duration, o timeline.Outcome, phase timeline.Phase) func(*scene) {
		return func(s *scene) {
			hit := false
			good(s, func(x *timeline.Sample) {
				if x.Stream == flow.Named(stream) && x.Start >= at && !hit {
					hit = true
					x.Outcome, x.Phase = o, phase
				}
			})
		}
	}
	const unary = "service/h2c/reused/grpc-unary"
	check := NothingLostAtGoAway()
	judgeWire(t, []wireCase{
		{"nothing is lost", check, func(s *scene) { good(s, nil) }, spec.Pass},
		{"one that ran at D is cut", check, one(long, 9*sec, timeline.StreamReset, timeline.PhaseBody), spec.Fail},
		{"one that came after D is cut", check, one(unary, 11*sec, timeline.Closed, timeline.PhaseFirstByte), spec.Fail},
		{"one is answered with an error", check, one(unary, 11*sec, timeline.Status, timeline.PhaseDone), spec.Fail},
		{"one is refused as not processed", check, one(unary, 11*sec, timeline.RefusedStream, timeline.PhaseFirstByte), spec.Pass},
		{"one broke before D", check, one(unary, 8*sec, timeline.Closed, timeline.PhaseFirstByte), spec.Pass},
		{"one broke at the listener's end", check, one(unary, wireShut-atTheDoor, timeline.Status, timeline.PhaseDone), spec.Pass},
		{"one gets no answer, on a starved machine", check, func(s *scene) {
			one(unary, 11*sec, timeline.Timeout, timeline.PhaseFirstByte)(s)
			s.through("service/http1/reused/get", 25, func(x *timeline.Sample) { x.Saturated = true })
		}, spec.Inconclusive},
		{"no GOAWAY", check, func(s *scene) {
			good(s, nil)
			s.drop(func(e timeline.Event) bool { return e.Kind == timeline.ConnTold })
		}, spec.Inconclusive},
		{"few calls", check, func(s *scene) {
			good(s, func(x *timeline.Sample) { x.Saturated = x.Start < 12*sec })
		}, spec.Inconclusive},
	})
}

// What the gateway's own gauge said stands beside what was counted at the same look.
func TestOwnCount(t *testing.T) {
	look := func(s *scene, at time.Duration, value string) {
		for _, peer := range []string{"127.1.2.3:80", "127.1.2.4:80"} {
			s.event(at, timeline.Sockets, "gw", map[string]string{"peer": peer, "sockets": "1/established/a 2/close-wait/b"})
		}
		s.event(at+1, timeline.Gauge, "gw", map[string]string{"gauge": "upstreamPool", "value": value})
	}
	s := &scene{}
	if got := ownCount(&s.tl); got != "" {
		t.Errorf("without a gauge: %q", got)
	}
	look(s, sec, "9")
	look(s, 2*sec, "4")
	s.event(3*sec, timeline.Sockets, "gw", map[string]string{"peer": "127.1.2.3:80", "sockets": ""})
	if got, want := ownCount(&s.tl), "had 4 sockets to all of its backends, and its own gauge said 4"; !strings.Contains(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	s.event(4*sec, timeline.Gauge, "gw", map[string]string{"gauge": "upstreamPool", "error": "status 503"})
	if got := ownCount(&s.tl); !strings.Contains(got, "status 503") {
		t.Errorf("unread: %q", got)
	}
}
