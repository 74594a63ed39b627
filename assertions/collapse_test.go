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

const (
	fallUnready = 18 * sec
	fallShut    = 30 * sec
	// lag is how long the probe, the slice and kube-proxy take together.
	lag = 900 * time.Millisecond
)

// home is where the pods of a collapsing set are.
var home = map[string]string{"uid-a": "n1", "uid-b": "n1", "uid-c": "n2"}

// collapsing is the timeline of three pods that are deleted together at 10 s:
// they stop serving at unready and accepting at shut, and kube-proxy does what
// it must, on all paths.
func collapsing(unready, shut time.Duration) *scene {
	s := &scene{p: 3 * sec}
	for at, what := range map[time.Duration]string{5 * sec: MarkSteady, shut + 6*sec: MarkTail} {
		s.tell(at, timeline.Marker, "", map[string]string{"what": what})
	}
	s.tell(del-10*time.Millisecond, timeline.Disruption, "deployment", map[string]string{"what": "scale-down"})
	for pod := range home {
		s.tell(sec, timeline.PodSeen, pod, nil)
		for _, service := range []string{"echo", "nodeport-local"} {
			s.endpoint(sec, pod, service, "TTF")
			s.endpoint(del+50*time.Millisecond, pod, service, "FTT")
			s.endpoint(unready+700*time.Millisecond, pod, service, "FFT")
			s.tell(shut+400*time.Millisecond, timeline.EndpointGone, pod, map[string]string{"service": service})
		}
		s.tell(del, timeline.PodDeletion, pod, map[string]string{"grace": "45"})
		s.tell(del+10*time.Millisecond, timeline.DrainStart, pod, nil)
		s.tell(unready, timeline.DrainUnready, pod, nil)
		s.tell(unready+600*time.Millisecond, timeline.PodReady, pod, map[string]string{"ready": "false"})
		s.tell(shut, timeline.DrainListenerClosed, pod, nil)
		s.tell(shut+200*time.Millisecond, timeline.ProcExit, pod, nil)
		s.tell(shut+500*time.Millisecond, timeline.PodGone, pod, nil)
		s.streamTo("direct/http1/new/get@"+pod, 10, shut+5*sec, func(x *timeline.Sample) {
			x.Server = pod
			if x.Start >= shut {
				turn(x)
			}
		})
	}
	through := func(name string, pods ...string) {
		n := 0
		s.streamTo(name, 30, shut+5*sec, func(x *timeline.Sample) {
			n++
			x.Server = pods[n%len(pods)]
			if x.Start >= unready+lag {
				turn(x)
			}
		})
	}
	through("service/http1/new/get", "uid-a", "uid-b", "uid-c")
	through("service-local/http1/new/get", "uid-a", "uid-b")
	through("nodeport/http1/new/get", "uid-a", "uid-b", "uid-c")
	through("nodeport-local/http1/new/get@n1", "uid-a", "uid-b")
	through("nodeport-local/http1/new/get@n2", "uid-c")
	for _, node := range []string{"n1", "n2"} {
		s.streamTo("health/http1/new/check@"+node, 10, shut+5*sec, func(x *timeline.Sample) {
			if x.Start >= del+lag {
				x.Outcome, x.Status = timeline.Status, 503
			}
		})
	}
	return s
}

// restarting is collapsing with both kube-proxies replaced in the middle.
func restarting() *scene {
	const unready = 25 * sec
	s := collapsing(unready, 33*sec)
	for node, done := range map[string]time.Duration{"n1": 15500 * time.Millisecond, "n2": 16 * sec} {
		s.tell(12*sec, timeline.Disruption, node, map[string]string{"what": "restart-kube-proxy"})
		s.tell(done, timeline.Disruption, node, map[string]string{"what": "restart-kube-proxy", "done": "true"})
	}
	s.streamTo("service/http1/new/slow/8s", 5, 35*sec, func(x *timeline.Sample) {
		x.Server, x.End = "uid-b", x.Start+8*sec
		if x.Start >= unready+lag {
			x.End = x.Start
			turn(x)
		}
	})
	s.streamTo("service/http1/reused/get", 20, 35*sec, func(x *timeline.Sample) {
		x.Server = "uid-a"
		if x.Start >= unready+lag {
			turn(x)
		}
	})
	return s
}

// tell adds an event about a pod, at its home.
func (s *scene) tell(at time.Duration, kind timeline.EventKind, subject string, attrs map[string]string) {
	s.tl.Events = append(s.tl.Events, timeline.Event{At: at, Source: "test", Kind: kind, Subject: subject, Name: subject, Node: home[subject], Attrs: attrs})
}

// endpoint adds a state by its three letters.
func (s *scene) endpoint(at time.Duration, pod, service, letters string) {
	is := func(i int) string { return fmt.Sprint(letters[i] == 'T') }
	s.tell(at, timeline.Endpoint, pod, map[string]string{"service": service, "ready": is(0), "serving": is(1), "terminating": is(2)})
}

// turn makes an attempt be turned away before it has a connection.
func turn(x *timeline.Sample) {
	fail(x, timeline.Refused)
	x.Dial = 0
}

// from changes the samples of the streams of a path, in a stretch of time.
func (s *scene) from(path flow.Path, from, to time.Duration, set func(*timeline.Sample)) {
	s.each(func(x *timeline.Sample) {
		if x.Stream.Flow().Path == path && x.Start >= from && x.Start < to {
			set(x)
		}
	})
}

func noSamples(path flow.Path) func(*scene) {
	return func(s *scene) {
		s.tl.Samples = slices.DeleteFunc(s.tl.Samples, func(x timeline.Sample) bool { return x.Stream.Flow().Path == path })
	}
}

func noEvents(kinds ...timeline.EventKind) func(*scene) {
	return func(s *scene) { s.drop(func(e timeline.Event) bool { return slices.Contains(kinds, e.Kind) }) }
}

// What the slices say under the faults of fixtures/slicewriter, and what
// kube-proxy then does.

// dropTerminating: endpoints go at the deletion, nothing is served any more.
func dropTerminating(unready, shut time.Duration) func(*scene) {
	return func(s *scene) {
		s.drop(func(e timeline.Event) bool {
			return e.Kind == timeline.Endpoint && e.At > del || e.Kind == timeline.EndpointGone
		})
		for pod := range home {
			for _, service := range []string{"echo", "nodeport-local"} {
				s.tell(del+50*time.Millisecond, timeline.EndpointGone, pod, map[string]string{"service": service})
			}
		}
		for _, w := range []flow.Path{flow.Service, flow.ServiceLocal, flow.NodePort, flow.NodePortLocal} {
			s.from(w, del+lag, shut+5*sec, func(x *timeline.Sample) {
				// What was in flight has its connection.
				if !slowOp(*x) && x.Start < unready+lag {
					turn(x)
				}
			})
		}
	}
}

// forgetTerminating: endpoints go 4 s after the deletion, and nothing is served
// from then on.
func forgetTerminating(unready, shut time.Duration) func(*scene) {
	return func(s *scene) {
		forgotten := del + 4*sec
		s.drop(func(e timeline.Event) bool {
			return e.Kind == timeline.Endpoint && e.At > forgotten || e.Kind == timeline.EndpointGone
		})
		for pod := range home {
			s.tell(forgotten, timeline.EndpointGone, pod, map[string]string{"service": "echo"})
		}
		s.from(flow.Service, forgotten+lag, shut+5*sec, func(x *timeline.Sample) {
			if !slowOp(*x) && x.Start < unready+lag {
				turn(x)
			}
		})
	}
}

// alwaysServing: the slices never say that they don't serve.
func alwaysServing(s *scene) {
	s.drop(func(e timeline.Event) bool { return e.Kind == timeline.Endpoint && e.Attrs["serving"] == "false" })
	for _, w := range []flow.Path{flow.Service, flow.ServiceLocal, flow.NodePort, flow.NodePortLocal} {
		s.from(w, fallUnready, fallShut, func(x *timeline.Sample) {
			x.Outcome, x.Phase, x.Server, x.Dial = timeline.OK, timeline.PhaseDone, "uid-a", x.Start+1
			if strings.HasSuffix(x.Stream.String(), "@n2") {
				x.Server = "uid-c"
			}
		})
	}
}

// noTerminating: the pods are ready until they are not.
func noTerminating(s *scene) {
	for i := range s.tl.Events {
		e := &s.tl.Events[i]
		if e.Kind == timeline.Endpoint && e.At > del {
			e.Attrs["terminating"] = "false"
			e.Attrs["ready"] = e.Attrs["serving"]
		}
	}
	s.from(flow.HealthPort, del, fallUnready+lag, func(x *timeline.Sample) { x.Outcome, x.Status = timeline.OK, 0 })
}

func TestCollapse(t *testing.T) {
	one := func(path flow.Path, at time.Duration, o timeline.Outcome) func(*scene) {
		return func(s *scene) {
			done := false
			s.from(path, at, at+sec, func(x *timeline.Sample) {
				if !done {
					fail(x, o)
					done = true
				}
			})
		}
	}
	letIn := func(path flow.Path, pod string) func(*scene) {
		return func(s *scene) {
			s.from(path, 25*sec, 25*sec+100*time.Millisecond, func(x *timeline.Sample) {
				x.Outcome, x.Dial, x.Server = timeline.OK, x.Start+1, pod
			})
		}
	}
	deafFrom := func(at time.Duration) func(*scene) {
		return func(s *scene) { s.from("direct", at, 40*sec, turn) }
	}
	build := once(func() *scene { return collapsing(fallUnready, fallShut) })
	t.Run("falls back", func(t *testing.T) {
		table(t, build, FallsBack(), []judged{
			{"healthy", nil, spec.Pass, ""},
			{"one lost inside the cluster", one(flow.Service, 15*sec, timeline.Refused), spec.Fail, ""},
			{"one lost with the internal policy Local", one(flow.ServiceLocal, 15*sec, timeline.Timeout), spec.Fail, ""},
			{"one lost from outside", one(flow.NodePort, 15*sec, timeline.Reset), spec.Fail, ""},
			{"one lost with the external policy Local", one(flow.NodePortLocal, 15*sec, timeline.Timeout), spec.Fail, ""},
			{"lost before T_endpoint + P counts too", one(flow.Service, 10500*time.Millisecond, timeline.Refused), spec.Fail, ""},
			{"lost later", one(flow.Service, 15*sec, timeline.Refused), spec.Fail, "T_endpoint + 4.9"},
			{"lost, and no slice said terminating", func(s *scene) {
				noTerminating(s)
				one(flow.Service, 15*sec, timeline.Refused)(s)
			}, spec.Fail, "T_del + 5.0"},
			{"lost before the deletion is not this rule's", one(flow.Service, 8*sec, timeline.Refused), spec.Pass, ""},
			{"slices without terminating endpoints", dropTerminating(fallUnready, fallShut), spec.Fail, ""},
			{"slices that always say serving", alwaysServing, spec.Pass, ""},
			{"slices that never say terminating", noTerminating, spec.Pass, ""},
			{"one path was not used", noSamples(flow.ServiceLocal), spec.Inconclusive, ""},
			{"one node was not used", func(s *scene) {
				s.tl.Samples = slices.DeleteFunc(s.tl.Samples, func(x timeline.Sample) bool { return strings.HasSuffix(x.Stream.String(), "get@n2") })
			}, spec.Inconclusive, ""},
			{"saturated samples are no evidence", func(s *scene) {
				s.each(func(x *timeline.Sample) { x.Saturated = true })
			}, spec.Inconclusive, ""},
			{"the pods said at once that they don't serve", func(s *scene) {
				s.tell(del+100*time.Millisecond, timeline.DrainUnready, "uid-b", nil)
				s.from(flow.Service, del+lag, 40*sec, turn)
			}, spec.Inconclusive, ""},
			{"a pod stopped accepting at once", func(s *scene) {
				s.tell(del+100*time.Millisecond, timeline.DrainListenerClosed, "uid-b", nil)
				s.from(flow.Service, del+lag, 40*sec, turn)
			}, spec.Inconclusive, ""},
			{"another pod was ready", func(s *scene) { s.endpoint(2*sec, "uid-d", "echo", "TTF") }, spec.Inconclusive, ""},
			{"answered by nobody of the set", func(s *scene) {
				s.from(flow.NodePort, 15*sec, 16*sec, func(x *timeline.Sample) { x.Server = "uid-d" })
			}, spec.Inconclusive, ""},
			{"Local was not local", func(s *scene) {
				s.from(flow.ServiceLocal, 15*sec, 16*sec, func(x *timeline.Sample) { x.Server = "uid-c" })
			}, spec.Inconclusive, ""},
			{"nobody saw the end of serving", noEvents(timeline.DrainUnready, timeline.PodReady), spec.Inconclusive, ""},
		})
	})
	t.Run("never unready", func(t *testing.T) {
		table(t, build, NeverUnready(), []judged{
			{"healthy", nil, spec.Pass, ""},
			{"let in inside the cluster", letIn(flow.Service, "uid-a"), spec.Fail, ""},
			{"let in with the internal policy Local", letIn(flow.ServiceLocal, "uid-a"), spec.Fail, ""},
			{"let in from outside", letIn(flow.NodePort, "uid-c"), spec.Fail, ""},
			{"let in with the external policy Local", letIn(flow.NodePortLocal, "uid-c"), spec.Fail, ""},
			{"a connection that broke was let in too", func(s *scene) {
				s.from(flow.Service, 25*sec, 26*sec, func(x *timeline.Sample) { x.Outcome, x.Dial = timeline.Reset, x.Start+1 })
			}, spec.Fail, ""},
			{"a SYN that was sent again met the next pods", func(s *scene) {
				s.from(flow.Service, fallShut-300*time.Millisecond, fallShut-200*time.Millisecond, func(x *timeline.Sample) {
					x.Outcome, x.Dial, x.End, x.Server = timeline.OK, x.Start+sec, x.Start+sec+1, "uid-new"
				})
			}, spec.Pass, ""},
			{"a SYN that was sent again, and broke", func(s *scene) {
				s.from(flow.Service, fallShut-300*time.Millisecond, fallShut-200*time.Millisecond, func(x *timeline.Sample) {
					x.Outcome, x.Dial, x.End = timeline.Reset, x.Start+sec, x.Start+sec+1
				})
			}, spec.Pass, ""},
			{"a SYN that was sent again met a pod that the ledger names", func(s *scene) {
				s.from(flow.Service, fallShut-300*time.Millisecond, fallShut-200*time.Millisecond, func(x *timeline.Sample) {
					x.Outcome, x.Dial, x.End = timeline.Reset, x.Start+sec, x.Start+sec+1
					s.tl.Ledger = append(s.tl.Ledger, timeline.Entry{At: x.Dial, ID: x.ID, Step: timeline.Begin, Pod: "uid-a"})
				})
			}, spec.Fail, ""},
			{"let in by another pod that was there", letIn(flow.Service, "uid-d"), spec.Inconclusive, ""},
			{"slices that always say serving", alwaysServing, spec.Fail, ""},
			{"slices without terminating endpoints", dropTerminating(fallUnready, fallShut), spec.Pass, ""},
			{"slices that never say terminating", noTerminating, spec.Pass, ""},
			{"let in before P is over", func(s *scene) {
				s.from(flow.Service, 19*sec, 21*sec, func(x *timeline.Sample) { x.Outcome, x.Dial, x.Server = timeline.OK, x.Start+1, "uid-a" })
			}, spec.Pass, ""},
			{"a pod no longer accepts", func(s *scene) {
				s.each(func(x *timeline.Sample) {
					if directTo(*x, "uid-c") && x.Start > 20*sec {
						turn(x)
					}
				})
			}, spec.Inconclusive, ""},
			{"nobody dialled the pods", noSamples("direct"), spec.Inconclusive, ""},
			{"the pods go at once", deafFrom(19 * sec), spec.Inconclusive, ""},
			{"one path was not used", noSamples(flow.NodePort), spec.Inconclusive, ""},
			{"another pod was ready", func(s *scene) { s.endpoint(2*sec, "uid-d", "echo", "TTF") }, spec.Inconclusive, ""},
		})
	})
	t.Run("health", func(t *testing.T) {
		table(t, build, NodeLeavesBalancer(), []judged{
			{"healthy", nil, spec.Pass, ""},
			{"200 on one node", func(s *scene) {
				s.from(flow.HealthPort, 16*sec, 17*sec, func(x *timeline.Sample) {
					if strings.HasSuffix(x.Stream.String(), "@n2") {
						x.Outcome, x.Status = timeline.OK, 0
					}
				})
			}, spec.Fail, ""},
			{"slices that never say terminating", noTerminating, spec.Fail, "T_del + 5"},
			{"slices that always say serving", alwaysServing, spec.Pass, ""},
			{"slices without terminating endpoints", dropTerminating(fallUnready, fallShut), spec.Inconclusive, ""},
			{"200 before P is over", func(s *scene) {
				s.from(flow.HealthPort, 10*sec, 13*sec, func(x *timeline.Sample) { x.Outcome, x.Status = timeline.OK, 0 })
			}, spec.Pass, ""},
			{"200 again when the set is back", func(s *scene) {
				s.from(flow.HealthPort, 32*sec, 40*sec, func(x *timeline.Sample) { x.Outcome, x.Status = timeline.OK, 0 })
				s.from(flow.NodePortLocal, 32*sec, 40*sec, func(x *timeline.Sample) { x.Outcome, x.Server = timeline.OK, "uid-new" })
			}, spec.Pass, ""},
			{"nobody answers there", func(s *scene) {
				s.from(flow.HealthPort, 14*sec, 20*sec, func(x *timeline.Sample) { fail(x, timeline.Refused); x.Status = 0 })
			}, spec.Inconclusive, ""},
			{"it never said 200", func(s *scene) {
				s.from(flow.HealthPort, 0, del, func(x *timeline.Sample) { x.Outcome, x.Status = timeline.Status, 503 })
			}, spec.Inconclusive, ""},
			{"the node port does not serve", func(s *scene) {
				s.from(flow.NodePortLocal, del+lag, 40*sec, turn)
			}, spec.Inconclusive, ""},
			{"nobody asked", noSamples(flow.HealthPort), spec.Inconclusive, ""},
		})
	})
}

func TestProxyRestart(t *testing.T) {
	table(t, restarting, SurvivesProxyRestart(), []judged{
		{"healthy", nil, spec.Pass, ""},
		{"a flow is cut by the restart", func(s *scene) {
			s.each(func(x *timeline.Sample) {
				if slowOp(*x) && throughService(*x) && x.Start > 11*sec && x.Start < 12*sec {
					x.Outcome, x.Phase, x.End = timeline.Reset, timeline.PhaseBody, 14*sec
				}
			})
		}, spec.Fail, ""},
		{"a flow that was begun before the deletion is cut", func(s *scene) {
			s.each(func(x *timeline.Sample) {
				if slowOp(*x) && throughService(*x) && x.Start > 8*sec && x.Start < 9*sec {
					x.Outcome, x.Phase, x.End = timeline.Reset, timeline.PhaseBody, 14*sec
				}
			})
		}, spec.Fail, "before the restart"},
		{"a kept connection's request is lost", func(s *scene) {
			s.each(func(x *timeline.Sample) {
				if x.Stream == flow.Named("service/http1/reused/get") && x.Start >= 13*sec && x.Start < 13200*time.Millisecond {
					fail(x, timeline.Reset)
				}
			})
		}, spec.Fail, ""},
		{"new connections are lost with the successor", func(s *scene) {
			s.from(flow.Service, 17*sec, 17100*time.Millisecond, turn)
		}, spec.Fail, ""},
		{"slices without terminating endpoints", dropTerminating(25*sec, 33*sec), spec.Fail, "before the restart"},
		{"slices that forget terminating endpoints", forgetTerminating(25*sec, 33*sec), spec.Fail, "restart + 2.9s"},
		{"no restart", func(s *scene) {
			s.drop(func(e timeline.Event) bool { return e.Attrs["what"] == "restart-kube-proxy" })
		}, spec.Inconclusive, ""},
		{"a restart without a successor", func(s *scene) {
			s.drop(func(e timeline.Event) bool { return e.Attrs["done"] == "true" && e.Subject == "n2" })
		}, spec.Inconclusive, ""},
		{"one node was left out", func(s *scene) {
			s.drop(func(e timeline.Event) bool { return e.Attrs["what"] == "restart-kube-proxy" && e.Subject == "n2" })
		}, spec.Inconclusive, ""},
		{"refused restarts are none", func(s *scene) {
			for i := range s.tl.Events {
				if e := &s.tl.Events[i]; e.Attrs["what"] == "restart-kube-proxy" {
					e.Attrs["error"] = "forbidden"
				}
			}
		}, spec.Inconclusive, ""},
		{"the restart came before the drain", func(s *scene) {
			for i := range s.tl.Events {
				if e := &s.tl.Events[i]; e.Attrs["what"] == "restart-kube-proxy" {
					e.At -= 7 * sec
				}
			}
		}, spec.Inconclusive, ""},
		{"nothing was in flight over it", func(s *scene) {
			s.tl.Samples = slices.DeleteFunc(s.tl.Samples, func(x timeline.Sample) bool { return slowOp(x) && throughService(x) })
		}, spec.Inconclusive, ""},
		{"the successor took too long", func(s *scene) {
			for i := range s.tl.Events {
				if e := &s.tl.Events[i]; e.Attrs["done"] == "true" {
					e.At += 6 * sec
				}
			}
		}, spec.Inconclusive, ""},
		{"the successor writes no rules", func(s *scene) {
			s.from(flow.Service, 25*sec, 33*sec, func(x *timeline.Sample) { x.Outcome, x.Dial, x.Server = timeline.OK, x.Start+1, "uid-a" })
		}, spec.Inconclusive, ""},
		{"no new connections", func(s *scene) {
			s.tl.Samples = slices.DeleteFunc(s.tl.Samples, func(x timeline.Sample) bool { return x.Stream == flow.Named("service/http1/new/get") })
		}, spec.Inconclusive, ""},
	})
}
